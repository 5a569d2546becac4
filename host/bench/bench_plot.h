/*
 * Tables as pictures: one SVG file each, drawn by the program gnuplot. A
 * picture is complete without its context: it has the table's title, and below
 * that a line with model, clock and items. Bars carry their values, and each
 * unit has a panel of its own.
 */
#ifndef HOST_BENCH_BENCH_PLOT_H
#define HOST_BENCH_BENCH_PLOT_H

#include <stdio.h>

struct bench_table;
struct err;

/* Check before measuring: gnuplot must be installed, -ENOENT names its package;
 * the folder is made if it does not exist. */
int bench_plot_ready(const char *folder, struct err *);

/*
 * Write FOLDER/NAME.svg if the table has rows and a plot, otherwise nothing.
 * `caption` is the line below the title. Ignores SIGPIPE, so that a gnuplot
 * that exits early does not kill this program.
 */
int bench_plot(const struct bench_table *, const char *caption,
	const char *folder, struct err *);

/* Print a string in gnuplot's single quotes. */
void plot_quoted(FILE *, const char *text);

#endif
