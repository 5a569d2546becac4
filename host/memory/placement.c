#include "host/memory/placement.h"

#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct place {
	uint32_t addr;
	bool mapped;
};

struct placement {
	struct placement_window window;
	struct placement_stats stats;
	uint32_t n;
	struct place place[];
};

int placement_open(struct placement **out, uint32_t n_blocks,
	const struct placement_window *window, struct err *e)
{
	struct placement *p =
		calloc(1, sizeof(*p) + n_blocks * sizeof(p->place[0]));

	if (!p)
		return err_set(
			e, ENOMEM, "no memory to place %u blocks", n_blocks);
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

	if (ret)
		return ret;
	at->mapped = true;
	p->stats.maps++;
	p->stats.mapped++;
	return 0;
}

static int evict_block(struct placement *p, uint32_t block, struct err *e)
{
	struct place *at = &p->place[block];
	int ret = p->window.unmap(p->window.arg, block, at->addr, e);

	if (ret)
		return ret;
	at->mapped = false;
	p->stats.unmaps++;
	p->stats.mapped--;
	return 0;
}

int placement_fill(struct placement *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n; i++) {
		int ret = p->place[i].mapped ? 0 : place_block(p, i, e);

		if (ret == -ENOSPC)
			return 0;
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * While block `now` is about to run, block i runs again after (i - now) mod n
 * steps. The furthest is therefore the first mapped one found walking back
 * from `now`.
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

int placement_need(
	struct placement *p, uint32_t block, uint32_t *addr, struct err *e)
{
	uint32_t victim;

	while (!p->place[block].mapped) {
		int ret = place_block(p, block, e);

		if (ret == -ENOSPC && furthest_use(p, block, &victim))
			ret = evict_block(p, victim, e);
		if (ret)
			return ret;
	}
	*addr = p->place[block].addr;
	return 0;
}

void placement_stats(const struct placement *p, struct placement_stats *out)
{
	*out = p->stats;
}
