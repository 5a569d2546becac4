/*
 * The drafter whose draft model runs in a session on the device. A pass there
 * costs about the same for any number of rows, so no rows are kept between
 * passes: each pass computes the end of the text, the nodes to expand and all
 * nodes above them.
 *
 * The session's cache ends before the root, which is computed in every pass;
 * tokens that the text has gained go through the next pass with the root and
 * then into the cache. A session of precision int8 with weights in tiles gives,
 * bit for bit, the candidates of drafter_host with DRAFT_INT8.
 */
#ifndef HOST_DRAFT_DRAFTER_DEVICE_H
#define HOST_DRAFT_DRAFTER_DEVICE_H

#include <stdint.h>

struct drafter;
struct err;
struct session;

/*
 * The session, of the draft model, is used by the drafter alone until that is
 * closed; the caller closes it afterwards. Expanding `batch` >= 1 nodes
 * together is fastest. -EINVAL if the model is not causal.
 *
 * The root has no candidates if the text is longer than the session's context,
 * nor has a node with more nodes above it than a pass has rows.
 */
int drafter_device_open(struct drafter *out, struct session *draft_session,
	uint32_t batch, struct err *);

/* Temperature of the candidates' probabilities, > 0: q is softmax(logits /
 * temperature). Default 1; to be set before the first tree. */
void drafter_device_temperature(struct drafter *, float temperature);

#endif
