/*
 * Progressive graph switching: the device holds one graph per block. A session
 * opens with the prefill graphs; during a prompt they are replaced by the
 * decode graphs, by a plan from measured times (host/session/graph_switch.h): a
 * graph is dropped, then its successor is loaded while other blocks are
 * computed. After a prompt all blocks have their decode graphs. For a later
 * prompt the prefill graphs are loaded again first, one after the other, or the
 * decode graphs compute it, whichever is expected to end earlier.
 *
 * Times are picoseconds of the phone, where the loader works in parallel with
 * the NPU, or else nanoseconds of the wall clock.
 *
 * Private to the session. One thread.
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

/* Part of a pass's rows, for a graph with fewer rows than the pass. */
struct part {
	struct wire_graph_run run;
	uint32_t first;   /* index of its first row */
	uint32_t longest; /* slots that the row with the most attends to */
	/* of the session's `cut`; 0: all rows have the same mask */
	uint32_t pieces;
	/* offset and bytes of its batch in the activations */
	size_t off, places;
};

/* Measured times of runs of a graph, at two lengths of the last row's mask. */
struct switch_samples {
	uint32_t length[2];
	uint64_t time[2][SWITCH_BLOCKS];
};

struct switching {
	enum graph_kind kind[SWITCH_BLOCKS]; /* present, or being loaded */

	/* The current load: a drop and a load, sent one after the other. */
	bool dropping, loading;
	bool lacks; /* dropped, but the load could not be sent yet */
	uint32_t drop_seq, load_seq, block;
	uint64_t sent_ps, begin, end;

	struct switch_samples run[GRAPH_KINDS];
	uint64_t load[GRAPH_KINDS][SWITCH_BLOCKS];
	uint64_t *sample; /* [blocks] while runs are measured; else NULL */
	bool measured;
	/* the device's counters for the measurement */
	struct npu_stats warm_up;

	/* A prompt that is computed by a plan. */
	bool running;
	struct switch_plan plan;
	uint32_t at, next; /* current execution; next load of the plan */

	bool noting; /* events are logged */
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

/* Called once the blocks are cut. -EINVAL when they are too many. */
int switching_open(struct session *, struct err *);
void switching_close(struct switching *);

/* Load the graphs on the current device; on the first one, measure times, which
 * leaves the session's counters unchanged. */
int switching_attach(struct session *, struct err *);

/* Rows of the graphs that a pass of n rows begins with, padding included. */
uint32_t switching_rows(const struct session *, uint32_t n);

/* Counters of switching; the measurement is subtracted from the device's. */
void switching_stats(
	const struct session *, struct npu_stats *, struct switch_stats *out);

/* ---- a prompt ---- */

/*
 * Before a prompt of n tokens after `cached` ones: plan it, and load prefill
 * graphs first if that pays. switching_end, after each successful
 * switching_begin, loads the remaining graphs and waits for them; `ret` is the
 * result of the prompt, which it returns unless it fails itself.
 */
int switching_begin(struct session *, uint32_t cached, size_t n, struct err *);
int switching_end(struct session *, int ret, struct err *);

/* Before a block is computed: begin the loads that the plan has here, and wait
 * for the block's own. */
int switching_before(struct session *, uint32_t block, struct err *);

/* Handle the answer of a drop or a load; false if `seq` is neither. */
bool switching_answered(struct session *, uint32_t seq, const struct price *);
/* A run has ended. */
void switching_ran(struct session *, const struct inflight *, uint64_t busy_ns);

/* ---- loads ---- */

/* Replace a block's graph, once the load before it has ended; wait for the
 * current load. */
int switching_load(
	struct session *, uint32_t block, enum graph_kind, struct err *);
int switching_wait(struct session *, struct err *);

/* ---- measured times: switch_profile.c ---- */

/* Requires that all blocks have their prefill graphs, and restores them. */
int switching_measure(struct session *, struct err *);
/* Expected time of `rows` rows after `cached` tokens with a graph, in several
 * runs if needed. */
uint64_t switching_expect(const struct session *, enum graph_kind,
	uint32_t block, uint32_t cached, uint32_t rows);

/* ---- a pass in parts ---- */

/*
 * If some block's graph may have fewer rows than the session's batch: cut the
 * batch into parts, and write them. -EINVAL when the batch is no chain, whose
 * parts can follow one another, or with `some`: rows may be dropped in its
 * middle.
 */
int switching_cut(struct session *, bool some, struct err *);

#endif
