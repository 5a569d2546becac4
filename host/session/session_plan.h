/*
 * The plan of a session, made before anything is allocated: the context length,
 * the graph sizes, which layers stay in memory, the layout of the buffers and
 * the division of the layers into blocks. The plan depends only on the model,
 * the options and the device's properties. The only side effect is that the
 * array of blocks is allocated.
 */
#ifndef HOST_SESSION_SESSION_PLAN_H
#define HOST_SESSION_SESSION_PLAN_H

#include "host/session/pricing.h"
#include "tensor/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;
struct buffer;
struct err;
struct model;
struct session_opts;

#define MAX_GRAPHS 8 /* maximum number of graph sizes per block */

struct session_plan {
	enum layout layout; /* never LAYOUT_DEFAULT */
	uint32_t threads;
	uint32_t resident; /* number of layers that stay in memory */
	/* number of groups of consecutive layers into which the resident layers
	 * are divided */
	uint32_t runs;
	/* number of staging slots, into which streamed layers are read */
	unsigned stage_slots;
	/* maximum number of parts into which a streamed layer is cut; a slot
	 * holds one part */
	unsigned stage_parts;
	/* whether the output matrix of a flash image is streamed after the
	 * layers */
	bool output_streamed;
	uint32_t context; /* maximum number of tokens of a sequence */
	/* slots: number of cache slots. kv_stride: bytes of the keys (or of the
	 * values) of one slot in one layer. */
	uint32_t slots, kv_stride;
	uint64_t kv_bytes;
	/* Bytes of the device's window reserved for the cache and the
	 * activations. kv_room and io_room exceed kv_bytes and io_bytes if the
	 * session is priced as a larger model (opts.as). */
	uint64_t kv_room, io_room;
	/* With opts.predict_top_k: bytes of the device's window reserved for
	 * the norm and the output matrix; at least the bytes that the real
	 * model needs. */
	uint64_t output_room;
	uint32_t graph_rows[MAX_GRAPHS]; /* in ascending order */
	uint32_t n_graphs, max_rows;
	/* index into graph_rows of the largest graph used for decoding */
	uint32_t decode_graph;
	/* minimum number of blocks into which the resident layers are cut */
	uint32_t least_blocks;
	/* whether each layer of the model whose cost is simulated (opts.as, or
	 * else the real model) is mapped, or copied into the device's window,
	 * separately */
	bool by_layer;
	/* maximum number of spans (ranges of adjacent slots) in a batch */
	uint32_t span_room;
	/* The activation buffer holds the batch, the hidden states and, if
	 * opts.tap_layers is set, the states after that number of layers.
	 * hidden_off, tap_off: offsets of these two kinds of states in the
	 * buffer. io_bytes: bytes of the buffer. */
	size_t hidden_off, tap_off, io_bytes;
	/* with opts.predict_top_k: offset in the activation buffer of the
	 * output graph's results for max_rows rows (struct wire_output) */
	size_t likely_off;
	/* With graph switching, a pass may be divided into parts of fewer rows.
	 * The batches of the parts begin at parts_off, before the hidden
	 * states; each batch takes part_bytes. */
	size_t parts_off, part_bytes;
	/* Bytes of a staging slot, including the RoPE frequencies at its start;
	 * 0 if no layer is streamed. */
	size_t stage_bytes;
	/* With experts: number of experts that have a slot in memory. */
	uint32_t expert_slots;
	/* With experts: offsets in the activation buffer. At scores_off: the
	 * router's scores, float [max_rows][n_expert]. At picks_off: PICK_AREAS
	 * arrays struct wire_pick [max_rows][n_used] of pick_bytes bytes
	 * each. */
	size_t scores_off, picks_off, pick_bytes;
};
/* Maximum number of requests in flight that run experts of one layer. */
#define PICK_AREAS 2

/* Make the plan. Returns 0, or -EINVAL or -EFBIG with a message that names the
 * option that cannot be satisfied. */
int session_plan(struct session_plan *out, const struct model *,
	const struct session_opts *, struct err *);

/*
 * Cut the model's layers into blocks: consecutive layers that have one buffer
 * and run as one request. `strip_max` is the maximum size in bytes of a strip
 * (a piece of a matrix, tensor/layout.h), which a device thread must be able to
 * hold in its local memory. The caller owns *blocks and frees it with
 * weights_release.
 */
int session_plan_blocks(const struct session_plan *, const struct model *,
	const struct session_opts *, size_t strip_max, struct block **blocks,
	uint32_t *n, struct err *);

/* Set up the cost model of the blocks, as the options require. The caller must
 * call pricing_release, even if this function fails. Returns 0 or -ENOMEM. */
int session_plan_pricing(struct pricing *, const struct session_plan *,
	const struct model *, const struct session_opts *, size_t strip_max,
	const struct block *, uint32_t n, struct err *);

/*
 * A part of a block's weights that is mapped, or copied into the window,
 * separately. Usually a block is one unit. If a block stands for many layers of
 * a larger model whose cost is simulated (opts.as, host/session/pricing.h), it
 * is cut into units of whole layers, as large as blocks of the larger model
 * would be. The device reads only the weights in the block's last unit. The
 * other units only reserve addresses and take no memory. A layer of more than
 * BUFFER_MAX bytes has several units; only the last of them has the layer in
 * `layers`.
 */
struct unit {
	uint32_t block;
	struct share layers; /* layers of the model whose cost is simulated */
	bool last;
	uint64_t bytes; /* bytes of the weights of `layers` */
	/* bytes of the device's window that the unit takes: more than `bytes`
	 * if the real block is larger than the corresponding block of the model
	 * whose cost is simulated */
	uint64_t room;
	/* Set by the session. buffer: the unit's own buffer; NULL for the last
	 * unit of a block, which uses the block's buffer. id: id on the device
	 * of the buffer that the unit uses. */
	struct buffer *buffer;
	uint32_t id;
};

/* Cut the blocks that are not streamed into units. The caller frees *units. */
int session_plan_units(const struct session_plan *, const struct session_opts *,
	const struct pricing *, uint32_t n_blocks, struct unit **units,
	uint32_t *n, struct err *);

/* Bytes that a session maps into the device window, rounded up to whole pages.
 * `weights` is the least number of bytes of weights that the placement policy
 * needs in the window. */
struct session_room {
	/* `total`: the sum of all other numbers of bytes, with guard pages */
	uint64_t kv, io, output, staging, weights, total;
	uint64_t beside; /* bytes mapped by other sessions */
	uint32_t slots;  /* number of mappings */
};

/* Another session that uses the same device and keeps all of its weights
 * mapped. `more`: bytes mapped by a third and any later session of the
 * device. */
struct session_beside {
	const struct model *model;
	const struct session_opts *opts;
	uint64_t more;
};

/*
 * The policy for PLACEMENT_AUTO. PLACEMENT_SWAP if times are those of a phone
 * (opts.soc), not all weights fit into the window, and that policy is possible;
 * otherwise PLACEMENT_BELADY. On a phone copies run beside the NPU, and mapping
 * does not; in wall-clock time the policies do not differ measurably.
 */
enum placement_policy session_plan_placement(
	const struct model *, const struct session_opts *, size_t strip_max);

/*
 * Compute the smallest device window in which a session can be opened. With
 * another session on the device (`beside` not NULL), the computed window is
 * large enough, but may not be the smallest. Returns false if no window is
 * large enough or the options are invalid.
 */
bool session_plan_window(const struct model *, const struct session_opts *,
	size_t strip_max, const struct session_beside *, struct session_room *);

#endif
