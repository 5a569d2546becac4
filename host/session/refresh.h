/*
 * Sparse refresh of the KV cache (llada.cpp paper, section 3.3). In a diffusion
 * model a token's keys and values become stale when other tokens change,
 * because attention is bidirectional. Instead of recomputing the whole
 * sequence, the host recomputes a few scattered positions through all layers.
 * The host computes with the device's weights, on threads of its own, while the
 * device runs passes. The results are written to the cache between passes,
 * never within a pass.
 *
 *   refresh_start    between passes: takes a snapshot of the cache
 *   session_forward  any number of passes, which may overwrite any position
 *   refresh_finish   returns whether the results are ready
 *   refresh_logits   computes logits of the recomputed positions
 *   refresh_merge    between passes: writes the new keys and values to the
 *                    cache
 *
 * The recomputed rows are computed like the rows of one window or block pass
 * (host/session/rows.h): in each layer, they also attend to each other's new
 * keys and values. The results have the same bytes as in such a pass, for any
 * number of threads. The rows are computed from a copy of the cache
 * (kv_mirror.h), so later passes do not affect the result.
 *
 * There are two modes. In deterministic mode refresh_finish waits for the
 * results. In best-effort mode refresh_finish only reports whether the results
 * are ready. With a simulated phone, the results are ready at a time on the
 * phone's clock: the simulated CPU computes them whenever it would be idle.
 * Then the generated text does not depend on the speed of this machine. Without
 * a simulated phone, the text depends on this speed.
 *
 * Not supported: causal models, whose cache does not become stale; layers
 * streamed from flash, which are not in memory; and models with experts. The
 * caller keeps ownership of the session, which must outlive the refresh. All
 * calls are made on the session's thread.
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
	/* number of threads; 0: a quarter of the session's threads, at least
	 * 1 */
	uint32_t threads;
	bool best_effort;
};

/* Returns 0; -EINVAL for a causal model; -ENOTSUP if layers are streamed or the
 * model has experts; -ENOMEM; or -EAGAIN if no thread can be started. */
int refresh_open(struct refresh **out, struct session *,
	const struct refresh_opts *, struct err *);
/* If a computation is running, wait for it and discard its results. */
void refresh_close(struct refresh *);

/*
 * Start to compute rows of one sequence. Their positions must be cached and
 * must ascend. The visibility is VISIBILITY_WINDOW or, for a model with blocks,
 * VISIBILITY_BLOCK. The rows are copied. With `attention`, attention weights
 * are computed as well. Results of an earlier refresh_start are discarded.
 * Returns 0; -EINVAL for invalid rows; -EBUSY within a pass or while a refresh
 * is running; or -ENOMEM.
 */
int refresh_start(
	struct refresh *, const struct rows *, bool attention, struct err *);

/*
 * Return whether the results of the last refresh_start are ready. In
 * deterministic mode, or if `wait` is set, first wait for the results. Once the
 * result is true, it stays true until the next refresh_start or refresh_drop.
 * Returns false if refresh_start was not called.
 */
bool refresh_finish(struct refresh *, bool wait);

/* Discard the results. If a computation is running, wait for it first. */
void refresh_drop(struct refresh *);

/* ---- results, valid once refresh_finish has returned true ---- */

/* A row's last hidden state, before the final norm: float32 [n_embd]. */
const float *refresh_hidden(const struct refresh *, uint32_t row);

/* Compute the logits of n rows; logits[i] is an array of n_vocab floats for
 * row[i]. The logits are counted, hashed and priced like the session's logits.
 * Returns 0, or -EPROTO if a hidden state is not finite. */
int refresh_logits(struct refresh *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);

/* A row's attention weights, averaged over all heads, for every layer and all
 * cached positions. Requires that refresh_start was called with `attention`.
 * Valid until the next refresh_start. */
struct attention_map refresh_attention(const struct refresh *, uint32_t row);

/*
 * Write the keys and values of n of the recomputed rows to the cache, in all
 * layers from first_layer on; the present contents are overwritten. row[] must
 * ascend; NULL means all rows. May be called several times. Returns 0; -EBUSY
 * within a pass; -EINVAL if a position is no longer cached; or -ENOSPC as
 * sequence_write does, in which case some positions may have been written.
 */
int refresh_merge(struct refresh *, const uint32_t *row, uint32_t n,
	uint32_t first_layer, struct err *);

struct refresh_stats {
	uint64_t starts, rows;
	/* number of cached positions copied to the host's copy of the cache
	 * (kv_mirror.h) */
	uint64_t copied;
	/* number of positions that were written to the cache */
	uint64_t merged;
};
void refresh_stats(const struct refresh *, struct refresh_stats *out);

#endif
