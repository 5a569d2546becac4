/*
 * llada.cpp ("Efficient On-Device Diffusion LLM Inference with Mobile NPU",
 * 2026, sections 3.2 and 3.3): masked or block diffusion whose passes fill an
 * NPU. The prompt is computed once; from then on a pass computes a window of
 * positions over what is cached, and
 *
 *   - tokens settle in stages (host/method/stages.h): they are seen long before
 *     they are final, and revised meanwhile;
 *   - the window begins at the first position where something is open and
 *     reaches into the next block, further when few masks are left in the
 *     current one (host/method/lookahead.h). What it says of later blocks is a
 *     draft: it decides nothing, and is looked at again when its block comes;
 *   - keys and values of a token that was decided in a pass, in which it was a
 *     mask, are computed once more: the window holds it in the next pass;
 *   - of stable tokens no logits are computed;
 *   - visible tokens that the window has left behind are computed anew beside
 *     the passes (host/method/revision.h).
 *
 * A finished block is told once its tokens are stable, or the text ends.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/method/denoising.h"
#include "host/method/method.h"
#include "host/method/revision.h"
#include "host/method/stages.h"
#include "host/method/lookahead.h"
#include "host/model/model.h"
#include "host/session/rows.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>

enum draft_input { DRAFT_MASK, DRAFT_VISIBLE };
static const char *const draft_inputs[] = { "mask", "visible", NULL };

enum window_from { FROM_INVISIBLE, FROM_UNSTABLE, FROM_BLOCK };
static const char *const window_froms[] = { "invisible", "unstable", "block",
	NULL };

enum window_visibility { VISIBILITY_OF_ALL, VISIBILITY_OF_BLOCKS };
static const char *const window_visibility[] = { "all", "blocks", NULL };

struct npu_options {
	double visible, stable, allowance;
	uint32_t slide, late;
	bool no_revision, fall, masked, chunks;
	int draft_input, from, visibility;
};

/* clang-format off */
#define IN(field) OPT_IN(npu_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "visible", IN(visible), "P",
		"llada-npu: least probability of a guess that other "
		"positions see ({})", 0, 1 },
	{ OPT_FLOAT, 0, "stable", IN(stable), "P",
		"llada-npu: least probability of a guess that is fixed ({})", 0, 1 },
	{ OPT_FLAG, 0, "no-revision", IN(no_revision), NULL,
		"llada-npu: fix a guess as soon as it is visible" },
	{ OPT_FLAG, 0, "revision-falls", IN(fall), NULL,
		"llada-npu: mask a visible token again, once, where its "
		"probability has fallen below --visible" },
	{ OPT_FLAG, 0, "revision-masked", IN(masked), NULL,
		"llada-npu: mask the least probable visible token in the "
		"pass that predicts it again" },
	{ OPT_FLAG, 0, "prompt-chunks", IN(chunks), NULL,
		"llada-npu: read the prompt in chunks, each of which sees "
		"those before it; otherwise at once, with the first block" },
	{ OPT_UINT, 0, "window", IN(slide), "N",
		"llada-npu: rows of a pass, which may reach into later "
		"blocks ({}; 0: to the end of the block)", 0, WIRE_MAX_ROWS },
	{ OPT_CHOICE, 0, "window-from", IN(from), NULL,
		"llada-npu: where the window begins ({}); invisible: at the "
		"first token that is not visible; unstable: at the first "
		"that is not stable; block: at the block's first token",
		.choices = window_froms },
	{ OPT_CHOICE, 0, "window-visibility", IN(visibility), NULL,
		"llada-npu: what rows of the window attend to ({}); all: all "
		"of it; blocks: nothing after their own block",
		.choices = window_visibility },
	{ OPT_UINT, 0, "lookahead", IN(late), "N",
		"llada-npu: reach into later blocks when this many masks are "
		"left ({}; 0: never)", 0, WIRE_MAX_ROWS },
	{ OPT_FLOAT, 0, "lookahead-cost", IN(allowance), "P",
		"llada-npu: time that reaching further may cost, as a share "
		"of the pass ({})",
		0, 100 },
	{ OPT_CHOICE, 0, "draft-input", IN(draft_input), NULL,
		"llada-npu: what other positions see of guesses in later "
		"blocks ({})",
		.choices = draft_inputs },
};
/* clang-format on */

static const struct opt_table npu_table = {
	.heading = "diffusion",
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct npu_options){ .visible = 0.7,
		.stable = 0.9,
		.slide = 32,
		.late = 4,
		.draft_input = DRAFT_VISIBLE },
	.size = sizeof(struct npu_options),
};

static const struct opt_table *const options[] = { &block_table, &npu_table,
	&revision_table, NULL };

struct state {
	uint32_t length; /* of a block */
	bool by_block;   /* the model is of blocks */
};

/* A text. Its current block is d->begin .. d->end; what lies behind it up to
 * d->last are drafts. */
struct text {
	struct denoising *d;
	const struct npu_options *o;
	struct method_stats *stats;
	struct stages_rule rule;
	struct window_rule window;
	struct place *place; /* [limit] */
	struct revision *revision;
	int32_t *shown;  /* [limit] to who watches */
	uint8_t *mark;   /* [limit] */
	uint32_t length; /* of blocks, which begin at `first` */
	uint32_t first;
	uint32_t told;   /* tokens that are text */
	uint32_t cached; /* tokens */
	uint32_t from, to;
	bool by_block, fresh; /* the block's drafts were not looked at again */
	bool first_pass;      /* of all positions, and of the window none yet */
	int64_t asked_masked; /* a position that is a mask in this pass; -1 */
};

/* ---- the window ---------------------------------------------------------- */

static bool is_open(const struct text *t, uint32_t at)
{
	const struct place *p = &t->place[at];

	if (p->stale || at < t->d->begin)
		return p->stale && !revision_has(t->revision, p);
	return p->stage == STAGE_INVISIBLE || t->o->from == FROM_BLOCK ||
		(t->o->from == FROM_UNSTABLE && p->stage == STAGE_VISIBLE);
}

static uint32_t first_open(const struct text *t)
{
	uint32_t at = t->first;

	while (!is_open(t, at))
		at++;
	return at;
}

/* The row that speaks of it comes before it, unless what that says is known,
 * and the same in all passes. */
static uint32_t first_row(const struct text *t, uint32_t open)
{
	const struct denoising *d = t->d;

	return t->by_block && open == d->behind_at ? open : open - d->shift;
}

/* The end of the last block that somebody may still want. */
static uint32_t wanted_end(const struct text *t)
{
	size_t n = t->told - t->first + gen_left(t->d->gen);
	uint64_t end = t->first + (n + t->length - 1) / t->length * t->length;

	return end < t->d->limit ? (uint32_t)end : t->d->limit;
}

static uint32_t masks_left(const struct text *t)
{
	uint32_t n = 0;

	for (uint32_t at = t->d->begin; at < t->d->end; at++)
		n += t->place[at].stage == STAGE_INVISIBLE;
	return n;
}

static void choose_window(struct text *t)
{
	struct denoising *d = t->d;
	uint32_t most = wanted_end(t), room = session_max_rows(d->session);

	t->from = first_row(t, first_open(t));
	if (most < d->end)
		most = d->end;
	if (most - t->from > room)
		most = t->from + room;
	t->to = window_end(&t->window, t->from,
		t->by_block || t->o->visibility == VISIBILITY_OF_BLOCKS
			? d->end
			: d->end - d->shift,
		masks_left(t), most);
	if (t->to > d->last)
		denoising_extend(d, t->to - d->last);
	d->last = t->to > d->end ? t->to : d->end;
}

/* ---- a pass -------------------------------------------------------------- */

/* Of what is seen, the token that is least sure is asked for as a mask. */
static void choose_masked(struct text *t)
{
	t->asked_masked = -1;
	if (!t->o->masked)
		return;
	for (uint32_t at = t->from + t->d->shift; at < t->to; at++) {
		const struct place *p = &t->place[at];

		if (at < t->d->begin || p->stage != STAGE_VISIBLE || p->stale ||
			at >= t->d->end)
			continue;
		if (t->asked_masked < 0 ||
			p->confidence < t->place[t->asked_masked].confidence)
			t->asked_masked = at;
	}
}

static int32_t input(const struct text *t, uint32_t at)
{
	const struct place *p = &t->place[at];
	bool draft = at >= t->d->end;

	if (at < t->first)
		return t->d->x[at];
	if (p->stage == STAGE_INVISIBLE || at == t->asked_masked ||
		(draft && t->o->draft_input == DRAFT_MASK))
		return t->d->mask;
	return p->token;
}

/* As far as its block goes, or what there is of that. */
static uint32_t block_end(const struct text *t, uint32_t at)
{
	uint32_t there = t->to > t->cached ? t->to : t->cached, end;

	end = at < t->first
		? t->first
		: t->first + ((at - t->first) / t->length + 1) * t->length;
	return end < there ? end : there;
}

/* The rows of the window. */
static void put_rows(struct text *t)
{
	struct denoising *d = t->d;
	bool blocks = t->by_block || t->o->visibility == VISIBILITY_OF_BLOCKS;

	for (uint32_t at = t->from; at < t->to; at++)
		d->x[at] = input(t, at);
	denoising_rows(d, blocks ? VISIBILITY_BLOCK : VISIBILITY_WINDOW,
		t->from, t->to);
	for (uint32_t i = 0; blocks && i < d->n_rows; i++)
		d->row[i].end = block_end(t, t->from + i);
	d->pass++;
}

/* Keys and values of the current block and what is before it; drafts leave
 * none. */
static int keep(struct text *t, struct err *e)
{
	struct denoising *d = t->d;
	uint32_t to = t->to < d->end ? t->to : d->end;
	int ret = denoising_accept(d, to - t->from, e);

	if (to > t->cached)
		t->cached = to;
	for (uint32_t at = t->from; at < to; at++)
		if (at >= t->first && d->x[at] != d->mask)
			t->place[at].stale = false;
	return ret;
}

/* Positions that rows speak of and about which something is to be known; what
 * is before the block is revision's. */
static void choose_asked(struct text *t)
{
	struct denoising *d = t->d;
	uint32_t at = t->from, end = t->to + d->shift;

	if (!t->by_block || at != d->behind_at)
		at += d->shift;
	if (at < d->begin)
		at = d->begin;
	for (end = end < d->last ? end : d->last; at < end; at++) {
		if (t->place[at].stage == STAGE_STABLE)
			t->stats->skipped++;
		else
			d->at[d->n_at++] = at;
	}
}

/* A draft has no say yet, and changes freely. */
static void take_draft(struct text *t, const struct guess *g)
{
	struct place *p = &t->place[g->at];

	p->stage = g->confidence >= t->rule.visible ? STAGE_VISIBLE
						    : STAGE_INVISIBLE;
	p->token = g->token;
	p->confidence = g->confidence;
}

/* The guesses of the pass; how many tokens others see from now on. */
static uint32_t take(struct text *t)
{
	struct denoising *d = t->d;
	const struct guess *best = NULL;
	uint32_t seen = 0, promoted = 0;

	for (uint32_t i = 0; i < d->n_at; i++) {
		const struct guess *g = &d->guess[i];
		struct place *p = &t->place[g->at];
		bool masked = p->stage == STAGE_INVISIBLE;
		struct stages_rule rule = t->rule;
		unsigned change;

		if (g->at >= d->end) {
			take_draft(t, g);
			continue;
		}
		rule.fall |= t->fresh; /* a draft of before counts no more */
		change = stages_take(p, &rule, g);
		t->stats->revised += !!(change & CHANGE_REVISED);
		if (change & CHANGE_FELL && t->fresh)
			p->held = false;
		seen += !!(change & CHANGE_SEEN);
		promoted += masked && p->stage != STAGE_INVISIBLE;
		if (p->stage == STAGE_INVISIBLE &&
			(!best || g->confidence > best->confidence))
			best = g;
	}
	if (!promoted && best) {
		stages_promote(&t->place[best->at], &t->rule, best);
		seen++;
	}
	t->fresh = false;
	return seen;
}

/* To who watches. */
static void tell_step(const struct text *t)
{
	const struct denoising *d = t->d;
	const struct gen_step step = { .first = t->told,
		.n = d->last - t->told,
		.token = t->shown,
		.mark = t->mark };

	if (!gen_is_watched(d->gen))
		return;
	for (uint32_t i = 0; i < step.n; i++) {
		const struct place *p = &t->place[t->told + i];

		t->shown[i] = p->token;
		t->mark[i] = p->stage == STAGE_INVISIBLE ? GEN_MASK
			: t->told + i >= d->end          ? GEN_DRAFT
			: p->stage == STAGE_STABLE       ? GEN_STABLE
							 : GEN_VISIBLE;
	}
	gen_step(d->gen, &step);
}

/* ---- the text ------------------------------------------------------------ */

/* What is stable from the left, or all there is up to `end`. */
static void tell(struct text *t, uint32_t end, bool all)
{
	while (t->told < end &&
		(all || t->place[t->told].stage == STAGE_STABLE)) {
		gen_append(t->d->gen, t->place[t->told].token);
		t->told++;
	}
}

/* Behind a stable token that ends the text nothing is wanted. What is computed
 * from the block's beginning is computed to its end: rows see one another, and
 * so it stays what other decoders of blocks make of it. */
static void cut_at_end(struct text *t)
{
	struct denoising *d = t->d;

	if (t->o->from == FROM_BLOCK)
		return;
	for (uint32_t at = d->begin; at < d->end; at++)
		if (t->place[at].stage == STAGE_STABLE &&
			gen_ends(d->gen, t->place[at].token))
			d->end = d->last = at + 1;
}

/* Where the finished block ends the text; 0: it does not. */
static uint32_t text_end(const struct text *t)
{
	const struct denoising *d = t->d;

	for (uint32_t at = d->begin; at < d->end; at++)
		if (gen_ends(d->gen, t->place[at].token))
			return at + 1;
	return d->end == d->limit || d->end >= wanted_end(t) ? d->end : 0;
}

static void begin_block(struct text *t)
{
	struct denoising *d = t->d;
	uint32_t end = d->end + t->length;

	for (uint32_t at = d->begin; at < d->end; at++)
		t->place[at].stale |= t->o->from == FROM_BLOCK;
	d->begin = d->end;
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
	t->fresh = true;
}

static int end_block(struct text *t, struct err *e)
{
	struct denoising *d = t->d;
	uint32_t end = text_end(t);

	if (end)
		tell(t, end, true);
	if (gen_done(d->gen))
		return 0;
	if (end == d->limit)
		return denoising_check_room(d, e);
	begin_block(t);
	return 0;
}

/* What the last row before the block says of its first position stays the
 * same, where rows see nothing behind their block. */
static int keep_behind(struct text *t, struct err *e)
{
	struct denoising *d = t->d;

	if (!d->shift || !t->by_block || t->from >= d->begin ||
		t->to < d->begin)
		return 0;
	return denoising_keep_behind(d, d->begin - 1 - t->from, d->begin, e);
}

static uint64_t time_of_pass(const void *arg, uint32_t rows)
{
	const struct denoising *d = arg;

	return session_expect_pass(d->session, rows,
		rows + session_length(d->session, d->sequence));
}

static int npu_start(struct denoising *d, struct err *e)
{
	const struct npu_options *o = method_options(d->env, &npu_table);
	const struct state *state = d->env->state;
	bool chunks = state->by_block || o->chunks;
	uint32_t limit = chunks ? session_context(d->session)
				: denoising_whole_limit(d->session);
	struct text *t = d->own;
	int ret;

	*t = (struct text){ .d = d,
		.o = o,
		.stats = &d->env->stats,
		.rule = { o->visible, o->stable, !o->no_revision, o->fall },
		.window = { o->slide, o->late, o->allowance, time_of_pass, d },
		.length = state->length,
		.by_block = state->by_block,
		.first_pass = !chunks,
		.asked_masked = -1 };
	d->reads_prompt = chunks;
	ret = denoising_reserve(d, limit, e);
	if (ret)
		return ret;
	t->place = calloc(limit, sizeof(*t->place));
	t->shown = calloc(limit, sizeof(*t->shown));
	t->mark = calloc(limit, sizeof(*t->mark));
	if (!t->place || !t->shown || !t->mark)
		return err_set(e, ENOMEM, "no memory for %u positions", limit);
	ret = revision_open(
		&t->revision, method_options(d->env, &revision_table), d, e);
	if (!ret)
		ret = denoising_check_room(d, e);
	if (ret)
		return ret;
	denoising_begin(d, t->length);
	t->first = t->told = d->begin;
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
	return d->shift ? denoising_keep_behind(d, row, t->cached, e) : 0;
}

/* At first the prompt and the first block's masks, which see one another. */
static int npu_plan(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret = 0;

	if (t->first_pass) {
		t->from = 0;
		t->to = d->end;
		put_rows(t);
		d->anew = true;
	} else {
		choose_window(t);
		choose_masked(t);
		ret = revision_begin(
			t->revision, d, t->place, t->first, t->from, e);
		put_rows(t);
	}
	choose_asked(t);
	return ret;
}

static int npu_took(struct denoising *d, struct err *e)
{
	struct text *t = d->own;
	int ret = t->first_pass ? 0 : keep_behind(t, e);

	if (!ret)
		ret = keep(t, e);
	if (!ret && !t->first_pass)
		ret = revision_end(
			t->revision, d, t->place, &t->rule, t->stats, e);
	if (ret)
		return ret;
	if (t->asked_masked >= 0)
		t->place[t->asked_masked].stale = true;
	session_count_valid(d->session, take(t));
	if (!t->first_pass) {
		cut_at_end(t);
		tell(t, d->end, false);
		if (!gen_done(d->gen))
			tell_step(t);
	}
	t->first_pass = false;
	return gen_done(d->gen) || masks_left(t) ? 0 : end_block(t, e);
}

static const struct denoising_steps steps = {
	.start = npu_start,
	.prompt = npu_prompt,
	.plan = npu_plan,
	.took = npu_took,
	.finish = npu_finish,
};

static int npu_open(
	struct method_env *env, const struct model *m, struct err *e)
{
	const struct npu_options *o = method_options(env, &npu_table);
	struct state *state = env->state;

	if (o->stable < o->visible)
		return err_set(e, EINVAL,
			"--stable %g is less than --visible %g; a final token "
			"must be at least as probable as a visible one",
			o->stable, o->visible);
	state->by_block = m->block_length > 0;
	return denoising_choose_length(env, m, &state->length, e);
}

#define BLOCKS 4 /* in a pass, where those before are cached */

static uint32_t npu_rows(const struct method_env *env)
{
	const struct state *state = env->state;
	uint32_t rows = BLOCKS * state->length;

	return state->by_block && rows < WIRE_MAX_ROWS ? rows : WIRE_MAX_ROWS;
}

const struct method method_llada_npu = {
	.name = "llada-npu",
	.summary = "several blocks at once, progressive revision, host refresh",
	.diffusion = true,
	.runs = METHOD_WINDOW | METHOD_BLOCK,
	.options = options,
	.state_bytes = sizeof(struct state),
	.open = npu_open,
	.decode_rows = npu_rows,
	.lane_bytes = sizeof(struct text),
	.denoise = &steps,
};
