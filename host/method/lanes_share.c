/*
 * Which drafted tokens get rows when several lanes share a pass. Every lane has
 * the row of its last token; the rest is decided by what a token is worth.
 *
 *   worth   a drafted token saves its lane a pass with the probability of its
 *           path, by the draft and by how far the draft could be relied on
 *           lately
 *   price   a pass of r rows takes C(r) and, where layers are streamed, no less
 *           than flash takes to read them (host/tree/pass_cost.h)
 *
 * Of all numbers of rows the one with the best rate is taken, expected tokens
 * over the time of drafting and the pass. So trees shrink when the machine is
 * full, and a lane that is alone has the tree that its method planned: with one
 * lane nothing here is asked.
 *
 * Prompts that are read beside keep half of the pass, if they need it.
 *
 * Drafting costs each lane time on the host, whatever the pass has room for.
 * Where even the best number of rows has a worse rate than no drafts at all,
 * drafts rest for some passes, for longer each time, and are tried again: lanes
 * end, texts change.
 */
#include "host/method/lanes_share.h"

#include "host/method/cycle.h"
#include "host/method/lanes.h"
#include "host/session/session.h"

#include <stdlib.h>

#define REST_FIRST 4  /* passes without drafts, at first */
#define REST_MOST  64 /* and in the end: a trial costs some 2 % then */
#define MEMORY     20 /* passes that the reliability remembers */

/* A node that could have a row. */
struct merit {
	double path;
	uint32_t in, node;
};

int lanes_share_open(struct lanes_share *s, const struct lanes *l)
{
	*s = (struct lanes_share){ .expected = 1, .accepted = 1 };
	s->merit = malloc((size_t)l->width * l->lane_rows * sizeof(*s->merit));
	return s->merit ? 0 : -1;
}

void lanes_share_close(struct lanes_share *s)
{
	free(s->merit);
}

/* ---- what a pass takes --------------------------------------------------- */

static double pass_time(const struct lanes_share *s, uint32_t rows)
{
	double time = pass_cost_rows(&s->cost, rows);

	return time > s->cost.read ? time : s->cost.read;
}

static void know_costs(struct lanes_share *s, const struct lanes *l)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t n = session_length(l->session, l->in[i]->sequence);

		longest = n > longest ? n : longest;
	}
	if (l->env->phone)
		cycle_phone_cost(l->session, l->tree_rows, longest, &s->cost);
	s->cost.read = (double)session_read_time(l->session);
}

void lanes_share_saw(struct lanes_share *s, const struct lanes *l)
{
	double accepted = 0;

	if (!l->env->phone && pass_cost_is_known(&s->cost))
		pass_cost_saw_rows(&s->cost, l->n_rows, l->n_rows, 1,
			(double)l->device_ns);
	else if (!l->env->phone)
		pass_cost_begin(&s->cost, l->n_rows, (double)l->device_ns);
	if (!s->hoped)
		return;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->cycle[i] && l->cycle[i]->n_path)
			accepted += l->cycle[i]->n_path - 1;
	s->accepted += (accepted - s->accepted) / MEMORY;
	s->expected += (s->hoped - s->expected) / MEMORY;
	s->hoped = 0;
}

/* Lanes that write, and rows that those who read could use. */
static uint32_t writers(const struct lanes *l, uint32_t *reading)
{
	uint32_t n = 0;

	*reading = 0;
	for (uint32_t i = 0; i < l->n_in; i++) {
		n += !l->unread[i];
		*reading += l->unread[i] ? l->unread[i] + 1 : 0;
	}
	return n;
}

uint32_t lanes_share_room(struct lanes_share *s, const struct lanes *l)
{
	uint32_t reading, n = writers(l, &reading), room;

	if (!n || l->tree_rows <= n)
		return 0;
	if (l->n_in > 1 && s->rest) {
		s->rest--;
		return 0;
	}
	room = l->tree_rows - n;
	s->base = n + (reading < room / 2 ? reading : room / 2);
	return l->tree_rows - s->base;
}

/* ---- which rows ---------------------------------------------------------- */

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

/* How many of the n likeliest nodes have rows; s->hoped is what is expected of
 * them, by the draft. */
static uint32_t choose(struct lanes_share *s, const struct lanes *l, uint32_t n)
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
			s->hoped = sum;
		}
	}
	if (best >= alone)
		s->last_rest = 0;
	else if (s->last_rest < REST_MOST)
		s->last_rest = s->last_rest ? 2 * s->last_rest : REST_FIRST;
	s->rest = best >= alone ? 0 : s->last_rest;
	return best_n;
}

/* A parent is no less likely than its child, and stands before it, so it stays
 * with it. */
static void keep_likeliest(struct lanes_share *s, struct lanes *l, uint32_t n)
{
	for (uint32_t i = 0; i < l->n_in; i++) {
		uint32_t keep[WIRE_MAX_ROWS] = { 0 }, kept = 1;

		for (uint32_t k = 0; k < n; k++)
			if (s->merit[k].in == i)
				keep[kept++] = s->merit[k].node;
		qsort(keep, kept, sizeof(*keep), rising);
		if (l->cycle[i])
			tree_keep(l->cycle[i]->tree, keep, kept);
	}
}

void lanes_share_rows(struct lanes_share *s, struct lanes *l)
{
	uint32_t n = 0, room = l->tree_rows - s->base, most;

	for (uint32_t i = 0; i < l->n_in; i++)
		for (uint32_t u = 1; l->cycle[i] && u < l->cycle[i]->tree->n;
			u++)
			s->merit[n++] =
				(struct merit){ l->cycle[i]->tree->path[u], i,
					u };
	most = n < room ? n : room;
	s->hoped = 0;
	if (n > room || (l->n_in > 1 && pass_cost_is_known(&s->cost)))
		qsort(s->merit, n, sizeof(*s->merit), by_merit);
	know_costs(s, l);
	if (l->n_in > 1 && pass_cost_is_known(&s->cost))
		most = choose(s, l, most);
	if (most < n)
		keep_likeliest(s, l, most);
}
