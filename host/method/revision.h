/*
 * The host's path of llada-npu (llada.cpp, section 3.3, "Sparse Cache
 * Refresh"): what the window has left behind and is not stable yet is computed
 * anew on the host while the device runs a pass; between two passes its tokens
 * are asked for again and its keys and values go into the cache. Three
 * policies:
 *
 *   none   they stay as they were
 *   host   with every pass, all of them or the least probable
 *   drift  with a pass one token alone, the one that was attended to most; when
 *          what it attends to has changed, all of them with the next, from the
 *          first layer on in which it has (Elastic-Cache, 2025)
 *
 * One thread; what is given is borrowed.
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

/* NULL where the policy is none. What refresh_open refuses. */
int revision_open(struct revision **out, const struct revision_options *,
	const struct denoising *, struct err *);
void revision_close(struct revision *);

/* Whether revision sees to this place from now on, and no window. */
bool revision_has(const struct revision *, const struct place *);

/*
 * Before a pass whose window begins at `from`, over places [first, from) of
 * which none is invisible. Behind it, once the results are there.
 */
int revision_begin(struct revision *, const struct denoising *, struct place *,
	uint32_t first, uint32_t from, struct err *);
int revision_end(struct revision *, const struct denoising *, struct place *,
	const struct stages_rule *, struct method_stats *, struct err *);

#endif
