#include "host/draft/drafting.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/draft/draft_model.h"
#include "host/draft/drafter_device.h"
#include "host/draft/drafter_host.h"
#include "host/draft/drafter_oracle.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_BATCH 8 /* expansions that one pass of the NPU is worth */
#define HOST_BATCH   1

/* Ids mean the same only where both files have the same list of tokens. */
static int check_vocabulary(const struct drafting *d,
	const struct model *target, const char *target_path, struct err *e)
{
	static const char key[] = "tokenizer.ggml.tokens";
	const struct gguf_kv *ours = gguf_find(target->gguf, key);
	const struct gguf_kv *its = gguf_find(d->file->gguf, key);

	if (d->file->n_vocab != target->n_vocab)
		return err_set(e, EINVAL,
			"the draft model has a vocabulary of %u tokens and the "
			"target one of %u; a draft model must share its "
			"target's",
			d->file->n_vocab, target->n_vocab);
	if (!ours || !its ||
		(ours->bytes == its->bytes &&
			!memcmp(ours->value, its->value, its->bytes)))
		return 0;
	return err_set(e, EINVAL,
		"the draft model '%s' has another vocabulary than '%s': of "
		"the same size, but of other tokens; a draft must be made for "
		"its target",
		d->path, target_path);
}

/* ---- options ------------------------------------------------------------- */

static const char *const places[] = { "host", "device", NULL };

/* clang-format off */
#define IN(field) OPT_IN(drafting_options, field)
static const struct opt option_rows[] = {
	{ OPT_STRING, 0, "draft", IN(draft), "FILE|oracle:P",
		"the draft model of a method that has one (the one that comes "
		"with the program); oracle:P simulates one that agrees with "
		"the model in a share P of the tokens",
		.noun = "a draft model" },
	{ OPT_CHOICE, 0, "draft-on", IN(on_device), NULL,
		"where the draft model runs", .choices = places },
	{ OPT_UINT, 0, "draft-batch", IN(batch), "N",
		"nodes drafted together where possible (0: 1 on the host, 8 "
		"on the device)", 0, 64 },
	{ OPT_FLOAT, 0, "draft-temp", IN(temperature), "T",
		"temperature of the draft's probabilities ({})", 0.05, 10 },
	{ OPT_UINT, 0, "draft-seed", IN(seed), "N",
		"seed of draft oracle:P ({})", 0, INT32_MAX },
};
/* clang-format on */

const struct opt_table drafting_table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults =
		&(const struct drafting_options){ .temperature = 1, .seed = 1 },
	.size = sizeof(struct drafting_options),
};

/* FILE or oracle:P. */
int drafting_ask(
	struct drafting *d, const struct drafting_options *opts, struct err *e)
{
	static const char oracle[] = "oracle:";
	const char *draft = opts->draft, *number;
	char *end;

	d->opts = *opts;
	if (!draft || strncmp(draft, oracle, sizeof(oracle) - 1))
		return 0;
	number = draft + sizeof(oracle) - 1;
	d->oracle = strtod(number, &end);
	if (end > number && !*end && d->oracle > 0 && d->oracle <= 1)
		return 0;
	return err_set(e, EINVAL,
		"--draft '%s': behind oracle: stands how often it agrees, "
		"above 0 and at most 1, for example oracle:0.8",
		draft);
}

/* ---- opening ------------------------------------------------------------- */

int drafting_open_file(struct drafting *d, const struct model *target,
	const char *target_path, struct err *e)
{
	int ret;

	d->n_vocab = target->n_vocab;
	if (d->oracle > 0)
		return 0;
	ret = models_choose(d->opts.draft, MODEL_DRAFT, d->path, e);
	if (!ret)
		ret = model_open(&d->file, d->path, e);
	return ret ? ret : check_vocabulary(d, target, target_path, e);
}

static int open_on_host(struct drafting *d, const struct session *target,
	const struct session_opts *o, struct err *e)
{
	uint32_t batch = d->opts.batch ? d->opts.batch : HOST_BATCH;
	int ret = draft_open(&d->model, d->file, session_model(target),
		o->precision == WIRE_INT8 ? DRAFT_INT8 : DRAFT_F32,
		session_context(target), o->threads, e);

	if (ret)
		return err_in(e, "'%s'", d->path);
	draft_price_for(d->model, o->soc);
	ret = drafter_host_open(&d->drafter, d->model, batch, e);
	if (!ret)
		drafter_host_temperature(
			&d->drafter, (float)d->opts.temperature);
	return ret;
}

/* All of it stays in memory, and there is nothing to prune. */
static int open_on_device(struct drafting *d, struct session *target,
	const struct session_opts *o, uint32_t rows, struct err *e)
{
	uint32_t batch = d->opts.batch ? d->opts.batch : DEVICE_BATCH;
	struct session_opts own = *o;
	int ret;

	own.beside = target;
	own.dram_share = 1;
	own.dram_bytes = 0;
	own.exit_layers = 0;
	own.layout = LAYOUT_UNSAID;
	own.decode_rows = rows;
	own.context = 0;
	own.context_need = session_context(target);
	ret = session_open(&d->session, d->file, &own, e);
	if (ret)
		return err_in(e, "'%s'", d->path);
	ret = drafter_device_open(&d->drafter, d->session, batch, e);
	if (!ret)
		drafter_device_temperature(
			&d->drafter, (float)d->opts.temperature);
	return ret;
}

int drafting_open(struct drafting *d, struct session *target,
	const struct session_opts *o, uint32_t rows, struct err *e)
{
	if (d->oracle > 0)
		return 0;
	if (d->opts.on_device)
		return open_on_device(d, target, o, rows, e);
	return open_on_host(d, target, o, e);
}

static void close_drafter(struct drafting *d)
{
	if (!d->drafter.begin)
		return;
	if (d->oracle > 0)
		drafter_oracle_close(&d->drafter);
	else if (d->opts.on_device)
		drafter_device_close(&d->drafter);
	else
		drafter_host_close(&d->drafter);
	d->drafter = (struct drafter){ 0 };
}

int drafting_tell(
	struct drafting *d, const int32_t *text, size_t n, struct err *e)
{
	int ret;

	close_drafter(d);
	ret = drafter_oracle_open(
		&d->drafter, text, n, d->oracle, d->opts.seed, d->n_vocab, e);
	if (!ret && d->opts.batch)
		d->drafter.batch = d->opts.batch;
	return ret;
}

void drafting_close(struct drafting *d)
{
	close_drafter(d);
	session_close(d->session, NULL);
	draft_close(d->model);
	model_close(d->file);
	*d = (struct drafting){ 0 };
}
