/*
 * Draws each table as one SVG file with the program gnuplot. A picture can be
 * understood without the text around it: it shows the table's title, and below
 * the title a caption with model, clock and items. Values are printed at the
 * bars, and columns with different units are in different panels (diagrams).
 */
#ifndef HOST_BENCH_BENCH_PLOT_H
#define HOST_BENCH_BENCH_PLOT_H

#include <limits.h>
#include <stdio.h>

struct bench_table;
struct err;

/* Check that pictures can be drawn, before measuring. Creates the folder if it
 * does not exist. Returns 0 on success, -ENOENT if gnuplot is not installed
 * (the message names its package), or another negative errno. */
int bench_plot_ready(const char *folder, struct err *);

/*
 * Write FOLDER/NAME.svg. Does nothing if the table has no rows or no plot.
 * `caption` is the line below the title. The caller must have made the process
 * ignore SIGPIPE (cmd_catch_signals() does); otherwise a gnuplot process that
 * exits early kills this process. Returns 0 or a negative errno.
 */
int bench_plot(const struct bench_table *, const char *caption,
	const char *folder, struct err *);

/* Start gnuplot for a picture FOLDER/NAME.svg of `width` x `height` pixels.
 * Stores this file name in `path`. Returns 0, and then plot_close() must close
 * *out; or a negative errno. */
int plot_open(FILE **out, const char *folder, const char *name, unsigned width,
	unsigned height, char path[PATH_MAX], struct err *);
/* Wait until gnuplot has drawn the picture. Returns 0 or a negative errno. */
int plot_close(FILE *, const char *path, struct err *);

/* Print a string as a gnuplot string in single quotes. */
void plot_quoted(FILE *, const char *text);
/* Print "set WHAT 'TEXT'" and a newline. */
void plot_set(FILE *, const char *what, const char *text);

#endif
