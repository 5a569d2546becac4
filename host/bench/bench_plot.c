#include "host/bench/bench_plot.h"

#include "base/checked.h"
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

/* In pixels, as SVG has them. */
#define PAGE_WIDTH   820
#define TOP          70 /* title and caption */
#define PANEL_HEIGHT 360
#define BOTTOM       60    /* names of rows */
#define LEFT         80.0  /* figures of the axis */
#define RIGHT        140.0 /* the key */
#define BAR_WIDTH    24
#define LETTER_WIDTH 8
#define BARS_UPRIGHT 16 /* more, and their values stand upright */

/* Of bars and lines, told apart by eyes that see no red or no green (Okabe and
 * Ito), the palest last. */
static const char *const colours[] = { "#0072b2", "#e69f00", "#009e73",
	"#cc79a7", "#56b4e9", "#d55e00", "#666666", "#f0e442" };

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

/* Between double quotes, in a block of data. */
static void cell_text(FILE *f, const char *text)
{
	putc('"', f);
	for (; *text; text++)
		putc(*text == '"' ? '\'' : *text, f);
	putc('"', f);
}

static void row_name(const struct table_row *r, FILE *f)
{
	char text[2 * TABLE_NAME];

	snprintf(text, sizeof(text), "%s%s%s", r->name[0],
		r->name[1][0] ? " " : "", r->name[1]);
	cell_text(f, text);
}

static void figure(const struct bench_table *t, unsigned r, unsigned c, FILE *f)
{
	double v = t->row[r].value[c] * t->column[c].scale;

	if (isnan(v))
		fputs(" NaN", f);
	else
		fprintf(f, " %.9g", v);
}

/* ---- the page ------------------------------------------------------------ */

struct page {
	const struct bench_table *t;
	FILE *f;
	unsigned panels, bars; /* in all of a panel, at most */
	unsigned width, height;
	bool turned; /* names of rows do not fit beside one another */
};

static unsigned columns_of(const struct bench_table *t, unsigned panel)
{
	unsigned n = 0;

	for (unsigned c = 0; c < t->n_columns; c++)
		n += t->column[c].panel == panel;
	return n;
}

static size_t longest_name(const struct bench_table *t)
{
	size_t most = 0;

	for (unsigned r = 0; r < t->n_rows; r++) {
		size_t n = strlen(t->row[r].name[0]) + 1 +
			strlen(t->row[r].name[1]);

		most = n > most ? n : most;
	}
	return most;
}

/* As wide as its bars with their values, or its rows' names, want it. */
static struct page lay_out(const struct bench_table *t, FILE *f)
{
	struct page p = { .t = t, .f = f };
	size_t names;

	for (unsigned i = 1; i <= TABLE_PANELS && t->plot.y[i - 1]; i++) {
		unsigned bars = columns_of(t, i) * t->n_rows;

		p.bars = bars > p.bars ? bars : p.bars;
		p.panels += bars > 0;
	}
	p.width = (unsigned)(LEFT + RIGHT) + BAR_WIDTH * p.bars;
	if (p.width < PAGE_WIDTH || t->plot.lines)
		p.width = PAGE_WIDTH;
	if (p.width > 2 * PAGE_WIDTH)
		p.width = 2 * PAGE_WIDTH;
	names = longest_name(t);
	p.turned = names * LETTER_WIDTH * t->n_rows >
		p.width - (unsigned)(LEFT + RIGHT);
	p.height = TOP + p.panels * PANEL_HEIGHT +
		(p.turned ? (unsigned)(names * LETTER_WIDTH * 6 / 10) : 0);
	return p;
}

static void begin(const struct page *p, const char *path, const char *caption)
{
	FILE *f = p->f;
	double top = 1 - 24.0 / p->height, below = 1 - 46.0 / p->height;

	fprintf(f,
		"set terminal svg size %u,%u background rgb 'white' "
		"font 'sans-serif,13'\n"
		"set encoding utf8\n",
		p->width, p->height);
	set(f, "output", path);
	fprintf(f,
		"set label 1 at screen 0.015,%.4f left noenhanced "
		"font 'sans-serif,16' ",
		top);
	quoted(f, p->t->title);
	fprintf(f,
		"\nset label 2 at screen 0.015,%.4f left noenhanced "
		"font 'sans-serif,11' textcolor rgb '#505050' ",
		below);
	quoted(f, caption);
	fputs("\nset key outside right top noenhanced\n"
	      "set grid ytics linecolor rgb '#d8d8d8'\n"
	      "set border 3\n"
	      "set tics nomirror\n",
		f);
	for (size_t i = 0; i < ARRAY_LEN(colours); i++)
		fprintf(f, "set linetype %zu linecolor rgb '%s'\n", i + 1,
			colours[i]);
}

/* Where panel i, 0 the topmost, has its axes. */
static void place(const struct page *p, unsigned i)
{
	double top = TOP + i * PANEL_HEIGHT;

	fprintf(p->f,
		"set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
		"set lmargin at screen %.4f\nset rmargin at screen %.4f\n",
		1 - top / p->height,
		1 - (top + PANEL_HEIGHT - BOTTOM) / p->height, LEFT / p->width,
		1 - RIGHT / p->width);
}

/* ---- lines and bars ------------------------------------------------------ */

/* A line of data a column: where it stands on the x axis, then a figure a
 * row. */
static void draw_lines(const struct page *p)
{
	const struct bench_table *t = p->t;
	FILE *f = p->f;
	unsigned n = 0;

	set(f, "xlabel", t->plot.x);
	set(f, "ylabel", t->plot.y[0]);
	fputs("$data << END\nx", f);
	for (unsigned r = 0; r < t->n_rows; r++) {
		putc(' ', f);
		row_name(&t->row[r], f);
	}
	for (unsigned c = 0; c < t->n_columns; c++) {
		if (!t->column[c].panel)
			continue;
		n++;
		putc('\n', f);
		cell_text(f, t->column[c].head);
		for (unsigned r = 0; r < t->n_rows; r++)
			figure(t, r, c, f);
	}
	fprintf(f,
		"\nEND\nset xrange [-0.3:%u.3]\nset yrange [0:*]\n"
		"plot for [i=2:%u] $data using 0:i:xtic(1) with linespoints "
		"linewidth 2 pointtype 7 title columnheader(i)\n",
		n - 1, t->n_rows + 1);
}

/* A line of data a row: its name, then for each column figure and text. */
static void bar_data(const struct page *p, unsigned panel)
{
	const struct bench_table *t = p->t;
	char text[TABLE_TEXT];

	fprintf(p->f, "$data%u << END\n", panel);
	for (unsigned r = 0; r < t->n_rows; r++) {
		row_name(&t->row[r], p->f);
		for (unsigned c = 0; c < t->n_columns; c++) {
			if (t->column[c].panel != panel)
				continue;
			figure(t, r, c, p->f);
			putc(' ', p->f);
			cell_text(p->f, table_cell(t, r, c, text));
		}
		putc('\n', p->f);
	}
	fputs("END\n", p->f);
}

/* The i-th of n bars of a group: its colour, its place, its name. */
static void draw_bar(const struct page *p, unsigned panel, unsigned i,
	unsigned n, const char *head)
{
	double at = (i - (n - 1) / 2.0) / (n + 0.6);

	fprintf(p->f,
		"%s$data%u using ($0%+.4f):%u%s with boxes fill solid 0.85 "
		"noborder linetype %u ",
		i ? ", " : "plot ", panel, at, 2 * i + 2, i ? "" : ":xtic(1)",
		i + 1);
	if (n > 1) {
		fputs("title ", p->f);
		quoted(p->f, head);
	} else {
		fputs("notitle", p->f);
	}
	fprintf(p->f, ", $data%u using ($0%+.4f):%u:%u with labels %s notitle",
		panel, at, 2 * i + 2, 2 * i + 3,
		p->bars > BARS_UPRIGHT ? "rotate by 90 left offset 0,0.4 font "
					 "'sans-serif,9'"
				       : "center offset 0,0.6 font "
					 "'sans-serif,11'");
}

static void draw_bars(const struct page *p, unsigned panel)
{
	const struct bench_table *t = p->t;
	unsigned n = columns_of(t, panel), i = 0;

	bar_data(p, panel);
	set(p->f, "ylabel", t->plot.y[panel - 1]);
	/* Room for the values above the highest bar. */
	fprintf(p->f,
		"set boxwidth %.4f\nset xrange [-0.6:%u.6]\n"
		"set yrange [0:*]\nset offsets 0,0,graph %.2f,0\n",
		0.92 / (n + 0.6), t->n_rows - 1,
		p->bars > BARS_UPRIGHT ? 0.18 : 0.1);
	if (panel < p->panels)
		fputs("set xtics format ''\n", p->f);
	else
		fprintf(p->f, "set xtics format '%%s' noenhanced %s\n",
			p->turned ? "rotate by 35 right" : "norotate");
	for (unsigned c = 0; c < t->n_columns; c++)
		if (t->column[c].panel == panel)
			draw_bar(p, panel, i++, n, t->column[c].head);
	putc('\n', p->f);
}

static void draw(const struct page *p)
{
	if (p->t->plot.lines) {
		place(p, 0);
		draw_lines(p);
		return;
	}
	fputs("set multiplot\n", p->f);
	for (unsigned i = 0; i < p->panels; i++) {
		place(p, i);
		draw_bars(p, i + 1);
		/* The title stands on the page once. */
		fputs("unset label\n", p->f);
	}
	fputs("unset multiplot\n", p->f);
}

int bench_plot(const struct bench_table *t, const char *caption,
	const char *folder, struct err *e)
{
	char path[PATH_MAX];
	struct page p;
	FILE *f;

	if (!t->plot.y[0] || !t->n_rows)
		return 0;
	if ((size_t)snprintf(path, sizeof(path), "%s/%s.svg", folder,
		    t->name) >= sizeof(path))
		return err_set(e, ENAMETOOLONG,
			"the name of a plot's file is too long");
	f = popen("gnuplot", "we");
	if (!f)
		return err_sys(e, errno, "cannot start gnuplot");
	p = lay_out(t, f);
	begin(&p, path, caption);
	draw(&p);
	return pclose(f) ? err_set(e, EIO, "gnuplot could not draw '%s'", path)
			 : 0;
}
