/*
 * The drafter that runs a draft model on the host. From one tree to the next
 * the draft model keeps the expanded nodes as uncommitted rows (computed rows
 * after its cached tokens), so no row is computed twice. If the verified
 * sequence ends in an expanded node, the next tree's root is already computed.
 *
 * To predict candidates after the root (the last token of the sequence), the
 * draft model must compute the root. So after begin() the draft model's cache
 * holds the whole sequence, while the target's cache does not hold the root
 * yet.
 *
 * An EAGLE head, which --draft opens like a draft model, keeps no rows of
 * drafted nodes, because they were computed from the head's own states. When
 * the sequence has grown, begin() computes all new tokens from the target's
 * states. begin() reads these states from the sequence of the target's session
 * that follow() has set (drafter.h).
 */
#ifndef HOST_DRAFT_DRAFTER_HOST_H
#define HOST_DRAFT_DRAFTER_HOST_H

#include <stdint.h>

struct draft_model;
struct drafter;
struct err;

/*
 * Open a drafter on a draft model. Only the drafter may use the model until the
 * drafter is closed; the caller closes the model afterwards. `batch` is the
 * largest number of rows that are computed together. `batch` 0 means all nodes
 * of one expand() call, up to 64; a tree builder that weighs the cost of
 * expansions then expands at most DRAFT_WEIGHED nodes at once (drafter.most).
 * Returns 0 or -ENOMEM.
 *
 * The root has no candidates if the sequence is longer than the draft model's
 * context.
 */
int drafter_host_open(struct drafter *out, struct draft_model *, uint32_t batch,
	struct err *);

/* Set the temperature > 0 of the candidates' probabilities q = softmax(logits /
 * temperature); the default is 1. Call this before the first tree. */
void drafter_host_temperature(struct drafter *, float temperature);

#endif
