/*
 * The host's part of llada-npu (llada.cpp, section 3.3, "Sparse Cache
 * Refresh"). Positions that the window has passed but that are not stable yet
 * are recomputed on the host while the device runs a pass. Between two passes
 * their tokens are revised and their keys and values are merged into the cache.
 * Three policies:
 *
 *   none   they stay as they were
 *   host   in every pass, all of them or the least confident
 *   drift  in a pass only one token, the one that was attended to most; when
 *          its attention has changed, all of them in the next pass, from the
 *          first layer on in which it changed (Elastic-Cache, 2025)
 *
 * One thread; pointers that are passed in are borrowed.
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

/* *out is NULL with the policy none. Fails as refresh_open does. */
int revision_open(struct revision **out, const struct revision_options *,
	const struct denoising *, struct err *);
void revision_close(struct revision *);

/* Whether revision recomputes this position from now on, and no window does. */
bool revision_has(const struct revision *, const struct place *);

/* revision_begin: before a pass whose window begins at `from`; places [first,
 * from) are not invisible. revision_end: after the pass, merges the results if
 * they are ready. */
int revision_begin(struct revision *, const struct denoising *, struct place *,
	uint32_t first, uint32_t from, struct err *);
int revision_end(struct revision *, const struct denoising *, struct place *,
	const struct stages_rule *, struct method_stats *, struct err *);

#endif
