/*
 * The drafter whose draft model runs in a session, on the device. A pass there
 * costs about the same whatever its rows, so none are kept between passes: each
 * computes the end of the text, the asked nodes and all nodes above them.
 *
 * The session's cache ends before the root, which is computed in every pass;
 * what the text has grown by since goes through the next pass with it and then
 * into the cache. A session of precision int8 with weights in tiles gives, bit
 * for bit, the candidates of drafter_host with DRAFT_INT8.
 */
#ifndef HOST_DRAFT_DRAFTER_DEVICE_H
#define HOST_DRAFT_DRAFTER_DEVICE_H

#include <stdint.h>

struct drafter;
struct err;
struct session;

/*
 * The session, of the draft model, is the drafter's alone until it is closed,
 * and stays the caller's. `batch` >= 1 nodes are best expanded together.
 * -EINVAL when its model does not write from left to right.
 *
 * Of a text longer than the session's context the root has no candidates, nor
 * has a node with more above it than a pass has rows.
 */
int drafter_device_open(struct drafter *out, struct session *draft_session,
	uint32_t batch, struct err *);

/* Candidates' q are of softmax(logits / temperature), > 0; 1 unless said
 * before the first tree. */
void drafter_device_temperature(struct drafter *, float temperature);

#endif
