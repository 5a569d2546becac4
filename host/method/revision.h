/*
 * The host's part of the method llada-npu (llada.cpp, section 3.3, "Sparse
 * Cache Refresh"). A pass of the device computes a window of positions. The
 * positions that precede the window and whose tokens are not final yet are
 * recomputed on the host while the device runs a pass. Between two passes their
 * tokens are revised, and their keys and values are merged into the cache.
 * There are three policies:
 *
 *   none   Such positions are not recomputed.
 *   host   Each pass recomputes all such positions, or the least confident.
 *   drift  A pass recomputes only the token that received the largest
 *          attention. When the attention of that token has changed, the next
 *          pass recomputes all such positions, beginning with the first layer
 *          in which the attention changed (Elastic-Cache, 2025).
 *
 * All calls come from one thread. Pointers passed in belong to the caller.
 */
#ifndef HOST_METHOD_REVISION_H
#define HOST_METHOD_REVISION_H

#include "base/opt.h"

#include <stdbool.h>
#include <stdint.h>

struct denoising;
struct err;
struct method_stats;
struct place;
struct revision;
struct session;
struct stages_rule;

enum revision_policy { REVISE_NONE, REVISE_HOST, REVISE_DRIFT };

struct revision_options {
	int policy; /* enum revision_policy */
	uint32_t tokens;
	double drift;
	bool late;
};
extern const struct opt_table revision_table;

/* Create the state of revision for a request. *out is NULL if the policy is
 * none. Returns 0 or an error of refresh_open. */
int revision_open(struct revision **out, const struct revision_options *,
	const struct denoising *, struct err *);
void revision_close(struct revision *);

/* Whether only the host recomputes the position, because all later windows
 * begin after it. */
bool revision_has(const struct revision *, const struct place *);

/*
 * revision_begin starts recomputing positions, before a pass whose window
 * begins at `from`. No place in [first, from) may be invisible. revision_end,
 * called after the pass, merges the results if they are ready. Both return 0 or
 * a negative errno.
 */
int revision_begin(struct revision *, const struct denoising *, struct place *,
	uint32_t first, uint32_t from, struct err *);
int revision_end(struct revision *, const struct denoising *, struct place *,
	const struct stages_rule *, struct method_stats *, struct err *);

#endif
