/*
 * Self-speculation of a block diffusion model that is also autoregressive
 * (LinearSpec). The model first fills a block of masks, with attention in both
 * directions, and then verifies the block from left to right. A cycle has two
 * passes:
 *
 *   draft   The rows are the next token, which is known, and masks after it.
 *           The likeliest token of each mask is the draft of its position.
 *   verify  The rows are the known token and the draft, as a chain. The
 *           longest prefix that the model itself draws is accepted. The token
 *           that the model draws after that prefix is the next known token.
 *
 * Every generated token is drawn from a row of the chain, so plain decoding
 * with this model gives the same text, at any temperature.
 */
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

struct state {
	uint32_t length; /* length of the model's blocks */
};

/* The known token, at position `at`, followed by n - 1 drafted tokens. */
struct text {
	uint32_t at, n;
	int32_t token[WIRE_MAX_ROWS];
	/* whether the draft exists, so that the next pass verifies it */
	bool drafted;
};

static int linear_start(struct denoising *d, struct err *e)
{
	/* draft at temperature 0: guess the likeliest token of each mask */
	d->guessing.sampling = &sampler_defaults;
	d->reads_prompt = true;
	return denoising_reserve(d, session_context(d->session), e);
}

static int linear_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	struct text *t = d->own;
	float *logits = gen_logits(d->gen);
	int ret = session_logits(d->session, row, 1, logits, e);

	if (!ret)
		t->token[0] = method_next(d->session, d->gen, logits);
	t->at = (uint32_t)gen_prompt_length(d->gen);
	return ret;
}

static int linear_plan(struct denoising *d, struct err *e)
{
	const struct state *state = d->env->state;
	struct text *t = d->own;

	if (!t->drafted) {
		/* Limit the draft to the free slots of the context and to the
		 * number of tokens that are still to be generated. */
		uint32_t room = d->limit - t->at, n = state->length;
		size_t left = gen_left(d->gen);

		n = n < room ? n : room;
		t->n = n < left ? n : left ? (uint32_t)left : 1;
		t->drafted = t->n == 1; /* no room for a draft */
	}
	d->n_at = 0;
	d->n_rows = t->n;
	d->visibility = t->drafted ? VISIBILITY_TREE : VISIBILITY_BLOCK;
	rows_tree(d->row, d->sequence, t->at, t->token, NULL, t->n);
	for (uint32_t i = 0; i < t->n && !t->drafted; i++) {
		d->row[i].token = i ? d->mask : t->token[0];
		d->row[i].end = t->at + t->n;
		if (i)
			d->at[d->n_at++] = t->at + i;
	}
	return 0;
}

static int linear_after_pass(struct denoising *d, struct err *e)
{
	uint32_t path[WIRE_MAX_ROWS], right = 0;
	float *logits = gen_logits(d->gen);
	struct text *t = d->own;
	int32_t next;

	if (!t->drafted) {
		for (uint32_t i = 1; i < t->n; i++)
			t->token[i] = d->guess[i - 1].token;
		t->drafted = true;
		return 0;
	}
	/*
	 * Accept tokens while the drawn token equals the drafted token. At the
	 * first difference the drawn token still becomes part of the text. This
	 * token becomes the next known token and is not cached yet.
	 */
	t->drafted = false;
	do {
		int ret = session_logits(
			d->session, d->first + right, 1, logits, e);

		if (ret)
			return ret;
		path[right] = d->first + right;
		right++;
		next = method_next(d->session, d->gen, logits);
	} while (!gen_done(d->gen) && right < t->n && next == t->token[right]);
	t->token[0] = next;
	t->at += right;
	d->env->stats.cycles++;
	method_count_draft(d->env, NULL, t->n - 1, right - 1);
	return session_accept(d->session, d->sequence, path, right, e);
}

static const struct denoising_steps steps = {
	.start = linear_start,
	.prompt = linear_prompt,
	.plan = linear_plan,
	.after_pass = linear_after_pass,
};

static int linear_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	struct state *state = env->state;

	state->length = m->block_length;
	return 0;
}

static uint32_t linear_rows(const struct method_env *env)
{
	const struct state *state = env->state;

	return state->length;
}

const struct method method_linear_spec = {
	.name = "linear-spec",
	.summary = "a block diffusion model drafts tokens and verifies them",
	.lossless = true,
	.logits_ahead = true,
	.runs = METHOD_BLOCK,
	.state_bytes = sizeof(struct state),
	.open = linear_open,
	.decode_rows = linear_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
