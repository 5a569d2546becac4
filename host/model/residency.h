/*
 * Which layers of a model stay in memory, and which are streamed in every pass.
 * Layers alternate in runs, each a share of the resident layers followed by a
 * share of the streamed ones, so that flash fills the slots while the device
 * computes the resident layers. With a single run all resident layers come
 * first, as in Lever's paper (its section on DRAM budgets); flash then fills
 * its slots long before the first streamed layer is needed, and afterwards the
 * device waits for the rest.
 */
#ifndef HOST_MODEL_RESIDENCY_H
#define HOST_MODEL_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

struct residency {
	uint32_t n_layer, resident; /* all layers; those in memory */
	uint32_t runs;              /* >= 1 */
};

/* Uses at most as many runs as let each have layers of both kinds. */
static inline struct residency residency_of(
	uint32_t n_layer, uint32_t resident, uint32_t runs)
{
	uint32_t streamed = n_layer - resident;

	runs = runs < resident ? runs : resident;
	runs = runs < streamed ? runs : streamed;
	return (struct residency){ n_layer, resident, runs ? runs : 1 };
}

/* Of `n` layers of one kind, the number before a run. */
static inline uint32_t residency_before(
	const struct residency *r, uint32_t n, uint32_t run)
{
	return (uint32_t)((uint64_t)n * run / r->runs);
}

/* Number of layers before the first streamed one; all if none is. */
static inline uint32_t residency_first(const struct residency *r)
{
	return residency_before(r, r->resident, 1);
}

/* Whether a layer, < n_layer, is streamed. */
static inline bool residency_streams(const struct residency *r, uint32_t layer)
{
	uint32_t streamed = r->n_layer - r->resident, run = 1;

	while (residency_before(r, r->resident, run) +
			residency_before(r, streamed, run) <=
		layer)
		run++;
	return layer >= residency_before(r, r->resident, run) +
		residency_before(r, streamed, run - 1);
}

#endif
