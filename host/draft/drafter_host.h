/*
 * The drafter that runs a draft model on the host. Between two trees the draft
 * model keeps the expanded nodes as uncommitted rows, and no row is computed
 * twice: a text that ends in an expanded node costs nothing.
 *
 * The root's candidates need the root in the draft's cache, while the target
 * has not cached it yet: after begin() the draft's cache holds the whole text.
 */
#ifndef HOST_DRAFT_DRAFTER_HOST_H
#define HOST_DRAFT_DRAFTER_HOST_H

#include <stdint.h>

struct draft_model;
struct drafter;
struct err;

/*
 * The draft model is used by the drafter alone until that is closed; the caller
 * closes it afterwards. `batch` rows at most are computed together; 0: all
 * nodes of one call, up to 64, and a call need not ask for more nodes than it
 * will use.
 *
 * The root has no candidates if the text is longer than the draft's context.
 */
int drafter_host_open(struct drafter *out, struct draft_model *, uint32_t batch,
	struct err *);

/* Temperature of the candidates' probabilities, > 0: q is softmax(logits /
 * temperature). Default 1; to be set before the first tree. */
void drafter_host_temperature(struct drafter *, float temperature);

#endif
