/*
 * Progressive graph switching: the device holds one graph per block. A session
 * opens with the prefill graphs. During a prompt the prefill graphs are
 * replaced by the decode graphs, by a plan that is made from measured times
 * (host/session/graph_switch.h): a block's prefill graph is dropped, and the
 * decode graph is loaded while other blocks are computed. After a prompt all
 * blocks have their decode graphs. A later prompt either starts with loading
 * the prefill graphs again, one after the other, or is computed by the decode
 * graphs, whichever is expected to end earlier.
 *
 * Times are picoseconds on the clock of the simulated phone, whose graph loader
 * works in parallel with the NPU, or nanoseconds of the wall clock if there is
 * no simulated phone.
 *
 * Private to the session. All calls must be made on one thread.
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

/* Kind of a graph: an index of session_plan.graph_rows. */
enum graph_kind { GRAPH_DECODE, GRAPH_PREFILL, GRAPH_KINDS };

/* Some of the rows of a pass. A pass is cut into such parts if a graph has
 * fewer rows than the pass. */
struct part {
	struct wire_graph_run run;
	uint32_t first; /* index of the part's first row in the pass */
	/* largest number of cache slots that a row attends to */
	uint32_t longest;
	/* number of pieces (groups of cache slots to which the same rows
	 * attend) that batch_cut stored in the session's `cut`; 0 if the cost
	 * model assumes `longest` slots for each row */
	uint32_t pieces;
	/* off: offset of the part's batch in the activation buffer. places:
	 * size of the part's batch in bytes. */
	size_t off, places;
};

/* Measured times of runs of a graph, at two lengths. A length is the number of
 * tokens that the last row attends to. */
struct switch_samples {
	uint32_t length[2];
	uint64_t time[2][SWITCH_BLOCKS];
};

struct switching {
	/* the block's graph, or the graph that is being loaded for the block */
	enum graph_kind kind[SWITCH_BLOCKS];

	/* A load consists of a request to drop the old graph, followed by a
	 * request to load the new graph. dropping, loading: whether these
	 * requests of the current load are in flight. */
	bool dropping, loading;
	/* whether the request to drop the old graph was sent, but the request
	 * to load the new graph could not be sent yet */
	bool lacks;
	uint32_t drop_seq, load_seq, block;
	uint64_t sent_ps, begin, end;

	struct switch_samples run[GRAPH_KINDS];
	uint64_t load[GRAPH_KINDS][SWITCH_BLOCKS];
	/* [blocks] receives the measured times of runs; NULL if no measurement
	 * is running */
	uint64_t *sample;
	bool measured;
	/* amounts by which switching_measure increased the device's counters */
	struct npu_stats warm_up;

	/* State of a prompt that is computed according to a plan. running:
	 * whether such a prompt is being computed. */
	bool running;
	struct switch_plan plan;
	/* at: number of executions (an execution is the computation of a chunk
	 * by a block) that have begun for this prompt. next: index of the
	 * plan's next load. */
	uint32_t at, next;

	bool noting; /* whether events are added to `log` */
	uint64_t began, run_end;
	struct graph_event *log;
	size_t n_log, log_room;
	struct switch_stats stats;

	/* A pass that is cut into parts. */
	struct part *part; /* [most_parts] */
	uint32_t n_parts, most_parts;
	/* the rows of the part that is being written; the array has as many
	 * elements as the decode graph has rows */
	struct row *row;
	struct batch batch;
};

/* Call this after the layers have been cut into blocks. Returns -EINVAL if
 * there are too many blocks. */
int switching_open(struct session *, struct err *);
void switching_close(struct switching *);

/* Load the graphs on the current device. On the first device, also measure the
 * times of runs and loads; the measurement leaves the session's counters
 * unchanged. */
int switching_attach(struct session *, struct err *);

/* Number of rows, including padding, that the first block computes in a pass of
 * n rows. */
uint32_t switching_rows(const struct session *, uint32_t n);

/* Get the counters of graph switching, and subtract from *npu the amounts by
 * which switching_measure increased the device's counters. */
void switching_stats(
	const struct session *, struct npu_stats *, struct switch_stats *out);

/* ---- a prompt ---- */

/*
 * switching_begin is called before a prompt of n tokens that follow `cached`
 * tokens. switching_begin makes the plan, and first loads the prefill graphs if
 * the prompt is then expected to end earlier. switching_end must be called
 * after each successful switching_begin. switching_end loads the remaining
 * graphs and waits for the loads. `ret` is the result of the prompt;
 * switching_end returns `ret`, or the error of a load.
 */
int switching_begin(struct session *, uint32_t cached, size_t n, struct err *);
int switching_end(struct session *, int ret, struct err *);

/* Call this before a block is computed. Starts the loads that the plan
 * schedules directly before this execution of the block, and waits if the
 * block's own graph is being loaded. */
int switching_before(struct session *, uint32_t block, struct err *);

/* Handle the answer to request `seq`. Returns false if `seq` is neither a drop
 * nor a load request. */
bool switching_answered(struct session *, uint32_t seq, const struct price *);
/* Record in the log of events that a run of a block has ended. */
void switching_ran(struct session *, const struct inflight *, uint64_t busy_ns);

/* ---- loads ---- */

/* switching_load replaces a block's graph, after the previous load has ended.
 * switching_wait waits for the current load. */
int switching_load(
	struct session *, uint32_t block, enum graph_kind, struct err *);
int switching_wait(struct session *, struct err *);

/* ---- measured times: switch_profile.c ---- */

/* Measure the times of runs and loads. All blocks must have their prefill
 * graphs before the call, and have their prefill graphs after the call. */
int switching_measure(struct session *, struct err *);
/* Expected time of computing `rows` rows after `cached` tokens with a graph. If
 * the graph has fewer than `rows` rows, this is the time of several runs. */
uint64_t switching_expect(const struct session *, enum graph_kind,
	uint32_t block, uint32_t cached, uint32_t rows);

/* ---- a pass in parts ---- */

/*
 * If some block's graph may have fewer rows than the session's batch, cut the
 * batch into parts and write the parts. Returns 0, or -EINVAL if the batch is
 * not a chain, because only the parts of a chain can run one after the other.
 * Also returns -EINVAL if `some` is set, which means that rows may be dropped
 * in the middle of the pass.
 */
int switching_cut(struct session *, bool some, struct err *);

#endif
