/*
 * Draws events over time as a Gantt chart: horizontal bars in lanes, in an SVG
 * file drawn by the program gnuplot. Call bench_plot_ready() (bench_plot.h)
 * first.
 */
#ifndef HOST_BENCH_BENCH_PLOT_LANES_H
#define HOST_BENCH_BENCH_PLOT_LANES_H

#include <stddef.h>

struct err;

struct lane_bar {
	unsigned lane, kind;
	double from, to;
	/* number that is printed on the bar if the bar is wide enough */
	unsigned number;
};

#define LANES_KINDS 4

struct plot_lanes {
	const char *name, *title, *x;
	/* [n_lanes] names of the lanes, from top to bottom */
	const char *const *lane;
	unsigned n_lanes;
	/* names of the bar kinds; each kind has a color of its own; NULL after
	 * the last name if there are fewer than LANES_KINDS kinds */
	const char *kind[LANES_KINDS];
	const struct lane_bar *bar; /* [n] bars in any order */
	size_t n;
};

/* Write FOLDER/NAME.svg. Returns 0 or a negative errno. */
int bench_plot_lanes(const struct plot_lanes *, const char *caption,
	const char *folder, struct err *);

#endif
