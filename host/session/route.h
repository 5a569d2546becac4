/*
 * These functions choose the experts that compute a row in a layer with
 * experts, from the router's scores for the row. As in Qwen3-MoE, OLMoE and
 * Mixtral, the chosen experts are the n_used experts with the highest softmax
 * probabilities, in descending order; of experts with equal probabilities, the
 * expert with the lower number comes first. The functions have no state and
 * allocate no memory.
 */
#ifndef HOST_SESSION_ROUTE_H
#define HOST_SESSION_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct route {
	uint32_t expert;
	float weight;
};

/* Choose the experts out[n_used] of a row from score[n_expert]. The weight of
 * an expert is its softmax probability; with `norm`, the weights are divided by
 * their sum. Returns false if a score is not finite; out[] then has the first
 * n_used experts, with weight 0. */
bool route_row(const float *score, uint32_t n_expert, uint32_t n_used,
	bool norm, struct route *out);

/* List the experts that occur in n routes, each once and in ascending order, in
 * list[], which must have room for n_expert numbers. Returns the number of
 * experts in the list. */
uint32_t route_experts(
	const struct route *, uint32_t n, uint32_t n_expert, uint32_t *list);

#endif
