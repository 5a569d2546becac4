#include "host/text/generation.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/json_form.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct generation {
	struct generation_opts opts;
	struct token_list tokens;
	size_t n_prompt;
	struct detokenizer detok;
	/* text that is not delivered yet because a stop string may begin in
	 * it */
	struct strbuf held;
	float *logits;
	/* logits from which the token that is being appended was sampled; NULL
	 * if the decoding method chose the token itself */
	const float *drawn_from;
	struct json_front place; /* state of opts.form after the last token */
	enum gen_stop stop;
	uint64_t first_ns;
	/* number of denoising steps or drafts that were reported */
	uint64_t steps;
	/* number of the random stream from which tokens are sampled */
	uint64_t stream;
};

/* Check the limits on the number of tokens. A limit can be reached before the
 * first generated token: the context can be full, and the caller can request 0
 * tokens. */
static void check_limits(struct generation *g)
{
	if (gen_generated(g) >= g->opts.n_predict)
		g->stop = GEN_STOP_LENGTH;
	else if (g->tokens.n >= g->opts.context)
		g->stop = GEN_STOP_CONTEXT;
}

int generation_open(struct generation **out, const struct generation_opts *o,
	const int32_t *prompt, size_t n_prompt, struct err *e)
{
	struct generation *g = calloc(1, sizeof(*g));
	struct strbuf unused = STRBUF_INIT;
	int ret = 0;

	if (!g)
		return err_set(e, ENOMEM, "no memory for a generation");
	g->opts = *o;
	g->detok = (struct detokenizer){ .tok = o->tokenizer,
		.special = o->special };
	g->logits = malloc(o->n_vocab * sizeof(*g->logits));
	if (!g->logits)
		ret = err_set(e, ENOMEM, "no memory for %u logits", o->n_vocab);
	/*
	 * Pass the prompt through the detokenizer and discard the text. The
	 * detokenizer then knows whether the first output token keeps its
	 * leading space, and has the bytes of a character that begins at the
	 * end of the prompt.
	 */
	for (size_t i = 0; i < n_prompt && !ret; i++) {
		ret = token_list_add(&g->tokens, prompt[i]);
		if (!ret && o->tokenizer)
			ret = detokenize(&g->detok, prompt[i], &unused);
		if (ret == -ENOMEM)
			err_set(e, ENOMEM, "no memory for %zu tokens",
				n_prompt);
		if (ret == -EINVAL)
			err_set(e, EINVAL,
				"token %d of the prompt is not in the "
				"vocabulary",
				prompt[i]);
	}
	strbuf_release(&unused);
	g->n_prompt = n_prompt;
	if (ret) {
		generation_close(g);
		return ret;
	}
	g->stream = o->sampler ? sampler_options(o->sampler)->stream : 0;
	if (o->form)
		json_begin(json_form_machine(o->form), &g->place);
	check_limits(g);
	*out = g;
	return 0;
}

int generation_open_like(
	struct generation **out, const struct generation *like, struct err *e)
{
	struct generation_opts o = like->opts;

	o.sink = NULL;
	o.step = NULL;
	o.draft = NULL;
	o.token = NULL;
	return generation_open(out, &o, like->tokens.id, like->n_prompt, e);
}

int generation_fork(struct generation **out, const struct generation *from,
	uint64_t stream,
	int (*sink)(void *arg, int32_t id, const char *text, size_t len),
	void *arg, struct err *e)
{
	struct generation *g = malloc(sizeof(*g));
	int ret = 0;

	if (!g)
		return err_set(e, ENOMEM, "no memory for a generation");
	*g = *from;
	g->tokens = (struct token_list){ 0 };
	g->held = (struct strbuf)STRBUF_INIT;
	g->logits = NULL;
	g->opts.sink = sink;
	g->opts.arg = arg;
	g->opts.step = NULL;
	g->opts.draft = NULL;
	g->opts.token = NULL;
	g->stream = stream;
	if (from->held.len)
		strbuf_add(&g->held, from->held.data, from->held.len);
	for (size_t i = 0; i < from->tokens.n && !ret; i++)
		ret = token_list_add(&g->tokens, from->tokens.id[i]);
	if (ret)
		err_set(e, ENOMEM, "no memory for %zu tokens", from->tokens.n);
	else if (g->held.failed)
		ret = err_set(e, ENOMEM, "no memory for the text");
	if (ret)
		generation_close(g);
	else
		*out = g;
	return ret;
}

void generation_close(struct generation *g)
{
	if (!g)
		return;
	strbuf_release(&g->held);
	free(g->tokens.id);
	free(g->logits);
	free(g);
}

const int32_t *gen_tokens(const struct generation *g, size_t *n)
{
	*n = g->tokens.n;
	return g->tokens.id;
}

size_t gen_prompt_length(const struct generation *g)
{
	return g->n_prompt;
}

size_t gen_generated(const struct generation *g)
{
	return g->tokens.n - g->n_prompt;
}

size_t gen_left(const struct generation *g)
{
	size_t room = g->opts.context - g->tokens.n;
	size_t wanted = g->opts.n_predict - gen_generated(g);

	if (gen_done(g))
		return 0;
	return room < wanted ? room : wanted;
}

float *gen_logits(struct generation *g)
{
	return g->logits;
}

struct json_form *gen_form(const struct generation *g, struct json_front *place)
{
	if (g->opts.form)
		*place = g->place;
	return g->opts.form;
}

const struct sampler_opts *gen_sampling(const struct generation *g)
{
	return sampler_options(g->opts.sampler);
}

uint64_t gen_first_ns(const struct generation *g)
{
	return g->first_ns;
}

bool gen_done(const struct generation *g)
{
	return g->stop != GEN_RUNNING;
}

enum gen_stop gen_stop_reason(const struct generation *g)
{
	return g->stop;
}

const char *gen_stop_name(enum gen_stop stop)
{
	static const char *const name[] = {
		[GEN_RUNNING] = "running",
		[GEN_STOP_EOS] = "eos",
		[GEN_STOP_STRING] = "stop",
		[GEN_STOP_LENGTH] = "length",
		[GEN_STOP_CONTEXT] = "context",
		[GEN_STOP_ERROR] = "error",
	};

	return (size_t)stop < ARRAY_LEN(name) ? name[stop] : "unknown";
}

/* Find the first stop string in the withheld text. Returns true and sets *at to
 * the offset of the stop string, or returns false. */
static bool find_stop(const struct generation *g, size_t *at)
{
	bool found = false;

	for (unsigned i = 0; g->held.len && i < g->opts.n_stop; i++) {
		const char *stop = g->opts.stop[i];
		const char *p = *stop
			? memmem(g->held.data, g->held.len, stop, strlen(stop))
			: NULL;
		size_t off = p ? (size_t)(p - g->held.data) : 0;

		if (p && (!found || off < *at)) {
			*at = off;
			found = true;
		}
	}
	return found;
}

/* Number of bytes at the end of the withheld text that may be the beginning of
 * a stop string. */
static size_t undecided(const struct generation *g)
{
	size_t most = 0;

	for (unsigned i = 0; g->held.len && i < g->opts.n_stop; i++) {
		size_t len = strlen(g->opts.stop[i]);
		size_t n = len ? len - 1 : 0;

		for (n = n < g->held.len ? n : g->held.len; n > most; n--)
			if (!memcmp(g->held.data + g->held.len - n,
				    g->opts.stop[i], n))
				most = n;
	}
	return most;
}

/* Deliver the first `len` bytes of the withheld text; keep the rest. */
static void deliver(struct generation *g, int32_t id, size_t len)
{
	size_t rest = g->held.len - len;

	if (g->opts.sink &&
		g->opts.sink(g->opts.arg, id, len ? g->held.data : "", len))
		g->stop = GEN_STOP_ERROR;
	if (g->opts.token) {
		const struct gen_token token = { .id = id,
			.text = len ? g->held.data : "",
			.len = len,
			.logits = g->drawn_from };

		if (g->opts.token(g->opts.token_arg, &token))
			g->stop = GEN_STOP_ERROR;
	}
	if (len)
		memmove(g->held.data, g->held.data + len, rest);
	g->held.len = rest;
}

bool gen_ends(const struct generation *g, int32_t id)
{
	return !g->opts.ignore_eos && g->opts.tokenizer &&
		tokenizer_is_eog(g->opts.tokenizer, id);
}

void gen_append(struct generation *g, int32_t id)
{
	struct json_form *form = g->opts.form;
	size_t len, at;

	if (gen_done(g))
		return;
	if (token_list_add(&g->tokens, id)) {
		g->stop = GEN_STOP_ERROR;
		return;
	}
	if (gen_ends(g, id))
		g->stop = GEN_STOP_EOS;
	if (form && g->stop != GEN_STOP_EOS &&
		!json_form_take(form, &g->place, id))
		g->stop = GEN_STOP_ERROR;
	/* A token that ends the generation has no text. */
	if (g->opts.tokenizer && g->stop != GEN_STOP_EOS)
		detokenize(&g->detok, id, &g->held);
	if (g->held.failed)
		g->stop = GEN_STOP_ERROR;
	len = g->held.len - undecided(g);
	if (find_stop(g, &at)) {
		g->stop = GEN_STOP_STRING;
		g->held.len = len = at;
	}
	if (!gen_done(g) && form &&
		json_is_over(json_form_machine(form), &g->place))
		g->stop = GEN_STOP_EOS;
	if (!gen_done(g))
		check_limits(g);
	if (!g->first_ns)
		g->first_ns = clock_ns();
	deliver(g, id, len);
}

void gen_no_room(struct generation *g)
{
	if (!gen_done(g))
		g->stop = GEN_STOP_CONTEXT;
}

int32_t gen_next(struct generation *g, const float *logits)
{
	const float *row = logits;
	int32_t id;

	if (g->opts.form && !gen_done(g))
		row = json_form_mask(
			g->opts.form, &g->place, logits, g->opts.n_vocab);
	if (!row) {
		g->stop = GEN_STOP_ERROR;
		return 0;
	}
	id = sampler_draw_from(g->opts.sampler, g->stream, row, g->tokens.id,
		g->n_prompt, g->tokens.n, g->tokens.n);
	g->drawn_from = logits;
	gen_append(g, id);
	g->drawn_from = NULL;
	return id;
}

void gen_flush(struct generation *g)
{
	size_t at;

	if (g->stop == GEN_STOP_ERROR)
		return;
	if (g->opts.tokenizer && g->stop != GEN_STOP_STRING)
		detokenize_end(&g->detok, &g->held);
	if (find_stop(g, &at))
		g->held.len = at;
	if (g->held.len)
		deliver(g, -1, g->held.len);
}

/* ---- reports of denoising steps and drafts ------------------------------- */

bool gen_is_watched(const struct generation *g)
{
	return g->opts.step && !gen_done(g);
}

void gen_step(struct generation *g, const struct gen_step *step)
{
	struct gen_step numbered = *step;

	if (!gen_is_watched(g))
		return;
	assert(step->first == g->tokens.n);
	numbered.pass = ++g->steps;
	if (g->opts.step(g->opts.step_arg, &numbered))
		g->stop = GEN_STOP_ERROR;
}

void gen_draft(struct generation *g, const struct gen_draft *draft)
{
	struct gen_draft numbered = *draft;

	if (!g->opts.draft || g->stop == GEN_STOP_ERROR)
		return;
	numbered.pass = ++g->steps;
	if (g->opts.draft(g->opts.draft_arg, &numbered) && !gen_done(g))
		g->stop = GEN_STOP_ERROR;
}

/* Detokenize with a copy of the detokenizer, so that the generation's own
 * detokenizer does not change. */
int gen_step_text(const struct generation *g, const struct gen_step *s,
	struct strbuf *text, size_t *at)
{
	struct detokenizer d = g->detok;
	int ret = 0;

	if (g->held.len)
		strbuf_add(text, g->held.data, g->held.len);
	for (uint32_t i = 0; i <= s->n && !ret; i++) {
		bool token = i < s->n && s->mark[i] != GEN_MASK;

		if (!token) {
			detokenize_end(&d, text);
			/* a mask stands for unknown text, so the next token
			 * keeps its leading space */
			d.started = true;
		}
		at[i] = text->len;
		if (token && d.tok)
			ret = detokenize(&d, s->token[i], text);
	}
	return text->failed ? -ENOMEM : ret;
}
