/*
 * A running pass (one execution of the model for a batch of rows).
 * session_pass.c runs the pass and sends its requests; session_blocks.c
 * prepares the contents of the requests and the data that the CPU writes for
 * them.
 */
#ifndef HOST_SESSION_PASS_IMPL_H
#define HOST_SESSION_PASS_IMPL_H

#include "host/session/session_impl.h"
#include "host/session/switching.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pass {
	struct session *s;
	const struct session_hooks *hooks;
	struct wire_graph_run run;
	/* size of the graph that the pass runs, as an index of
	 * plan.graph_rows */
	uint32_t kind;
	uint32_t graph_rows;
	/* largest number of cache slots that a row attends to */
	uint32_t longest;
	/* number of pieces (groups of cache slots to which the same rows
	 * attend) that batch_cut makes */
	uint32_t pieces;
	/* bytes of the batch: positions, slots and masks of the rows */
	size_t batch;
	/* whether a request has listed the ranges that the CPU wrote for this
	 * pass, so that the device invalidates them */
	bool refs_sent;
	/* npu_generation when the pass began; npu_generation grows when a lost
	 * device is replaced */
	unsigned generation;
	uint64_t began_ns;
	/* number of padding rows, which end_pass adds to
	 * session_stats.padded_rows */
	uint32_t padded;
	/* value of graph_rows before rows were dropped after exit_layers */
	uint32_t first_graph_rows;
};

/* Write the batch to shared memory; at[i] is the position of row i's keys and
 * values in the row's sequence. */
int pass_write_batch(struct pass *, const uint32_t *at, struct err *);
/* Write the rows' input states (rows->state or, if it is NULL, the token
 * embeddings) to shared memory. */
int pass_write_hidden(struct session *, const struct rows *, struct err *);

/* List in refs[] the ranges of a buffer that the CPU wrote since the previous
 * call for this buffer. The device must invalidate these ranges. Returns the
 * number of ranges. */
unsigned session_sync_refs(
	struct session *, struct pinned *, struct wire_ref *refs);
/* List in refs[] the memory ranges that the run of a block uses. Returns the
 * number of ranges. */
unsigned pass_bind(const struct session *, const struct inflight *,
	const struct part *, struct wire_ref *refs);
/* Device address of the rows' states after `layers` layers. The states after
 * opts.tap_layers layers are stored at a separate address, which the rest of
 * the pass does not overwrite. */
uint32_t pass_states_at(
	const struct session *, uint32_t layers, uint32_t first_row);
/* Run the experts of a block's layer: choose the experts of each row from the
 * router's scores, and send runs of these experts as the experts' weights
 * become available. */
int pass_run_experts(struct pass *, uint32_t block, struct err *);
/* Wait until the device can read the block's weights, and set `weights` of the
 * inflight request to their device address. */
int session_find_weights(
	struct session *, uint32_t block, struct inflight *, struct err *);

#endif
