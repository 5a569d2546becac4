/*
 * The method of llada.cpp ("Efficient On-Device Diffusion LLM Inference with
 * Mobile NPU", 2026, sections 3.2 and 3.3): masked or block diffusion whose
 * passes use all rows of an NPU. The prompt is computed once. After that, a
 * pass computes a window of positions, and reads the keys and values of all
 * other positions from the cache.
 *
 *   - Tokens become final in stages (host/method/stages.h). Other positions
 *     already attend to a visible token, which may still change. A stable
 *     token is final.
 *   - A block that has no mask left is computed again, at most --settle times,
 *     until a pass changes none of its visible tokens.
 *   - The window begins at the first position that --window-from selects, and
 *     can extend into later blocks: in every pass (--window), or when few masks
 *     are left in the current block (--lookahead). Guesses in later blocks are
 *     drafts: a draft is predicted again when its block becomes the current
 *     block.
 *   - When a pass makes a position visible, the input of the position in that
 *     pass was the mask, so its cached keys and values are stale. The next
 *     pass computes the position again.
 *   - The logits of stable tokens are not computed.
 *   - Positions that precede the window and have a visible, not yet stable
 *     token are recomputed on the host during the passes
 *     (host/method/revision.h).
 *
 * Tokens are delivered to the reader of the text from the left as they become
 * stable. When a block is finished, its remaining tokens are delivered, too,
 * except with --refresh, because the host may still revise these tokens.
 */
#include "base/err.h"
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/method/revision.h"
#include "host/method/stages.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>

/* A pass that begins with so few masks in the block counts as a tail: section
 * 5.5 of the paper finds later blocks worth computing from 4 masks on. */
#define TAIL 4

enum draft_input { DRAFT_MASK, DRAFT_VISIBLE };
static const char *const draft_inputs[] = { "mask", "visible", NULL };

enum window_from { FROM_INVISIBLE, FROM_UNSTABLE, FROM_BLOCK };
static const char *const window_froms[] = { "invisible", "unstable", "block",
	NULL };

enum window_visibility { VISIBILITY_OF_ALL, VISIBILITY_OF_BLOCKS };
static const char *const window_visibility[] = { "all", "blocks", NULL };

struct npu_options {
	double visible, stable;
	uint32_t slide, late;
	int64_t settle;
	bool no_revision, fall, masked, chunks;
	int draft_input, from, visibility;
};

/* clang-format off */
#define IN(field) OPT_IN(npu_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "visible", IN(visible), "P",
		"method llada-npu: let other positions attend to guesses "
		"(predicted tokens) of at least probability P, the visible "
		"tokens (default: as in the model file, or 0.7)",
		0, 1 },
	{ OPT_FLOAT, 0, "stable", IN(stable), "P",
		"method llada-npu: never change guesses (predicted tokens) of "
		"at least probability P, the stable tokens (default: as in the "
		"model file, or 0.9)", 0, 1 },
	{ OPT_INT, 0, "settle", IN(settle), "N",
		"method llada-npu: when a block has no mask left, predict its "
		"tokens again until a pass changes none, at most N times "
		"(block diffusion models: 2; others: 0)",
		0, WIRE_MAX_ROWS },
	{ OPT_FLAG, 0, "no-revision", IN(no_revision), NULL,
		"method llada-npu: never change a token after its probability "
		"has reached --visible" },
	{ OPT_FLAG, 0, "revision-falls", IN(fall), NULL,
		"method llada-npu: turn a token that had reached --visible "
		"back into a mask if its probability falls below --visible, at "
		"most once per position" },
	{ OPT_FLAG, 0, "revision-masked", IN(masked), NULL,
		"method llada-npu: in each pass, predict the least probable "
		"token above --visible again, with a mask as its input instead "
		"of the token" },
	{ OPT_FLAG, 0, "prompt-chunks", IN(chunks), NULL,
		"method llada-npu: read the prompt in chunks, each of which "
		"attends to the chunks before it (default: the whole prompt in "
		"one pass, together with the first block)" },
	{ OPT_UINT, 0, "window", IN(slide), "N",
		"method llada-npu: number of positions that a pass computes "
		"(the window), which may extend into later blocks ({}: to the "
		"end of the block)", 0, WIRE_MAX_ROWS },
	{ OPT_CHOICE, 0, "window-from", IN(from), NULL,
		"method llada-npu: first token that a pass computes ({}); "
		"invisible: the first that is still a mask; unstable: the "
		"first that may still change; block: the block's first",
		.choices = window_froms },
	{ OPT_CHOICE, 0, "window-visibility", IN(visibility), NULL,
		"method llada-npu: computed positions of a pass to which each "
		"row attends ({}); all: all of them; blocks: those of its own "
		"and earlier blocks",
		.choices = window_visibility },
	{ OPT_UINT, 0, "lookahead", IN(late), "N",
		"method llada-npu: also decode positions of later blocks when "
		"the current block has at most N masks left ({}: never)",
		0, WIRE_MAX_ROWS },
	{ OPT_CHOICE, 0, "draft-input", IN(draft_input), NULL,
		"method llada-npu: input of positions in later blocks: masks, "
		"or guesses that reach --visible ({})",
		.choices = draft_inputs },
};
/* clang-format on */

static const struct opt_table npu_table =
	OPT_TABLE_INIT("diffusion", option_rows, npu_options, .visible = -1,
		.stable = -1, .settle = -1, .draft_input = DRAFT_VISIBLE);

static const struct opt_table *const options[] = { &block_table, &npu_table,
	&revision_table, NULL };

/* The state of a request. Its current block is [d->begin, d->end). Positions
 * d->end to d->last - 1 are drafts. */
struct text {
	struct denoising *d;
	const struct npu_options *o;
	struct method_stats *stats;
	struct stages_rule rule;
	struct place *place; /* stage and token of each position */
	struct revision *revision;
	/* [limit] tokens shown to the observer of the text (gen_is_watched) */
	int32_t *shown;
	/* [limit] how the observer shows each of these tokens (enum
	 * gen_mark) */
	uint8_t *mark;
	/* length of blocks; the first block begins at `first` */
	uint32_t length;
	uint32_t first;
	/* number of tokens of the prompt plus tokens delivered to the reader */
	uint32_t emitted;
	uint32_t cached; /* number of cached tokens */
	uint32_t from, to;
	/*
	 * by_block: the model was trained with blocks. unchecked: the drafts of
	 * the current block have not been predicted again since the block
	 * became the current block.
	 */
	bool by_block, unchecked;
	/* number of passes before the current block's first pass */
	uint32_t began;
	/* whether the latest pass changed tokens of the block, or made
	 * positions visible or invisible */
	bool changed;
	/* settled: number of passes since the block's last mask was filled.
	 * settle: maximum of `settled`. */
	uint32_t settled, settle;
	/* whether the current pass is the first pass, which computes all
	 * positions and has no window */
	bool first_pass;
	/* the visible position whose input in this pass is the mask instead of
	 * its token; -1 for no position */
	int64_t remasked;
};

/* ---- choosing the window ------------------------------------------------- */

/*
 * Whether the window must contain a position: the position still needs a guess,
 * or its keys and values must be computed and the host does not compute them
 * (revision.h).
 */
static bool is_open(const struct text *t, uint32_t at)
{
	const struct place *p = &t->place[at];

	if (p->stale || at < t->d->begin)
		return p->stale && !(t->revision && p->outside);
	return p->stage == STAGE_INVISIBLE || t->o->from == FROM_BLOCK ||
		((t->o->from == FROM_UNSTABLE || t->settled) &&
			p->stage == STAGE_VISIBLE);
}

/* The end of the last block that may contain tokens the request still needs. */
static uint32_t wanted_end(const struct text *t)
{
	size_t n = t->emitted - t->first + gen_left(t->d->gen);
	uint64_t end = t->first + (n + t->length - 1) / t->length * t->length;

	return end < t->d->limit ? (uint32_t)end : t->d->limit;
}

/* Number of positions of the current block that are in this stage. */
static uint32_t count(const struct text *t, enum stage stage)
{
	uint32_t n = 0;

	for (uint32_t at = t->d->begin; at < t->d->end; at++)
		n += t->place[at].stage == stage;
	return n;
}

/*
 * Choose the window (llada.cpp, section 3.2). The window begins at the row that
 * predicts the first position that the window must contain (is_open). With
 * shifted logits (d->shift) this is the row of the preceding position; the
 * window does not need this row if its logits were kept from an earlier pass.
 * When few masks are left in the block, the window is extended to the size of
 * the graph that the pass runs. The additional rows take no time, because a
 * graph always computes all of its rows. The graphs have the same sizes with
 * every --clock, so the text does not depend on --clock.
 */
static void choose_window(struct text *t)
{
	struct denoising *d = t->d;
	uint32_t most = wanted_end(t), room = session_max_rows(d->session);
	bool blocks = t->by_block || t->o->visibility == VISIBILITY_OF_BLOCKS;
	uint32_t rows;

	for (t->from = t->first; !is_open(t, t->from);)
		t->from++;
	if (!t->by_block || t->from != d->carried_at)
		t->from -= d->shift;
	if (most < d->end)
		most = d->end;
	if (most - t->from > room)
		most = t->from + room;
	rows = (blocks ? d->end : d->end - d->shift) - t->from;
	if (rows < t->o->slide)
		rows = t->o->slide;
	if (rows < most - t->from && t->o->late &&
		count(t, STAGE_INVISIBLE) <= t->o->late)
		rows = session_graph_rows(d->session, rows);
	t->to = rows < most - t->from ? t->from + rows : most;
	if (t->to > d->last)
		denoising_extend(d, t->to - d->last);
	d->last = t->to > d->end ? t->to : d->end;
}

/* ---- planning a pass, applying its guesses ------------------------------- */

static int32_t input(const struct text *t, uint32_t at)
{
	const struct place *p = &t->place[at];
	bool draft = at >= t->d->end;

	if (at < t->first)
		return t->d->x[at];
	if (p->stage == STAGE_INVISIBLE || at == t->remasked ||
		(draft && t->o->draft_input == DRAFT_MASK))
		return t->d->mask;
	return p->token;
}

/*
 * Plan the rows of the window. With attention by blocks a row attends to all
 * positions up to the end of its block (a row of the prompt: up to the end of
 * the prompt), but only to positions that are cached or in the window.
 */
static void put_rows(struct text *t)
{
	struct denoising *d = t->d;
	bool blocks = t->by_block || t->o->visibility == VISIBILITY_OF_BLOCKS;
	uint32_t last = t->to > t->cached ? t->to : t->cached;

	for (uint32_t at = t->from; at < t->to; at++)
		d->x[at] = input(t, at);
	denoising_rows(d, blocks ? VISIBILITY_BLOCK : VISIBILITY_WINDOW,
		t->from, t->to);
	for (uint32_t i = 0; blocks && i < d->n_rows; i++) {
		uint32_t at = t->from + i, end = t->first;

		if (at >= t->first)
			end += ((at - t->first) / t->length + 1) * t->length;
		d->row[i].end = end < last ? end : last;
	}
	d->pass++;
}

/* A pass has replaced the mask at a position of the current block. */
static void count_filled(const struct text *t, uint32_t at)
{
	const struct denoising *d = t->d;
	uint64_t pass = d->pass - t->began;

	if (at - d->begin < t->length / 2) {
		t->stats->left_tokens++;
		t->stats->left_passes += pass;
	} else {
		t->stats->right_tokens++;
		t->stats->right_passes += pass;
	}
}

/*
 * Apply the guesses of the pass. Returns the number of positions that became
 * visible. A guess in a later block only replaces the draft of its position. If
 * no position of the current block became visible, the position with the most
 * confident guess is made visible.
 *
 * If the text must follow a grammar, there are no drafts; a guess is used only
 * if all tokens that precede it are known, and its token is stable at once.
 */
static uint32_t apply_guesses(struct text *t)
{
	struct denoising *d = t->d;
	const struct guess *best = NULL;
	uint32_t seen = 0, promoted = 0, changes = 0;

	for (uint32_t i = 0; i < d->n_at; i++) {
		const struct guess *g = &d->guess[i];
		struct place *p = &t->place[g->at];
		bool masked = p->stage == STAGE_INVISIBLE;
		struct stages_rule rule = t->rule;
		unsigned change;

		if (d->form && (g->at >= d->end || best))
			continue;
		if (g->at >= d->end) {
			p->stage = g->confidence >= t->rule.visible
				? STAGE_VISIBLE
				: STAGE_INVISIBLE;
			p->token = g->token;
			p->confidence = g->confidence;
			continue;
		}
		/* when a draft is predicted for the first time since its block
		 * became the current block, its position may become invisible
		 * again */
		rule.fall |= t->unchecked;
		rule.revise &= !d->form;
		change = stages_update(p, &rule, g);
		t->stats->revised += !!(change & CHANGE_REVISED);
		if (change & CHANGE_HIDDEN && t->unchecked)
			p->pinned = false;
		seen += !!(change & CHANGE_SEEN);
		changes |= change;
		if (masked && p->stage != STAGE_INVISIBLE) {
			promoted++;
			count_filled(t, g->at);
		}
		if (p->stage == STAGE_INVISIBLE &&
			(!best || g->confidence > best->confidence))
			best = g;
	}
	if (!promoted && best) {
		struct stages_rule rule = t->rule;

		rule.revise &= !d->form;
		stages_promote(&t->place[best->at], &rule, best);
		count_filled(t, best->at);
		seen++;
	}
	t->unchecked = false;
	t->changed = seen || changes;
	return seen;
}

/* If the text has an observer (gen_is_watched), show the observer all positions
 * that were not delivered to the reader yet. */
static void report_step(const struct text *t)
{
	const struct denoising *d = t->d;
	const struct gen_step step = { .first = t->emitted,
		.n = d->last - t->emitted,
		.token = t->shown,
		.mark = t->mark };

	if (!gen_is_watched(d->gen))
		return;
	for (uint32_t i = 0; i < step.n; i++) {
		const struct place *p = &t->place[t->emitted + i];

		t->shown[i] = p->token;
		t->mark[i] = p->stage == STAGE_INVISIBLE ? GEN_MASK
			: t->emitted + i >= d->end       ? GEN_DRAFT
			: p->stage == STAGE_STABLE       ? GEN_STABLE
							 : GEN_VISIBLE;
	}
	gen_step(d->gen, &step);
}

/* ---- the text, and functions of struct denoising_steps ------------------- */

/* Deliver stable tokens to the reader, from the left, up to the first token
 * that is not stable; if `all` is set, deliver all tokens up to `end`. */
static void emit(struct text *t, uint32_t end, bool all)
{
	while (t->emitted < end &&
		(all || t->place[t->emitted].stage == STAGE_STABLE)) {
		gen_append(t->d->gen, t->place[t->emitted].token);
		t->emitted++;
	}
}

/* Make the next block the current block. The drafts of that block count as
 * visible tokens until a pass predicts them again. */
static void begin_block(struct text *t)
{
	struct denoising *d = t->d;
	uint32_t end = d->end + t->length;

	for (uint32_t at = d->begin; at < d->end; at++)
		t->place[at].stale |= t->o->from == FROM_BLOCK;
	d->begin = d->end;
	t->began = d->pass;
	if (end > d->limit)
		end = d->limit;
	if (d->last < end)
		denoising_extend(d, end - d->last);
	d->end = end;
	for (uint32_t at = d->begin; at < d->end; at++) {
		struct place *p = &t->place[at];

		if (t->o->draft_input == DRAFT_MASK)
			p->stage = STAGE_INVISIBLE;
		p->stale = p->stage != STAGE_INVISIBLE;
	}
	t->unchecked = true;
}

/*
 * The thresholds come from the options; without options, from the model; and if
 * the model has no thresholds, from the paper. If only one of the two options
 * is given and `stable` would be less than `visible`, the given value is used
 * for both.
 */
static struct stages_rule rule_of(
	const struct npu_options *o, const struct model *m)
{
	struct stages_rule r = { m->visible >= 0 ? m->visible : 0.7,
		m->stable >= 0 ? m->stable : 0.9, !o->no_revision, o->fall };

	if (o->visible >= 0)
		r.visible = o->visible;
	if (o->stable >= 0)
		r.stable = o->stable;
	if (r.stable < r.visible && o->visible < 0)
		r.visible = r.stable;
	if (r.stable < r.visible && o->stable < 0)
		r.stable = r.visible;
	return r;
}

static int npu_start(struct denoising *d, struct err *e)
{
	const struct npu_options *o = method_options(d->env, &npu_table);
	const struct block_state *state = d->env->state;
	bool chunks = state->by_block || o->chunks;
	uint32_t limit = chunks ? session_context(d->session)
				: denoising_whole_limit(d->session);
	struct text *t = d->own;
	int ret;

	*t = (struct text){ .d = d,
		.o = o,
		.stats = &d->env->stats,
		.rule = rule_of(o, session_model(d->session)),
		.length = state->length,
		.by_block = state->by_block,
		.settle = o->settle >= 0  ? (uint32_t)o->settle
			: state->by_block ? 2
					  : 0,
		.first_pass = !chunks };
	d->reads_prompt = chunks;
	ret = denoising_reserve(d, limit, e);
	if (ret)
		return ret;
	t->place = calloc(limit, sizeof(*t->place));
	t->shown = calloc(limit, sizeof(*t->shown));
	t->mark = calloc(limit, sizeof(*t->mark));
	if (!t->place || !t->shown || !t->mark)
		return err_set(e, ENOMEM,
			"no memory for the %u positions of a diffusion text",
			limit);
	ret = revision_open(
		&t->revision, method_options(d->env, &revision_table), d, e);
	if (!ret)
		ret = denoising_check_room(d, e);
	if (ret)
		return ret;
	denoising_begin(d, t->length);
	t->first = t->emitted = d->begin;
	return 0;
}

static void npu_finish(struct denoising *d)
{
	struct text *t = d->own;

	revision_close(t->revision);
	free(t->place);
	free(t->shown);
	free(t->mark);
}

static int npu_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	struct text *t = d->own;

	t->cached = t->first;
	return d->shift ? denoising_carry_logits(d, row, t->cached, e) : 0;
}

/* Plan a pass. The first pass computes the prompt and the masks of the first
 * block together; all of these positions attend to each other. */
static int npu_plan(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	uint32_t at, end, masks = count(t, STAGE_INVISIBLE);
	int ret = 0;

	t->remasked = -1;
	t->stats->tails += masks && masks <= TAIL;
	if (t->first_pass) {
		t->from = 0;
		t->to = d->end;
		put_rows(t);
		d->clear_cache = true;
	} else {
		choose_window(t);
		/* Option --revision-masked: in this pass, replace the least
		 * confident visible token of the block by the mask, so that the
		 * new prediction cannot just copy the input token. */
		for (at = t->from + d->shift; t->o->masked && at < t->to;
			at++) {
			const struct place *p = &t->place[at];

			if (at < d->begin || at >= d->end ||
				p->stage != STAGE_VISIBLE || p->stale)
				continue;
			if (t->remasked < 0 ||
				p->confidence <
					t->place[t->remasked].confidence)
				t->remasked = at;
		}
		ret = revision_begin(
			t->revision, d, t->place, t->first, t->from, e);
		put_rows(t);
	}

	/*
	 * Request guesses for the positions that rows of the window predict.
	 * Exceptions are stable positions, and positions that precede the
	 * block, which the host recomputes (revision.h).
	 */
	at = t->from;
	if (!t->by_block || at != d->carried_at)
		at += d->shift;
	if (at < d->begin)
		at = d->begin;
	end = t->to + d->shift < d->last ? t->to + d->shift : d->last;
	for (; at < end; at++) {
		if (t->place[at].stage == STAGE_STABLE)
			t->stats->skipped++;
		else
			d->at[d->n_at++] = at;
	}
	return ret;
}

static int npu_after_pass(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	uint32_t end, to = t->to < d->end ? t->to : d->end;
	int ret = 0;

	/*
	 * With shifted logits the last row that precedes the block predicts the
	 * block's first position. In a model that was trained with blocks, this
	 * row attends to no later position, so its logits stay valid for later
	 * passes.
	 */
	if (!t->first_pass && d->shift && t->by_block && t->from < d->begin &&
		t->to >= d->begin)
		ret = denoising_carry_logits(
			d, d->begin - 1 - t->from, d->begin, e);
	/* Cache the keys and values of the window up to the end of the current
	 * block. Keys and values of later blocks, whose tokens are drafts, are
	 * dropped. */
	if (!ret)
		ret = session_accept(
			d->session, d->sequence, NULL, to - t->from, e);
	if (to > t->cached)
		t->cached = to;
	for (uint32_t at = t->from; at < to; at++)
		if (at >= t->first && d->x[at] != d->mask)
			t->place[at].stale = false;
	if (!ret && !t->first_pass)
		ret = revision_end(
			t->revision, d, t->place, &t->rule, t->stats, e);
	if (ret)
		return ret;
	if (t->remasked >= 0)
		t->place[t->remasked].stale = true;
	session_count_valid(d->session, apply_guesses(t));
	/*
	 * No tokens are needed after a stable stop token, so the block is cut
	 * after that token. With --window-from block the block is not cut: the
	 * block's rows attend to each other, so the tokens are the same as with
	 * other block decoders only if all positions of the block are computed.
	 */
	for (uint32_t at = d->begin; t->o->from != FROM_BLOCK && at < d->end;
		at++)
		if (t->place[at].stage == STAGE_STABLE &&
			gen_ends(d->gen, t->place[at].token))
			d->end = d->last = at + 1;
	emit(t, d->end, false);
	if (!gen_done(d->gen))
		report_step(t);
	t->first_pass = false;
	if (gen_done(d->gen) || count(t, STAGE_INVISIBLE)) {
		t->settled = 0;
		return 0;
	}
	/* In this pass, rows attended to masks that have been filled since. So
	 * another pass predicts visible tokens, which are not final, again. */
	if (t->changed && t->settled < t->settle && count(t, STAGE_VISIBLE)) {
		t->settled++;
		return 0;
	}

	/* The block is finished. If it ends the text, `end` is the position
	 * after the last token of the text; otherwise 0. */
	t->settled = 0;
	t->stats->unstable += count(t, STAGE_VISIBLE);
	end = d->end == d->limit || d->end >= wanted_end(t) ? d->end : 0;
	for (uint32_t at = d->end; at-- > d->begin;)
		if (gen_ends(d->gen, t->place[at].token))
			end = at + 1;
	/* Without --refresh nothing changes tokens of finished blocks, so all
	 * of these tokens can be delivered. */
	if (end || !t->revision)
		emit(t, end ? end : d->end, true);
	if (gen_done(d->gen))
		return 0;
	if (end == d->limit)
		return denoising_check_room(d, e);
	begin_block(t);
	return 0;
}

static const struct denoising_steps steps = {
	.start = npu_start,
	.prompt = npu_prompt,
	.plan = npu_plan,
	.after_pass = npu_after_pass,
	.finish = npu_finish,
};

static int npu_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	const struct stages_rule r =
		rule_of(method_options(env, &npu_table), m);

	if (r.stable < r.visible)
		return err_set(e, EINVAL,
			"--stable %g is less than --visible %g; try a --stable "
			"of at least the value of --visible",
			r.stable, r.visible);
	return denoising_open_blocks(env, m, e);
}

const struct method method_llada_npu = {
	.name = "llada-npu",
	.summary = "diffusion whose tokens are revised until they are stable",
	.diffusion = true,
	.runs = METHOD_WINDOW | METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct block_state),
	.open = npu_open,
	.decode_rows = denoising_block_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
