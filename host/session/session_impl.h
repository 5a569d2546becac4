/*
 * The private state of a session. session_open.c opens it, session_attach.c
 * sets up a device for it, session_cache.c keeps sequences, session_pass.c runs
 * passes with the requests of session_blocks.c and session_inflight.c,
 * session_swap.c copies weights by a plan, session_switch.c switches graphs,
 * session.c has logits, work of the host and counters. Included by these files
 * only.
 */
#ifndef HOST_SESSION_SESSION_IMPL_H
#define HOST_SESSION_SESSION_IMPL_H

#include "host/memory/swap_plan.h"
#include "host/npu/phone.h"
#include "host/session/pricing.h"
#include "host/session/session.h"
#include "host/session/session_plan.h"
#include "ipc/brackets.h"

#include <stddef.h>
#include <stdint.h>

struct batch;
struct block;
struct buffer;
struct logits;
struct model;
struct npu;
struct placement;
struct sequences;
struct swap;
struct switching;
struct workers;

#define MAX_INFLIGHT 64
#define DROPPED      UINT32_MAX

/* A buffer that stays mapped on the device. */
struct pinned {
	struct buffer *buffer;
	uint32_t addr;
	bool extended; /* `addr` is in the extended region, not in the window */
};

/* A request that was sent and not retired yet. */
struct inflight {
	uint32_t seq;
	bool done;
	int slot; /* staging slot that it reads; -1: none */
	int swap; /* slot of host/memory/swap.h that it reads; -1: none */
	/* device address, in the extended region if run.extended */
	uint32_t weights;
	struct priced_run run; /* input of the cost model */
	uint64_t asked_ps; /* when its weights were requested, in phone time */
	uint64_t sent_ps;
	uint64_t took_ps, end_ps;
};

/* State of PLACEMENT_SWAP; zero with other placements. */
struct swapping {
	struct swap_plan plan;
	struct pinned *resident; /* [plan.mappings] */
	uint32_t *turn;          /* [blocks] number of a temporary block */
	struct swap *swap;       /* NULL: no temporary blocks */
	struct pinned slot[SWAP_SLOTS];
	/* The plan covers the first blocks; those after them are in the
	 * extended region. */
	uint32_t planned;
	struct pinned *beside; /* [blocks] in the extended region */
};

struct session {
	const struct model *model;
	struct session_opts opts;
	struct session_plan plan;
	struct npu *npu;
	bool owns_npu;
	/* own_brackets, or the other session's, as `time`; NULL: no check */
	struct brackets *brackets;
	struct brackets own_brackets;
	bool attached; /* the current device has all it needs */
	bool refused;  /* the window was too small, and *e was extended once */
	unsigned generation; /* npu_generation of the attached device */
	/* TCM share of the device that the blocks were cut for */
	uint32_t strip_max;
	struct pricing pricing;
	/* if set, replaces the price that the device reports for the request
	 * being waited for */
	const struct price *instead;
	struct trace *trace;     /* of `beside`, or own; NULL: none */
	struct phone_time *time; /* own_time, or that of the session beside */
	struct phone_time own_time;
	uint64_t began_ps;       /* start of the current pass, in phone time */
	struct workers *workers; /* the host's */
	struct logits *logits;
	struct placement *placement; /* NULL: `swapping` is used instead */
	struct swapping swapping;
	struct staging *staging;     /* NULL: all layers are resident */
	struct switching *switching; /* NULL: the device holds all graphs */
	struct flash_fault *fault;
	struct pinned stage[STREAM_SLOTS];
	struct inflight inflight[MAX_INFLIGHT];
	unsigned n_inflight, oldest;
	struct block *block;
	uint32_t n_blocks, first_streamed;
	uint32_t *order; /* [n_blocks] the order in which a pass runs them */
	uint32_t *weights_id; /* [n_blocks] ids of the shared buffers */
	uint32_t first_graph; /* lower ids belong to `beside` */

	struct pinned kv, io;

	struct sequences *sequences;
	struct batch *batch;
	/* The last forward, [max_rows] each: */
	uint32_t hidden_rows;
	uint32_t kept_rows; /* rows that can still be accepted; 0: none */
	enum visibility visibility;
	struct row *row;
	int32_t *above; /* row that must be accepted before it, or -1 */
	/* position of its keys and values in its sequence; the same in the
	 * layers after exit_layers */
	uint32_t *at, *upper;
	uint32_t *place; /* index of its state; or DROPPED */
	/* [max_rows] scratch */
	uint32_t *keep;
	struct row *some;
	void *cut; /* batch_cut of the current pass; NULL: not needed */
	struct session_stats stats;
	/* the member of stats that counts the rows of passes */
	struct row_counts *counts;
};

static inline uint32_t graph_id(
	const struct session *s, uint32_t block, uint32_t kind)
{
	return s->first_graph + block * MAX_GRAPHS + kind;
}

/* Flags of the runs of a pass. */
static inline uint32_t session_flags(const struct session *s)
{
	return (s->opts.attend_apart ? WIRE_RUN_APART : 0) |
		(s->opts.idle ? WIRE_RUN_IDLE : 0);
}

/* Cut the model's layers into blocks, and set up their prices; may be
 * repeated. */
int session_cut_blocks(struct session *, struct err *);

/* Called when the window has no room for something that must be in it: add to
 * *e which window would do, and call opts.window_refused. Only the first call
 * has an effect. */
void session_refuse_window(struct session *, struct err *e);

/* Share a buffer with the device and map it permanently. */
int session_pin(struct session *, struct pinned *, struct err *);
/* The same for weights, in the extended region. */
int session_pin_beside(struct session *, struct pinned *, struct err *);

/* ---- weights that are copied by a plan: session_swap.c ------------------- */

/*
 * session_plan_swap chooses, before the weights are loaded, which blocks stay,
 * and creates their buffers; -ENOSPC when the window cannot hold them.
 * session_open_swap then creates the slots. session_attach_swap maps all of it
 * on a device, also on a replacement.
 */
int session_plan_swap(struct session *, struct err *);
int session_open_swap(struct session *, struct err *);
int session_attach_swap(struct session *, struct err *);
void session_close_swap(struct session *);

/* Wait until the block's weights are in place and set f->weights and f->swap,
 * which f holds even on failure. */
int session_find_swapped(
	struct session *, uint32_t block, struct inflight *, struct err *);

void session_swap_stats(const struct session *, struct session_stats *out);

/*
 * Give the current device what the session needs, in two steps: first the
 * buffers that stay mapped, before the weights are read, so that a window that
 * is too small is reported at once; then weights, graphs and the phone's cost
 * model.
 */
int session_attach_buffers(struct session *, struct err *);
int session_attach_weights(struct session *, struct err *);

/*
 * Attach everything again after a lost device was replaced. Accepted tokens are
 * in the cache unchanged; an interrupted pass must be run again. A session
 * beside another is attached after that one, which reaches the device for both.
 */
int session_take_over(struct session *, struct err *);

/* ---- a lost device is replaced: session_attach.c ---- */

/*
 * `lost` is the result of a call, described by *e. If the call lost the device
 * and opts.restarts allow another, a new device is started, this session and
 * those beside which it runs are attached to it, and 0 is returned: the call is
 * to be repeated. Otherwise returns `lost`, or the new error.
 */
int session_recover(struct session *, int lost, struct err *);

/* Run `attach` for a session that is only partly set up, and repeat it on a
 * replacement whenever the device is lost. */
int session_attach_part(struct session *,
	int (*attach)(struct session *, struct err *), struct err *);

/* Before a pass: if the session that this one is beside got a new device,
 * attach this one to it as well. */
int session_follow(struct session *, struct err *);

/* The layers' parameters in the form that the device receives. */
struct wire_model session_wire_model(const struct session *);

/* Send the load of one graph; *seq (may be NULL) is its number. */
int session_load_graph(struct session *, uint32_t block, uint32_t kind,
	uint32_t *seq, struct err *);

/*
 * Between passes, before the CPU writes `ranges` more ranges of the cache: if
 * these and the ranges that the device has not invalidated yet are more than
 * 32, send a request that has the device invalidate the latter.
 */
int session_report_kv(struct session *, unsigned ranges, struct err *);

/* Logits of n <= LOGITS_ROWS states that were checked; counted and priced.
 * Errors of logits_compute. */
int session_logits_of(struct session *, const float *const *hidden,
	float *const *out, uint32_t n, struct err *);

/* Handle finished flash reads of a session that streams; `arg` is the
 * session. */
void session_read_on(void *arg);

/* ---- requests in flight: session_inflight.c ------------------------------ */

/* From now on this session receives the completions. */
void session_watch(struct session *);
/* Add a request that was sent. */
void inflight_add(struct session *, const struct inflight *);
/* The oldest request without an answer; NULL: none. */
const struct inflight *inflight_oldest(struct session *);
/* Release the swap slot that it reads, at phone time `ps`. */
void inflight_release_swap(struct session *, struct inflight *, uint64_t ps);
/* Wait until all runs are answered. */
int inflight_answered(struct session *, struct err *);
/* Remove answered runs and free the staging slots that they read. */
int inflight_retire(struct session *, struct err *);
/* Wait until all are answered; the phone's host waits for its NPU. */
int inflight_wait(struct session *, struct err *);

/* Drop the requests of a lost device. */
int session_drop_inflight(struct session *, struct err *);

#endif
