/*
 * A running pass, shared by two files: session_pass.c has the pass and its
 * requests, session_blocks.c their contents and the data that the CPU writes.
 */
#ifndef HOST_SESSION_PASS_IMPL_H
#define HOST_SESSION_PASS_IMPL_H

#include "host/session/session_impl.h"
#include "host/session/switching.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A running pass. */
struct pass {
	struct session *s;
	const struct session_hooks *hooks;
	struct wire_graph_run run;
	uint32_t kind; /* index of its graph's size */
	uint32_t graph_rows;
	uint32_t longest;    /* slots that the row with the most attends to */
	uint32_t pieces;     /* as in struct part */
	size_t batch;        /* bytes of the rows' positions and masks */
	bool refs_sent;      /* ranges written by the CPU have been sent */
	unsigned generation; /* of the device that it began on */
};

/* Write the batch; row i has its keys and values in slot at[i]. */
int pass_write_batch(struct pass *, const uint32_t *at, struct err *);
/* Write the rows' input states. */
int pass_write_hidden(struct session *, const struct rows *, struct err *);

/* List the ranges that the CPU wrote since the last request, for the device to
 * invalidate; returns their number. */
unsigned session_sync_refs(
	struct session *, struct pinned *, struct wire_ref *refs);
/* List the buffers that a run of a block uses. */
unsigned pass_bind(const struct session *, const struct inflight *,
	const struct part *, struct wire_ref *refs);
/* Wait until the block's weights are available to the device; sets their
 * address. */
int session_find_weights(
	struct session *, uint32_t block, struct inflight *, struct err *);

#endif
