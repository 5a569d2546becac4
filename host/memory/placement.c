#include "host/memory/placement.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>

const char *const placement_names[] = { "auto", "belady", "swap", "paging",
	"drop-all", "fixed", NULL };
_Static_assert(sizeof(placement_names) / sizeof(placement_names[0]) ==
		PLACEMENT_COUNT + 1,
	"each policy has a name");

struct place {
	uint32_t addr;
	/* mapped: whether the block is mapped in the device's window. extended:
	 * whether the block is placed in the extended region (device memory
	 * that only DMA reads). */
	bool mapped, extended;
	/* value of placement.needs, which counts calls of placement_need, when
	 * the block was last needed */
	uint64_t used;
};

struct placement {
	enum placement_policy policy;
	struct placement_window window;
	uint64_t needs;
	struct placement_stats stats;
	uint32_t n;
	struct place place[];
};

int placement_open(struct placement **out, uint32_t n_blocks,
	enum placement_policy policy, const struct placement_window *window,
	struct err *e)
{
	struct placement *p =
		calloc(1, sizeof(*p) + n_blocks * sizeof(p->place[0]));

	if (!p)
		return err_set(e, ENOMEM,
			"no memory for the placement of %u blocks of weights",
			n_blocks);
	p->policy = policy;
	p->window = *window;
	p->n = n_blocks;
	*out = p;
	return 0;
}

void placement_close(struct placement *p)
{
	free(p);
}

static int place_block(struct placement *p, uint32_t block, struct err *e)
{
	struct place *at = &p->place[block];
	int ret = p->window.map(p->window.arg, block, &at->addr, e);

	if (ret == -ENOSPC) {
		struct err why;

		if (!p->window.extend)
			return -ENOSPC;
		/* If the extended region has no room either, *e keeps the error
		 * that `map` has set. */
		ret = p->window.extend(p->window.arg, block, &at->addr, &why);
		if (ret && ret != -ENOSPC && e)
			*e = why;
		if (ret)
			return ret;
		at->extended = true;
		p->stats.extended++;
		return 0;
	}
	if (ret)
		return ret;
	at->mapped = true;
	p->stats.maps++;
	p->stats.mapped++;
	return 0;
}

int placement_fill(struct placement *p, struct err *e)
{
	bool ahead =
		p->policy == PLACEMENT_BELADY || p->policy == PLACEMENT_FIXED;

	for (uint32_t i = 0; i < p->n && ahead; i++) {
		int ret = placement_is_mapped(p, i) ? 0 : place_block(p, i, e);

		if (ret == -ENOSPC && p->policy != PLACEMENT_FIXED)
			return 0;
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * When block `now` is about to run, block i runs (i - now) mod n blocks later.
 * So the block with the furthest next use is the first mapped block found when
 * walking back from `now`.
 */
static bool furthest_use(
	const struct placement *p, uint32_t now, uint32_t *victim)
{
	for (uint32_t back = 1; back < p->n; back++) {
		uint32_t i = (now + p->n - back) % p->n;

		if (p->place[i].mapped) {
			*victim = i;
			return true;
		}
	}
	return false;
}

static bool longest_unused(const struct placement *p, uint32_t *victim)
{
	uint64_t used = UINT64_MAX;

	for (uint32_t i = 0; i < p->n; i++) {
		if (!p->place[i].mapped || p->place[i].used >= used)
			continue;
		*victim = i;
		used = p->place[i].used;
	}
	return used != UINT64_MAX;
}

/* Unmap the block that the policy chooses; PLACEMENT_DROP_ALL unmaps all mapped
 * blocks. Returns -ENOSPC if no block can be unmapped. */
static int make_room(struct placement *p, uint32_t block, struct err *e)
{
	bool lru = p->policy != PLACEMENT_BELADY, any = false;
	uint32_t victim;

	if (p->policy == PLACEMENT_FIXED)
		return -ENOSPC;
	while (lru ? longest_unused(p, &victim)
		   : furthest_use(p, block, &victim)) {
		struct place *at = &p->place[victim];
		int ret = p->window.unmap(p->window.arg, victim, at->addr, e);

		if (ret)
			return ret;
		at->mapped = false;
		p->stats.unmaps++;
		p->stats.mapped--;
		if (p->policy != PLACEMENT_DROP_ALL)
			return 0;
		any = true;
	}
	return any ? 0 : -ENOSPC;
}

int placement_need(
	struct placement *p, uint32_t block, uint32_t *addr, struct err *e)
{
	while (!placement_is_mapped(p, block)) {
		int ret = place_block(p, block, e);

		if (ret == -ENOSPC)
			ret = make_room(p, block, e);
		if (ret)
			return ret;
	}
	p->place[block].used = ++p->needs;
	*addr = p->place[block].addr;
	return 0;
}

bool placement_is_mapped(const struct placement *p, uint32_t block)
{
	return p->place[block].mapped || p->place[block].extended;
}

bool placement_is_extended(const struct placement *p, uint32_t block)
{
	return p->place[block].extended;
}

void placement_stats(const struct placement *p, struct placement_stats *out)
{
	*out = p->stats;
}
