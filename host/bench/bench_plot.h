/*
 * Tables as pictures: one SVG file each, drawn by the program gnuplot. A
 * picture says what it is of by itself: the table's title, and below it a line
 * with model, clock and items. Bars carry their values, and units that differ
 * have panels of their own.
 */
#ifndef HOST_BENCH_BENCH_PLOT_H
#define HOST_BENCH_BENCH_PLOT_H

#include <stdio.h>

struct bench_table;
struct err;

/* Before anything is measured: gnuplot is there, and so is the folder, which
 * is made if need be. -ENOENT names the package. */
int bench_plot_ready(const char *folder, struct err *);

/*
 * FOLDER/NAME.svg of a table that has rows and a plot; of another nothing.
 * `caption` is the line below its title. Writing to a gnuplot that ended early
 * must not end this program: SIGPIPE is ignored.
 */
int bench_plot(const struct bench_table *, const char *caption,
	const char *folder, struct err *);

/* A string of gnuplot's, between single quotes. */
void plot_quoted(FILE *, const char *text);

#endif
