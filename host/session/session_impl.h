/*
 * The private state of a session; included only by the files of the session and
 * by tests. session_open.c opens a session, session_attach.c sets up a device,
 * session_cache.c manages the sequences, and refresh.c recomputes parts of the
 * cache. session_prefill.c reads prompts, session_pass.c runs passes with the
 * requests of session_blocks.c and session_inflight.c, session_experts.c runs
 * layers with experts, and session_predict.c gets predictions from the device.
 * session_swap.c copies weights by a plan. session_switch.c switches graphs, by
 * the times that switch_profile.c measures. session.c computes logits, charges
 * host work to simulated phone time, and has the counters.
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
#include <xxhash.h>

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
	/* whether `addr` is in the device's extended region (addresses outside
	 * the device's window that only DMA can read) */
	bool extended;
};

/* Device address of byte `off` of the buffer; in the extended region the
 * address is in units of WIRE_EXTENDED_UNIT bytes. */
static inline uint32_t pinned_at(const struct pinned *p, uint32_t off)
{
	return p->addr + (p->extended ? off / WIRE_EXTENDED_UNIT : off);
}

/* A request to run a block, from the time it is sent until it is retired
 * (inflight_retire). */
struct inflight {
	uint32_t seq;
	bool done;
	/* staging slot (buffer of a streamed layer) that the request reads, or
	 * -1 */
	int slot;
	int swap; /* swap slot (swap.h) that the request reads, or -1 */
	/* device address of the block's weights; in the extended region if
	 * run.extended is set */
	uint32_t weights;
	struct priced_run run; /* description of the run for the cost model */
	/* simulated phone time at which the block's weights were requested */
	uint64_t asked_ps;
	uint64_t sent_ps;
	uint64_t took_ps, end_ps;
	/* bytes of the request and completion rings that the device cleans or
	 * invalidates for this request */
	uint64_t ring_bytes;
};

/* State of PLACEMENT_SWAP. With this placement some resident units (parts of
 * the weights, session_plan.h) are temporary: before each use, their weights
 * are copied into a slot in the device's window. All zero with any other
 * placement. */
struct swapping {
	struct swap_plan plan;
	/* [plan.mappings] buffers that stay mapped; each has the weights of one
	 * or more units */
	struct pinned *resident;
	/* [units] for each temporary unit, its number in the order of copies */
	uint32_t *turn;
	struct swap *swap; /* copies temporary units; NULL if there are none */
	struct pinned slot[SWAP_SLOTS];
	/* `plan` covers the first `planned` units. All later units are in the
	 * device's extended region. */
	uint32_t planned;
	/* [units] mappings of the units in the device's extended region */
	struct pinned *beside;
};

/* The weights of a model with experts. All zero for other models. */
struct mixture {
	/* the weights of all layers except their experts, in one buffer */
	struct pinned dense;
	struct experts *experts;
	struct pinned *buffer; /* [n_buffers] buffers of the cache of experts */
	unsigned n_buffers;
	/* [max_rows][n_used] the experts of each row in the current layer, and
	 * the weights by which their results are multiplied */
	struct route *route;
	uint32_t *wanted; /* [n_expert] scratch: a list of expert numbers */
	/* [n_expert] experts whose weights are read by runs in flight */
	struct expert_place *taken;
	uint32_t n_taken;
	/* Memory for predicting the experts of up to AHEAD_ROWS rows, three
	 * arrays: the rows' states, [AHEAD_ROWS][n_embd]; the normalized
	 * states, of the same size; the router's scores,
	 * [AHEAD_ROWS][n_expert]. */
	float *ahead;
	const struct kern *kern;
	void *scratch; /* scratch memory of `kern` */
};

struct session {
	const struct model *model;
	struct session_opts opts;
	struct session_plan plan;
	struct npu *npu;
	bool owns_npu;
	/* Records the CPU's accesses to shared buffers, so that the device can
	 * name these accesses in reports of coherence violations. Points to
	 * own_brackets, or to those of the session opts.beside. NULL if
	 * accesses are not checked. */
	struct brackets *brackets;
	struct brackets own_brackets;
	/* whether everything that the session needs exists on the current
	 * device */
	bool attached;
	/* Whether session_refuse_window was already called: the device's window
	 * was too small. */
	bool refused;
	/* npu_generation of the device to which the session is attached */
	unsigned generation;
	/* Bytes of local memory (TCM) per device thread. The weights are laid
	 * out in strips of at most this size. */
	uint32_t strip_max;
	struct pricing pricing;
	/* whether passes that prefill a prompt are priced as NPU work even if
	 * pricing.by_cpu is set */
	bool prompts_by_npu;
	/* If not NULL, use this price for the awaited request instead of the
	 * price that the device reports. */
	const struct price *instead;
	/* bytes of the request and completion rings that the device cleans or
	 * invalidates for the awaited request */
	uint64_t instead_rings;
	/* the session's own trace, or the trace of the session opts.beside;
	 * NULL if there is no trace */
	struct trace *trace;
	/* &own_time, or the `time` of the session opts.beside */
	struct phone_time *time;
	struct phone_time own_time;
	/* simulated phone time at which the current pass began */
	uint64_t began_ps;
	struct workers *workers; /* worker threads of the host */
	struct logits *logits;
	/* state of the hash of the bytes of all used rows of logits */
	XXH64_state_t *logits_hash;
	/* maps weights when needed; NULL with swapping */
	struct placement *placement;
	struct swapping swapping;
	struct mixture mix;
	struct staging *staging;     /* NULL without streamed layers */
	struct switching *switching; /* NULL without --graph-switch */
	struct flash_fault *fault;
	struct pinned stage[STREAM_SLOTS];
	/* Used with opts.predict_top_k. output: weights of the output graphs,
	 * which predict the likeliest next tokens. output_graph: description
	 * of the output graphs. */
	struct pinned output;
	struct wire_output output_graph;
	/* [plan.max_rows][opts.predict_top_k] predictions of the device, copied
	 * from shared memory, because the device may write shared memory at any
	 * time. */
	struct wire_likely *likely;
	/* staging slot that holds the part of a streamed output matrix with
	 * which logits are now computed */
	unsigned output_slot;
	struct inflight inflight[MAX_INFLIGHT];
	unsigned n_inflight, oldest;
	struct block *block;
	uint32_t n_blocks, first_streamed;
	/* [n_blocks] block numbers in the order in which a pass runs the
	 * blocks */
	uint32_t *order;
	/* units (parts of the weights) of the resident blocks; the units of
	 * block b are first_unit[b] .. first_unit[b + 1] - 1 */
	struct unit *unit;
	uint32_t n_units, *first_unit;
	/* id of the session's first graph; lower ids belong to the session
	 * opts.beside */
	uint32_t first_graph;

	struct pinned kv, io;
	/* Buffers for the bytes of plan.kv_room beyond BUFFER_MAX. These
	 * buffers only reserve addresses in the device's window, and are never
	 * read or written. */
	struct pinned kv_more[KV_MORE];
	unsigned n_kv_more;

	struct sequences *sequences;
	struct batch *batch;
	/* The most recent forward pass; each array has max_rows entries: */
	uint32_t hidden_rows;
	uint32_t kept_rows; /* number of rows that can still be accepted */
	enum visibility visibility;
	struct row *row;
	/* for each row, the row that must be accepted directly before it; -1 if
	 * no row of the pass must be */
	int32_t *above;
	/* Position of the row's keys and values in its sequence: `at` in the
	 * first opts.exit_layers layers, `upper` in all later layers. */
	uint32_t *at, *upper;
	/* index of the row's hidden state in the activation buffer; DROPPED if
	 * the row was dropped after exit_layers */
	uint32_t *place;
	/* scratch memory, [max_rows] each */
	uint32_t *keep;
	struct row *some;
	/* memory for the pieces (groups of cache slots to which the same rows
	 * attend) that batch_cut makes in a pass; NULL without a simulated
	 * phone */
	void *cut;
	struct session_stats stats;
	/* the member of `stats` to which rows are added now: prompt_rows during
	 * session_prefill, otherwise decode_rows; rows that are marked as part
	 * of a prompt are always added to prompt_rows */
	struct row_counts *counts;
};

/* The buffer that holds the unit's weights. */
static inline struct buffer *unit_buffer(
	const struct session *s, const struct unit *u)
{
	return u->last ? s->block[u->block].buffer : u->buffer;
}

/* Id of a block's graph with plan.graph_rows[kind] rows. block == n_blocks
 * gives the output graphs, whose ids follow the ids of the last block's
 * graphs. */
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
 * request), and set up the prices of the blocks. A second call replaces the
 * blocks of the first call. */
int session_cut_blocks(struct session *, struct err *);

/* Called when the device's window has no room for something that must be in the
 * window. Appends to *e the size of a window that would be large enough, and
 * calls opts.window_refused. Only the first call has an effect. */
void session_refuse_window(struct session *, struct err *e);

/* Share a buffer with the device and map it permanently into the device's
 * window. */
int session_pin(struct session *, struct pinned *, struct err *);
/* Like session_pin, for a buffer of weights. If the device's window has no
 * room, the buffer is mapped into the extended region. */
int session_pin_weights(struct session *, struct pinned *, struct err *);
/* Share a buffer of weights and map it permanently into the device's extended
 * region. */
int session_pin_beside(struct session *, struct pinned *, struct err *);

/* ---- weights that are copied by a plan: session_swap.c ------------------- */

/*
 * session_plan_swap chooses the units (parts of the weights) that stay in the
 * device's window and creates their buffers. session_plan_swap must be called
 * before the weights are loaded, and returns -ENOSPC if the window cannot hold
 * these buffers. session_open_swap creates the slots for the other units.
 * session_attach_swap maps the buffers and the slots on a device, which can
 * also be a replacement device.
 */
int session_plan_swap(struct session *, struct err *);
int session_open_swap(struct session *, struct err *);
int session_attach_swap(struct session *, struct err *);
void session_close_swap(struct session *);

/* Wait until the block's weights are in the device's window or the extended
 * region; set `weights` and `swap` of the request. A temporary block is copied
 * into a swap slot before each use; after the call the request may hold this
 * slot, even if the call failed. */
int session_find_swapped(
	struct session *, uint32_t block, struct inflight *, struct err *);

void session_swap_stats(const struct session *, struct session_stats *out);

/* Set s->fault to the flash faults in the options' fault plan; NULL if there
 * are none. */
int session_flash_fault(struct session *, struct err *);

/* ---- layers with experts: session_experts.c ------------------------------ */

/* Put all blocks except experts into one buffer. Must be called before the
 * weights are loaded. */
int session_share_dense(struct session *, struct err *);
/* Open the cache of experts. */
int session_open_experts(struct session *, struct err *);
/* Map all weights of a model with experts on a device, which can also be a
 * replacement device. */
int session_attach_experts(struct session *, struct err *);
void session_close_experts(struct session *);
/* Expected time, in picoseconds of simulated phone time, for which a pass of
 * `rows` rows waits for absent experts. */
uint64_t session_expect_experts(const struct session *, uint32_t rows);

/*
 * Set up the current device for the session, in two steps.
 * session_attach_buffers maps the buffers that stay mapped. This step comes
 * before the weights are read, so that too small a device window is reported at
 * once. session_attach_weights attaches the weights, the graphs and the cost
 * model of the phone.
 */
int session_attach_buffers(struct session *, struct err *);
int session_attach_weights(struct session *, struct err *);

/*
 * After a lost device was replaced, attach everything to the new device. The
 * cache still has all accepted tokens; an interrupted pass must be run again.
 * If a session shares the device of another session, the other session must be
 * attached first: the other session connects to the device for both sessions.
 */
int session_take_over(struct session *, struct err *);

/* ---- replacing a lost device: session_attach.c ---- */

/*
 * Handle a failed call: `lost` is the call's return value, *e the call's error.
 * If the device was lost and opts.restarts permits a restart, start a new
 * device, attach this session and all sessions on the same device, and return
 * 0; the caller must then repeat the failed call. Otherwise return `lost`, or
 * the error of starting the new device.
 */
int session_recover(struct session *, int lost, struct err *);

/* Call `attach` for a session that is not completely set up yet. If the device
 * is lost during the call, repeat the call on a replacement device. */
int session_attach_part(struct session *,
	int (*attach)(struct session *, struct err *), struct err *);

/* Called before a pass. If this session shares another session's device, and
 * that device was replaced, attach this session to the new device. */
int session_follow(struct session *, struct err *);

/* The parameters of the layers in the form in which they are sent to the
 * device. */
struct wire_model session_wire_model(const struct session *);

/* Send the request that loads one graph. *seq receives the number of the
 * request; seq may be NULL. */
int session_load_graph(struct session *, uint32_t block, uint32_t kind,
	uint32_t *seq, struct err *);

/*
 * Called between passes, before the CPU writes `ranges` ranges of the cache.
 * The device must invalidate ranges that the CPU has written. If the new ranges
 * and the earlier ranges that are not invalidated yet are more than 32, send a
 * request that invalidates the earlier ranges.
 */
int session_report_kv(struct session *, unsigned ranges, struct err *);

/* Compute the logits of n <= LOGITS_ROWS states, which the caller has checked
 * with logits_check. The logits are counted and priced. Returns the errors of
 * logits_compute. */
int session_logits_of(struct session *, const float *const *hidden,
	float *const *out, uint32_t n, struct err *);

/* Handle completed flash reads. Only for sessions with streamed layers. `arg`
 * is the session. */
void session_read_on(void *arg);

/* ---- requests in flight: session_inflight.c ------------------------------ */

/* For npu_watch: deliver completions of the device to the session `arg`. */
void session_request_done(
	void *arg, uint32_t seq, const struct price *, uint64_t busy_ns);
/* Append a request that was sent to the list of requests in flight. */
void inflight_add(struct session *, const struct inflight *);
/* Bytes of the request and completion rings that the device cleans or
 * invalidates for one request with n_refs references and a message of `len`
 * bytes. 0 without --coherence-ctrl or without a simulated phone. */
uint64_t session_ring_bytes(
	const struct session *, unsigned n_refs, size_t len);
/* The oldest request that has no answer yet; NULL if there is none. */
const struct inflight *inflight_oldest(struct session *);
/* Release the swap slot that the request reads, at simulated phone time `ps`.
 * Does nothing if the request reads no swap slot. */
void inflight_release_swap(struct session *, struct inflight *, uint64_t ps);
/* Wait until all requests are answered. */
int inflight_answered(struct session *, struct err *);
/* Remove the answered requests from the list of requests in flight, and free
 * the staging slots that they read. */
int inflight_retire(struct session *, struct err *);
/* Wait until all requests are answered and retired. In simulated phone time,
 * the CPU waits for the NPU. */
int inflight_wait(struct session *, struct err *);

/* Remove all requests that a lost device has not answered. */
int session_drop_inflight(struct session *, struct err *);

#endif
