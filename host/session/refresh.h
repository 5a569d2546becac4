/*
 * Sparse refresh of the KV cache (llada.cpp paper, section 3.3). In a diffusion
 * model a token's keys and values become stale when other tokens change, as
 * attention is bidirectional. Instead of recomputing the whole sequence, the
 * host recomputes a few scattered positions through all layers, from the
 * device's own weights, on threads of its own while the device runs passes. The
 * results are merged into the cache between passes, never within one.
 *
 *   refresh_start    between passes: takes a snapshot of the cache, version s
 *   session_forward  any number of passes, which may overwrite anything
 *   refresh_finish   whether the results are ready
 *   refresh_logits   logits of the recomputed positions
 *   refresh_merge    between passes: writes their keys and values to the cache
 *
 * A recomputed row attends to what a row of a window (or block) pass of the
 * same rows would attend to, including the other rows' new keys and values of
 * the same layer, and has the same bytes, whatever the number of threads. It
 * reads a copy of the cache (kv_mirror.h), so it does not see later writes of
 * passes.
 *
 * There are two ways to finish. Deterministic: refresh_finish waits. Best
 * effort: refresh_finish reports whether the results are ready, by the wall
 * clock or, with a phone, by the phone's, whose CPU works on the refresh
 * whenever it would wait; then results depend on speed, but with a phone not on
 * this machine's.
 *
 * Not supported: causal models, whose cache does not become stale, and layers
 * streamed from flash, which are not in memory. The session is borrowed and
 * must outlive the refresh; all calls are made by its thread.
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
	uint32_t threads; /* 0: a quarter of the session's, but at least 1 */
	bool best_effort;
};

/* -EINVAL and -ENOTSUP for unsupported models; -ENOMEM, -EAGAIN. */
int refresh_open(struct refresh **out, struct session *,
	const struct refresh_opts *, struct err *);
/* Waits for a running computation and drops its results. */
void refresh_close(struct refresh *);

/*
 * Start to compute rows of one sequence, at cached positions, ascending;
 * VISIBILITY_WINDOW or, for a model with blocks, VISIBILITY_BLOCK. The rows are
 * copied. `attention`: attention weights are needed, too. Earlier results are
 * dropped. -EINVAL; -EBUSY within a pass, or while a refresh is running;
 * -ENOMEM.
 */
int refresh_start(
	struct refresh *, const struct rows *, bool attention, struct err *);

/*
 * Whether the results of the last start are ready. In deterministic mode, or
 * with `wait`, waits for them. Once true it stays true until the next start;
 * false if nothing was started.
 */
bool refresh_finish(struct refresh *, bool wait);

/* Drop the results; waits for a running computation. */
void refresh_drop(struct refresh *);

/* ---- results, once finished ---- */

/* A row's last hidden state, before the final norm: float32 [n_embd]. */
const float *refresh_hidden(const struct refresh *, uint32_t row);

/* Logits of n rows, each to its own [n_vocab]; counted, hashed and priced like
 * the session's. -EPROTO when a state is not finite. */
int refresh_logits(struct refresh *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);

/* A row's attention weights, the mean of all heads, in every layer and over all
 * cached positions; valid until the next start. Only if they were requested. */
struct attention_map refresh_attention(const struct refresh *, uint32_t row);

/*
 * Write the keys and values of n of the rows (ascending; NULL: all of them) to
 * the cache, for layers from first_layer on, over the cache's present contents.
 * Can be repeated. -EBUSY within a pass; -EINVAL when a position is no longer
 * cached; -ENOSPC as in sequence_write, and then some may have been written.
 */
int refresh_merge(struct refresh *, const uint32_t *row, uint32_t n,
	uint32_t first_layer, struct err *);

struct refresh_stats {
	uint64_t starts, rows;
	uint64_t copied; /* positions copied to the mirror */
	uint64_t merged; /* positions merged into the cache */
};
void refresh_stats(const struct refresh *, struct refresh_stats *out);

#endif
