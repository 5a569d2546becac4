/*
 * What session.c and session_open.c share: the session's state. Nobody else
 * includes it.
 */
#ifndef HOST_SESSION_IMPL_H
#define HOST_SESSION_IMPL_H

#include "host/session.h"

#include <stddef.h>
#include <stdint.h>

struct block;
struct buffer;
struct logits;
struct model;
struct npu;
struct placement;
struct workers;

#define MAX_GRAPHS 2 /* sizes of graph a block has */

/* A buffer the device has mapped for good. */
struct pinned {
	struct buffer *buffer;
	uint32_t addr;
};

struct session {
	const struct model *model;
	struct session_opts opts;
	struct npu *npu;
	struct workers *workers; /* the host's */
	struct logits *logits;
	struct placement *placement;
	struct block *block;
	uint32_t n_blocks;
	uint32_t *weights_id;            /* [n_blocks] of the shared buffers */
	uint32_t graph_rows[MAX_GRAPHS]; /* ascending */
	uint32_t n_graphs, max_rows;

	struct pinned kv, io;
	uint32_t context, kv_stride;
	size_t hidden_off; /* in io, behind the batch */

	uint32_t length;      /* tokens in the cache */
	uint32_t hidden_rows; /* of the last forward */
	uint32_t tree_rows;   /* likewise, until something was accepted */
	int32_t *parent;      /* [max_rows] of the last forward */
	uint32_t *identity;   /* [max_rows] 0 1 2 .. */
	struct session_stats stats;
	bool in_prompt; /* for stats.prompt_price */
};

static inline uint32_t graph_id(uint32_t block, uint32_t kind)
{
	return block * MAX_GRAPHS + kind;
}

#endif
