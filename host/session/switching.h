/*
 * Progressive graph switching, carried out: the device holds one graph a block.
 * A session opens with the prefill graphs; while a prompt is computed the
 * decode graphs take their places by a plan (host/session/graph_switch.h) that
 * is made from measured times, each behind the one it replaces: dropped first,
 * then loaded beside the computing of other blocks. Behind a prompt all blocks
 * have their decode graphs. A later prompt has the prefill graphs loaded again
 * before it begins, one after the other, or is computed by the decode graphs,
 * whichever is expected to end sooner.
 *
 * Times are picoseconds of the phone, where the loader is an engine beside the
 * NPU, or else nanoseconds of the clock on the wall.
 *
 * This is the session's own; nobody else includes it. One thread.
 */
#ifndef HOST_SESSION_SWITCHING_H
#define HOST_SESSION_SWITCHING_H

#include "host/npu/npu.h"
#include "host/session/batch.h"
#include "host/session/graph_switch.h"
#include "host/session/session.h"
#include "ipc/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct inflight;
struct price;

/* In the order of session_plan.graph_rows. */
enum graph_kind { GRAPH_DECODE, GRAPH_PREFILL, GRAPH_KINDS };

/* Some of a pass's rows, for a graph that has fewer than these are. */
struct part {
	struct wire_graph_run run;
	uint32_t first;     /* of its rows */
	uint32_t longest;   /* slots that the row which sees the most sees */
	uint32_t pieces;    /* of the session's `cut`; 0: all see the same */
	size_t off, places; /* of its rows' places in the activations; bytes */
};

/* What runs of a graph take, at two lengths of what their last row sees. */
struct switch_samples {
	uint32_t length[2];
	uint64_t time[2][SWITCH_BLOCKS];
};

struct switching {
	enum graph_kind kind[SWITCH_BLOCKS]; /* that it has or will have */

	/* The load under way: a drop and a load, sent one behind the other. */
	bool dropping, loading;
	bool lacks; /* dropped, and the load could not be sent yet */
	uint32_t drop_seq, load_seq, block;
	uint64_t sent_ps, begin, end;

	struct switch_samples run[GRAPH_KINDS];
	uint64_t load[GRAPH_KINDS][SWITCH_BLOCKS];
	uint64_t *sample; /* [blocks] where runs are being measured; or NULL */
	bool measured;
	struct npu_stats warm_up; /* what measuring took of the device */

	/* A prompt being computed by a plan. */
	bool running;
	struct switch_plan plan;
	uint32_t at, next; /* execution; load */

	bool noting; /* in the log */
	uint64_t began, run_end;
	struct graph_event *log;
	size_t n_log, log_room;
	struct switch_stats stats;

	/* A pass in parts. */
	struct part *part; /* [most_parts] */
	uint32_t n_parts, most_parts;
	struct row *row; /* [rows of the decode graph] */
	struct batch batch;
};

/* Once the blocks are cut. -EINVAL when they are too many. */
int switching_open(struct session *, struct err *);
void switching_close(struct switching *);

/* The graphs that the device at hand shall have; the first one's times are
 * measured, which leaves no trace in the session's counters. */
int switching_attach(struct session *, struct err *);

/* Rows of the graphs that a pass of n rows begins with, padding included. */
uint32_t switching_rows(const struct session *, uint32_t n);

/* What switching came to; what measuring took is taken out of the device's. */
void switching_stats(
	const struct session *, struct npu_stats *, struct switch_stats *out);

/* ---- a prompt ---- */

/*
 * A prompt of n tokens behind `cached` ones: plan it, and load prefill graphs
 * first if that pays. switching_end loads what is left and waits for it; it is
 * called once after each switching_begin that succeeded, whatever became of the
 * prompt, as `ret` says, which it returns unless it fails itself.
 */
int switching_begin(struct session *, uint32_t cached, size_t n, struct err *);
int switching_end(struct session *, int ret, struct err *);

/* The block is about to be computed: begin the loads that come before that, and
 * wait for its own. */
int switching_before(struct session *, uint32_t block, struct err *);

/* Whether that was a drop's or a load's answer. */
bool switching_answered(struct session *, uint32_t seq, const struct price *);
/* A run has ended. */
void switching_ran(struct session *, const struct inflight *, uint64_t busy_ns);

/* ---- loads ---- */

/* Have a block's graph replaced, once the load before it has ended; wait for
 * the load under way. */
int switching_load(
	struct session *, uint32_t block, enum graph_kind, struct err *);
int switching_wait(struct session *, struct err *);

/* ---- measured times: switch_profile.c ---- */

/* All blocks have their prefill graphs, and have them again afterwards. */
int switching_measure(struct session *, struct err *);
/* An execution of `rows` rows behind `cached` tokens by a graph, in as many
 * runs as that takes. */
uint64_t switching_expect(const struct session *, enum graph_kind,
	uint32_t block, uint32_t cached, uint32_t rows);

/* ---- a pass in parts ---- */

/*
 * When some block may have fewer rows in its graph than the session's batch
 * has: cut it into parts, and write their places. -EINVAL when it is no chain,
 * whose parts could follow one another, or when `some` rows may be left behind
 * in its middle.
 */
int switching_cut(struct session *, bool some, struct err *);

#endif
