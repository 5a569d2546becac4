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
	uint32_t length;    /* of a block */
	uint32_t first;     /* where blocks begin */
	uint32_t cached;    /* tokens */
	uint32_t told;      /* tokens that are text */
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

/* Of what the pass computed. What is last kept speaks of what is not. */
static int keep(struct denoising *d, struct text *t, uint32_t to, struct err *e)
{
	int ret = 0;

	if (to == t->cached)
		return 0;
	if (d->shift)
		ret = denoising_keep_behind(d, to - t->cached - 1, to, e);
	if (!ret)
		ret = denoising_accept(d, to - t->cached, e);
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

		if (!t->finished[b] || d->pass - t->finished[b] < t->o->delay)
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

static uint32_t choose(struct denoising *d, const struct text *t)
{
	uint32_t stay = 0, from = 0;

	for (uint32_t b = 0; b < n_blocks(d, t) && from < d->n_at; b++) {
		bool full = !b || progress(d, t, b - 1) >= t->o->full;
		uint32_t to = from, end = end_of(d, t, b);

		while (to < d->n_at && d->guess[to].at < end)
			to++;
		stay = choose_in_block(d, t, from, to, full, stay);
		from = to;
	}
	return stay;
}

/* ---- the steps ----------------------------------------------------------- */

static int multi_start(struct denoising *d, struct err *e)
{
	const struct state *state = d->env->state;
	struct text *t = d->own;
	uint32_t limit = state->by_block ? session_context(d->session)
					 : denoising_whole_limit(d->session);
	int ret;

	t->o = method_options(d->env, &multi_table);
	t->threshold = denoising_threshold(d->env, THRESHOLD);
	t->by_block = d->reads_prompt = state->by_block;
	t->length = state->length;
	t->by_entropy = t->o->entropy > 0;
	if (t->by_entropy)
		d->guessing.order = ORDER_ENTROPY;
	ret = denoising_reserve(d, limit, e);
	if (ret)
		return ret;
	t->finished = calloc(limit / t->length + 2, sizeof(*t->finished));
	if (!t->finished)
		return err_set(e, ENOMEM, "no memory for %u positions", limit);
	return denoising_check_room(d, e);
}

static void multi_finish(struct denoising *d)
{
	struct text *t = d->own;

	free(t->finished);
}

static int multi_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	struct text *t = d->own;

	t->cached = (uint32_t)gen_prompt_length(d->gen);
	return d->shift ? denoising_keep_behind(d, row, t->cached, e) : 0;
}

/* Rows of what is not cached; of all at first, and when it is time. */
static int multi_plan(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret;

	if (!d->last) {
		denoising_begin(d, t->length);
		t->first = t->told = d->begin;
	}
	ret = t->told == d->last ? denoising_check_room(d, e) : 0;
	if (ret)
		return ret;
	if (!t->by_block &&
		(!t->cached ||
			(t->o->refresh && d->pass % t->o->refresh == 0))) {
		t->cached = 0;
		denoising_whole_pass(d);
	} else {
		denoising_rows(d,
			t->by_block ? VISIBILITY_BLOCK : VISIBILITY_WINDOW,
			t->cached, d->last);
	}
	for (uint32_t i = 0; t->by_block && i < d->n_rows; i++)
		d->row[i].end =
			end_of(d, t, (t->cached + i - t->first) / t->length);
	denoising_ask(d, t->first, d->last);
	d->pass++;
	return 0;
}

static int multi_took(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret = keep_finished(d, t, e);

	if (ret)
		return ret;
	denoising_take(d, choose(d, t));
	for (uint32_t b = 0; b < n_blocks(d, t); b++)
		if (!t->finished[b] && progress(d, t, b) == 1)
			t->finished[b] = d->pass;
	/* Blocks that are finished from the left on are text. */
	for (uint32_t b = 0; b < n_blocks(d, t) && t->finished[b]; b++)
		for (; t->told < end_of(d, t, b); t->told++)
			gen_append(d->gen, d->x[t->told]);
	if (!gen_done(d->gen))
		denoising_report(d, t->told, d->last);
	add_block(d, t);
	return 0;
}

static const struct denoising_steps steps = {
	.start = multi_start,
	.prompt = multi_prompt,
	.plan = multi_plan,
	.took = multi_took,
	.finish = multi_finish,
};

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
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
