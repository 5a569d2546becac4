/*
 * A pass under way, for its own files only: session_pass.c has the whole of it
 * and its requests, session_blocks.c what these name and what the CPU writes.
 */
#ifndef HOST_SESSION_PASS_IMPL_H
#define HOST_SESSION_PASS_IMPL_H

#include "host/session/session_impl.h"
#include "host/session/switching.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pass under way. */
struct pass {
	struct session *s;
	const struct session_hooks *hooks;
	struct wire_graph_run run;
	uint32_t kind; /* of graph */
	uint32_t graph_rows;
	uint32_t longest;    /* slots that the row which sees the most sees */
	uint32_t pieces;     /* as in struct part */
	size_t batch;        /* bytes of the rows' places and masks */
	bool told;           /* of what the CPU wrote */
	unsigned generation; /* of the device that it began on */
};

/* The batch, as the CPU writes it: row i has its keys and values in slot
 * at[i]. */
int pass_write_batch(struct pass *, const uint32_t *at, struct err *);
/* What the rows' layers begin with. */
int pass_write_hidden(struct session *, const struct rows *, struct err *);

/* What the CPU wrote since the last request, for the device to invalidate. */
unsigned session_sync_refs(
	struct session *, struct pinned *, struct wire_ref *refs);
/* What a run of a block names beside that. */
unsigned pass_bind(const struct session *, const struct inflight *,
	const struct part *, struct wire_ref *refs);
/* Where the block's weights are, on the device, once they are there. */
int session_find_weights(
	struct session *, uint32_t block, struct inflight *, struct err *);

#endif
