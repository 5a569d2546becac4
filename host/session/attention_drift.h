/*
 * Whether what a token attends to has changed, layer by layer: what a policy
 * goes by that refreshes where this drifts, instead of every so many steps.
 * Pure arithmetic on attention that somebody else computed; any thread.
 */
#ifndef HOST_SESSION_ATTENTION_DRIFT_H
#define HOST_SESSION_ATTENTION_DRIFT_H

#include <stdint.h>

/* Of one token: how much it attends to each position, in each layer. */
struct attention_map {
	const float *weight; /* [layers][length] */
	uint32_t layers, length;
};

/*
 * The first layer in which the cosine of the two is less than `least`; their
 * number where there is none. Both have the same layers; positions that one of
 * them does not have count as 0 there. A map of zeros is like no other.
 */
uint32_t attention_drift(const struct attention_map *before,
	const struct attention_map *now, double least);

/* The position that a map has most of in a layer, the lowest of several. */
uint32_t attention_most(const struct attention_map *, uint32_t layer);

#endif
