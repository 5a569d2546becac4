#include "host/method/beams.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/method/choosing.h"
#include "host/scheduler/method.h"
#include "host/scheduler/samples.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ------------------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(beam_options, field)
static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "beam-width", IN(width), "M",
		"methods beam and dvts: number of continuations of each kept "
		"beam ({}); of the N beams of -N, N / M are kept after each "
		"step",
		1, SAMPLES_MOST, .noun = "beams" },
	{ OPT_UINT, 0, "beam-rounds", IN(rounds), "N",
		"methods beam and dvts: after each of the first N reasoning "
		"steps keep only the best beams ({}); then let these run to "
		"their ends", 1, 1 << 16, .noun = "beams" },
	{ OPT_FLAG, 0, "beam-ahead", IN(ahead), NULL,
		"methods beam and dvts: start the next step of beams that will "
		"likely be kept while other beams still finish their step; "
		"faster, same text",
		.noun = "beams" },
};
#undef IN
/* clang-format on */

const struct opt_table beam_table = OPT_TABLE_INIT(
	"samples", option_rows, beam_options, .width = 4, .rounds = 40);

uint32_t beams_width(const struct method_env *env)
{
	const struct beam_options *o = method_options(env, &beam_table);

	return samples_all(env) > 1 ? o->width : 1;
}

static bool goes_ahead(const struct method_env *env)
{
	const struct beam_options *o = method_options(env, &beam_table);

	return o->ahead && samples_all(env) > 1;
}

uint32_t beams_rows(const struct method_env *env)
{
	const struct samples_options *o = method_options(env, &samples_table);

	return goes_ahead(env) ? o->parallel : samples_rows(env);
}

uint32_t beams_sequences(const struct method_env *env)
{
	return samples_all(env) + (goes_ahead(env) ? beams_rows(env) : 0);
}

int beams_open(
	struct method_env *env, const struct model *target, struct err *e)
{
	uint32_t n = samples_all(env), width = beams_width(env);

	if (n % width == 0)
		return 0;
	return err_set(e, EINVAL,
		"-N %u is not a multiple of --beam-width %u, the number of "
		"continuations of each kept beam",
		n, width);
}

/* ---- comparing beams ----------------------------------------------------- */

/* Compare two beams for sorting: negative if x has the larger value. A beam
 * whose value is unknown (NAN) comes last. */
static int by_worth(const struct sample *x, const struct sample *y)
{
	if (isnan(x->value) != isnan(y->value))
		return isnan(x->value) ? 1 : -1;
	if (x->value > y->value || x->value < y->value)
		return x->value > y->value ? -1 : 1;
	return 0;
}

/* Compare two beams for qsort, by descending value; beams with equal values are
 * ordered by `place`, their index among the beams of the round. */
static int by_value(const void *a, const void *b)
{
	const struct sample *const *at = a, *const *bt = b;
	int worth = by_worth(*at, *bt);

	return worth ? worth : (*at)->place < (*bt)->place ? -1 : 1;
}

static void finish(struct beams *b, const struct sample *s)
{
	b->finished++;
	if (!b->best || by_worth(s, b->best) < 0)
		b->best = s;
}

static bool has_ended(const struct sample *s)
{
	return s->lane.state == LANE_ENDED;
}

/* Whether the beam competes with the other beams of its tree to be one of the
 * kept beams. */
static bool competes(const struct beams *b, const struct sample *s)
{
	return !lane_is_over(&s->lane) ||
		(b->plan.ended_compete && has_ended(s));
}

/* ---- a round of the search ----------------------------------------------- */

/* At the end of a round (one step of every beam), list the beams to score: the
 * beams whose texts have ended, and all competing beams of each tree from which
 * beams must be cut. */
uint32_t beams_to_score(struct samples *p, bool waiting, struct sample **out)
{
	struct beams *b = samples_own(p);
	uint32_t n = 0;

	if (!waiting || samples_all(samples_env(p)) == 1)
		return 0;
	for (uint32_t t = 0; t < b->n; t += b->plan.tree) {
		uint32_t end = t + b->plan.tree, competing = 0;

		for (uint32_t i = t; i < end; i++)
			competing += competes(b, b->active[i]);
		for (uint32_t i = t; i < end; i++) {
			struct sample *s = b->active[i];

			if (s->n_steps &&
				(has_ended(s) ||
					(competing > b->plan.keep &&
						competes(b, s))))
				out[n++] = s;
		}
	}
	return n;
}

/*
 * Choose the beams of a tree that continue, and write them to keep[]: the best
 * first or, if no competing beam must be cut, in the order of the tree. Returns
 * the number of these beams. The tree's other beams have finished or failed, or
 * are cut by this call.
 */
static uint32_t keep_best(struct beams *b, struct samples *p,
	struct sample **tree, struct sample **keep)
{
	uint32_t n = 0, kept = 0;

	for (uint32_t i = 0; i < b->plan.tree; i++)
		if (competes(b, tree[i]))
			tree[n++] = tree[i];
		else if (has_ended(tree[i]))
			finish(b, tree[i]);
	if (n > b->plan.keep)
		qsort(tree, n, sizeof(*tree), by_value);
	for (uint32_t i = 0; i < n; i++) {
		bool stays = i < b->plan.keep;

		if (stays && has_ended(tree[i])) {
			finish(b, tree[i]);
		} else if (stays) {
			keep[kept++] = tree[i];
		} else if (!lane_is_over(&tree[i]->lane)) {
			samples_cut(p, tree[i]);
			b->cut++;
		}
	}
	return kept;
}

/* Return the id of the stream of random numbers for child `child`, counted from
 * 0, of the beam `from`. */
static uint64_t stream_of(const struct beams *b, const struct samples *p,
	const struct sample *from, uint32_t child)
{
	const uint64_t n = samples_all(samples_env(p));

	return child ? samples_at(p, 0)->stream +
			n * (1 + (b->round - 1) * n + child) + from->place
		     : from->stream;
}

/*
 * Set *out to child number `child` of the kept beam `from`. If the child began
 * early, take it (samples_take_early). Otherwise child 0 is `from` itself, and
 * any other child is a fork of `from`.
 */
static int proceed(struct beams *b, struct samples *p, struct sample *from,
	uint32_t child, struct sample **out, struct err *e)
{
	int ret = 0;

	*out = samples_take_early(p, from, child);
	b->used += *out != NULL;
	if (!*out && child)
		ret = samples_fork(
			p, from, stream_of(b, p, from, child), out, e);
	else if (!*out)
		*out = from;
	return ret;
}

/* ---- beginning the next step early (--beam-ahead) ------------------------ */

/* The score of the beam's second-to-last step, because the last step is not
 * scored yet; 0 if there are fewer than two steps. */
static float score_so_far(const struct sample *s)
{
	return s->n_steps > 1 ? s->score[s->n_steps - 2] : 0;
}

int beams_ahead(struct samples *p, uint32_t rows, struct err *e)
{
	struct beams *b = samples_own(p);
	bool began = true;
	int ret = 0;

	if (!goes_ahead(samples_env(p)))
		return 0;
	while (rows-- && began && !ret) {
		/* the waiting beam with the best score so far, among the beams
		 * that have fewer continuations than --beam-width */
		struct sample *best = NULL;

		for (uint32_t i = 0; i < b->n; i++) {
			struct sample *s = b->active[i];

			if (s->lane.held &&
				s->children < b->plan.tree / b->plan.keep &&
				(!best || score_so_far(s) > score_so_far(best)))
				best = s;
		}
		if (!best)
			break;
		ret = samples_fork_early(p, best,
			stream_of(b, p, best, best->children), &began, e);
		b->ahead += began;
	}
	return ret;
}

/* ---- functions of struct many_steps -------------------------------------- */

/*
 * In the last round the beams do not wait for each other at the ends of steps.
 */
static void begin_round(struct beams *b, struct samples *p)
{
	const struct beam_options *o =
		method_options(samples_env(p), &beam_table);

	samples_wait_at_steps(p, ++b->round < o->rounds);
}

int beams_begin(struct samples *p, const struct beams_plan *plan, struct err *e)
{
	struct beams *b = samples_own(p);
	uint32_t n = samples_all(samples_env(p));
	int ret;

	b->plan = *plan;
	b->active = calloc(n, sizeof(struct sample *));
	if (!b->active)
		return err_set(e, ENOMEM, "no memory for %u beams", n);
	ret = samples_add(p, n, e);
	for (; b->n < n && !ret; b->n++) {
		b->active[b->n] = samples_at(p, b->n);
		b->active[b->n]->place = b->n;
	}
	begin_round(b, p);
	return ret;
}

static void deliver(struct beams *b, struct samples *p, const struct sample *s)
{
	struct samples_stats all;

	samples_stats(p, &all);
	b->drawn = all.tokens;
	if (s) {
		samples_choose(p, s);
		b->chosen = s->n;
	}
}

int beams_next(struct samples *p, struct err *e)
{
	struct beams *b = samples_own(p);
	uint32_t n = b->n;
	int ret = 0;

	/*
	 * Choose the beams of the next round. If no beam of a tree continues,
	 * the tree is removed from active[], and later trees move to lower
	 * indices. A moved tree overwrites only entries of active[] that this
	 * loop has already read.
	 */
	b->n = 0;
	for (uint32_t t = 0; t < n && !ret; t += b->plan.tree) {
		struct sample **tree = b->active + b->n;
		uint32_t kept = keep_best(b, p, b->active + t, tree);

		if (!kept)
			continue;
		for (uint32_t i = kept; i < b->plan.tree && !ret; i++) {
			ret = proceed(
				b, p, tree[i % kept], i / kept, &tree[i], e);
			b->forks += !ret;
		}
		for (uint32_t i = 0; i < kept && !ret; i++)
			ret = proceed(b, p, tree[i], 0, &tree[i], e);
		b->n += b->plan.tree;
	}
	samples_drop_early(p, NULL);
	for (uint32_t i = 0; i < b->n; i++)
		b->active[i]->place = i;
	if (!ret && b->n) {
		begin_round(b, p);
		return 0;
	}
	if (!ret && !b->best)
		ret = choosing_none(p, e);
	if (ret)
		return ret;
	deliver(b, p, b->best);
	return MANY_DONE;
}

/* Choose the best of the beams that earlier rounds have counted as finished. If
 * there are none, choose among the active beams: the best whose text has ended
 * or, if no text has ended, the best running beam. */
void beams_stop(struct samples *p)
{
	struct beams *b = samples_own(p);
	const struct sample *best = b->best;

	for (uint32_t i = 0; i < b->n && !b->best; i++) {
		const struct sample *s = b->active[i];

		if (s->lane.state == LANE_FAILED)
			continue;
		if (!best || has_ended(s) > has_ended(best) ||
			(has_ended(s) == has_ended(best) &&
				by_value(&s, &best) < 0))
			best = s;
	}
	deliver(b, p, best);
}

void beams_close(void *beams)
{
	struct beams *b = beams;

	free(b->active);
}

/* ---- reports ------------------------------------------------------------- */

void beams_tally(const struct samples *p, struct strbuf *out)
{
	const struct beams *b = samples_own(p);

	strbuf_addf(out, "; round %u, %u finished", b->round, b->finished);
	if (b->best && !isnan(b->best->value))
		strbuf_addf(out, ", best score %.3f", (double)b->best->value);
}

void beams_report(const struct samples *p, struct strbuf *out)
{
	const struct beams *t = samples_own(p);

	strbuf_addf(out,
		"beams        %u rounds, %" PRIu64 " forks, %" PRIu64
		" cut, %u finished; %" PRIu64
		" tokens computed for a text of %" PRIu64,
		t->round, t->forks, t->cut, t->finished, t->drawn, t->chosen);
	if (t->ahead)
		strbuf_addf(out,
			"; %" PRIu64 " of %" PRIu64 " early "
			"continuations used",
			t->used, t->ahead);
}
