/*
 * Measures how much a token's attention has changed, layer by layer, for
 * policies that refresh the cache where attention drifts instead of at fixed
 * intervals. Pure arithmetic on given attention weights; any thread.
 */
#ifndef HOST_SESSION_ATTENTION_DRIFT_H
#define HOST_SESSION_ATTENTION_DRIFT_H

#include <stdint.h>

/* One token's attention weights over positions, in each layer. */
struct attention_map {
	const float *weight; /* [layers][length] */
	uint32_t layers, length;
};

/*
 * The first layer in which the cosine of the two maps is less than `least`; the
 * number of layers if there is none. Both have the same layers; positions
 * missing in one of them count as 0. A map of zeros has cosine 0 with any.
 */
uint32_t attention_drift(const struct attention_map *before,
	const struct attention_map *now, double least);

/* The position with the highest weight in a layer, the lowest of several. */
uint32_t attention_most(const struct attention_map *, uint32_t layer);

#endif
