#include "host/decoder.h"

#include "base/err.h"
#include "host/draft/draft_model.h"
#include "host/model/model.h"
#include "host/model/tokenizer.h"
#include "host/models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The file named, or the one of that role which comes with the program. */
static int choose_file(const char *named, enum model_role role,
	char path[PATH_MAX], struct err *e)
{
	if (!named)
		return models_find(role, path, e);
	if ((size_t)snprintf(path, PATH_MAX, "%s", named) >= PATH_MAX)
		return err_set(e, ENAMETOOLONG,
			"the name of the %s model is too long",
			model_role_name(role));
	return 0;
}

static int open_tokenizer(struct decoder *d, struct err *e)
{
	int ret = tokenizer_open(&d->tokenizer, d->model->gguf, e);

	if (ret) {
		err_in(e, "'%s'", d->model_path);
		return ret;
	}
	if (tokenizer_n_vocab(d->tokenizer) > d->model->n_vocab)
		return err_set(e, EINVAL,
			"'%s': the tokenizer has %u tokens, but tensor "
			"'token_embd.weight' only %u rows",
			d->model_path, tokenizer_n_vocab(d->tokenizer),
			d->model->n_vocab);
	return 0;
}

/* -EINVAL where the positions of one see what those of the other do not. */
static int check_method(const struct decoder *d, struct err *e)
{
	const char *fits = "";

	if (d->method->diffusion != d->model->causal)
		return 0;
	if (d->model->causal)
		return err_set(e, EINVAL,
			"'%s' is no diffusion model, and method %s runs only "
			"such; try --method %s",
			d->model_path, d->method->name, methods[0]->name);
	for (size_t i = 0; methods[i]; i++)
		if (methods[i]->diffusion)
			fits = methods[i]->name;
	return err_set(e, EINVAL,
		"'%s' is a diffusion model, and method %s does not run such; "
		"try --method %s",
		d->model_path, d->method->name, fits);
}

/* Ids mean the same only where both files have the same list of tokens. */
static int check_vocabulary(const struct decoder *d, struct err *e)
{
	static const char key[] = "tokenizer.ggml.tokens";
	const struct gguf_kv *ours = gguf_find(d->model->gguf, key);
	const struct gguf_kv *its = gguf_find(d->draft_file->gguf, key);

	if (!ours || !its || ours->count != its->count ||
		(ours->bytes == its->bytes &&
			!memcmp(ours->value, its->value, its->bytes)))
		return 0; /* other sizes are draft_open's to refuse */
	return err_set(e, EINVAL,
		"the draft model '%s' has another vocabulary than '%s': of "
		"the same size, but of other tokens; a draft must be made for "
		"its target",
		d->draft_path, d->model_path);
}

static int open_draft_file(
	struct decoder *d, const char *draft_path, struct err *e)
{
	int ret;

	if (!d->method->needs_draft)
		return 0;
	ret = choose_file(draft_path, MODEL_DRAFT, d->draft_path, e);
	if (!ret)
		ret = model_open(&d->draft_file, d->draft_path, e);
	return ret ? ret : check_vocabulary(d, e);
}

int decoder_open_model(struct decoder *d, const struct method *method,
	const char *model_path, const char *draft_path, struct err *e)
{
	int ret;

	d->method = method;
	ret = choose_file(model_path,
		method->diffusion ? MODEL_DIFFUSION : MODEL_TARGET,
		d->model_path, e);
	if (!ret)
		ret = model_open(&d->model, d->model_path, e);
	if (!ret)
		ret = check_method(d, e);
	if (!ret)
		ret = open_tokenizer(d, e);
	return ret ? ret : open_draft_file(d, draft_path, e);
}

static int open_draft(struct decoder *d, struct err *e)
{
	int ret;

	if (!d->method->needs_draft)
		return 0;
	ret = draft_open(&d->env.draft, d->draft_file, d->model,
		d->session_opts.precision == WIRE_INT8 ? DRAFT_INT8 : DRAFT_F32,
		session_context(d->session), d->session_opts.threads, e);
	if (ret)
		return err_in(e, "'%s'", d->draft_path);
	draft_price_for(d->env.draft, d->session_opts.soc);
	return 0;
}

int decoder_open_session(
	struct decoder *d, const struct session_opts *o, struct err *e)
{
	uint64_t need = o->context_need;
	int ret;

	d->session_opts = *o;
	d->session_opts.decode_rows = d->method->decode_rows(&d->env);
	if (need)
		need += d->session_opts.decode_rows - 1;
	if (need <= UINT32_MAX)
		d->session_opts.context_need = (uint32_t)need;
	ret = session_open(&d->session, d->model, &d->session_opts, e);
	return ret ? ret : open_draft(d, e);
}

static int prepend(struct token_list *l, int32_t id, struct err *e)
{
	int32_t *p = realloc(l->id, (l->n + 1) * sizeof(*p));

	if (!p)
		return err_set(e, ENOMEM, "no memory for the prompt");
	memmove(p + 1, p, l->n * sizeof(*p));
	p[0] = id;
	l->id = p;
	l->cap = ++l->n;
	return 0;
}

int decoder_add_bos(
	const struct decoder *d, struct token_list *prompt, struct err *e)
{
	int32_t bos = tokenizer_bos(d->tokenizer);
	bool wanted = tokenizer_adds_bos(d->tokenizer);

	if (prompt->n && (!wanted || prompt->id[0] == bos))
		return 0;
	if (bos >= 0)
		return prepend(prompt, bos, e);
	return prompt->n ? 0
			 : err_set(e, EINVAL,
				   "the prompt is empty and this model has no "
				   "token that begins a text, so there is "
				   "nothing to continue");
}

int decoder_run(struct decoder *d, struct generation *g, struct err *e)
{
	session_truncate(d->session, 0);
	if (d->env.draft)
		draft_truncate(d->env.draft, 0);
	return d->method->run(d->session, g, &d->env, e);
}

int decoder_close(struct decoder *d, struct err *e)
{
	int ret = session_close(d->session, e);

	draft_close(d->env.draft);
	tokenizer_close(d->tokenizer);
	model_close(d->draft_file);
	model_close(d->model);
	*d = (struct decoder){ 0 };
	return ret;
}
