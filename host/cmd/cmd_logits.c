/* tandem logits: what the model says after each of the tokens given. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/progress.h"
#include "host/api/options.h"
#include "host/cmd/ids.h"
#include "host/model/model.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"
#include "host/text/tokenizer.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define IDS_MAX ((size_t)64 << 20) /* bytes of a file of ids */

static struct opt_values asked;  /* of the pair */
static struct session_opts pair; /* what it says, from the start on */
static struct soc phone;
static const char *model_path, *ids_text, *ids_file, *out_path;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model_path, "FILE",
		"model: a GGUF file, a flash image, or the name of a bundled "
		"model (target); 'tandem help models' lists them" },
	{ OPT_STRING, 0, "ids", &ids_text, "LIST",
		"token ids, separated by blanks or commas" },
	{ OPT_STRING, 0, "ids-file", &ids_file, "FILE",
		"read the ids from FILE; - is standard input" },
	{ OPT_STRING, 'o', "output", &out_path, "FILE",
		"file to write; - is standard output" },
	PAIR_OPTIONS(asked),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem logits",
	.synopsis = "[-m MODEL] (--ids LIST | --ids-file FILE|-) -o FILE "
		    "[OPTIONS]",
	.summary = "write the logits after each token of a list",
	.details =
		"Writes little-endian float32, for each id one row of the "
		"vocabulary's size: row t is what follows the first t + 1 "
		"ids. For a diffusion model, which sees all ids at once, row "
		"t is what replaces id t. Nothing is put before the ids.",
	.examples = "  tandem logits --ids '1 403 261' -o logits.bin",
	.common = "model ids ids-file output precision layout threads",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int check_usage(void)
{
	struct err e = { 0 };

	if (!ids_text == !ids_file)
		return cmd_misuse(
			&cmd_logits, "give either --ids or --ids-file");
	if (!out_path)
		return cmd_misuse(&cmd_logits,
			"no output: -o FILE, or -o - for standard output");
	if (pair_apply(&asked, &pair, &phone, &e))
		return cmd_refuse(&cmd_logits, &e);
	return EXIT_OK;
}

/* Ids below n_vocab out of text[len], which a NUL ends; *ids is the caller's
 * in any case. */
static int parse_ids(const char *text, size_t len, uint32_t n_vocab,
	struct token_list *ids, struct err *e)
{
	struct ids in = { text, text + len, n_vocab, 0 };
	int ret;

	/* Each id has a digit and a gap: that many there can be. */
	ids->id = malloc((len / 2 + 1) * sizeof(*ids->id));
	if (!ids->id)
		return err_set(e, ENOMEM, "no memory for the ids");
	while ((ret = ids_next(&in, &ids->id[ids->n], e)) == 1)
		ids->n++;
	if (!ret && !ids->n)
		ret = err_set(e, EINVAL, "the list of ids is empty");
	return ret;
}

static int read_ids(uint32_t n_vocab, struct token_list *ids, struct err *e)
{
	char *data = NULL;
	size_t len;
	int ret;

	if (ids_text)
		return parse_ids(ids_text, strlen(ids_text), n_vocab, ids, e);
	ret = fd_read_file(ids_file, IDS_MAX, &data, &len, e);
	if (!ret)
		ret = parse_ids(data, len, n_vocab, ids, e);
	free(data);
	return ret;
}

static int write_rows(
	struct session *s, uint32_t n, uint32_t n_vocab, FILE *f, struct err *e)
{
	size_t some = n < LOGITS_ROWS ? n : LOGITS_ROWS;
	float *rows = malloc(some * n_vocab * sizeof(*rows));
	int ret = rows ? 0 : err_set(e, ENOMEM, "no memory for logits");

	for (uint32_t i = 0; i < n && !ret; i += (uint32_t)some) {
		if (some > n - i)
			some = n - i;
		ret = session_logits_range(s, i, (uint32_t)some, rows, e);
		if (!ret)
			ret = session_check_finite(s, e);
		if (!ret &&
			fwrite(rows, n_vocab * sizeof(*rows), some, f) != some)
			ret = err_sys(e, errno, "cannot write '%s'", out_path);
	}
	free(rows);
	return ret;
}

static int write_logits(struct session *s, const struct token_list *ids,
	uint32_t n_vocab, FILE *f, struct err *e)
{
	size_t chunk = session_max_rows(s);
	struct progress p;
	int ret = 0;

	progress_begin(&p, "logits", ids->n);
	for (size_t i = 0; i < ids->n && !ret; i += chunk) {
		size_t left = ids->n - i;
		uint32_t rows = (uint32_t)(left < chunk ? left : chunk);

		if ((ret = session_continue(
			     s, SESSION_TEXT, ids->id + i, rows, e)) ||
			(ret = write_rows(s, rows, n_vocab, f, e)) ||
			(ret = session_accept(s, SESSION_TEXT, NULL, rows, e)))
			break;
		progress_at(&p, i + rows);
	}
	progress_end(&p);
	return ret;
}

static int open_session(struct session **s, const struct model *m,
	const struct token_list *ids, struct err *e)
{
	uint32_t context = pair.context ? pair.context : m->n_ctx;
	struct session_opts o = pair;

	o.progress = cmd_progress;
	o.notice = cmd_notice;
	if (m->block_length)
		return err_set(e, EINVAL,
			"a block diffusion model: its attention depends on "
			"where the prompt ends, which a list of ids does not "
			"show");
	if (ids->n > context)
		return model_no_room(
			m, "the list of ids", ids->n, ids->n, context, e);
	if (!m->causal && ids->n > WIRE_MAX_ROWS)
		return err_set(e, EFBIG,
			"%zu ids, but a diffusion model computes all ids in "
			"one pass, which has at most %d; shorten the list",
			ids->n, WIRE_MAX_ROWS);
	o.context_need = (uint32_t)ids->n;
	if (!m->causal)
		o.prefill_chunk = o.context_need;
	return session_open(s, m, &o, e);
}

static bool is_regular(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISREG(st.st_mode);
}

static int write_file(struct session *s, const struct model *m,
	const struct token_list *ids, struct err *e)
{
	bool to_stdout = !strcmp(out_path, "-");
	FILE *f = to_stdout ? stdout : fopen(out_path, "we");
	int ret;

	if (!f)
		return err_sys(e, errno, "cannot create '%s'", out_path);
	ret = write_logits(s, ids, m->n_vocab, f, e);
	if ((to_stdout ? fflush(f) : fclose(f)) && !ret)
		ret = err_sys(e, errno, "cannot write '%s'", out_path);
	if (ret && !to_stdout && is_regular(out_path))
		remove(out_path); /* half a file would look whole */
	return ret;
}

static int logits_all(struct model **m, struct token_list *ids, struct err *e)
{
	struct err closing = { 0 };
	char path[PATH_MAX];
	struct session *s;
	int ret, closed;

	if ((ret = models_choose(model_path, MODEL_TARGET, path, e)) ||
		(ret = model_open(m, path, e)) ||
		(ret = read_ids((*m)->n_vocab, ids, e)) ||
		(ret = open_session(&s, *m, ids, e)))
		return ret;
	ret = write_file(s, *m, ids, e);
	closed = session_close(s, &closing);
	return cmd_closed(ret, closed, &closing, e);
}

static int logits_main(int argc, char **argv)
{
	struct model *m = NULL;
	struct token_list ids = { 0 };
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_logits, argc, argv, &operands, &status))
		return status;
	status = check_usage();
	if (status)
		return status;
	ret = logits_all(&m, &ids, &e);
	free(ids.id);
	model_close(m);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_logits = { .usage = &usage, .run = logits_main };
