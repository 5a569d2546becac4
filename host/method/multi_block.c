/*
 * Decoding of several blocks at once, as in D2F (Wang et al., "Diffusion LLMs
 * Can Do Faster-Than-AR Inference via Discrete Diffusion Forcing", 2025) and
 * d3LLM (Qian et al., 2026). The progress of a block is the share of its masks
 * that are filled. When the progress of the last block reaches --add-block-at,
 * another block is added. A block is fully active when the progress of the
 * block before it has reached --full-block-at.
 *
 *   - Each pass commits (makes final) every guess (predicted token) that
 *     reaches the threshold, in all blocks.
 *   - A fully active block always commits its best guess, whatever its
 *     confidence.
 *   - Finished blocks become text, from the left. Their keys and values are
 *     cached --cache-delay passes after the block was finished. The delay is
 *     at least one pass, because the pass that fills the last mask of a block
 *     still computes keys and values from that mask.
 *
 * If positions attend only to their own and earlier blocks (D2F), cached keys
 * and values are exact. If positions attend to all positions, cached keys and
 * values are approximate: they were computed from the text as it was in an
 * earlier pass. If --add-block-at and --full-block-at are both 1, blocks are
 * decoded one after another.
 */
#include "base/err.h"
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>

#define THRESHOLD 0.9 /* same as skip_threshold of D2F */

struct multi_options {
	double add, full;
	double entropy;
	uint32_t delay;
};

/* clang-format off */
#define IN(field) OPT_IN(multi_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "add-block-at", IN(add), "P",
		"method multi-block: start the next block when this share of "
		"the last block's positions, 0 to 1, have a token instead of a "
		"mask ({})", 0, 1 },
	{ OPT_FLOAT, 0, "full-block-at", IN(full), "P",
		"method multi-block: when this share of a block's positions, 0 "
		"to 1, have tokens, every pass must make at least one guess in "
		"the next block final ({})", 0, 1 },
	{ OPT_FLOAT, 0, "entropy", IN(entropy), "H",
		"method multi-block: make guesses (predicted tokens) final "
		"when their entropy is below H nats, instead of when they "
		"reach --threshold (0: off)",
		0, 100 },
	{ OPT_UINT, 0, "cache-delay", IN(delay), "N",
		"method multi-block: number of passes that still compute a "
		"block without masks before it is cached ({})",
		1, WIRE_MAX_ROWS },
};
/* clang-format on */

static const struct opt_table multi_table = OPT_TABLE_INIT("diffusion",
	option_rows, multi_options, .add = 0.1, .full = 0.95, .delay = 1);

static const struct opt_table *const options[] = { &block_table,
	&threshold_table, &refresh_table, &multi_table, NULL };

/* The state of a request. The text d->x[0, d->last) consists of the prompt,
 * then the blocks in the order in which they were added. */
struct text {
	const struct multi_options *o;
	uint32_t refresh; /* --refresh-every */
	/*
	 * guesses of at least this confidence are committed, unless by_entropy
	 * is set
	 */
	double threshold;
	bool by_entropy, by_block;
	uint32_t length; /* length of a block */
	uint32_t first;  /* position where the first block begins */
	uint32_t cached; /* number of cached tokens */
	/* number of tokens of the prompt plus tokens delivered to the reader */
	uint32_t emitted;
	/* [blocks] number of the pass that filled the block's last mask; 0 if
	 * the block still has masks */
	uint32_t *finished;
};

/* ---- blocks -------------------------------------------------------------- */

static uint32_t n_blocks(const struct denoising *d, const struct text *t)
{
	return (d->last - t->first + t->length - 1) / t->length;
}

static uint32_t end_of(
	const struct denoising *d, const struct text *t, uint32_t block)
{
	uint32_t end = t->first + (block + 1) * t->length;

	return end < d->last ? end : d->last;
}

static double progress(
	const struct denoising *d, const struct text *t, uint32_t block)
{
	uint32_t from = t->first + block * t->length, to = end_of(d, t, block);
	uint32_t masks = 0;

	for (uint32_t i = from; i < to; i++)
		masks += d->x[i] == d->mask;
	return 1 - (double)masks / (to - from);
}

/* ---- caching finished blocks --------------------------------------------- */

/*
 * Cache the prompt and, from the left, the blocks that were finished at least
 * --cache-delay passes ago. With shifted logits (d->shift) the last cached row
 * predicts the first uncached position, so the logits of this row are stored.
 */
static int cache_finished(struct denoising *d, struct text *t, struct err *e)
{
	uint32_t to = t->first > t->cached ? t->first : t->cached;
	uint32_t n = n_blocks(d, t), rows;
	int ret = 0;

	for (uint32_t b = 0; b < n; b++) {
		uint32_t end = end_of(d, t, b);

		if (!t->finished[b] || d->pass - t->finished[b] < t->o->delay)
			break;
		/* Do not cache the last block if no block follows: a pass needs
		 * at least one row to compute. */
		if (end > to && end < d->last)
			to = end;
	}
	rows = to - t->cached;
	if (!rows)
		return 0;
	if (d->shift)
		ret = denoising_carry_logits(d, rows - 1, to, e);
	if (!ret)
		ret = session_accept(d->session, d->sequence, NULL, rows, e);
	t->cached = to;
	return ret;
}

/* ---- choosing guesses to commit ------------------------------------------ */

/* Move the guesses to commit to the front of d->guess, and return their number.
 * Before the call the guesses are in the order of their positions. */
static uint32_t choose(struct denoising *d, const struct text *t)
{
	uint32_t kept = 0, i = 0;

	for (uint32_t b = 0; b < n_blocks(d, t) && i < d->n_at; b++) {
		bool full = !b || progress(d, t, b - 1) >= t->o->full;
		uint32_t before = kept, best = i, from = i;
		uint32_t end = end_of(d, t, b);

		for (; i < d->n_at && d->guess[i].at < end; i++) {
			const struct guess *g = &d->guess[i];

			if (g->score > d->guess[best].score)
				best = i;
			if (t->by_entropy ? g->score > -t->o->entropy
					  : g->confidence >= t->threshold)
				guesses_exchange(d->guess, kept++, i);
		}
		if (kept == before && full && from < i)
			guesses_exchange(d->guess, kept++, best);
	}
	return kept;
}

/* ---- functions of struct denoising_steps --------------------------------- */

static int multi_start(struct denoising *d, struct err *e)
{
	const struct refresh_options *refresh =
		method_options(d->env, &refresh_table);
	const struct block_state *state = d->env->state;
	struct text *t = d->own;
	uint32_t limit = state->by_block ? session_context(d->session)
					 : denoising_whole_limit(d->session);
	int ret;

	t->o = method_options(d->env, &multi_table);
	t->refresh = refresh->every;
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
		return err_set(e, ENOMEM,
			"no memory for the %u positions of a diffusion text",
			limit);
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
	return d->shift ? denoising_carry_logits(d, row, t->cached, e) : 0;
}

/* Plan the next pass: one row for each position that is not cached. If
 * positions attend to all positions, the first pass, and each pass that
 * refreshes the cache, have rows for all positions. */
static int multi_plan(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret;

	if (!d->last) {
		denoising_begin(d, t->length);
		t->first = t->emitted = d->begin;
	}
	ret = t->emitted == d->last ? denoising_check_room(d, e) : 0;
	if (ret)
		return ret;
	if (!t->by_block &&
		(!t->cached || (t->refresh && d->pass % t->refresh == 0))) {
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
	denoising_predict_masks(d, t->first, d->last);
	d->pass++;
	return 0;
}

static int multi_after_pass(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret = cache_finished(d, t, e);
	uint32_t n;

	if (ret)
		return ret;
	denoising_commit(d, choose(d, t));
	for (uint32_t b = 0; b < n_blocks(d, t); b++)
		if (!t->finished[b] && progress(d, t, b) == 1)
			t->finished[b] = d->pass;
	t->emitted = denoising_emit(d, d->last);
	if (!gen_done(d->gen))
		denoising_report(d, d->last);

	/*
	 * Add a block if the progress of the last block has reached
	 * --add-block-at, a pass has rows for one more block, and more tokens
	 * are needed.
	 */
	n = n_blocks(d, t);
	if (d->last != d->limit && (!n || progress(d, t, n - 1) >= t->o->add) &&
		d->last + t->length - t->cached <=
			session_max_rows(d->session) &&
		d->last - t->emitted < gen_left(d->gen)) {
		t->finished[n] = 0;
		denoising_extend(d, t->length);
	}
	return 0;
}

static const struct denoising_steps steps = {
	.start = multi_start,
	.prompt = multi_prompt,
	.plan = multi_plan,
	.after_pass = multi_after_pass,
	.finish = multi_finish,
};

const struct method method_multi_block = {
	.name = "multi-block",
	.summary = "masked or block diffusion, several blocks at once",
	.diffusion = true,
	.runs = METHOD_WINDOW | METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct block_state),
	.open = denoising_open_blocks,
	.decode_rows = denoising_block_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
