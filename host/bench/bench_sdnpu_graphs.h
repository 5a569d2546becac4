/*
 * Progressive graph switching, measured (sd.npu, section 3.2 and figure 8):
 * prompts of pseudo-random tokens, read by every plan, as a table of what they
 * take and as a chart of what the NPU and its loader did when.
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

/* One plan's. */
struct sdnpu_plan {
	double prompt_s[SDNPU_LENGTHS]; /* until decoding can begin */
	/* Of the longest prompt: */
	double wait_s;
	uint32_t most_graphs;
	struct graph_event *event; /* [n_events] */
	size_t n_events;
};

struct sdnpu_graphs {
	uint32_t length[SDNPU_LENGTHS]; /* [n] */
	unsigned n;
	double unit; /* of the events' times, in seconds */
	struct sdnpu_plan plan[SWITCH_COUNT];
};

/* Starts zeroed; sdnpu_graphs_release in any case. Lengths that the model's
 * context does not hold are left out. */
int sdnpu_graphs_measure(
	struct sdnpu_graphs *, struct bench_run *, struct err *);
void sdnpu_graphs_release(struct sdnpu_graphs *);

/* The table, "graphs"; empty where nothing was measured. */
void sdnpu_graphs_fill(const struct sdnpu_graphs *, struct bench_table *);

/* FOLDER/graphs_chart.svg */
int sdnpu_graphs_plot(const struct sdnpu_graphs *, const char *caption,
	const char *folder, struct err *);

#endif
