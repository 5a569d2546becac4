/*
 * Determines which layers of a model stay in memory (resident) and which layers
 * are streamed from flash in every forward pass. The layers are divided into
 * runs. Each run consists of a share of the resident layers, followed by a
 * share of the streamed layers. While the device computes the resident layers
 * of a run, flash fills the staging slots, the buffers for streamed layers.
 *
 * With a single run, all resident layers come first, as in Lever's paper (its
 * section on DRAM budgets). Flash then fills the slots long before the first
 * streamed layer is needed and becomes idle; later the device waits for flash.
 */
#ifndef HOST_MODEL_RESIDENCY_H
#define HOST_MODEL_RESIDENCY_H

#include <stdbool.h>
#include <stdint.h>

struct residency {
	/* n_layer: number of all layers. resident: number of resident
	 * layers. */
	uint32_t n_layer, resident;
	uint32_t runs; /* number of runs, at least 1 */
};

/* Divide the layers into `runs` runs, or fewer if otherwise a run would have no
 * resident or no streamed layer. */
static inline struct residency residency_of(
	uint32_t n_layer, uint32_t resident, uint32_t runs)
{
	uint32_t streamed = n_layer - resident;

	runs = runs < resident ? runs : resident;
	runs = runs < streamed ? runs : streamed;
	return (struct residency){ n_layer, resident, runs ? runs : 1 };
}

/* Divide n resident (or n streamed) layers among the runs. Returns the number
 * of these layers in the runs before run number `run`. */
static inline uint32_t residency_before(
	const struct residency *r, uint32_t n, uint32_t run)
{
	return (uint32_t)((uint64_t)n * run / r->runs);
}

/* Whether layer `layer` < n_layer is streamed. */
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
