/* tandem logits: writes the model's logits after each token of a list. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/progress.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/vocabulary.h"
#include "host/model/model.h"
#include "host/text/tokenizer.h"
#include "ipc/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IDS_MAX ((size_t)64 << 20) /* maximum bytes of a file of ids */

/* values of the options for the host and device processes */
static struct opt_values values;
static const char *model_path, *ids_text, *ids_file, *out_path;

/* clang-format off */
static const struct opt opts[] = {
	MODEL_OPTION(model_path),
	{ OPT_STRING, 0, "ids", &ids_text, "LIST",
		"token ids, separated by blanks or commas" },
	{ OPT_STRING, 0, "ids-file", &ids_file, "FILE",
		"read the ids from FILE; - is standard input" },
	{ OPT_STRING, 'o', "output", &out_path, "FILE",
		"file to write; - is standard output" },
	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem logits",
	.synopsis = "[-m MODEL] (--ids LIST | --ids-file FILE|-) -o FILE "
		    "[OPTIONS]",
	.summary = "write the logits after each token of a list",
	.details =
		"Writes little-endian float32, for each id one row of the "
		"vocabulary's size: row t predicts the token after the first t "
		"+ 1 ids. For a diffusion model, in which each id attends to "
		"all ids, row t predicts the token at the position of id t. No "
		"token is added before the ids.",
	.examples = "  tandem logits --ids '1 403 261' -o logits.bin",
	.common = "model ids ids-file output precision layout threads",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* Read the list of token ids. The caller frees ids->id, also after an error. */
static int read_ids(uint32_t n_vocab, struct token_list *ids, struct err *e)
{
	size_t len = ids_text ? strlen(ids_text) : 0;
	struct ids in = { .n_vocab = n_vocab };
	char *data = NULL;
	int ret = 0;

	if (!ids_text)
		ret = fd_read_file(ids_file, IDS_MAX, &data, &len, e);
	if (ret)
		return ret;
	in.at = ids_text ? ids_text : data;
	in.end = in.at + len;
	/* An id takes at least two bytes: a digit and a separator. */
	ids->id = malloc((len / 2 + 1) * sizeof(*ids->id));
	if (!ids->id)
		ret = err_set(e, ENOMEM, "no memory for the list of token ids");
	else
		while ((ret = ids_next(&in, &ids->id[ids->n], e)) == 1)
			ids->n++;
	if (!ret && !ids->n)
		ret = err_set(e, EINVAL, "the list of ids is empty");
	free(data);
	return ret;
}

/* The file that the logits are written to. */
struct output {
	FILE *file;
	uint32_t n_vocab;
	size_t read; /* number of tokens that were processed */
	struct progress progress;
};

static void count_read(void *arg, uint32_t n)
{
	struct output *o = arg;

	progress_at(&o->progress, o->read += n);
}

static int write_rows(
	void *arg, size_t at, uint32_t n, const float *logits, struct err *e)
{
	const struct output *o = arg;

	return fwrite(logits, o->n_vocab * sizeof(*logits), n, o->file) == n
		? 0
		: err_sys(e, errno, "cannot write '%s'", out_path);
}

static int write_logits(struct tandem *t, struct token_list *ids, struct err *e)
{
	const bool to_stdout = !strcmp(out_path, "-");
	struct session_opts *pair = tandem_pair(t);
	struct output o = { 0 };
	const struct pass_reader reader = { count_read, write_rows, &o };
	const struct model *m;
	struct tandem_report r;
	uint32_t context;
	struct stat st;
	int ret;

	if (tandem_read_weights(t, model_path))
		return tandem_failure(t, e);
	tandem_report(t, &r);
	m = r.model;
	ret = read_ids(m->n_vocab, ids, e);
	if (ret)
		return ret;
	if (m->block_length)
		return err_set(e, EINVAL,
			"logits cannot be written for a block diffusion model: "
			"its first block begins after the prompt, and a list "
			"of ids does not show where the prompt ends; use a "
			"causal or a masked diffusion model");
	context = pair->context ? pair->context : m->n_ctx;
	if (ids->n > context)
		return model_no_room(
			m, "the list of ids", ids->n, ids->n, context, e);
	if (!m->causal && ids->n > WIRE_MAX_ROWS)
		return err_set(e, EFBIG,
			"%zu ids, but a diffusion model computes all ids in "
			"one pass, which has at most %d; shorten the list",
			ids->n, WIRE_MAX_ROWS);
	if (!m->causal)
		pair->prefill_chunk = (uint32_t)ids->n;
	if (tandem_start(t, ids->n))
		return tandem_failure(t, e);
	o.n_vocab = m->n_vocab;
	o.file = to_stdout ? stdout : fopen(out_path, "we");
	if (!o.file)
		return err_sys(e, errno, "cannot create '%s'", out_path);
	progress_begin(&o.progress, "logits", ids->n);
	ret = pass_read(tandem_session(t), ids->id, ids->n, 0, &reader, e);
	progress_end(&o.progress);
	if ((to_stdout ? fflush(o.file) : fclose(o.file)) && !ret)
		ret = err_sys(e, errno, "cannot write '%s'", out_path);
	/* Remove an incomplete file, because it could be mistaken for a
	 * complete one. */
	if (ret && !to_stdout && !lstat(out_path, &st) && S_ISREG(st.st_mode))
		remove(out_path);
	return ret;
}

static int logits_main(int argc, char **argv)
{
	struct tandem *t;
	struct token_list ids = { 0 };
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_logits, argc, argv, &operands, &status))
		return status;
	if (!ids_text == !ids_file)
		return cmd_misuse(
			&cmd_logits, "give either --ids or --ids-file");
	if (!out_path)
		return cmd_misuse(&cmd_logits,
			"no output file: give -o FILE, or -o - for standard "
			"output");
	if (cmd_create(&t, &values, &e))
		return cmd_refuse(&cmd_logits, &e);
	ret = write_logits(t, &ids, &e);
	ret = cmd_closed(ret, tandem_end(t, &closing), &closing, &e);
	free(ids.id);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_logits = { .usage = &usage, .run = logits_main };
