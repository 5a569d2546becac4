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

/* Sizes in pixels, the unit of SVG. */
#define PAGE_WIDTH   820
#define PAGE_MOST    1640
#define TOP          74  /* height of title and caption */
#define PANEL_HEIGHT 330 /* height of a panel, including the space below it */
/* height of the space for row names below a panel; included in PANEL_HEIGHT */
#define BOTTOM       52
#define LEFT         90 /* width of the space for numbers at the y axis */
#define KEY_SAMPLE   60
#define NO_KEY       30
#define BAR_WIDTH    24
#define LETTER_WIDTH 7
#define LINE_HEIGHT  22
/* if a panel has more bars than this, the values of the bars are printed
 * vertically */
#define BARS_UPRIGHT 16

/* maximum bytes of a row's name "A B (MODEL)" */
#define ROW_NAME (3 * TABLE_NAME + 4)

/* Colors of bars and lines that readers with red-green color blindness can
 * distinguish (the palette of Okabe and Ito). The palest color is last. */
static const char *const colours[] = { "#0072b2", "#e69f00", "#009e73",
	"#cc79a7", "#56b4e9", "#d55e00", "#666666", "#f0e442" };

int bench_plot_ready(const char *folder, struct err *e)
{
	const char *path = getenv("PATH");
	bool have_gnuplot = false;
	char file[PATH_MAX];
	struct stat st;

	while (path && *path && !have_gnuplot) {
		size_t len = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/gnuplot", (int)len, path);
		have_gnuplot = !access(file, X_OK);
		path += len + (path[len] == ':');
	}
	if (!have_gnuplot)
		return err_set(e, ENOENT,
			"--plot needs the program gnuplot, which is not "
			"installed; install it (on Debian the package "
			"gnuplot-nox)");
	if (mkdir(folder, 0777) && errno != EEXIST)
		return err_sys(e, errno, "cannot make the folder '%s'", folder);
	if (stat(folder, &st))
		return err_sys(e, errno, "cannot examine '%s'", folder);
	return S_ISDIR(st.st_mode)
		? 0
		: err_set(e, ENOTDIR, "'%s' is not a folder", folder);
}

void plot_quoted(FILE *f, const char *text)
{
	putc('\'', f);
	for (; *text; text++) {
		if (*text == '\'')
			putc('\'', f);
		putc(*text, f);
	}
	putc('\'', f);
}

void plot_set(FILE *f, const char *what, const char *text)
{
	fprintf(f, "set %s ", what);
	plot_quoted(f, text);
	putc('\n', f);
}

int plot_open(FILE **out, const char *folder, const char *name, unsigned width,
	unsigned height, char path[PATH_MAX], struct err *e)
{
	if (snprintf(path, PATH_MAX, "%s/%s.svg", folder, name) >= PATH_MAX)
		return err_set(e, ENAMETOOLONG,
			"the name of a plot's file is too long");
	*out = popen("gnuplot", "we");
	if (!*out)
		return err_sys(e, errno, "cannot start gnuplot");
	fprintf(*out,
		"set terminal svg size %u,%u background rgb 'white' "
		"font 'sans-serif,13'\n"
		"set encoding utf8\n",
		width, height);
	plot_set(*out, "output", path);
	return 0;
}

int plot_close(FILE *f, const char *path, struct err *e)
{
	return pclose(f) ? err_set(e, EIO, "gnuplot could not draw '%s'", path)
			 : 0;
}

/* Print text in double quotes, as needed in a gnuplot data block. */
static void cell_text(FILE *f, const char *text)
{
	fputs(" \"", f);
	for (; *text; text++)
		putc(*text == '"' ? '\'' : *text, f);
	putc('"', f);
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
	/* number of panels, and the largest number of bars in a panel */
	unsigned panels, bars;
	/* size of the page in pixels; right: width of the key (legend), which
	 * is included in `width` */
	unsigned width, height, right;
	/* height of the space below the panels, for rotated row names or the
	 * label of the x axis */
	unsigned below;
};

static unsigned columns_of(const struct bench_table *t, unsigned panel)
{
	unsigned n = 0;

	for (unsigned c = 0; c < t->n_columns; c++)
		n += t->column[c].panel == panel;
	return n;
}

/* Write the names of a row and, if the rows have different models, the name of
 * its model. */
static const char *row_name(
	const struct bench_table *t, unsigned row, char text[ROW_NAME])
{
	const struct table_row *r = &t->row[row];

	snprintf(text, ROW_NAME, "%s%s%s%s%s%s", r->name[0],
		r->name[1][0] ? " " : "", r->name[1], *r->model ? " (" : "",
		r->model, *r->model ? ")" : "");
	return text;
}

static unsigned longest_name(const struct bench_table *t)
{
	char text[ROW_NAME];
	size_t most = 0;

	for (unsigned r = 0; r < t->n_rows; r++) {
		size_t n = strlen(row_name(t, r, text));

		most = n > most ? n : most;
	}
	return (unsigned)most;
}

static bool is_bars(const struct bench_table *t)
{
	return !t->plot.lines && !t->plot.points;
}

static void begin(const struct page *p, const char *caption)
{
	FILE *f = p->f;

	fprintf(f,
		"set label 1 at screen %.4f,%.4f left noenhanced "
		"font 'sans-serif,17' ",
		20.0 / p->width, 1 - 26.0 / p->height);
	plot_quoted(f, p->t->title);
	fprintf(f,
		"\nset label 2 at screen %.4f,%.4f left noenhanced "
		"font 'sans-serif,12' textcolor rgb '#505050' ",
		20.0 / p->width, 1 - 50.0 / p->height);
	plot_quoted(f, caption);
	fputs("\nset grid ytics linecolor rgb '#c8c8c8'\n"
	      "set border 3 linecolor rgb '#404040'\n"
	      "set tics out nomirror\n"
	      "set xtics scale 0\n",
		f);
	for (size_t i = 0; i < ARRAY_LEN(colours); i++)
		fprintf(f, "set linetype %zu linecolor rgb '%s'\n", i + 1,
			colours[i]);
}

/* Set the position of the axes and the key (legend) of panel i; panel 0 is at
 * the top. */
static void place(const struct page *p, unsigned i)
{
	double top = TOP + i * PANEL_HEIGHT;

	fprintf(p->f,
		"set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
		"set lmargin at screen %.4f\nset rmargin at screen %.4f\n"
		"set key at screen %.4f,%.4f left top reverse Left samplen 1.5 "
		"noenhanced\n",
		1 - top / p->height,
		1 - (top + PANEL_HEIGHT - BOTTOM) / p->height,
		(double)LEFT / p->width, 1 - (double)p->right / p->width,
		1 - (p->right - 10.0) / p->width, 1 - top / p->height);
	/* Print the y label as free text, because the position of gnuplot's own
	 * axis label depends on the width of the numbers at the axis. */
	fprintf(p->f,
		"set label 3 at screen %.4f,%.4f center rotate by 90 "
		"noenhanced ",
		22.0 / p->width,
		1 - (top + (PANEL_HEIGHT - BOTTOM) / 2.0) / p->height);
	plot_quoted(p->f, p->t->plot.y[i]);
	putc('\n', p->f);
}

/* ---- points -------------------------------------------------------------- */

static unsigned column_in(const struct bench_table *t, unsigned panel)
{
	unsigned c = 0;

	while (t->column[c].panel != panel)
		c++;
	return c;
}

static void draw_points(const struct page *p)
{
	const struct bench_table *t = p->t;
	unsigned x = column_in(t, 2), y = column_in(t, 1);
	unsigned begin[TABLE_ROWS], n = 0;

	/* Consecutive rows with the same first name are the points of a
	 * line. */
	for (unsigned r = 0; r < t->n_rows; n++) {
		begin[n] = r;
		fprintf(p->f, "$line%u << END\n", n);
		for (; r < t->n_rows &&
			!strcmp(t->row[r].name[0], t->row[begin[n]].name[0]);
			r++) {
			figure(t, r, x, p->f);
			figure(t, r, y, p->f);
			putc('\n', p->f);
		}
		fputs("END\n", p->f);
	}
	place(p, 0);
	plot_set(p->f, "xlabel", t->plot.x);
	fputs("set xtics scale 1\nset xrange [0:*]\nset yrange [0:*]\n", p->f);
	for (unsigned i = 0; i < n; i++) {
		fprintf(p->f,
			"%s$line%u using 1:2 with linespoints linewidth 2 "
			"pointtype 7 title ",
			i ? ", " : "plot ", i);
		plot_quoted(p->f, t->row[begin[i]].name[0]);
	}
	putc('\n', p->f);
}

/* ---- bars ---------------------------------------------------------------- */

/* Print a bar's value as in the text table, but with fewer decimals if the
 * value is 100 or more. */
static void bar_value(const struct page *p, unsigned r, unsigned c)
{
	const struct table_column *column = &p->t->column[c];
	double v = p->t->row[r].value[c] * column->scale;
	int decimals = column->decimals;
	char text[TABLE_TEXT];

	if (fabs(v) >= 100 && decimals > 1)
		decimals = 1;
	if (fabs(v) >= 1000)
		decimals = 0;
	snprintf(text, sizeof(text), "%.*f", decimals, v);
	cell_text(p->f, isnan(v) ? "" : text);
}

/* Draw bar i of the n bars of each table row, with its value. `head` is the
 * bar's name in the key (legend). */
static void draw_bar(const struct page *p, unsigned panel, unsigned i,
	unsigned n, const char *head)
{
	double at = (i - (n - 1) / 2.0) / (n + 0.6);

	fprintf(p->f,
		"%s$data%u using ($0%+.4f):%u with boxes fill solid 0.9 "
		"noborder linetype %u ",
		i ? ", " : "plot ", panel, at, 2 * i + 1, i + 1);
	if (n > 1) {
		fputs("title ", p->f);
		plot_quoted(p->f, head);
	} else {
		fputs("notitle", p->f);
	}
	fprintf(p->f, ", $data%u using ($0%+.4f):%u:%u with labels %s notitle",
		panel, at, 2 * i + 1, 2 * i + 2,
		p->bars > BARS_UPRIGHT ? "rotate by 90 left offset 0,0.4 font "
					 "'sans-serif,10'"
				       : "center offset 0,0.6 font "
					 "'sans-serif,12'");
}

static void draw_bars(const struct page *p, unsigned panel)
{
	const struct bench_table *t = p->t;
	unsigned n = columns_of(t, panel), i = 0;
	bool shares = t->plot.y[panel - 1][0] == '%';
	char text[ROW_NAME];

	/* Print one line of data for each row: for each column a figure, and
	 * the figure as text. */
	fprintf(p->f, "$data%u << END\n", panel);
	for (unsigned r = 0; r < t->n_rows; r++) {
		for (unsigned c = 0; c < t->n_columns; c++)
			if (t->column[c].panel == panel) {
				figure(t, r, c, p->f);
				bar_value(p, r, c);
			}
		putc('\n', p->f);
	}
	fputs("END\n", p->f);

	place(p, panel - 1);

	/* Print row names only below the last panel, because all panels have
	 * the same rows. */
	fprintf(p->f, "set xtics noenhanced %s (",
		p->below ? "rotate by 35 right" : "norotate");
	for (unsigned r = 0; r < p->t->n_rows; r++) {
		if (r)
			putc(',', p->f);
		plot_quoted(p->f,
			panel == p->panels ? row_name(p->t, r, text) : "");
		fprintf(p->f, " %u", r);
	}
	fputs(")\n", p->f);

	/* Leave room above the highest bar for the text of its value. An axis
	 * of percentages ends at 100 %. */
	fprintf(p->f,
		"set boxwidth %.4f\nset xrange [-0.6:%u.6]\n"
		"set yrange [0:%s]\nset offsets 0,0,graph %.2f,0\n"
		"set ytics %s\n",
		0.92 / (n + 0.6), t->n_rows - 1, shares ? "100" : "*",
		p->bars > BARS_UPRIGHT ? 0.18 : 0.1,
		shares ? "0,20,100" : "autofreq");
	for (unsigned c = 0; c < t->n_columns; c++)
		if (t->column[c].panel == panel)
			draw_bar(p, panel, i++, n, t->column[c].head);
	/* Remove the labels, so that the next panel does not repeat the
	 * title. */
	fputs("\nunset label\n", p->f);
}

static void draw(const struct page *p)
{
	if (p->t->plot.lines) {
		const struct bench_table *t = p->t;
		char text[ROW_NAME];
		FILE *f = p->f;
		unsigned n = 0;

		/* Print one line of data for each column: the position on the x
		 * axis, then the figures of all rows. */
		place(p, 0);
		plot_set(f, "xlabel", t->plot.x);
		fputs("$data << END\nx", f);
		for (unsigned r = 0; r < t->n_rows; r++)
			cell_text(f, row_name(t, r, text));
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
			"\nEND\nset xrange [-0.3:%u.3]\nset yrange [0:*]\nplot "
			"for [i=2:%u] $data using 0:i:xtic(1) with linespoints "
			"linewidth 2 pointtype 7 title columnheader(i)\n",
			n - 1, t->n_rows + 1);

		return;
	}
	if (p->t->plot.points) {
		draw_points(p);
		return;
	}
	fputs("set multiplot\n", p->f);
	for (unsigned i = 1; i <= p->panels; i++)
		draw_bars(p, i);
	fputs("unset multiplot\n", p->f);
}

int bench_plot(const struct bench_table *t, const char *caption,
	const char *folder, struct err *e)
{
	char path[PATH_MAX];
	struct page p = { .t = t, .width = PAGE_WIDTH };
	unsigned wanted, names;
	size_t most;
	int ret;

	if (!t->plot.y[0] || !t->n_rows)
		return 0;

	/* Make the page wide enough for its bars with their values, and for the
	 * names of its rows. */
	names = longest_name(t) * LETTER_WIDTH;
	for (unsigned i = 1; i <= TABLE_PANELS && t->plot.y[i - 1]; i++) {
		unsigned bars = columns_of(t, i) * t->n_rows;

		p.bars = bars > p.bars ? bars : p.bars;
		p.panels += bars > 0;
	}

	/* Find the width of the key (legend) in pixels. The key names the rows
	 * if lines are drawn, or the columns if bars are drawn. */
	most = is_bars(t) ? 0 : longest_name(t);
	for (unsigned c = 0; c < t->n_columns && is_bars(t); c++) {
		size_t n = strlen(t->column[c].head);

		if (t->column[c].panel && t->column[c].panel <= p.panels &&
			columns_of(t, t->column[c].panel) > 1 && n > most)
			most = n;
	}
	p.right = most ? KEY_SAMPLE + (unsigned)most * LETTER_WIDTH : NO_KEY;

	wanted = LEFT + p.right + BAR_WIDTH * p.bars;
	if (wanted > p.width && is_bars(t))
		p.width = wanted < PAGE_MOST ? wanted : PAGE_MOST;
	if (names * t->n_rows > p.width - LEFT - p.right && is_bars(t))
		p.below = names * 6 / 10;
	if (!is_bars(t))
		p.below = LINE_HEIGHT;
	p.height = TOP + p.panels * PANEL_HEIGHT + p.below;

	ret = plot_open(&p.f, folder, t->name, p.width, p.height, path, e);
	if (ret)
		return ret;
	begin(&p, caption);
	draw(&p);
	return plot_close(p.f, path, e);
}
