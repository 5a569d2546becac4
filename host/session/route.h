/*
 * The router of a layer with experts: which experts a row passes through, by
 * the router's products with the row. As in Qwen3-MoE, OLMoE and Mixtral, these
 * are the n_used most probable experts by the softmax over all, the most
 * probable first; of equal ones the one with the lower number comes first. No
 * state, no allocation.
 */
#ifndef HOST_SESSION_ROUTE_H
#define HOST_SESSION_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

struct route {
	uint32_t expert;
	float weight;
};

/* Choose the experts out[n_used] of a row from score[n_expert]. With `norm`,
 * the weights are divided by their sum. Returns false if a score is not
 * finite; the row then passes through the first experts, with weight 0. */
bool route_row(const float *score, uint32_t n_expert, uint32_t n_used,
	bool norm, struct route *out);

/* List the experts of n routes in ascending order, each once, in list[], which
 * has room for n_expert numbers. Returns their number. */
uint32_t route_experts(
	const struct route *, uint32_t n, uint32_t n_expert, uint32_t *list);

#endif
