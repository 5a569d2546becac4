/*
 * Measures how much a token's attention has changed in each layer, for policies
 * that refresh the KV cache when attention has changed, instead of at fixed
 * intervals. All functions are pure arithmetic on given attention weights and
 * may be called on any thread.
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
 * Return the first layer in which the cosine similarity of the two maps is less
 * than `least`, or the number of layers if there is no such layer. Both maps
 * must have the same number of layers. A position that only one map has gets
 * the weight 0 in the other map. If all weights of a map in a layer are 0, the
 * cosine similarity in that layer is 0.
 */
uint32_t attention_drift(const struct attention_map *before,
	const struct attention_map *now, double least);

/* Return the position with the highest weight in a layer. If several positions
 * have the highest weight, return the lowest of them. */
uint32_t attention_most(const struct attention_map *, uint32_t layer);

#endif
