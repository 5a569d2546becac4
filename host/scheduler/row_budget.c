/*
 * Chooses the drafted tokens that get rows when several lanes (sequences of a
 * batch) share a pass. Every lane has a row for its last token. Additional rows
 * are chosen by the ratio of expected gain to cost.
 *
 *   gain    A drafted token saves its lane one pass if it is accepted. The
 *           probability of acceptance is the draft's probability of the
 *           token's path in the tree, times `reliable`, the ratio of accepted
 *           to predicted tokens in recent passes (moving averages).
 *   cost    A pass of r rows takes the time C(r). If layers are streamed,
 *           the pass takes at least the time that flash needs to read them
 *           (host/tree/pass_cost.h).
 *
 * Drafted tokens are sorted by the probability of their paths. If the m
 * likeliest tokens (m = 0, 1, ...) get rows, the rate of the pass is the
 * expected number of tokens divided by the sum of drafting time and pass time.
 * The m with the largest rate is chosen. So trees are smaller if many lanes
 * share a pass. If a lane is alone in its pass, its tree is cut only if the
 * pass has too few rows for the tree.
 *
 * If prompts are prefilled in the same pass, up to half of the rows that trees
 * could use are reserved for the prompts.
 *
 * Drafting costs host time for each lane, even if no drafted row is chosen. If
 * the largest rate is below the rate of passes without drafting, drafting is
 * suspended for some passes. The pass after them drafts again as a trial,
 * because lanes end and texts become more or less predictable. If the trial's
 * rate is too low, the next suspension is twice as long.
 */
#include "host/scheduler/row_budget.h"

#include "host/scheduler/cycle.h"
#include "host/scheduler/scheduler.h"
#include "host/session/session.h"

#include <stdlib.h>

/* number of passes in the first suspension of drafting */
#define REST_FIRST 4
/* maximum number of passes in a suspension of drafting; one trial follows each
 * suspension, so trials take at most about 2 % of the time in long
 * suspensions */
#define REST_MOST 64
#define MEMORY    20 /* the moving averages extend over this many passes */

/* A drafted node that could get a row. path: the draft's probability of the
 * path from the root to the node; in: the lane of the node, as an index of
 * scheduler->in. */
struct merit {
	double path;
	uint32_t in, node;
};

int row_budget_open(struct row_budget *s, const struct scheduler *l)
{
	*s = (struct row_budget){ .expected = 1, .accepted = 1 };
	s->merit = malloc((size_t)l->width * l->lane_rows * sizeof(*s->merit));
	return s->merit ? 0 : -1;
}

/* ---- time of a pass ------------------------------------------------------ */

static double pass_time(const struct row_budget *s, uint32_t rows)
{
	double time = pass_cost_rows(&s->cost, rows);

	return time > s->cost.read ? time : s->cost.read;
}

void row_budget_learn(struct row_budget *s, const struct scheduler *l)
{
	double accepted = 0;

	if (!l->env->phone && pass_cost_is_known(&s->cost))
		pass_cost_saw_rows(&s->cost, l->n_rows, l->n_rows, 1,
			(double)l->device_ns);
	else if (!l->env->phone)
		pass_cost_begin(&s->cost, l->n_rows, (double)l->device_ns);
	if (!s->predicted)
		return;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i] && l->cycle[i]->n_path)
			accepted += l->cycle[i]->n_path - 1;
	s->accepted += (accepted - s->accepted) / MEMORY;
	s->expected += (s->predicted - s->expected) / MEMORY;
	s->predicted = 0;
}

uint32_t row_budget_room(struct row_budget *s, const struct scheduler *l)
{
	/* n: number of lanes that decode. prefill: number of rows that the
	 * uncached tokens of the other lanes need. */
	uint32_t n = 0, prefill = 0, room;

	for (uint32_t i = 0; i < l->n_in; i++) {
		n += !l->unread[i];
		prefill += l->unread[i] ? l->unread[i] + 1 : 0;
	}
	if (!n || l->tree_rows <= n)
		return 0;
	if (l->n_in > 1 && s->rest) {
		s->rest--;
		return 0;
	}
	room = l->tree_rows - n;
	s->base = n + (prefill < room / 2 ? prefill : room / 2);
	return l->tree_rows - s->base;
}

/* ---- choosing the drafted rows ------------------------------------------- */

static int by_merit(const void *a, const void *b)
{
	const struct merit *x = a, *y = b;

	if (x->path != y->path)
		return x->path > y->path ? -1 : 1;
	if (x->in != y->in)
		return x->in < y->in ? -1 : 1;
	return x->node < y->node ? -1 : 1;
}

static int rising(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Returns how many of the n nodes in s->merit (likeliest first) get rows. Sets
 * s->predicted to the expected number of accepted nodes among them. */
static uint32_t choose(
	struct row_budget *s, const struct scheduler *l, uint32_t n)
{
	double reliable = s->expected > 0 ? s->accepted / s->expected : 1;
	double lanes = 0, drafting = 0, sum = 0, best, alone;
	uint32_t best_n = 0;

	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i]) {
			lanes++;
			drafting += (double)l->cycle[i]->draft_time;
		}
	alone = lanes / pass_time(s, s->base);
	best = lanes / (drafting + pass_time(s, s->base));
	for (uint32_t m = 1; m <= n; m++) {
		double rate;

		sum += s->merit[m - 1].path;
		rate = (lanes + reliable * sum) /
			(drafting + pass_time(s, s->base + m));
		if (rate > best) {
			best = rate;
			best_n = m;
			s->predicted = sum;
		}
	}
	if (best >= alone)
		s->last_rest = 0;
	else if (s->last_rest < REST_MOST)
		s->last_rest = s->last_rest ? 2 * s->last_rest : REST_FIRST;
	s->rest = best >= alone ? 0 : s->last_rest;
	return best_n;
}

void row_budget_cut(struct row_budget *s, struct scheduler *l)
{
	uint32_t n = 0, room = l->tree_rows - s->base, most, longest = 0;

	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t cached =
			session_length(l->session, l->in[i]->sequence);

		longest = cached > longest ? cached : longest;
		for (uint32_t u = 1; l->cycle[i] && u < l->cycle[i]->tree->n;
			u++)
			s->merit[n++] =
				(struct merit){ l->cycle[i]->tree->path[u], i,
					u };
	}
	most = n < room ? n : room;
	s->predicted = 0;
	if (n > room || (l->n_in > 1 && pass_cost_is_known(&s->cost)))
		qsort(s->merit, n, sizeof(*s->merit), by_merit);
	if (l->env->phone)
		cycle_phone_cost(l->session, l->tree_rows, longest, &s->cost);
	s->cost.read = (double)session_read_time(l->session);
	if (l->n_in > 1 && pass_cost_is_known(&s->cost))
		most = choose(s, l, most);
	if (most == n)
		return;

	/*
	 * Remove the nodes without a row from the trees. A child's path is
	 * never likelier than its parent's path, and by_merit sorts the parent
	 * first if both are equal. So the parent of a kept node is always kept.
	 */
	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t keep[WIRE_MAX_ROWS] = { 0 }, kept = 1;

		for (uint32_t k = 0; k < most; k++)
			if (s->merit[k].in == i)
				keep[kept++] = s->merit[k].node;
		qsort(keep, kept, sizeof(*keep), rising);
		if (l->cycle[i])
			tree_keep(l->cycle[i]->tree, keep, kept);
	}
}
