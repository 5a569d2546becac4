/*
 * Speculation by one model that writes in two ways: it fills a block of masks
 * both ways, and then reads what it wrote from left to right, which says
 * what it would have written so (LinearSpec; self-speculation of block
 * diffusion models that are autoregressive as well). Two passes a cycle:
 *
 *   draft   the token that is known, and masks behind it; each row's likeliest
 *           token is the draft of the next position
 *   verify  the token and the draft as a chain; the longest beginning that the
 *           model agrees with stays, and what it says behind that is the token
 *           that is known next
 *
 * Every token comes from a row of a chain, so the text is that of plain
 * decoding with this model, drawn ones included.
 */
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

struct state {
	uint32_t length; /* of the model's blocks */
};

/* The token that is known, which stands at `at`, and n - 1 drafted behind. */
struct cycle {
	uint32_t at, n;
	int32_t token[WIRE_MAX_ROWS];
};

static int draft(struct denoising *d, struct cycle *c, struct err *e)
{
	struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { SIGHT_BLOCK, c->n, row };
	int ret;

	if (c->n == 1)
		return 0;
	for (uint32_t i = 0; i < c->n; i++) {
		d->at[i] = c->at + i;
		row[i] = (struct row){ .token = i ? d->mask : c->token[0],
			.position = c->at + i,
			.sequence = SESSION_TEXT,
			.end = c->at + c->n };
	}
	ret = session_forward(d->session, &rows, e);
	if (!ret)
		ret = denoising_guess(d, c->at, d->at + 1, c->n - 1, 0, e);
	for (uint32_t i = 1; i < c->n && !ret; i++)
		c->token[i] = d->guess[i - 1].token;
	return ret;
}

/* Tokens go to the text as long as they are the drafted ones; the one that is
 * not is known, and stays to be computed. */
static int verify(struct denoising *d, struct cycle *c, struct method_env *env,
	struct err *e)
{
	uint32_t path[WIRE_MAX_ROWS], right = 0;
	float *logits = gen_logits(d->gen);
	int ret = session_continue(d->session, SESSION_TEXT, c->token, c->n, e);

	while (!ret) {
		int32_t next;

		path[right] = right;
		ret = session_logits(d->session, right, logits, e);
		if (ret)
			return ret;
		next = method_next(d->session, d->gen, logits);
		right++;
		if (gen_done(d->gen) || right == c->n ||
			next != c->token[right]) {
			c->token[0] = next;
			break;
		}
	}
	if (ret)
		return ret;
	env->stats.cycles++;
	method_count_draft(env, NULL, c->n - 1, right - 1);
	c->at += right;
	return session_accept(d->session, SESSION_TEXT, path, right, e);
}

/* As long as a draft can be of use, and there is room for it. */
static uint32_t rows_of(const struct denoising *d, const struct cycle *c,
	const struct method_env *env)
{
	const struct state *state = env->state;
	uint32_t room = d->limit - c->at, n = state->length;
	size_t left = gen_left(d->gen);

	n = n < room ? n : room;
	return n < left ? n : left ? (uint32_t)left : 1;
}

static int read_prompt(struct denoising *d, struct cycle *c, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(d->gen, &n);
	float *logits = gen_logits(d->gen);
	uint32_t row;
	int ret = session_prefill(d->session, SESSION_TEXT, prompt, n, &row, e);

	if (ret || gen_done(d->gen))
		return ret;
	ret = session_logits(d->session, row, logits, e);
	if (!ret)
		c->token[0] = method_next(d->session, d->gen, logits);
	c->at = (uint32_t)n;
	return ret;
}

static int linear_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	struct cycle c = { 0 };
	struct denoising d;
	int ret = denoising_init(&d, env, s, g, session_context(s), e);

	d.guessing.sampling = &sampler_defaults; /* a draft is what is likeliest
						  */
	if (!ret)
		ret = read_prompt(&d, &c, e);
	while (!ret && !gen_done(g)) {
		c.n = rows_of(&d, &c, env);
		ret = draft(&d, &c, e);
		if (!ret)
			ret = verify(&d, &c, env, e);
	}
	denoising_release(&d);
	return ret;
}

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
	.summary = "a block diffusion model drafts, and verifies itself",
	.lossless = true,
	.logits_ahead = true,
	.runs = METHOD_BLOCK,
	.state_bytes = sizeof(struct state),
	.open = linear_open,
	.decode_rows = linear_rows,
	.run = linear_run,
};
