/*
 * Sparse refresh of the cache (llada.cpp paper, section 3.3): the host computes
 * a few scattered positions of a sequence anew, through all layers and from the
 * device's own weights, on threads of its own while the device runs a pass.
 * What comes of it is put into the cache when a pass has ended, never within
 * one.
 *
 *   refresh_start    between passes: takes what is cached then as version s
 *   session_forward  as often as one likes; its rows may overwrite anything
 *   refresh_finish   whether the results are there
 *   refresh_logits   what the recomputed positions say now
 *   refresh_merge    between passes: their keys and values into the cache
 *
 * A recomputed row sees what a row of a window (or block) pass of the same rows
 * would see, each other's fresh keys and values of the same layer among it, and
 * gets the same bytes, whatever the number of threads. What passes write in the
 * meantime it does not see, for it reads a copy (kv_mirror.h).
 *
 * Two ways to finish. Deterministic: who asks waits. Best effort: who asks is
 * told when it has become ready, by the wall clock or, where there is a phone,
 * by the phone's, whose CPU works on it whenever it waits for something else;
 * what comes when then depends on speed, but with a phone not on this
 * machine's.
 *
 * Refused: models that write from left to right, whose cache does not go stale,
 * and layers streamed from flash, which no memory has. The session is borrowed,
 * outlives this, and is called from its one thread, as all of this is.
 */
#ifndef HOST_SESSION_REFRESH_H
#define HOST_SESSION_REFRESH_H

#include "host/session/attention_drift.h"
#include "host/session/rows.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct refresh;
struct session;

struct refresh_opts {
	uint32_t threads; /* 0: a quarter of the session's, 1 at least */
	bool best_effort;
};

/* -EINVAL and -ENOTSUP for what is refused; -ENOMEM, -EAGAIN. */
int refresh_open(struct refresh **out, struct session *,
	const struct refresh_opts *, struct err *);
/* What is under way is waited for and forgotten. */
void refresh_close(struct refresh *);

/*
 * Rows of one sequence, at positions that are cached, ascending; of
 * VISIBILITY_WINDOW or, of a model with blocks, VISIBILITY_BLOCK. They are
 * copied. `attention`: what they attend to is wanted too. What was computed
 * before is gone. -EINVAL; -EBUSY within a pass, or while one is under way;
 * -ENOMEM.
 */
int refresh_start(
	struct refresh *, const struct rows *, bool attention, struct err *);

/*
 * Whether the results of the last start are there. Deterministic, or with
 * `wait`, it waits until they are. Once true it stays true until the next
 * start; false where there was none.
 */
bool refresh_finish(struct refresh *, bool wait);

/* The results are not wanted: nothing is under way any more. */
void refresh_drop(struct refresh *);

/* ---- results, once finished ---- */

/* A row's last hidden state, before the final norm: float32 [n_embd]. */
const float *refresh_hidden(const struct refresh *, uint32_t row);

/* Logits of n rows, each to its own [n_vocab]; counted, hashed and priced as
 * the session's are. -EPROTO when a state is no number. */
int refresh_logits(struct refresh *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);

/* What a row attends to, mean of all heads, in every layer and over all that
 * was cached: until the next start. Only if it was wanted. */
struct attention_map refresh_attention(const struct refresh *, uint32_t row);

/*
 * Put keys and values of n of the rows (ascending; NULL: of all of them) into
 * the cache, of layers from first_layer on, over whatever is there by now. Can
 * be done more than once. -EBUSY within a pass; -EINVAL when a position is not
 * cached any more; -ENOSPC as sequence_write, and then some may be there.
 */
int refresh_merge(struct refresh *, const uint32_t *row, uint32_t n,
	uint32_t first_layer, struct err *);

struct refresh_stats {
	uint64_t starts, rows;
	uint64_t copied; /* positions to the mirror */
	uint64_t merged; /* positions to the cache */
};
void refresh_stats(const struct refresh *, struct refresh_stats *out);

#endif
