/*
 * When each block's prefill graph is exchanged for its decode graph while a
 * prompt is computed: progressive graph switching (sd.npu: Chen et al.,
 * "Accelerating mobile language model via speculative decoding and
 * NPU-coordinated execution", section 3.2 and figure 8).
 *
 * A prompt of C chunks goes through N blocks: C * N executions, one after the
 * other, chunk by chunk. Each block begins with its prefill graph and is loaded
 * its decode graph once, which then computes the chunks that are left in
 * repeated calls. The loader does one load at a time, beside the executions of
 * other blocks; a block that is loading computes nothing. The aim is the
 * earliest end of both executions and loads.
 *
 * Here a load begins between two executions, or behind the last, and not before
 * the load before it has ended: an execution that has loads in front of it
 * waits until the last of these has begun, and one of a block that is being
 * loaded until it is through. With this the paper's figure 8 comes out for all
 * of its three schemes.
 *
 * Plans and what they come to; pure, of any unit of time whose sums fit into 64
 * bits. Any thread.
 */
#ifndef HOST_SESSION_GRAPH_SWITCH_H
#define HOST_SESSION_GRAPH_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum graph_switch {
	SWITCH_OFF,     /* both graphs are there all the time: no plan */
	SWITCH_SYNC,    /* all behind the prompt */
	SWITCH_ASYNC,   /* each behind its block's part of the last chunk */
	SWITCH_GREEDY,  /* the paper's equation 2: what can be hidden whole */
	SWITCH_PARTIAL, /* the same, and what can be hidden in part */
	SWITCH_BEST,    /* none ends earlier */
	SWITCH_COUNT
};
extern const char *const graph_switch_names[SWITCH_COUNT + 1]; /* NULL-ended */

#define SWITCH_BLOCKS 64

struct switch_problem {
	uint32_t blocks, chunks; /* 1 to SWITCH_BLOCKS; at least 1 */
	const uint64_t *load;    /* [blocks] of the decode graph */
	/* [chunks][blocks]: an execution by either graph. */
	const uint64_t *prefill, *decode;
	const bool *switched; /* [blocks] those that were; NULL: none */
};

struct switch_load {
	uint32_t block;
	uint32_t before; /* execution chunk * blocks + block; or chunks *
			  * blocks: behind all */
};

struct switch_plan {
	uint32_t n_loads;
	struct switch_load load[SWITCH_BLOCKS]; /* `before` ascends */
};

/*
 * A plan that loads each block that was not switched once. SWITCH_BEST is exact
 * by a dynamic program over (execution, set of switched blocks) while there are
 * at most 16 blocks and SWITCH_STATES such states; beyond, it is the best of
 * all others, the last two also begun at every later execution. -ENOMEM.
 */
#define SWITCH_STATES (UINT64_C(1) << 22) /* half a second of planning */
int switch_plan(struct switch_plan *, const struct switch_problem *,
	enum graph_switch, struct err *);

struct switch_times {
	uint64_t begin, end;
};

struct switch_outcome {
	uint64_t prefill_end, loads_end;
	uint64_t makespan; /* the later of them */
	uint64_t waited;   /* by executions, for loads */
};

/*
 * What a plan comes to. run[chunks * blocks] and load[n_loads] take the times
 * of executions and loads, in their orders; NULL: not wanted.
 */
void switch_simulate(const struct switch_problem *, const struct switch_plan *,
	struct switch_outcome *, struct switch_times *run,
	struct switch_times *load);

#endif
