/*
 * A pass under way, for its own files only: session_pass.c has the whole of it,
 * session_blocks.c what is written for the device and the requests of blocks.
 */
#ifndef HOST_SESSION_PASS_IMPL_H
#define HOST_SESSION_PASS_IMPL_H

#include "host/session/session_impl.h"
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

/*
 * Blocks [from, to): requests back to back, which complete behind one another.
 * While layers are streamed the device has two at most, the one that it
 * computes and the next, so that slots are free again soon; between two parts
 * of a layer it computes nothing else.
 */
int pass_run_blocks(struct pass *, uint32_t from, uint32_t to, struct err *);

#endif
