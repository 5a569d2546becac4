#include "device/picks.h"

#include "base/err.h"
#include "device/graph.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define NONE UINT32_MAX

uint64_t picks_bytes(const struct wire_graph_run *r, const struct graph *g)
{
	return (uint64_t)r->rows * g->model.n_used * sizeof(struct wire_pick);
}

/* Check one pick (a choice of an expert) of row `row`. `last`: no later graph
 * run of the layer computes experts. row_of[i] is the row that was checked most
 * recently among the rows that picked expert i. */
static int check_pick(const struct picks *p, const struct wire_pick *pick,
	const struct pick_made *made, bool last, uint32_t row, uint32_t *row_of,
	struct err *e)
{
	if (!isfinite(pick->weight))
		return err_set(
			e, EINVAL, "the weight of the expert is not finite");
	if (pick->expert == WIRE_PICK_ELSEWHERE)
		return last && made->slot == NONE
			? err_set(e, EINVAL,
				  "no graph run of the layer computed the "
				  "picked expert")
			: 0;
	if (pick->expert >= p->experts)
		return err_set(e, EINVAL,
			"expert %u must be below %u, the number of experts "
			"whose weights the request has",
			pick->expert, p->experts);
	if (made->slot != NONE)
		return err_set(e, EINVAL,
			"an earlier graph run of the layer already computed "
			"the picked expert");
	if (row_of[pick->expert] == row)
		return err_set(
			e, EINVAL, "expert %u is picked twice", pick->expert);
	row_of[pick->expert] = row;
	p->first[pick->expert + 1]++;
	return 0;
}

int picks_take(struct picks *p, const struct wire_graph_run *r,
	const struct graph *g, unsigned experts, void *arena, const void *from,
	uint32_t *slots, struct err *e)
{
	uint32_t n_used = g->model.n_used, n = r->rows * n_used;
	uint8_t *a = arena;
	struct wire_pick *pick = (void *)(a + g->at.pick);
	/* for each expert: during the checks, `row_of` of check_pick; after
	 * the checks, the next free index in p->row */
	uint32_t next[WIRE_MAX_REFS];

	*p = (struct picks){
		.experts = experts,
		.first = (void *)(a + g->at.expert_first),
		.row = (void *)(a + g->at.by_expert),
		.slot = *slots,
		.made = (void *)(a + g->at.made),
	};
	memcpy(pick, from, n * sizeof(*pick));
	for (uint32_t i = 0; !*slots && i < n; i++)
		p->made[i].slot = NONE;
	memset(p->first, 0, (experts + 1) * sizeof(*p->first));
	/* UINT32_MAX: no row has picked the expert yet */
	memset(next, 0xff, sizeof(next));
	for (uint32_t i = 0; i < n; i++)
		if (check_pick(p, &pick[i], &p->made[i],
			    !(r->flags & WIRE_RUN_MORE), i / n_used, next, e))
			return err_in(e, "graph run: row %u, pick %u",
				i / n_used, i % n_used);
	for (unsigned i = 0; i < experts; i++) {
		next[i] = p->first[i];
		p->first[i + 1] += p->first[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t at;

		if (pick[i].expert == WIRE_PICK_ELSEWHERE)
			continue;
		at = next[pick[i].expert]++;
		p->row[at] = i / n_used;
		p->made[i] = (struct pick_made){ *slots + at, pick[i].weight };
	}
	*slots += p->first[experts];
	return 0;
}
