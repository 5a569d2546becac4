/*
 * Tables as pictures: one SVG file each, drawn by the program gnuplot.
 */
#ifndef HOST_BENCH_BENCH_PLOT_H
#define HOST_BENCH_BENCH_PLOT_H

struct bench_table;
struct err;

/* Before anything is measured: gnuplot is there, and so is the folder, which
 * is made if need be. -ENOENT names the package. */
int bench_plot_ready(const char *folder, struct err *);

/* FOLDER/NAME.svg of a table whose plot is not empty. Writing to a gnuplot that
 * ended early must not end this program: SIGPIPE is ignored. */
int bench_plot(const struct bench_table *, const char *folder, struct err *);

#endif
