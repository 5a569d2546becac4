/*
 * Speculation with a draft model, in its plain form: the draft model guesses
 * a few tokens one after the other, and the target looks at all of them in
 * one pass, which costs it little more than a pass for one. Row i of the
 * chain says what comes behind token i; while that is what was guessed, the
 * next row holds as well.
 *
 * Sample and match: every token is drawn from the target's logits with the
 * random number of its own position, and a guess only saves a pass when it is
 * the token drawn. So the text is that of plain decoding, at any temperature.
 */
#include "base/clock.h"
#include "base/err.h"
#include "host/draft/draft_model.h"
#include "host/generation.h"
#include "host/method/method.h"
#include "host/session.h"

#include <errno.h>
#include <stdlib.h>

struct chain {
	struct session *session;
	struct generation *gen;
	struct method_env *env;
	/*
	 * [1 + draft_length]: the root, which is the last token of the text
	 * and not yet in the target's cache, and behind it the guesses.
	 */
	int32_t *token;
	uint32_t *path; /* 0, 1, 2 ... */
	uint32_t n;     /* tokens of this cycle's chain */
};

static uint32_t chain_rows(const struct method_env *env)
{
	return 1 + env->draft_length;
}

/* ---- drafting ------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Guesses worth making behind a text of n tokens. One token of what may still
 * come is the target's own; the root has its place in the target's cache; the
 * last guess has none in the draft model's.
 */
static uint64_t draft_room(const struct chain *c, size_t n)
{
	const struct session *s = c->session;
	uint32_t own = draft_context(c->env->draft);
	uint64_t room = least(c->env->draft_length, gen_left(c->gen) - 1);

	room = least(room, session_context(s) - session_length(s) - 1);
	return n > own ? 0 : least(room, own - n + 1);
}

/* The lowest id among the likeliest. */
static int32_t likeliest(const float *logits, uint32_t n)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return (int32_t)best;
}

/* The root and what the draft model says behind it. */
static int draft_chain(struct chain *c, struct err *e)
{
	struct draft_model *d = c->env->draft;
	uint32_t n_vocab = draft_n_vocab(d);
	uint64_t began = clock_ns(), room;
	const float *logits;
	const int32_t *text;
	size_t n;
	int ret = 0;

	text = gen_tokens(c->gen, &n);
	c->token[0] = text[n - 1];
	c->n = 1;
	room = draft_room(c, n);
	if (room)
		ret = draft_follow(d, text, n, &logits, e);
	while (!ret && c->n <= room) {
		c->token[c->n++] = likeliest(logits, n_vocab);
		if (c->n <= room)
			ret = draft_append(
				d, &c->token[c->n - 1], 1, &logits, e);
	}
	c->env->stats.drafted += c->n - 1;
	c->env->stats.draft_ns += clock_ns() - began;
	return ret;
}

/* ---- verification -------------------------------------------------------- */

/* Draw along the chain for as long as it was right; *kept of its rows hold. */
static int walk(struct chain *c, uint32_t *kept, struct err *e)
{
	float *logits = gen_logits(c->gen);
	uint32_t row = 0;
	int32_t token;

	do {
		int ret = session_logits(c->session, row, logits, e);

		if (ret)
			return ret;
		token = gen_next(c->gen, logits);
		row++;
	} while (!gen_done(c->gen) && row < c->n && token == c->token[row]);
	*kept = row;
	return 0;
}

static int verify(struct chain *c, struct err *e)
{
	struct token_tree t = { .n = c->n, .token = c->token };
	uint32_t kept = 0;
	int ret = session_forward(c->session, &t, e);

	if (!ret)
		ret = walk(c, &kept, e);
	if (!ret)
		ret = session_accept(c->session, c->path, kept, e);
	if (ret)
		return ret;
	c->env->stats.cycles++;
	c->env->stats.accepted += kept - 1;
	return 0;
}

/* ---- the method ---------------------------------------------------------- */

/* The first token, which the prompt's last row gives. */
static int begin(struct chain *c, struct err *e)
{
	float *logits = gen_logits(c->gen);
	size_t n;
	const int32_t *prompt = gen_tokens(c->gen, &n);
	uint32_t row;
	int ret = session_prefill(c->session, prompt, n, &row, e);

	if (!ret)
		ret = session_logits(c->session, row, logits, e);
	if (!ret)
		gen_next(c->gen, logits);
	return ret;
}

static int alloc_chain(struct chain *c, struct err *e)
{
	uint32_t rows = chain_rows(c->env);

	c->token = malloc(rows * sizeof(*c->token));
	c->path = malloc(rows * sizeof(*c->path));
	if (!c->token || !c->path)
		return err_set(e, ENOMEM, "no memory for chains of %u", rows);
	for (uint32_t i = 0; i < rows; i++)
		c->path[i] = i;
	return 0;
}

static int chain_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct chain c = { .session = s, .gen = g, .env = env };
	int ret = alloc_chain(&c, e);

	if (!ret)
		ret = begin(&c, e);
	while (!ret && !gen_done(g)) {
		ret = draft_chain(&c, e);
		if (!ret)
			ret = verify(&c, e);
	}
	free(c.token);
	free(c.path);
	return ret;
}

const struct method method_chain = {
	.name = "chain",
	.summary = "tokens guessed by a draft model, verified in one pass",
	.lossless = true,
	.needs_draft = true,
	.decode_rows = chain_rows,
	.run = chain_run,
};
