/*
 * The drafter that asks a draft model on the host. Between two trees the draft
 * model keeps what of the text it has computed as rows on trial, and no row is
 * computed twice: a text that ends in an expanded node costs nothing.
 *
 * The root's candidates need the root in the draft's cache, where the target's
 * has it not yet: behind begin() the draft holds the whole text.
 */
#ifndef HOST_DRAFT_DRAFTER_HOST_H
#define HOST_DRAFT_DRAFTER_HOST_H

#include <stdint.h>

struct draft_model;
struct drafter;
struct err;

/*
 * The draft model is the drafter's alone until it is closed, and stays the
 * caller's. `batch` rows at most are computed together; 0: all that one call
 * asks for, 64 at most, and nobody needs to ask for more than he wants.
 *
 * Of a text longer than the draft's context the root has no candidates.
 */
int drafter_host_open(struct drafter *out, struct draft_model *, uint32_t batch,
	struct err *);

/* Candidates' q are of softmax(logits / temperature), > 0; 1 unless said
 * before the first tree. */
void drafter_host_temperature(struct drafter *, float temperature);

#endif
