/*
 * The drafter whose draft model runs in a session on the device. A pass (run of
 * the model) on the device computes the tokens of the text that are not yet
 * cached, the nodes to expand, and those of their ancestors that are not
 * cached.
 *
 * The session's cache holds the text and a path of the tree: the first node
 * that the last pass expanded, and its ancestors. Expanding a child of this
 * node takes one row (token). Before nodes on another branch are expanded, the
 * path is cut to the ancestors that all these nodes share. When the text has
 * grown, the tokens of the path that it accepted stay cached. The drafters of
 * several requests share the session: each drafter has a sequence of its own,
 * and one pass has rows of all these sequences. In a session of precision int8
 * with weights in tiles, the candidates are bit for bit the candidates of
 * drafter_host with DRAFT_INT8.
 */
#ifndef HOST_DRAFT_DRAFTER_DEVICE_H
#define HOST_DRAFT_DRAFTER_DEVICE_H

#include <stdint.h>

struct drafter;
struct err;
struct session;

/*
 * Open a drafter on a session that runs the draft model. Only the drafter may
 * use the session until the drafter is closed; the caller closes the session
 * afterwards. `batch` >= 1 is the number of nodes that is fastest to expand
 * together. Returns 0, -EINVAL if the model is not causal, or -ENOMEM.
 *
 * The root has no candidates if the sequence is longer than the session's
 * context. A node has no candidates if it has more uncached ancestors than a
 * pass has rows.
 */
int drafter_device_open(struct drafter *out, struct session *draft_session,
	uint32_t batch, struct err *);

/* Open a drafter for another request on the session of the drafter `like`,
 * which must be closed after all other drafters of this session. Returns 0,
 * -ENOSPC if the session has no free sequence, or another negative errno. */
int drafter_device_open_like(
	struct drafter *out, const struct drafter *like, struct err *);

/* Set the temperature > 0 of the candidates' probabilities q = softmax(logits /
 * temperature); the default is 1. Call this before the first tree. */
void drafter_device_temperature(struct drafter *, float temperature);

#endif
