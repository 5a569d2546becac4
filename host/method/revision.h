/*
 * The host's part of the method llada-npu (llada.cpp, section 3.3, "Sparse
 * Cache Refresh"). A pass of the device computes a window of positions. Some
 * positions that precede the window have tokens that are not final yet
 * (provisional positions). The host recomputes these positions while the device
 * runs a pass. Between two passes the tokens are revised, and the new keys and
 * values are merged into the cache. There are three policies:
 *
 *   none   The host recomputes no position.
 *   host   During each pass the host recomputes all provisional positions, or
 *          only those with the least confidence (--refresh-tokens).
 *   drift  During a pass the host recomputes only the probe. The probe is
 *          chosen whenever all provisional positions have been recomputed: it
 *          is the token to which the last of these rows paid the most attention
 *          or, if that token was not recomputed, the token of the last row.
 *          When the attention weights of the probe's own row have changed since
 *          then, the host recomputes all provisional positions during the next
 *          pass, and replaces their keys and values from the first layer on in
 *          which the weights changed (Elastic-Cache, 2025).
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

/*
 * Call revision_begin before a pass whose window begins at `from`, to start
 * recomputing positions of [first, from), which must all be visible or stable
 * (stages.h). Call revision_end after the pass, to merge the results if they
 * are ready. The functions return 0 or a negative errno.
 */
int revision_begin(struct revision *, const struct denoising *, struct place *,
	uint32_t first, uint32_t from, struct err *);
int revision_end(struct revision *, const struct denoising *, struct place *,
	const struct stages_rule *, struct method_stats *, struct err *);

#endif
