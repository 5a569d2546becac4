#include "host/api/decoder.h"

#include "base/err.h"
#include "host/head/exit_head.h"
#include "host/model/model.h"
#include "host/shipped/shipped_models.h"
#include "host/text/generation.h"
#include "host/text/tokenizer.h"
#include "host/tree/tree_cost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int find_exit(struct decoder *d, const char *named, struct err *e)
{
	struct err unfit = { 0 };
	int ret;

	if (!d->method->prunes || !d->prune)
		return 0;
	ret = models_choose(named, MODEL_EXIT, d->exit_path, &unfit);
	if (!ret)
		ret = exit_head_open(
			&d->env.exit, d->exit_path, d->model, &unfit);
	if (!ret)
		return 0;
	d->env.exit = NULL;
	d->exit_path[0] = '\0';
	if (named)
		*e = unfit;
	return named ? ret : 0;
}

int decoder_open_model(struct decoder *d, const struct method *method,
	const struct decoder_files *files, struct err *e)
{
	int ret;

	d->method = method;
	ret = models_choose(files->model,
		method->diffusion ? MODEL_DIFFUSION : MODEL_TARGET,
		d->model_path, e);
	if (!ret)
		ret = model_open(&d->model, d->model_path, e);
	if (!ret)
		ret = check_method(d, e);
	if (!ret)
		ret = open_tokenizer(d, e);
	if (!ret)
		ret = find_exit(d, files->exit, e);
	if (ret || !method->needs_draft)
		return ret;
	return drafting_open_file(
		&d->drafting, files->draft, d->model, d->model_path, e);
}

static int open_drafting(struct decoder *d, struct err *e)
{
	struct method_env *env = &d->env;
	int ret;

	if (!d->method->needs_draft)
		return 0;
	ret = drafting_open(&d->drafting, d->session, &d->session_opts,
		d->session_opts.decode_rows, e);
	env->drafter = &d->drafting.drafter;
	env->draft = d->drafting.model;
	env->phone = d->session_opts.soc;
	lever_init(&env->lever);
	env->cost = malloc(sizeof(*env->cost));
	if (!ret && !env->cost)
		ret = err_set(e, ENOMEM, "no memory for a profile of costs");
	if (!ret)
		cost_init(env->cost);
	return ret;
}

int decoder_open_session(
	struct decoder *d, const struct session_opts *o, struct err *e)
{
	uint64_t need = o->context_need;
	int ret;

	d->session_opts = *o;
	d->session_opts.decode_rows = d->method->decode_rows(&d->env);
	d->session_opts.smaller_graphs = d->method->needs_draft;
	d->session_opts.exit_layers =
		d->env.exit ? exit_head_layers(d->env.exit) : 0;
	if (need)
		need += d->session_opts.decode_rows - 1;
	if (need <= UINT32_MAX)
		d->session_opts.context_need = (uint32_t)need;
	ret = session_open(&d->session, d->model, &d->session_opts, e);
	return ret ? ret : open_drafting(d, e);
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
	return d->method->run(d->session, g, &d->env, e);
}

int decoder_rehearse(struct decoder *d, const struct generation *g,
	struct session_stats *before, struct err *e)
{
	struct generation *plain = NULL;
	const int32_t *text;
	size_t n;
	int ret = 0;

	if (d->method->needs_draft && d->drafting.opts.oracle > 0) {
		ret = generation_open_like(&plain, g, e);
		session_truncate(d->session, 0);
		if (!ret)
			ret = autoregressive_run(d->session, plain, &d->env, e);
		if (!ret) {
			text = gen_tokens(plain, &n);
			ret = drafting_tell(&d->drafting, text, n, e);
		}
		generation_close(plain);
	}
	if (before)
		session_stats(d->session, before);
	return ret;
}

int decoder_close(struct decoder *d, struct err *e)
{
	int ret;

	drafting_close(&d->drafting);
	ret = session_close(d->session, e);
	exit_head_close(d->env.exit);
	free(d->env.cost);
	tokenizer_close(d->tokenizer);
	model_close(d->model);
	*d = (struct decoder){ 0 };
	return ret;
}
