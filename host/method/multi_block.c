/*
 * Several blocks at once, as D2F (Wang et al., "Diffusion LLMs Can Do
 * Faster-Than-AR Inference via Discrete Diffusion Forcing", 2025) and d3LLM
 * (Qian et al., 2026) decode them. A block's progress is the share of its masks
 * that is decided. When the last block's is high enough the next one is added;
 * a block is fully active once the one before it is far enough.
 *
 *   - In a pass every guess that is sure enough stays, in whichever block.
 *   - A fully active block decides its surest one in any case.
 *   - Finished blocks are text from the left. Keys and values of such a block
 *     are kept so many passes after it was finished; the first of them computed
 *     its tokens, and not masks (the trap of a token that was a mask in the
 *     pass which decided it).
 *   - Every so many passes, all is computed anew.
 *
 * Where positions see their block and what is before it alone (D2F) what is
 * kept is exact; where they see all, it is as of when it was kept. With both
 * thresholds at 1 one block follows another.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>

#define THRESHOLD 0.9 /* D2F's skip_threshold */

struct multi_options {
	double add, full;
	double entropy;
	uint32_t delay, refresh;
};

/* clang-format off */
#define IN(field) OPT_IN(multi_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "add-block-at", IN(add), "P",
		"multi-block: share of the last block that is filled when "
		"the next one is added ({})", 0, 1 },
	{ OPT_FLOAT, 0, "full-block-at", IN(full), "P",
		"multi-block: share of the block before that is filled when "
		"a block must fix a guess in every pass ({})", 0, 1 },
	{ OPT_FLOAT, 0, "entropy", IN(entropy), "H",
		"multi-block: fix guesses of less entropy than this, in "
		"nats, instead of by --threshold (0: off)", 0, 100 },
	{ OPT_UINT, 0, "cache-delay", IN(delay), "N",
		"multi-block: passes over a filled block before its keys and "
		"values are kept ({})", 1, WIRE_MAX_ROWS },
	{ OPT_UINT, 0, "refresh-every", IN(refresh), "N",
		"multi-block: recompute everything after this many passes "
		"(0: never)",
		0, UINT32_MAX },
};
/* clang-format on */

static const struct opt_table multi_table = {
	.heading = "diffusion",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults =
		&(const struct multi_options){
			.add = 0.1, .full = 0.95, .delay = 1 },
	.size = sizeof(struct multi_options),
};

static const struct opt_table *const options[] = { &block_table,
	&threshold_table, &multi_table, NULL };

#define BLOCKS 4 /* in a pass, where those before are cached */

struct state {
	uint32_t length; /* of a block */
	bool by_block;
};

/* The text is d->x[0, d->last): what is cached, blocks, the last of which is
 * the last that was added. */
struct text {
	const struct multi_options *o;
	double threshold; /* of confidence; or, < 0, of -entropy */
	bool by_entropy, by_block;
	uint32_t length;
	uint32_t first;  /* where blocks begin */
	uint32_t cached; /* tokens */
	uint32_t told;   /* tokens that are text */
	uint32_t passes;
	uint32_t *finished; /* [blocks] pass since which a block has no mask */
};

/* ---- blocks -------------------------------------------------------------- */

static uint32_t n_blocks(const struct denoising *d, const struct text *t)
{
	return (d->last - t->first + t->length - 1) / t->length;
}

static uint32_t begin_of(const struct text *t, uint32_t block)
{
	return t->first + block * t->length;
}

static uint32_t end_of(
	const struct denoising *d, const struct text *t, uint32_t block)
{
	uint32_t end = begin_of(t, block + 1);

	return end < d->last ? end : d->last;
}

static double progress(
	const struct denoising *d, const struct text *t, uint32_t block)
{
	uint32_t from = begin_of(t, block), to = end_of(d, t, block);
	uint32_t masks = 0;

	for (uint32_t i = from; i < to; i++)
		masks += d->x[i] == d->mask;
	return 1 - (double)masks / (to - from);
}

/* One more, or none where the last is not far enough. */
static void add_block(struct denoising *d, struct text *t)
{
	uint32_t n = n_blocks(d, t);

	if (d->last == d->limit || (n && progress(d, t, n - 1) < t->o->add))
		return;
	if (d->last + t->length - t->cached > session_max_rows(d->session))
		return; /* not yet */
	if (d->last - t->told >= gen_left(d->gen))
		return; /* nobody wants it */
	t->finished[n] = 0;
	denoising_extend(d, t->length);
}

/* ---- passes -------------------------------------------------------------- */

static int forward_blocks(
	struct denoising *d, const struct text *t, struct err *e)
{
	struct row row[WIRE_MAX_ROWS];
	const struct rows rows = { SIGHT_BLOCK, d->last - t->cached, row };

	for (uint32_t i = 0; i < rows.n; i++) {
		uint32_t at = t->cached + i;

		row[i] = (struct row){ .token = d->x[at],
			.position = at,
			.sequence = SESSION_TEXT,
			.end = end_of(d, t, (at - t->first) / t->length) };
	}
	return session_forward(d->session, &rows, e);
}

/* Rows from t->cached on; whole at first and when it is time. */
static int forward(struct denoising *d, struct text *t, struct err *e)
{
	uint32_t from;

	if (t->by_block)
		return forward_blocks(d, t, e);
	if (t->cached && !(t->o->refresh && t->passes % t->o->refresh == 0))
		return denoising_window_pass(d, t->cached, d->last, e);
	t->cached = 0;
	return denoising_whole_pass(d, &from, e);
}

/* Of what the pass computed. What is last kept speaks of what is not. */
static int keep(struct denoising *d, struct text *t, uint32_t to, struct err *e)
{
	int ret = 0;

	if (to == t->cached)
		return 0;
	if (d->shift)
		ret = denoising_keep_behind(d, to - t->cached - 1, to, e);
	if (!ret)
		ret = session_accept(
			d->session, SESSION_TEXT, NULL, to - t->cached, e);
	t->cached = to;
	return ret;
}

/* Blocks from the left that were finished long enough, and the prompt. */
static int keep_finished(struct denoising *d, struct text *t, struct err *e)
{
	uint32_t to = t->first > t->cached ? t->first : t->cached;
	uint32_t n = n_blocks(d, t);

	for (uint32_t b = 0; b < n; b++) {
		uint32_t end = end_of(d, t, b);

		if (!t->finished[b] || t->passes - t->finished[b] < t->o->delay)
			break;
		/* What is behind it must be there to be seen, and one row must
		 * be left to be computed. */
		if (end > to && end < d->last)
			to = end;
	}
	return keep(d, t, to, e);
}

/* ---- what stays ---------------------------------------------------------- */

static bool is_sure(const struct text *t, const struct guess *g)
{
	return t->by_entropy ? g->score > -t->o->entropy
			     : g->confidence >= t->threshold;
}

/* Of a block's guesses [from, to), those that stay go to guess[stay ..]. */
static uint32_t choose_in_block(struct denoising *d, const struct text *t,
	uint32_t from, uint32_t to, bool full, uint32_t stay)
{
	uint32_t before = stay, best = from;

	for (uint32_t i = from; i < to; i++) {
		if (d->guess[i].score > d->guess[best].score)
			best = i;
		if (is_sure(t, &d->guess[i]))
			d->guess[stay++] = d->guess[i];
	}
	if (stay == before && full && from < to)
		d->guess[stay++] = d->guess[best];
	return stay;
}

static uint32_t choose(struct denoising *d, const struct text *t, uint32_t n)
{
	uint32_t stay = 0, from = 0;

	for (uint32_t b = 0; b < n_blocks(d, t) && from < n; b++) {
		bool full = !b || progress(d, t, b - 1) >= t->o->full;
		uint32_t to = from, end = end_of(d, t, b);

		while (to < n && d->guess[to].at < end)
			to++;
		stay = choose_in_block(d, t, from, to, full, stay);
		from = to;
	}
	return stay;
}

/* ---- the text ------------------------------------------------------------ */

static void tell_finished(struct denoising *d, struct text *t)
{
	for (uint32_t b = 0; b < n_blocks(d, t); b++) {
		uint32_t end = end_of(d, t, b);

		if (progress(d, t, b) < 1)
			return;
		if (!t->finished[b])
			t->finished[b] = t->passes;
		for (; t->told < end; t->told++)
			gen_append(d->gen, d->x[t->told]);
	}
}

static void note_finished(const struct denoising *d, struct text *t)
{
	for (uint32_t b = 0; b < n_blocks(d, t); b++)
		if (!t->finished[b] && progress(d, t, b) == 1)
			t->finished[b] = t->passes;
}

static int take_pass(struct denoising *d, struct text *t, struct err *e)
{
	uint32_t n = denoising_masks(d, t->first, d->last, d->at);
	uint32_t from = t->cached;
	int ret = forward(d, t, e);

	if (t->cached < from)
		from = t->cached;
	t->passes++;
	if (!ret)
		ret = denoising_guess(d, from, d->at, n, t->passes, e);
	if (!ret)
		ret = keep_finished(d, t, e);
	if (ret)
		return ret;
	denoising_take(d, choose(d, t, n));
	note_finished(d, t);
	tell_finished(d, t);
	if (!gen_done(d->gen))
		denoising_tell(d, t->told, d->last);
	add_block(d, t);
	return 0;
}

static int read_prompt(struct denoising *d, struct text *t, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(d->gen, &n);
	uint32_t row;
	int ret;

	if (!t->by_block)
		return 0; /* it is part of the first pass */
	ret = session_prefill(d->session, SESSION_TEXT, prompt, n, &row, e);
	t->cached = (uint32_t)n;
	return ret || !d->shift ? ret
				: denoising_keep_behind(d, row, t->cached, e);
}

static int write_text(struct denoising *d, struct text *t, struct err *e)
{
	int ret = denoising_check_room(d, e);

	if (!ret)
		ret = read_prompt(d, t, e);
	if (ret)
		return ret;
	denoising_begin(d, t->length);
	t->first = t->told = d->begin;
	while (!ret && !gen_done(d->gen)) {
		if (t->told == d->last)
			ret = denoising_check_room(d, e);
		if (!ret)
			ret = take_pass(d, t, e);
	}
	return ret;
}

static int multi_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	const struct state *state = env->state;
	struct text t = { .o = method_options(env, &multi_table),
		.threshold = denoising_threshold(env, THRESHOLD),
		.by_block = state->by_block,
		.length = state->length };
	struct denoising d;
	uint32_t limit =
		state->by_block ? session_context(s) : denoising_whole_limit(s);
	int ret = denoising_init(&d, env, s, g, limit, e);

	t.by_entropy = t.o->entropy > 0;
	if (t.by_entropy)
		d.guessing.order = ORDER_ENTROPY;
	t.finished = calloc(limit / t.length + 2, sizeof(*t.finished));
	if (!ret && !t.finished)
		ret = err_set(e, ENOMEM, "no memory for %u positions", limit);
	if (!ret && !gen_done(g))
		ret = write_text(&d, &t, e);
	denoising_release(&d);
	free(t.finished);
	return ret;
}

static int multi_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	struct state *state = env->state;

	state->by_block = m->block_length > 0;
	return denoising_choose_length(env, m, &state->length, e);
}

static uint32_t multi_rows(const struct method_env *env)
{
	const struct state *state = env->state;
	uint32_t rows = BLOCKS * state->length;

	return state->by_block && rows < WIRE_MAX_ROWS ? rows : WIRE_MAX_ROWS;
}

const struct method method_multi_block = {
	.name = "multi-block",
	.summary = "masked or block diffusion, several blocks at once",
	.diffusion = true,
	.runs = METHOD_WINDOW | METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct state),
	.open = multi_open,
	.decode_rows = multi_rows,
	.run = multi_run,
};
