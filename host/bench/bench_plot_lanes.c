#include "host/bench/bench_plot_lanes.h"

#include "host/bench/bench_plot.h"

#include <limits.h>
#include <stdio.h>

/* Sizes in pixels. */
#define WIDTH 1000
/* height of the picture's head: title, caption and key (legend) */
#define TOP         100
#define LANE_HEIGHT 30
#define BOTTOM      50

/* height of a bar as a share of the height of its lane */
#define BAR_HEIGHT 0.8
/* a number is printed on a bar if the bar covers more than this share of the x
 * axis */
#define NUMBER_ROOM 0.02

/* the first four colors of bench_plot.c, in another order */
static const char *const colours[LANES_KINDS] = { "#0072b2", "#009e73",
	"#e69f00", "#cc79a7" };

static double end_of(const struct plot_lanes *p)
{
	double end = 0;

	for (size_t i = 0; i < p->n; i++)
		end = p->bar[i].to > end ? p->bar[i].to : end;
	return end > 0 ? end : 1;
}

/* Print centered text, `from_top` pixels below the top of the picture, at the
 * font size `size`. */
static void head(const char *text, unsigned from_top, unsigned size,
	unsigned height, FILE *f)
{
	fputs("set label ", f);
	plot_quoted(f, text);
	fprintf(f, " at screen 0.5, screen %.4f center font 'sans-serif,%u'\n",
		1 - (double)from_top / height, size);
}

int bench_plot_lanes(const struct plot_lanes *p, const char *caption,
	const char *folder, struct err *e)
{
	char path[PATH_MAX];
	FILE *f;
	unsigned height = TOP + LANE_HEIGHT * p->n_lanes + BOTTOM;
	int ret = plot_open(&f, folder, p->name, WIDTH, height, path, e);

	if (ret)
		return ret;
	head(p->title, 22, 16, height, f);
	head(caption, 46, 11, height, f);
	plot_set(f, "xlabel", p->x);
	fprintf(f,
		"set tmargin at screen %.4f\nset key at screen 0.55, "
		"screen %.4f center top horizontal\nset xrange [0:%.9g]\n"
		"set yrange [%u:0]\nset tics out nomirror\nset ytics (",
		1 - (double)TOP / height, 1 - 66.0 / height, end_of(p),
		p->n_lanes);
	for (unsigned i = 0; i < p->n_lanes; i++) {
		fputs(i ? ", " : "", f);
		plot_quoted(f, p->lane[i]);
		fprintf(f, " %u.5", i);
	}
	fputs(")\n", f);

	for (size_t i = 0; i < p->n; i++) {
		double top = p->bar[i].lane + (1 - BAR_HEIGHT) / 2;

		fprintf(f,
			"set object %zu rectangle from %.9g,%.3f to %.9g,%.3f "
			"fillstyle solid 0.9 border rgb 'white' fillcolor rgb "
			"'%s'\n",
			i + 1, p->bar[i].from, top, p->bar[i].to,
			top + BAR_HEIGHT, colours[p->bar[i].kind]);
		if (p->bar[i].to - p->bar[i].from > NUMBER_ROOM * end_of(p))
			fprintf(f,
				"set label '%u' at %.9g,%u.5 center front "
				"textcolor rgb 'white'\n",
				p->bar[i].number,
				(p->bar[i].from + p->bar[i].to) / 2,
				p->bar[i].lane);
	}

	/* Plot points outside the visible area, only to make gnuplot draw the
	 * key. */
	for (unsigned k = 0; k < LANES_KINDS && p->kind[k]; k++) {
		fprintf(f,
			"%s-1 with boxes fillstyle solid 0.9 linecolor rgb "
			"'%s' title ",
			k ? ", " : "plot ", colours[k]);
		plot_quoted(f, p->kind[k]);
	}
	putc('\n', f);

	return plot_close(f, path, e);
}
