/*
 * Which layers of a model stay in memory, and which are streamed in every pass.
 * They lie in runs: in each first a share of those that stay, then a share of
 * those that are streamed, so that flash fills the slots while the ones
 * compute, and computes with the others in the end. In one run all that stay
 * come first, as Lever's paper has them (its section on DRAM budgets); then
 * flash is done with what there are slots for long before the first is wanted,
 * and behind it the device waits for all the rest.
 */
#ifndef HOST_MODEL_RESIDENCY_H
#define HOST_MODEL_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

struct residency {
	uint32_t n_layer, resident; /* layers; of them in memory */
	uint32_t runs;              /* >= 1 */
};

/* No more runs than let each have layers of both kinds. */
static inline struct residency residency_of(
	uint32_t n_layer, uint32_t resident, uint32_t runs)
{
	uint32_t streamed = n_layer - resident;

	runs = runs < resident ? runs : resident;
	runs = runs < streamed ? runs : streamed;
	return (struct residency){ n_layer, resident, runs ? runs : 1 };
}

/* Of `n` layers of one kind those in front of a run. */
static inline uint32_t residency_before(
	const struct residency *r, uint32_t n, uint32_t run)
{
	return (uint32_t)((uint64_t)n * run / r->runs);
}

/* Layers in front of the first that is streamed, of all where none is. */
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
