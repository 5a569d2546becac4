/*
 * Progressive graph switching (section 3.2 and figure 8 of the sd.npu paper):
 * the device replaces its compute graphs for prompts by graphs for decoding
 * while it computes the prompt. Measures how long prompts of pseudo-random
 * tokens take with every switching plan (a plan says when each graph is
 * loaded). Reports a table of times, and a chart of the times at which the NPU
 * and the loader of graphs are busy.
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

/* Results of one switching plan. */
struct sdnpu_plan {
	/* seconds from the start of a prompt until the first token can be
	 * decoded */
	double prompt_s[SDNPU_LENGTHS];
	/* The following values are for the longest measured prompt. */
	double wait_s;
	uint32_t most_graphs;
	/* [n_events] activity of the NPU and of the loader */
	struct graph_event *event;
	size_t n_events;
};

struct sdnpu_graphs {
	uint32_t length[SDNPU_LENGTHS]; /* [n] prompt lengths in tokens */
	unsigned n;
	/* seconds in one unit of the events' times: 1e-12 on a phone's clock,
	 * otherwise 1e-9 */
	double unit;
	struct sdnpu_plan plan[SWITCH_COUNT];
};

/* Measure all plans of graph switching. The caller zeroes the struct, and
 * releases it with sdnpu_graphs_release() even on failure. Prompt lengths that
 * exceed the model's context are skipped. Returns 0 or a negative errno. */
int sdnpu_graphs_measure(
	struct sdnpu_graphs *, struct bench_run *, struct err *);
void sdnpu_graphs_release(struct sdnpu_graphs *);

/* Fill the table "graphs"; it stays empty if nothing was measured. */
void sdnpu_graphs_fill(const struct sdnpu_graphs *, struct bench_table *);

/* Write FOLDER/graphs_chart.svg. Returns 0 or a negative errno. */
int sdnpu_graphs_plot(const struct sdnpu_graphs *, const char *caption,
	const char *folder, struct err *);

#endif
