#include "device/bind.h"

#include "base/err.h"
#include "device/cache.h"
#include "device/extended.h"
#include "device/graph.h"
#include "device/picks.h"
#include "device/rowset.h"
#include "device/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static const char *const role_name[WIRE_ROLE_COUNT] = {
	[WIRE_REF_SYNC] = "sync",
	[WIRE_REF_WEIGHTS] = "weights",
	[WIRE_REF_KV] = "kv",
	[WIRE_REF_HIDDEN_IN] = "hidden_in",
	[WIRE_REF_HIDDEN_OUT] = "hidden_out",
	[WIRE_REF_ROWS] = "rows",
};

const char *bind_role_name(unsigned role)
{
	return role < WIRE_ROLE_COUNT ? role_name[role] : "?";
}

static uint64_t extended_at(const struct wire_ref *r)
{
	return (uint64_t)r->addr * WIRE_EXTENDED_UNIT;
}

static int check_one(const struct window *w, const struct extended *x,
	const struct wire_ref *r, struct err *e)
{
	if (r->role >= WIRE_ROLE_COUNT)
		return err_set(e, EINVAL, "role %u is unknown", r->role);
	if (r->flags & ~(WIRE_REF_INVALIDATE | WIRE_REF_EXTENDED))
		return err_set(e, EINVAL,
			"flags 0x%x have unknown "
			"bits",
			r->flags);
	if (!(r->flags & WIRE_REF_EXTENDED))
		return window_find(w, r->addr, r->len, e) ? 0 : e->code;
	/* The cores cannot load from or store to the extended region (memory
	 * beyond 32-bit addresses). */
	if (r->role != WIRE_REF_WEIGHTS)
		return err_set(e, EACCES,
			"the buffer is in the extended region, which only "
			"DMA can read, so it must hold weights");
	if (r->flags & WIRE_REF_INVALIDATE)
		return err_set(e, EINVAL,
			"the flag INVALIDATE is set, but the buffer is in "
			"the extended region, which is not cached");
	return extended_find(x, extended_at(r), r->len, e) ? 0 : e->code;
}

int bind_check(const struct window *w, const struct extended *x,
	const struct wire_ref *refs, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++)
		if (check_one(w, x, &refs[i], e))
			return err_in(e, "ref %u (%s)", i,
				bind_role_name(refs[i].role));
	return 0;
}

static int bind_one(struct binding *b, const struct cache *cache,
	const struct wire_ref *r, const struct graph *g,
	const struct wire_graph_run *run, struct err *e)
{
	bool extended = r->flags & WIRE_REF_EXTENDED;
	uint32_t align = COHERENCE_LINE;
	uint64_t bytes;

	switch (r->role) {
	case WIRE_REF_WEIGHTS:
		bytes = g->weights_bytes;
		break;
	case WIRE_REF_KV:
		bytes = g->kv_bytes;
		break;
	case WIRE_REF_ROWS:
		bytes = graph_is_expert(g) ? picks_bytes(run, g)
					   : rowset_bytes(run);
		align = sizeof(uint64_t);
		break;
	case WIRE_REF_HIDDEN_OUT:
		bytes = graph_out_bytes(g, run->rows);
		align = sizeof(float);
		break;
	default: /* WIRE_REF_HIDDEN_IN: the hidden states that the run reads */
		bytes = (uint64_t)run->rows * g->model.n_embd * sizeof(float);
		align = sizeof(float);
	}
	if (b->addr[r->role] ||
		(r->role == WIRE_REF_WEIGHTS && b->n_weights &&
			!graph_is_expert(g)))
		return err_set(e, EINVAL,
			"an earlier buffer reference (ref) has the same role");
	if (r->len < bytes)
		return err_set(e, EINVAL,
			"the length is %u bytes, but the graph run needs "
			"%" PRIu64,
			r->len, bytes);
	if (!extended && r->addr % align)
		return err_set(e, EINVAL,
			"address 0x%x is not a multiple of %u", r->addr, align);
	if (r->role == WIRE_REF_WEIGHTS)
		b->weights[b->n_weights++] =
			extended ? EXTENDED_BASE + extended_at(r) : r->addr;
	else if (cache_reaches(cache, r->addr, r->len, e))
		return e->code;
	else
		b->addr[r->role] = r->addr;
	return 0;
}

int bind_run(struct binding *b, const struct cache *cache,
	const struct wire_ref *refs, unsigned n, const struct graph *g,
	const struct wire_graph_run *run, struct err *e)
{
	memset(b->addr, 0, sizeof(b->addr));
	b->n_weights = 0;
	for (unsigned i = 0; i < n; i++) {
		const struct wire_ref *r = &refs[i];

		if (r->role == WIRE_REF_SYNC)
			continue;
		if (bind_one(b, cache, r, g, run, e))
			return err_in(e, "graph run: ref %u (%s)", i,
				bind_role_name(r->role));
	}
	for (unsigned role = WIRE_REF_WEIGHTS; role < WIRE_ROLE_COUNT; role++) {
		bool needed = !(graph_is_output(g) &&
				      (role == WIRE_REF_KV ||
					      role == WIRE_REF_ROWS)) &&
			!(graph_is_expert(g) &&
				(role == WIRE_REF_KV ||
					role == WIRE_REF_HIDDEN_IN));

		if (needed &&
			(role == WIRE_REF_WEIGHTS ? !b->n_weights
						  : !b->addr[role]))
			return err_set(e, EINVAL,
				"graph run: the request has no buffer "
				"reference (ref) with role %s",
				bind_role_name(role));
	}
	return 0;
}
