#include "host/bench/bench_plot.h"

#include "base/err.h"
#include "host/bench/bench_table.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_UPRIGHT 4 /* names that fit beside one another */

static bool have_gnuplot(void)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	while (path && *path) {
		size_t len = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/gnuplot", (int)len, path);
		if (!access(file, X_OK))
			return true;
		path += len + (path[len] == ':');
	}
	return false;
}

int bench_plot_ready(const char *folder, struct err *e)
{
	struct stat st;

	if (!have_gnuplot())
		return err_set(e, ENOENT,
			"--plot needs the program gnuplot, which is not "
			"installed; try the package gnuplot-nox");
	if (mkdir(folder, 0777) && errno != EEXIST)
		return err_sys(e, errno, "cannot make the folder '%s'", folder);
	if (stat(folder, &st))
		return err_sys(e, errno, "cannot look at '%s'", folder);
	return S_ISDIR(st.st_mode)
		? 0
		: err_set(e, ENOTDIR, "'%s' is no folder", folder);
}

/* A string of gnuplot's between single quotes. */
static void quoted(FILE *f, const char *text)
{
	putc('\'', f);
	for (; *text; text++) {
		if (*text == '\'')
			putc('\'', f);
		putc(*text, f);
	}
	putc('\'', f);
}

static void set(FILE *f, const char *what, const char *text)
{
	fprintf(f, "set %s ", what);
	quoted(f, text);
	putc('\n', f);
}

static void row_name(const struct table_row *r, FILE *f)
{
	fprintf(f, "\"%s%s%s\"", r->name[0], r->name[1][0] ? " " : "",
		r->name[1]);
}

static void figure(const struct bench_table *t, unsigned r, unsigned c, FILE *f)
{
	double v = t->row[r].value[c] * t->column[c].scale;

	if (isnan(v))
		fputs(" NaN", f);
	else
		fprintf(f, " %.9g", v);
}

static void begin(const struct bench_table *t, const char *path, FILE *f)
{
	fputs("set terminal svg size 800,480 background rgb 'white' "
	      "font 'sans-serif,13'\n"
	      "set encoding utf8\n"
	      "set key outside right top noenhanced\n"
	      "set grid ytics linecolor rgb '#d0d0d0'\n"
	      "set border 3\n"
	      "set tics nomirror\n"
	      "set yrange [0:*]\n",
		f);
	set(f, "output", path);
	set(f, "title", t->title);
	set(f, "ylabel", t->plot.y);
}

/* A line of data a column: where it stands on the x axis, then a figure a
 * row. */
static void draw_lines(const struct bench_table *t, FILE *f)
{
	const struct table_plot *p = &t->plot;

	set(f, "xlabel", p->x);
	fputs("$data << END\nx", f);
	for (unsigned r = 0; r < t->n_rows; r++) {
		putc(' ', f);
		row_name(&t->row[r], f);
	}
	for (unsigned c = p->first; c < p->first + p->n; c++) {
		fprintf(f, "\n\"%s\"", t->column[c].head);
		for (unsigned r = 0; r < t->n_rows; r++)
			figure(t, r, c, f);
	}
	fprintf(f,
		"\nEND\nset xrange [-0.3:%u.3]\n"
		"plot for [i=2:%u] $data using 0:i:xtic(1) with linespoints "
		"linewidth 2 pointtype 7 title columnheader(i)\n",
		p->n - 1, t->n_rows + 1);
}

static void draw_bars(const struct bench_table *t, FILE *f)
{
	const struct table_plot *p = &t->plot;

	fputs("set style data histograms\n"
	      "set style histogram clustered gap 1\n"
	      "set style fill solid 0.9 border -1\n"
	      "set xtics noenhanced\n",
		f);
	if (t->n_rows > ROWS_UPRIGHT)
		fputs("set xtics rotate by 35 right\n", f);
	fputs("$data << END\nx", f);
	for (unsigned c = p->first; c < p->first + p->n; c++)
		fprintf(f, " \"%s\"", t->column[c].head);
	for (unsigned r = 0; r < t->n_rows; r++) {
		putc('\n', f);
		row_name(&t->row[r], f);
		for (unsigned c = p->first; c < p->first + p->n; c++)
			figure(t, r, c, f);
	}
	fprintf(f,
		"\nEND\nplot for [i=2:%u] $data using i:xtic(1) title "
		"columnheader(i)\n",
		p->n + 1);
}

int bench_plot(const struct bench_table *t, const char *folder, struct err *e)
{
	char path[PATH_MAX];
	FILE *f;
	int status;

	if ((size_t)snprintf(path, sizeof(path), "%s/%s.svg", folder,
		    t->name) >= sizeof(path))
		return err_set(e, ENAMETOOLONG,
			"the name of a plot's file is "
			"too long");
	f = popen("gnuplot", "we");
	if (!f)
		return err_sys(e, errno, "cannot start gnuplot");
	begin(t, path, f);
	if (t->plot.lines)
		draw_lines(t, f);
	else
		draw_bars(t, f);
	status = pclose(f);
	return status ? err_set(e, EIO, "gnuplot could not draw '%s'", path)
		      : 0;
}
