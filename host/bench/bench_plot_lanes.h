/*
 * Events over time as a picture (a Gantt chart): bars in lanes, an SVG file
 * drawn by the program gnuplot (bench_plot.h: bench_plot_ready).
 */
#ifndef HOST_BENCH_BENCH_PLOT_LANES_H
#define HOST_BENCH_BENCH_PLOT_LANES_H

#include <stddef.h>

struct err;

struct lane_bar {
	unsigned lane, kind;
	double from, to;
	unsigned number; /* printed on the bar where there is room */
};

#define LANES_KINDS 4

struct plot_lanes {
	const char *name, *title, *x;
	const char *const *lane; /* names, from the top; [n_lanes] */
	unsigned n_lanes;
	const char *kind[LANES_KINDS]; /* names, up to NULL */
	const struct lane_bar *bar;    /* [n] */
	size_t n;
};

/* Write FOLDER/NAME.svg. */
int bench_plot_lanes(const struct plot_lanes *, const char *caption,
	const char *folder, struct err *);

#endif
