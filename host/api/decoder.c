/*
 * Opens and closes a decoder (a model with its session and decoding method),
 * checks its options, and computes how many sequences and rows its session
 * needs. A pass is one run of the model; a row is one token at its position in
 * a pass.
 */
#include "host/api/decoder.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/head/reward.h"
#include "host/method/decided.h"
#include "host/method/methods.h"
#include "host/scheduler/prefixes.h"
#include "host/scheduler/samples.h"
#include "host/model/model.h"
#include "host/model/shapes.h"
#include "host/session/session_budget.h"
#include "host/shipped/shipped_models.h"
#include "host/text/generation.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- options ------------------------------------------------------------- */

/* Find the first option that was set although the method does not use the table
 * of this option. *in receives the table. Returns NULL if the method uses all
 * options that were set. */
static const struct opt *needless(const struct opt_values *v,
	const struct method *m, const struct opt_table **in)
{
	const struct opt_table *t;

	for (size_t i = 0; (t = method_table(i)); i++)
		for (size_t k = 0; k < t->n && !method_uses(m, t); k++)
			if (t->rows[k].noun && opt_is_set(v, t, &t->rows[k])) {
				*in = t;
				return &t->rows[k];
			}
	return NULL;
}

void decoder_drop_needless(struct opt_values *v, const struct method *m)
{
	const struct opt_table *t;
	const struct opt *row;

	while ((row = needless(v, m, &t)))
		opt_reset(v, t, row);
}

double decoder_temperature(const struct decoder *d, double said)
{
	if (!isnan(said))
		return said;
	return d->method->temperature ? d->method->temperature(&d->env) : 0;
}

bool decoder_drafts(const struct decoder *d)
{
	return d->method->needs_draft ||
		(d->method->sequences && d->drafting.opts.draft);
}

/*
 * Whether requests can share passes. Requests cannot share passes in four
 * cases. An oracle drafter (which simulates drafts) knows only the text of one
 * request. The drafter "calibrated" reads the model's predictions for only one
 * prompt. Graph switching (--graph-switch) plans the compute graphs for only
 * one prompt at a time. With a diffusion model, a method that does not fill
 * masks (method->denoise) decodes only one request at a time.
 */
bool decoder_shares(const struct decoder *d)
{
	return (!decoder_drafts(d) || drafting_can_be_many(&d->drafting)) &&
		!d->session_opts.graph_switch &&
		(!d->model || d->model->causal || d->method->denoise);
}

bool decoder_has_samples(const struct decoder *d)
{
	const struct method *m = d->method;

	return m->many && (samples_all(&d->env) > 1 || !m->lossless);
}

/*
 * For methods that draw several samples of a prompt and can use a drafter, but
 * do not require one: refuse a drafter that needs the model's predictions for
 * the prompt, because these methods do not compute them. If there are several
 * samples or requests, also refuse a drafter that cannot draft for several
 * sequences at the same time.
 */
static int check_many_drafts(const struct decoder *d, struct err *e)
{
	const struct texts_options *t =
		opt_values_of(&d->options, &texts_table);

	if (d->method->needs_draft || !decoder_drafts(d))
		return 0;
	if (drafting_reads_prompt(&d->drafting))
		return err_set(e, EINVAL,
			"--draft %s needs the model's predictions for each "
			"token of the prompt, and --method %s does not compute "
			"them; try another --draft, or --method sdnpu",
			d->drafting.opts.draft, d->method->name);
	if ((d->method->sequences(&d->env) == 1 && t->texts == 1) ||
		drafting_can_be_many(&d->drafting))
		return 0;
	return err_set(e, EINVAL,
		"--draft %s cannot draft for several samples or requests, "
		"because it knows the text of only one; try another --draft, "
		"or a single sample or request",
		d->drafting.opts.draft);
}

/* The name of the method. Without --method, the method is "sample" if a sample
 * option (samples_table) is set, or if a drafter is used while several requests
 * run at the same time. */
static const char *method_name(const struct opt_values *v)
{
	const struct decoding_options *o = opt_values_of(v, &decoding_table);
	const struct decoding_options *unsaid = decoding_table.defaults;
	const struct texts_options *texts = opt_values_of(v, &texts_table);
	const struct drafting_options *draft =
		opt_values_of(v, &drafting_table);

	for (size_t i = 0; i < samples_table.n; i++)
		if (o->method == unsaid->method &&
			opt_is_set(v, &samples_table, &samples_table.rows[i]))
			return method_sample.name;
	if (o->method == unsaid->method && texts->texts > 1 && draft->draft)
		return method_sample.name;
	return o->method;
}

int decoder_set_options(
	struct decoder *d, const struct opt_values *options, struct err *e)
{
	const struct decoding_options *o;
	struct drafting_options *draft;
	struct opt_nearest near;
	const struct opt_table *t;
	const struct shape *as;
	const struct opt *row;
	int ret;

	d->options = *options;
	d->env.options = &d->options;
	ret = pair_apply(&d->options, &d->session_opts, &d->soc, e);
	if (ret)
		return ret;
	o = opt_values_of(&d->options, &decoding_table);
	d->method = method_find(method_name(&d->options));
	if (!d->method) {
		near = (struct opt_nearest){ .word = o->method };
		for (size_t i = 0; methods[i]; i++)
			opt_nearest_offer(&near, methods[i]->name);
		return err_set(e, EINVAL,
			"unknown method '%s' ('tandem help methods' lists "
			"all)%s",
			o->method, opt_nearest_clause(&near));
	}
	row = needless(&d->options, d->method, &t);
	if (row) {
		struct strbuf users = STRBUF_INIT;

		for (size_t i = 0; methods[i]; i++)
			if (method_uses(methods[i], t))
				strbuf_addf(&users, "%s%s",
					users.len ? ", " : "",
					methods[i]->name);
		ret = err_set(e, EINVAL,
			"--%s cannot be used with method %s, which does not "
			"use %s; try --method with one of: %s",
			row->name, d->method->name, row->noun,
			users.data ? users.data : "");
		strbuf_release(&users);
		return ret;
	}
	if (!o->history &&
		(o->history_frozen || o->history_max != HISTORY_MAX_DEFAULT))
		return err_set(e, EINVAL, "--history-%s needs --history FILE",
			o->history_frozen ? "frozen" : "max");
	if (d->method->compose) {
		draft = opt_values_at(&d->options, &drafting_table);
		d->method->compose(&d->env, draft->draft, &d->draft);
		if (d->draft.failed)
			return err_set(
				e, ENOMEM, "no memory for a draft's name");
		draft->draft = d->draft.data;
	}
	ret = drafting_ask(&d->drafting, &d->options, e);
	if (!ret)
		ret = check_many_drafts(d, e);
	as = drafting_as(&d->drafting.opts);
	if (ret || !as)
		return ret;
	if (!d->session_opts.soc)
		return err_set(e, EINVAL,
			"--draft-as %s needs a phone's clock; add --clock "
			"soc:NAME, such as soc:sd8gen2",
			as->name);
	if (!drafting_has_model(&d->drafting) &&
		!drafting_needs_text(&d->drafting))
		return err_set(e, EINVAL,
			"--draft-as %s needs a draft model, but --draft %s has "
			"none",
			as->name, d->drafting.opts.draft);
	return 0;
}

/* ---- opening ------------------------------------------------------------- */

static bool runs(const struct method *method, const struct model *m)
{
	unsigned kind = m->causal ? METHOD_CAUSAL
		: m->block_length ? METHOD_BLOCK
				  : METHOD_WINDOW;

	return method_runs(method) & kind;
}

/* The method that error messages suggest for a model: the first method in the
 * list that can run the model; only a diffusion method is suggested for a
 * diffusion model, and only another method for any other model. */
static const char *first_that_runs(const struct model *m)
{
	for (size_t i = 0; methods[i]; i++)
		if (methods[i]->diffusion == !m->causal && runs(methods[i], m))
			return methods[i]->name;
	return "";
}

bool decoder_emits_at_once(const struct decoder *d)
{
	const struct method *m = d->method;

	return m->diffusion || (m->sequences && !m->lossless);
}

int decoder_find_model(struct decoder *d, const char *path, struct err *e)
{
	unsigned runs = method_runs(d->method);

	return models_choose(path,
		runs & METHOD_CAUSAL           ? MODEL_TARGET
			: runs & METHOD_WINDOW ? MODEL_DIFFUSION
					       : MODEL_BLOCK,
		d->model_path, e);
}

int decoder_open_model(struct decoder *d, const char *path, struct err *e)
{
	const struct decoding_options *o =
		opt_values_of(&d->options, &decoding_table);
	const struct reward_options *r =
		opt_values_of(&d->options, &reward_table);
	struct history_opts h = { .max_bytes = o->history_max,
		.write = !o->history_frozen };
	struct reward_site site = { .target_path = d->model_path };
	const struct model *m;
	bool fits;
	int ret = decoder_find_model(d, path, e);

	if (!ret)
		ret = model_open(&d->model, d->model_path, NULL, NULL, e);
	if (ret)
		return ret;
	/* Check that the method can run models with this model's kind of
	 * attention mask. */
	m = d->model;
	fits = runs(d->method, m);
	if (fits && m->block_length && !m->shift_logits &&
		!d->method->diffusion)
		return err_set(e, EINVAL,
			"'%s' predicts each position's own token, but method "
			"%s needs the next token; try --method %s",
			d->model_path, d->method->name, first_that_runs(m));
	if (!fits && m->causal)
		return err_set(e, EINVAL,
			"'%s' is not a diffusion model, and method %s needs "
			"one; try --method %s",
			d->model_path, d->method->name, first_that_runs(m));
	if (!fits)
		return err_set(e, EINVAL,
			"'%s' is a %s model, which method %s does not support; "
			"try --method %s",
			d->model_path,
			m->block_length ? "block diffusion" : "diffusion",
			d->method->name, first_that_runs(m));
	ret = tokenizer_open(&d->tokenizer, m->gguf, e);
	if (ret)
		return err_in(e, "'%s'", d->model_path);
	h.n_vocab = tokenizer_n_vocab(d->tokenizer);
	if (h.n_vocab > m->n_vocab)
		return err_set(e, EINVAL,
			"'%s': the tokenizer has %u tokens, but tensor "
			"'token_embd.weight' has only %u rows; try another "
			"file of the model",
			d->model_path, h.n_vocab, m->n_vocab);
	h.vocabulary = vocabulary_hash(m->gguf);
	if (o->history)
		ret = history_open(&d->history, o->history, &h, e);
	if (!ret)
		ret = method_open(&d->env, d->method, m, e);
	d->wants_reward |= d->method->needs_reward;
	site.target = m;
	site.tokenizer = d->tokenizer;
	if (!ret && d->wants_reward)
		ret = reward_open(&d->reward,
			d->reward_name ? d->reward_name : r->name, &site, e);
	if (!ret)
		ret = decided_check(&d->env, d->reward, e);
	if (ret || !decoder_drafts(d))
		return ret;
	return drafting_open_file(&d->drafting, d->model, d->model_path, e);
}

/* Number of sequences of tokens that one request needs for its samples, besides
 * the sequence of its prompt. */
static uint32_t samples_of_one(const struct decoder *d)
{
	return d->method->sequences ? d->method->sequences(&d->env) : 0;
}

static uint32_t texts_kept(const struct decoder *d)
{
	const struct texts_options *t =
		opt_values_of(&d->options, &texts_table);

	return d->model->causal ? t->keep : 0;
}

/* number of texts that a reward model can score at the same time, if requests
 * run one at a time without samples and no caches of ended requests are kept */
#define REWARD_TEXTS 16

uint32_t decoder_texts(const struct decoder *d)
{
	const struct texts_options *t =
		opt_values_of(&d->options, &texts_table);

	return decoder_shares(d) ? t->texts : 1;
}

uint32_t decoder_lanes(const struct decoder *d)
{
	uint32_t each = decoder_has_samples(d) ? samples_rows(&d->env) : 1;
	uint32_t all = each * decoder_texts(d);

	return all < ROWS_SEQUENCES ? all : ROWS_SEQUENCES;
}

/*
 * Compute the number of sequences of the session: SESSION_TEXT, one for each
 * request if several requests run at the same time, one for each sample of each
 * request, and one for each ended request whose cache is kept. Each sequence
 * has room for `tail` tokens of its own, after the tokens that it shares with
 * other sequences.
 */
static void plan_sequences(struct decoder *d)
{
	const struct samples_options *a =
		opt_values_of(&d->options, &samples_table);
	const struct texts_options *t =
		opt_values_of(&d->options, &texts_table);
	uint32_t side = samples_of_one(d), kept = texts_kept(d);
	uint32_t texts = decoder_texts(d);
	uint32_t room = SESSION_SEQUENCES - 1 - kept;
	struct session_opts *o = &d->session_opts;
	uint32_t most = o->context ? o->context
		: o->context_need  ? o->context_need
				   : d->model->n_ctx;

	if (texts > 1 && decoder_has_samples(d))
		side = texts * (1 + side);
	else if (texts > 1)
		side = texts;
	if (!side && !kept)
		return;
	o->sequences = 1 + (side < room ? side : room) + kept;
	o->slots = t->slots ? t->slots : a->slots;
	o->tail = d->tail ? d->tail : most;
}

/* Copy the options *o to d->session_opts, and add the numbers of rows and
 * positions that the method needs. */
static void prepare_session(struct decoder *d, const struct session_opts *o)
{
	const struct method *m = d->method;
	struct session_opts *s = &d->session_opts;
	uint64_t need = o->context_need;
	uint32_t texts = decoder_texts(d);

	*s = *o;
	d->env.draft_length = drafting_length(&d->drafting);
	d->env.streams = o->dram_bytes || o->dram_share < 1;
	s->decode_rows = m->decode_rows(&d->env);
	if (m->sequences && decoder_drafts(d))
		s->decode_rows = samples_tree_rows(&d->env);
	if (s->decode_rows < decoder_lanes(d))
		s->decode_rows = decoder_lanes(d);
	s->smaller_graphs =
		(m->needs_draft || m->diffusion || m->sequences || texts > 1) &&
		!s->graph_switch;
	s->larger_graphs = (m->diffusion || texts > 1) && !s->graph_switch;
	s->predict_top_k = drafting_predictions(&d->drafting);
	s->exit_layers = m->exit_layers ? m->exit_layers(&d->env) : 0;
	if (d->reward && m->needs_reward)
		s->tap_layers = reward_tap_layers(d->reward);
	if (need)
		need += s->decode_rows - 1;
	if (need <= UINT32_MAX)
		s->context_need = (uint32_t)need;
	/* Several diffusion requests share a pass. Multiply the number of rows
	 * of the pass by the number of requests, up to prefill_chunk, so that
	 * each request has as many rows as a request that runs alone. */
	for (uint32_t more = s->decode_rows; m->denoise && --texts &&
		s->decode_rows + more <= o->prefill_chunk;)
		s->decode_rows += more;
	plan_sequences(d);
}

int decoder_need(struct decoder *d, const struct session_opts *o,
	uint64_t *bytes, struct err *e)
{
	const struct session_opts was = d->session_opts;
	int ret;

	prepare_session(d, o);
	ret = session_need(d->model, &d->session_opts, bytes, e);
	/*
	 * A draft model needs memory for its file and, for each request that is
	 * decoded at the same time, a float32 key-value cache for all positions
	 * of the context.
	 */
	for (unsigned i = 0; i < d->drafting.n && !ret; i++) {
		const struct model *m = d->drafting.part[i].file;
		const struct session_opts *s = &d->session_opts;
		uint64_t context = s->context ? s->context : s->context_need;

		if (!m)
			continue;
		if (!context || context > m->n_ctx)
			context = m->n_ctx;
		*bytes += session_model_bytes(m) +
			decoder_texts(d) * context * 2 * sizeof(float) *
				m->n_layer * m->n_kv_head * m->head_dim;
	}
	d->session_opts = was;
	return ret;
}

int decoder_open_session(
	struct decoder *d, const struct session_opts *o, struct err *e)
{
	uint32_t texts = samples_of_one(d) + texts_kept(d);
	struct method_env *env = &d->env;
	int ret;

	/* add the sequences that all requests except the first need: one for
	 * each sample, and one for each prompt */
	if (decoder_texts(d) > 1)
		texts += (decoder_texts(d) - 1) * (samples_of_one(d) + 1);
	prepare_session(d, o);
	ret = session_open(&d->session, d->model, &d->session_opts, e);
	if (!ret && texts_kept(d))
		ret = prefixes_open(&d->prefixes, d->session, texts_kept(d), e);
	/* The reward model and the drafter use the session, so they are started
	 * after the session. */
	if (!ret && d->reward)
		ret = reward_start(d->reward, d->session, &d->session_opts,
			texts ? 1 + texts : REWARD_TEXTS, e);
	env->reward = d->reward;
	env->phone = d->session_opts.soc;
	if (!ret && decoder_drafts(d)) {
		d->drafting.history = d->history;
		ret = drafting_open(&d->drafting, d->session, &d->session_opts,
			d->session_opts.decode_rows, e);
		env->drafter = &d->drafting.drafter;
		env->drafting = &d->drafting;
	}
	return ret ? ret : profile_take(d, e);
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void decoder_priced_as(const struct decoder *d, char text[TANDEM_PRICED_AS])
{
	const struct session_opts *o = &d->session_opts;
	const struct shape *draft = drafting_as(&d->drafting.opts);
	bool model = drafting_has_model(&d->drafting);
	bool drafts = decoder_drafts(d) &&
		(model || (draft && drafting_needs_text(&d->drafting)));
	static const char own[] = "its own shape";

	*text = '\0';
	if (!o->as && !(drafts && draft))
		return;
	snprintf(text, TANDEM_PRICED_AS,
		"%s%s%s%s%s%s%s on %s; the model that runs is %.255s%s%.255s",
		o->as ? o->as->name : own,
		drafts ? ", the draft model as " : "",
		!drafts         ? ""
			: draft ? draft->name
				: own,
		drafts ? "," : "", o->as_type.type ? " in " : "",
		o->as_type.type ? dtype_info(o->as_type.type)->name : "",
		o->as_type.down != o->as_type.type ? " (FFN down matrices in "
						     "q8_0)"
						   : "",
		o->clock + 4, file_name(d->model_path),
		drafts ? ", its drafter " : "",
		!drafts         ? ""
			: model ? file_name(d->drafting.path)
				: d->drafting.opts.draft);
}

int decoder_add_bos(
	const struct decoder *d, struct token_list *prompt, struct err *e)
{
	int32_t bos = tokenizer_bos(d->tokenizer);
	bool wanted = tokenizer_adds_bos(d->tokenizer);
	int32_t *p;

	if (prompt->n && (!wanted || bos < 0 || prompt->id[0] == bos))
		return 0;
	if (bos < 0)
		return err_set(e, EINVAL,
			"the prompt is empty, and this model has no "
			"beginning-of-text token to start from; give a prompt");
	p = realloc(prompt->id, (prompt->n + 1) * sizeof(*p));
	if (!p)
		return err_set(e, ENOMEM, "no memory for the prompt");
	memmove(p + 1, p, prompt->n * sizeof(*p));
	p[0] = bos;
	prompt->id = p;
	prompt->cap = ++prompt->n;
	return 0;
}

int decoder_begin_text(
	struct decoder *d, const struct generation *g, struct err *e)
{
	struct prefix best;
	uint32_t sequence;
	size_t n;
	const int32_t *prompt = gen_tokens(g, &n);
	int ret;

	session_truncate(d->session, SESSION_TEXT, 0);
	if (!d->prefixes)
		return 0;
	best = prefixes_find(d->prefixes, prompt, (uint32_t)n - 1);
	if (!best.length)
		return 0;
	/* After SESSION_TEXT is removed, its id is the lowest free id, so the
	 * new sequence gets the id SESSION_TEXT. session_add cannot fail,
	 * because an empty sequence needs no memory. */
	session_remove(d->session, SESSION_TEXT);
	ret = prefix_fork(d->session, &best, &sequence, e);
	if (ret)
		session_add(d->session, &sequence, NULL);
	assert(sequence == SESSION_TEXT);
	return ret;
}

void decoder_keep_text(struct decoder *d, const struct generation *g)
{
	uint32_t sequence;
	size_t n;
	const int32_t *token = gen_tokens(g, &n);

	if (d->prefixes &&
		!session_fork(d->session, SESSION_TEXT, &sequence, NULL))
		prefixes_keep(d->prefixes, token, sequence);
}

int decoder_keep(struct decoder *d, const struct generation *g, struct err *e)
{
	const struct decoding_options *o =
		opt_values_of(&d->options, &decoding_table);
	struct history_record r = { .time = time(NULL),
		.n_prompt = (uint32_t)gen_prompt_length(g) };
	size_t n;
	int ret;

	if (!d->history || o->history_frozen ||
		gen_stop_reason(g) != GEN_STOP_EOS)
		return 0;
	r.id = gen_tokens(g, &n);
	r.n = (uint32_t)n;
	ret = history_append(d->history, &r, 1, e);
	d->kept = !ret;
	return ret ? err_in(e,
			     "the text was generated, but could not be added "
			     "to the history")
		   : 0;
}

int decoder_prepare_oracle(
	struct decoder *d, const struct generation *g, struct err *e)
{
	struct method_env env = { .method = &method_autoregressive,
		.phone = d->env.phone };
	struct generation *plain = NULL;
	const int32_t *text;
	size_t n;
	int ret;

	if (!decoder_drafts(d) || !drafting_needs_text(&d->drafting))
		return 0;
	ret = generation_open_like(&plain, g, e);
	session_truncate(d->session, SESSION_TEXT, 0);
	if (!ret)
		ret = method_run(d->session, plain, &env, e);
	if (!ret) {
		text = gen_tokens(plain, &n);
		ret = drafting_open_with_text(&d->drafting, text, n, e);
	}
	generation_close(plain);
	return ret;
}

int decoder_close(struct decoder *d, struct err *e)
{
	int ret;

	profile_review(d);
	drafting_close(&d->drafting);
	reward_close(d->reward);
	strbuf_release(&d->draft);
	history_close(d->history);
	prefixes_close(d->prefixes);
	ret = session_close(d->session, e);
	method_close(&d->env);
	tokenizer_close(d->tokenizer);
	model_close(d->model);
	*d = (struct decoder){ 0 };
	return ret;
}
