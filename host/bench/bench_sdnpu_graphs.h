/*
 * Progressive graph switching (sd.npu, section 3.2 and figure 8): prompts of
 * pseudo-random tokens, read with every switching plan, as a table of times and
 * as a chart of the NPU's and its loader's activity.
 */
#ifndef HOST_BENCH_BENCH_SDNPU_GRAPHS_H
#define HOST_BENCH_BENCH_SDNPU_GRAPHS_H

#include "host/api/report.h"
#include "host/bench/bench_table.h"

#include <stddef.h>
#include <stdint.h>

struct bench_run;
struct err;

#define SDNPU_LENGTHS 4

/* Results of one plan. */
struct sdnpu_plan {
	/* until the first token can be decoded */
	double prompt_s[SDNPU_LENGTHS];
	/* For the longest prompt: */
	double wait_s;
	uint32_t most_graphs;
	struct graph_event *event; /* [n_events] */
	size_t n_events;
};

struct sdnpu_graphs {
	uint32_t length[SDNPU_LENGTHS]; /* [n] */
	unsigned n;
	double unit; /* seconds in a unit of the events' times */
	struct sdnpu_plan plan[SWITCH_COUNT];
};

/* Starts zeroed; sdnpu_graphs_release in any case. Lengths that exceed the
 * model's context are skipped. */
int sdnpu_graphs_measure(
	struct sdnpu_graphs *, struct bench_run *, struct err *);
void sdnpu_graphs_release(struct sdnpu_graphs *);

/* Fill the table "graphs"; empty if nothing was measured. */
void sdnpu_graphs_fill(const struct sdnpu_graphs *, struct bench_table *);

/* Write FOLDER/graphs_chart.svg. */
int sdnpu_graphs_plot(const struct sdnpu_graphs *, const char *caption,
	const char *folder, struct err *);

#endif
