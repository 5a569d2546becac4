/*
 * The private state of a session, for the files of the session only.
 * session_open.c opens it, session_attach.c sets up a device for it,
 * session_cache.c keeps the sequences, session_pass.c runs passes with the
 * requests of session_blocks.c and session_inflight.c, session_swap.c copies
 * weights by a plan, and session_switch.c switches graphs. session.c has the
 * logits, the accounting of host work, and the counters.
 */
#ifndef HOST_SESSION_SESSION_IMPL_H
#define HOST_SESSION_SESSION_IMPL_H

#include "host/memory/swap_plan.h"
#include "host/memory/weights.h"
#include "host/npu/phone.h"
#include "host/session/pricing.h"
#include "host/session/session.h"
#include "host/session/session_plan.h"
#include "ipc/brackets.h"
#include "ipc/wire.h"
#include "shm/buffer.h"

#include <stddef.h>
#include <stdint.h>

struct batch;
struct block;
struct buffer;
struct expert_place;
struct experts;
struct kern;
struct logits;
struct model;
struct npu;
struct placement;
struct route;
struct sequences;
struct swap;
struct switching;
struct workers;

#define MAX_INFLIGHT 64
#define KV_MORE      (WIRE_WINDOW_MAX / BUFFER_MAX)
#define DROPPED      UINT32_MAX

/* A buffer that stays mapped on the device, and its device address. */
struct pinned {
	struct buffer *buffer;
	uint32_t addr;
	/* `addr` is in the device's extended region (addresses outside the
	 * window that only DMA can read) */
	bool extended;
};

/* Device address of byte `off` of the buffer, in units in the extended
 * region. */
static inline uint32_t pinned_at(const struct pinned *p, uint32_t off)
{
	return p->addr + (p->extended ? off / WIRE_EXTENDED_UNIT : off);
}

/* A request to run a block that was sent to the device and is not retired
 * yet. */
struct inflight {
	uint32_t seq;
	bool done;
	int slot; /* staging slot that it reads, or -1 */
	int swap; /* slot of host/memory/swap.h that it reads, or -1 */
	/* device address of its weights; in the extended region if run.extended
	 * is set */
	uint32_t weights;
	struct priced_run run; /* the run as the cost model sees it */
	/* simulated phone time at which its weights were requested */
	uint64_t asked_ps;
	uint64_t sent_ps;
	uint64_t took_ps, end_ps;
	uint64_t ring_bytes; /* of session_ring_bytes */
};

/* State of PLACEMENT_SWAP, where some resident units are temporary: before
 * each use their weights are copied into a slot in the window. All zero with
 * another placement. */
struct swapping {
	struct swap_plan plan;
	struct pinned *resident; /* [plan.mappings] units that stay mapped */
	/* [units] for a temporary unit, its index in the order of copies */
	uint32_t *turn;
	struct swap *swap; /* NULL if no unit is temporary */
	struct pinned slot[SWAP_SLOTS];
	/* The plan covers this many units from the first on. The units after
	 * them are in the extended region. */
	uint32_t planned;
	/* [units] mappings of the units in the extended region */
	struct pinned *beside;
};

/* The weights of a model with experts. All zero for other models. */
struct mixture {
	/* the weights of all layers except their experts, in one buffer */
	struct pinned dense;
	struct experts *experts;
	struct pinned *buffer; /* [n_buffers] of the cache of experts */
	unsigned n_buffers;
	/* [max_rows][n_used] the experts of each row in the current layer, and
	 * their weights */
	struct route *route;
	uint32_t *wanted; /* [n_expert] scratch memory: numbers of experts */
	/* [n_expert] experts that runs in flight read */
	struct expert_place *taken;
	uint32_t n_taken;
	/* To predict experts: states of some rows, [n_embd] each, the same
	 * normalized, and [n_expert] products of the router. */
	float *ahead;
	const struct kern *kern;
	void *scratch; /* of kern */
};

struct session {
	const struct model *model;
	struct session_opts opts;
	struct session_plan plan;
	struct npu *npu;
	bool owns_npu;
	/* Checks that CPU and device accesses are bracketed: own_brackets, or
	 * the brackets of the session beside. NULL if nothing is checked. */
	struct brackets *brackets;
	struct brackets own_brackets;
	/* everything the session needs is set up on the current device */
	bool attached;
	/* The window was too small, and the error message already says which
	 * window would do. */
	bool refused;
	/* npu_generation of the device to which the session is attached */
	unsigned generation;
	/* TCM bytes of a device thread, for which the blocks were cut */
	uint32_t strip_max;
	struct pricing pricing;
	/* pricing.by_cpu is not for passes that prefill a prompt */
	bool prompts_by_npu;
	/* If not NULL, this price replaces the one that the device reports for
	 * the request that is being waited for. */
	const struct price *instead;
	uint64_t instead_rings; /* session_ring_bytes of that request */
	/* own trace, or that of the session `beside`; NULL if there is none */
	struct trace *trace;
	/* own_time, or the time of the session `beside` */
	struct phone_time *time;
	struct phone_time own_time;
	/* simulated phone time at which the current pass began */
	uint64_t began_ps;
	struct workers *workers; /* worker threads of the host */
	struct logits *logits;
	struct placement *placement; /* NULL if `swapping` is used instead */
	struct swapping swapping;
	struct mixture mix;
	struct staging *staging;     /* NULL if all layers are resident */
	struct switching *switching; /* NULL if the device holds all graphs */
	struct flash_fault *fault;
	struct pinned stage[STREAM_SLOTS];
	/* with opts.predict_top_k: the weights of the output graphs, and what
	 * these compute */
	struct pinned output;
	struct wire_output output_graph;
	/* [plan.max_rows][opts.predict_top_k] what the device predicted, copied
	 * because it may write shared memory at any time */
	struct wire_likely *likely;
	/* the slot with the part of the output matrix that is being used */
	unsigned output_slot;
	struct inflight inflight[MAX_INFLIGHT];
	unsigned n_inflight, oldest;
	struct block *block;
	uint32_t n_blocks, first_streamed;
	/* [n_blocks] blocks in the order in which a pass runs them */
	uint32_t *order;
	/* units of the resident blocks; those of block b are first_unit[b] ..
	 * first_unit[b + 1] - 1 */
	struct unit *unit;
	uint32_t n_units, *first_unit;
	/* id of the first graph; lower ids belong to `beside` */
	uint32_t first_graph;

	struct pinned kv, io;
	/* The part of plan.kv_room beyond BUFFER_MAX, which is never touched.
	 */
	struct pinned kv_more[KV_MORE];
	unsigned n_kv_more;

	struct sequences *sequences;
	struct batch *batch;
	/* The last forward pass; each array has max_rows entries: */
	uint32_t hidden_rows;
	uint32_t kept_rows; /* number of rows that can still be accepted */
	enum visibility visibility;
	struct row *row;
	/* for each row, the row that must be accepted before it, or -1 */
	int32_t *above;
	/* Position of the row's keys and values in its sequence: in the layers
	 * up to exit_layers, and in the layers after them. */
	uint32_t *at, *upper;
	uint32_t *place; /* index of the row's state, or DROPPED */
	/* scratch memory, [max_rows] each */
	uint32_t *keep;
	struct row *some;
	/* memory of batch_cut for the current pass; NULL if not needed */
	void *cut;
	struct session_stats stats;
	/* the member of `stats` that counts the rows of passes: prompt_rows or
	 * decode_rows */
	struct row_counts *counts;
};

/* The buffer that holds the unit's weights. */
static inline struct buffer *unit_buffer(
	const struct session *s, const struct unit *u)
{
	return u->last ? s->block[u->block].buffer : u->buffer;
}

/* Id of a block's graph. The output graphs follow those of the last block:
 * their `block` is n_blocks. */
static inline uint32_t graph_id(
	const struct session *s, uint32_t block, uint32_t kind)
{
	return s->first_graph + block * MAX_GRAPHS + kind;
}

/* Flags for the graph runs of a pass. */
static inline uint32_t session_flags(const struct session *s)
{
	return (s->opts.attend_apart ? WIRE_RUN_APART : 0) |
		(s->opts.idle ? WIRE_RUN_IDLE : 0);
}

/* Cut the model's layers into blocks (consecutive layers that run as one
 * request), and set up the prices of the blocks. May be called again, after
 * which the earlier blocks are replaced. */
int session_cut_blocks(struct session *, struct err *);

/* Called when the window has no room for something that must be in it. Adds to
 * *e the size of a window that would be large enough, and calls
 * opts.window_refused. Only the first call has an effect. */
void session_refuse_window(struct session *, struct err *e);

/* Share a buffer with the device and map it permanently into the window. */
int session_pin(struct session *, struct pinned *, struct err *);
/* The same for a buffer of weights; if the window has no room for it, it is
 * mapped into the extended region. */
int session_pin_weights(struct session *, struct pinned *, struct err *);
/* Share a buffer of weights and map it permanently into the device's extended
 * region. */
int session_pin_beside(struct session *, struct pinned *, struct err *);

/* ---- weights that are copied by a plan: session_swap.c ------------------- */

/*
 * session_plan_swap is called before the weights are loaded: it chooses the
 * blocks that stay in the window and creates their buffers. It returns -ENOSPC
 * if the window cannot hold these buffers. session_open_swap then creates the
 * slots for the other blocks. session_attach_swap maps the buffers and the
 * slots on a device, which can also be a replacement device.
 */
int session_plan_swap(struct session *, struct err *);
int session_open_swap(struct session *, struct err *);
int session_attach_swap(struct session *, struct err *);
void session_close_swap(struct session *);

/* Wait until the block's weights are in place; set `weights` and `swap` of the
 * request. If the block is temporary, the request then holds a swap slot, even
 * if the call fails. */
int session_find_swapped(
	struct session *, uint32_t block, struct inflight *, struct err *);

void session_swap_stats(const struct session *, struct session_stats *out);

/* Set s->fault to the faults of flash that the options plan, if any. */
int session_flash_fault(struct session *, struct err *);

/* ---- layers with experts: session_experts.c ------------------------------ */

/* Put the blocks that are no experts into one buffer. Call this before the
 * weights are loaded. */
int session_share_dense(struct session *, struct err *);
/* Open the cache of experts. */
int session_open_experts(struct session *, struct err *);
/* Map all weights of a model with experts on a device, which can also be a
 * replacement device. */
int session_attach_experts(struct session *, struct err *);
void session_close_experts(struct session *);
/* Picoseconds for which a pass of `rows` rows is likely to wait for absent
 * experts on the simulated phone. */
uint64_t session_expect_experts(const struct session *, uint32_t rows);

/*
 * Set up the current device for the session, in two steps. The first step maps
 * the buffers that stay mapped. It runs before the weights are read, so that a
 * window that is too small is reported at once. The second step attaches the
 * weights, the graphs and the cost model of the phone.
 */
int session_attach_buffers(struct session *, struct err *);
int session_attach_weights(struct session *, struct err *);

/*
 * Attach everything again after a lost device was replaced. The cache still has
 * all accepted tokens; an interrupted pass must be run again. A session that
 * shares the device of another session must be attached after that session,
 * which connects to the device for both.
 */
int session_take_over(struct session *, struct err *);

/* ---- replacing a lost device: session_attach.c ---- */

/*
 * Handle a failed call: `lost` is its return value, *e its error. If the call
 * lost the device and opts.restarts permits another one, this function starts a
 * new device, attaches the session and the sessions with which it shares the
 * device, and returns 0; the caller must then repeat the call. Otherwise it
 * returns `lost`, or the error of starting the new device.
 */
int session_recover(struct session *, int lost, struct err *);

/* Call `attach` for a session that is only partly set up. If the device is lost
 * meanwhile, call it again on a replacement device. */
int session_attach_part(struct session *,
	int (*attach)(struct session *, struct err *), struct err *);

/* Called before a pass. If this session shares the device of another session,
 * and that session got a new device, attach this session to the new device as
 * well. */
int session_follow(struct session *, struct err *);

/* The parameters of the layers in the form in which they are sent to the
 * device. */
struct wire_model session_wire_model(const struct session *);

/* Send the request that loads one graph. *seq receives the number of the
 * request; seq may be NULL. */
int session_load_graph(struct session *, uint32_t block, uint32_t kind,
	uint32_t *seq, struct err *);

/*
 * Called between passes, before the CPU writes `ranges` ranges of the cache. If
 * these ranges and the ranges that the device has not invalidated yet are more
 * than 32 in total, this sends a request in which the device invalidates the
 * earlier ranges.
 */
int session_report_kv(struct session *, unsigned ranges, struct err *);

/* Compute the logits of n <= LOGITS_ROWS states, which the caller has checked
 * with logits_check; count and price them. Returns the errors of
 * logits_compute. */
int session_logits_of(struct session *, const float *const *hidden,
	float *const *out, uint32_t n, struct err *);

/* Handle completed flash reads if the session streams layers. `arg` is the
 * session. */
void session_read_on(void *arg);

/* ---- requests in flight: session_inflight.c ------------------------------ */

/* From this call on, completions of the device are delivered to this
 * session. */
void session_watch(struct session *);
/* Append a request that was sent. */
void inflight_add(struct session *, const struct inflight *);
/* Bytes of the rings that the device maintains for a request of n_refs
 * references and `len` bytes of message: 0 without --coherence-ctrl or without
 * a phone. */
uint64_t session_ring_bytes(
	const struct session *, unsigned n_refs, size_t len);
/* The oldest request that has no answer yet; NULL if there is none. */
const struct inflight *inflight_oldest(struct session *);
/* Release the swap slot that the request reads, at simulated phone time `ps`.
 * Does nothing if the request reads none. */
void inflight_release_swap(struct session *, struct inflight *, uint64_t ps);
/* Wait until all requests are answered. */
int inflight_answered(struct session *, struct err *);
/* Remove the answered requests from the list and free the staging slots that
 * they read. */
int inflight_retire(struct session *, struct err *);
/* Wait until all requests are answered and retired. In simulated phone time,
 * the host waits for the NPU. */
int inflight_wait(struct session *, struct err *);

/* Remove all requests of a lost device. */
int session_drop_inflight(struct session *, struct err *);

#endif
