/*
 * What the files of a session share: its state. session_open.c opens it,
 * session_attach.c brings it to a device, session_cache.c keeps sequences,
 * session_pass.c runs passes by the requests of session_blocks.c and
 * session_inflight.c, session_swap.c has weights that come and go by a plan,
 * session_switch.c exchanges graphs, session.c keeps the books. Nobody else
 * includes it.
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

/* A buffer the device has mapped for good. */
struct pinned {
	struct buffer *buffer;
	uint32_t addr;
	bool extended; /* beside the window: `addr` is of that region */
};

/* A request that was sent and has not been looked at since it completed. */
struct inflight {
	uint32_t seq;
	bool done;
	int slot;         /* of staging that it reads; -1: none */
	int swap;         /* of the slots of host/memory/swap.h, likewise */
	uint32_t weights; /* device address; run.extended says of which kind */
	struct priced_run run; /* what its price is that of */
	uint64_t asked_ps;     /* for its weights, on the phone's time */
	uint64_t sent_ps;
	uint64_t took_ps, end_ps;
};

/* Of PLACEMENT_SWAP; of the others all zero. */
struct swapping {
	struct swap_plan plan;
	struct pinned *resident; /* [plan.mappings] */
	uint32_t *turn;          /* [blocks] the temporary one's number */
	struct swap *swap;       /* NULL: nothing comes and goes */
	struct pinned slot[SWAP_SLOTS];
	/* Blocks that the plan is of, the first; those behind it lie in the
	 * extended region. */
	uint32_t planned;
	struct pinned *beside; /* [blocks] */
};

struct session {
	const struct model *model;
	struct session_opts opts;
	struct session_plan plan;
	struct npu *npu;
	bool owns_npu;
	struct brackets *tell; /* own_brackets, or as `time`; NULL: no check */
	struct brackets own_brackets;
	bool attached; /* the device at hand has all it needs */
	bool refused;  /* the window had no room, and *e says which would */
	unsigned generation; /* of npu.h: that it was attached to */
	uint32_t strip_max;  /* of the device that the blocks were cut for */
	struct pricing pricing;
	const struct price *instead; /* of the request that is waited for, of
				      * the price told; NULL: that */
	struct trace *trace;         /* that of `beside`, or own; NULL: none */
	struct phone_time *time; /* own_time, or that of the session beside */
	struct phone_time own_time;
	uint64_t began_ps;       /* the pass under way, on it */
	struct workers *workers; /* the host's */
	struct logits *logits;
	struct placement *placement; /* NULL: by `swapping` */
	struct swapping swapping;
	struct staging *staging;     /* NULL: all layers are resident */
	struct switching *switching; /* NULL: all graphs are there */
	struct flash_fault *fault;
	struct pinned stage[STREAM_SLOTS];
	struct inflight inflight[MAX_INFLIGHT];
	unsigned n_inflight, oldest;
	struct block *block;
	uint32_t n_blocks, first_streamed;
	uint32_t *order;      /* [n_blocks] in which a pass runs them */
	uint32_t *weights_id; /* [n_blocks] of the shared buffers */
	uint32_t first_graph; /* below are those of `beside` */

	struct pinned kv, io;

	struct sequences *sequences;
	struct batch *batch;
	/* Of the last forward, [max_rows] each: */
	uint32_t hidden_rows;
	uint32_t kept_rows; /* likewise; 0: none can be accepted */
	enum visibility visibility;
	struct row *row;
	int32_t *above;       /* the row that it is accepted behind, or -1 */
	uint32_t *at, *upper; /* position of its keys and values in its
			       * sequence; in the layers behind exit_layers */
	uint32_t *place;      /* of its state; or DROPPED */
	/* [max_rows] scratch */
	uint32_t *keep;
	struct row *some;
	void *cut; /* batch_cut of the pass under way; NULL: none is wanted */
	struct session_stats stats;
	struct row_counts *counts; /* in stats, that passes go to */
};

static inline uint32_t graph_id(
	const struct session *s, uint32_t block, uint32_t kind)
{
	return s->first_graph + block * MAX_GRAPHS + kind;
}

/* Of the runs of a pass. */
static inline uint32_t session_flags(const struct session *s)
{
	return (s->opts.attend_apart ? WIRE_RUN_APART : 0) |
		(s->opts.idle ? WIRE_RUN_IDLE : 0);
}

/* The model's layers in blocks, and their prices; again, if it was done. */
int session_cut_blocks(struct session *, struct err *);

/* The window has no room for what must be in it: once, add to *e which one
 * would, and show it to whom the options name. */
void session_refuse_window(struct session *, struct err *e);

/* The device is given the buffer and maps it for good. */
int session_pin(struct session *, struct pinned *, struct err *);
/* The same of weights, in the extended region. */
int session_pin_beside(struct session *, struct pinned *, struct err *);

/* ---- weights that come and go by a plan: session_swap.c ---- */

/*
 * Before the weights are loaded: which blocks stay, and their buffers; -ENOSPC
 * when the window does not hold what must be there. Behind it: the slots. Then
 * the device maps them, and another one after it.
 */
int session_plan_swap(struct session *, struct err *);
int session_open_swap(struct session *, struct err *);
int session_attach_swap(struct session *, struct err *);
void session_close_swap(struct session *);

/* Where the block's weights are, once they are: f->weights and f->swap, which
 * is the flight's even where this fails. */
int session_find_swapped(
	struct session *, uint32_t block, struct inflight *, struct err *);

void session_swap_stats(const struct session *, struct session_stats *out);

/*
 * Give the device at hand what the session needs, in two steps: what stays
 * mapped for good, before the weights are read, as a window that is too small
 * is told at once; then the weights, the graphs and the phone.
 */
int session_attach_buffers(struct session *, struct err *);
int session_attach_weights(struct session *, struct err *);

/*
 * When a device was lost and another was reached: attach all again. What was
 * accepted is in the cache as it was; a pass that was broken off is to be run
 * again. A session beside another is attached after that one, which reaches the
 * device for both.
 */
int session_take_over(struct session *, struct err *);

/* ---- a lost device is replaced: session_attach.c ---- */

/*
 * `lost` is what a call came to, and *e says it: where that lost the device and
 * opts.restarts allow another, it is reached, this session and those it is
 * beside are attached to it, and 0 is returned: what failed is to be tried
 * again. Else `lost`, or what went wrong now.
 */
int session_recover(struct session *, int lost, struct err *);

/* That, where only a part of the session is there yet, which `attach` gives to
 * the device at hand: it is taken again until it is through. */
int session_attach_part(struct session *,
	int (*attach)(struct session *, struct err *), struct err *);

/* Before a pass: where the device was replaced meanwhile, for the session that
 * this one is beside, this one is attached to the new one, too. */
int session_follow(struct session *, struct err *);

/* What the layers compute, as the device is told. */
struct wire_model session_wire_model(const struct session *);

/* One graph's load is sent; *seq (may be NULL). */
int session_load_graph(struct session *, uint32_t block, uint32_t kind,
	uint32_t *seq, struct err *);

/*
 * Between passes, before the CPU writes so many more ranges of the cache: where
 * those and the ranges that the device has not invalidated yet are more than 32
 * together, a request of its own has the device invalidate the latter.
 */
int session_report_kv(struct session *, unsigned ranges, struct err *);

/* What was not accepted of the last pass is forgotten. */
void session_settle(struct session *);

/* session_continue, with something beside it. */
int session_continue_with(struct session *, uint32_t sequence,
	const int32_t *token, uint32_t n, const struct session_hooks *,
	struct err *);

/* Logits of n <= LOGITS_ROWS states, which are sound; counted and priced. What
 * logits_compute says. */
int session_logits_of(struct session *, const float *const *hidden,
	float *const *out, uint32_t n, struct err *);

/* See to reads under way, of a session that streams; `arg` is it. */
void session_read_on(void *arg);

/* ---- requests under way: session_inflight.c ---- */

/* From now on completions are told to this session. */
void session_watch(struct session *);
/* One was sent. */
void inflight_add(struct session *, const struct inflight *);
/* The oldest that is not answered; NULL. */
const struct inflight *inflight_under_way(struct session *);
/* What it reads is not read after all, or no longer, on the phone's time at
 * `ps`. */
void inflight_lets_go(struct session *, struct inflight *, uint64_t ps);
/* Until all runs are answered. */
int inflight_answered(struct session *, struct err *);
/* Slots that the answered ones read are free. */
int inflight_retire(struct session *, struct err *);
/* Until all are answered, and the phone's host has waited for its NPU. */
int inflight_wait(struct session *, struct err *);

/* Requests that no device will answer any more. */
int session_drop_inflight(struct session *, struct err *);

#endif
