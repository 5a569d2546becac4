#include "host/trace/draw.h"

#include "base/err.h"
#include "host/trace/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 1200.0
#define LEFT  190.0
#define RIGHT 10.0
#define ROW   14.0 /* height of one nesting level of a track */
#define GAP   6.0  /* vertical gap between tracks */
#define TOP   46.0
#define TICKS 10 /* maximum number of ticks on the time axis */
/* a slice is merged into the previous bar only if the gap between them is
 * narrower than this number of pixels (draw_slices) */
#define MERGED 0.1

const char *draw_color(unsigned kind)
{
	static const char *const color[TRACE_KINDS] = {
		[TRACE_KIND_OTHER] = "#9aa0a6",
		[TRACE_KIND_TEXT] = "#dfe3e8",
		[TRACE_KIND_PASS] = "#4c78a8",
		[TRACE_KIND_REQUEST] = "#72b7b2",
		[TRACE_KIND_WAIT] = "#e4e0d0",
		[TRACE_KIND_LOGITS] = "#f58518",
		[TRACE_KIND_DRAFT] = "#b279a2",
		[TRACE_KIND_FLASH] = "#eeca3b",
		[TRACE_KIND_COPY] = "#d8b5a5",
		[TRACE_KIND_COMPUTE] = "#54a24b",
		[TRACE_KIND_DMA] = "#2f6b3a",
		[TRACE_KIND_MAINTENANCE] = "#9d755d",
		[TRACE_KIND_LOAD] = "#ff9da6",
		[TRACE_KIND_MAP] = "#88d27a",
		[TRACE_KIND_FAULT] = "#e45756",
	};

	return color[kind < TRACE_KINDS ? kind : TRACE_KIND_OTHER];
}

/* The slices on one nesting level of a track that were merged and are not drawn
 * yet. */
struct bar {
	double from, to;
	enum trace_kind kind;
	bool there;
};

struct drawing {
	const struct timeline *t;
	FILE *f;
	uint64_t begin, end;
	/* Difference that is added to times of the simulated phone, so that the
	 * first text (generation of a request) begins at the same place on the
	 * tracks of phone and host. */
	int64_t shift;
	/* [n_track] vertical position of each track; negative if the track is
	 * not drawn */
	double *top;
	size_t *first;   /* [n_track] index of the track's first bar */
	struct bar *bar; /* one bar for each nesting level of each track */
	double height;
};

/* ---- layout -------------------------------------------------------------- */

static const struct timeline_slice *first_text(const struct timeline *t)
{
	for (size_t i = 0; i < t->n_slice; i++)
		if (t->slice[i].kind == TRACE_KIND_TEXT)
			return &t->slice[i];
	return NULL;
}

static uint64_t drawn_at(
	const struct drawing *d, const struct timeline_slice *s, uint64_t at)
{
	return timeline_is_phone(d->t->track[s->track].role)
		? at + (uint64_t)d->shift
		: at;
}

/* Find the range of time to draw. It begins with the first text (generation of
 * a request), and ends with the last text or with the last slice of the
 * simulated phone, whichever is later. Without a text it is the whole range of
 * the timeline. */
static void find_range(struct drawing *d)
{
	const struct timeline *t = d->t;
	const struct timeline_slice *text = first_text(t);

	d->begin = text ? text->begin : t->begin;
	d->end = text ? text->end : t->end;
	for (size_t i = 0; text && i < t->n_slice; i++) {
		const struct timeline_slice *s = &t->slice[i];
		uint64_t end = drawn_at(d, s, s->end);

		if ((s->kind == TRACE_KIND_TEXT ||
			    timeline_is_phone(t->track[s->track].role)) &&
			end > d->end)
			d->end = end;
	}
	if (d->end <= d->begin)
		d->end = d->begin + 1;
}

static double x_of(const struct drawing *d, uint64_t at)
{
	double x = ((double)at - (double)d->begin) /
		((double)d->end - (double)d->begin) * (WIDTH - LEFT - RIGHT);

	x = x < 0 ? 0 : x;
	return LEFT + (x > WIDTH - LEFT - RIGHT ? WIDTH - LEFT - RIGHT : x);
}

static bool in_range(const struct drawing *d, const struct timeline_slice *s)
{
	return drawn_at(d, s, s->end) >= d->begin &&
		drawn_at(d, s, s->begin) <= d->end;
}

/* Whether a slice is drawn. Buffers that stay mapped into the device's address
 * window during the whole range are not drawn. */
static bool is_shown(const struct drawing *d, const struct timeline_slice *s)
{
	if (s->instant || !in_range(d, s))
		return false;
	return d->t->track[s->track].role != TIMELINE_WINDOW ||
		s->begin > d->begin || s->end < d->end;
}

static int lay_out(struct drawing *d, struct err *e)
{
	const struct timeline *t = d->t;
	size_t bars = 0;
	double y = TOP;

	d->top = calloc(t->n_track + 1, sizeof(*d->top));
	d->first = calloc(t->n_track + 1, sizeof(*d->first));
	if (!d->top || !d->first)
		return err_set(e, ENOMEM, "no memory to draw the trace");
	for (size_t i = 0; i < t->n_slice; i++)
		if (is_shown(d, &t->slice[i]))
			d->top[t->slice[i].track] = 1;
	for (size_t i = 0; i < t->n_track; i++) {
		d->first[i] = bars;
		bars += t->track[i].deepest;
	}
	for (unsigned role = 0; role < TIMELINE_ROLES; role++) {
		/* Group the tracks by role, in the order of enum timeline_role.
		 * A track without slices to draw gets no position. */
		for (size_t i = 0; i < t->n_track; i++) {
			bool seen = d->top[i] > 0;

			if (t->track[i].role != role)
				continue;
			d->top[i] = seen ? y : -1;
			y += seen ? t->track[i].deepest * ROW + GAP : 0;
		}
	}
	d->height = y + 30;
	d->bar = calloc(bars + 1, sizeof(*d->bar));
	return d->bar ? 0 : err_set(e, ENOMEM, "no memory to draw the trace");
}

/* ---- drawing ------------------------------------------------------------- */

static void put_text(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '<' || *text == '&' || *text == '>')
			fprintf(f, "&#%d;", *text);
		else
			fputc(*text, f);
}

static void draw_bar(
	struct drawing *d, size_t track, uint32_t depth, const struct bar *b)
{
	double wide = b->to - b->from;

	fprintf(d->f,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" "
		"fill=\"%s\"/>\n",
		b->from, d->top[track] + depth * ROW, wide < 0.2 ? 0.2 : wide,
		ROW - 1, draw_color(b->kind));
}

/* Draw the slices, each with its name if there is room for it. A slice narrower
 * than a pixel is merged into the previous bar of its nesting level if both
 * have the same color and the gap between them is narrower than MERGED pixels.
 */
static void draw_slices(struct drawing *d)
{
	const struct timeline *t = d->t;

	for (size_t i = 0; i < t->n_slice; i++) {
		const struct timeline_slice *s = &t->slice[i];
		struct bar *b = &d->bar[d->first[s->track] + s->depth];
		const char *name = t->text[s->name];
		double from, to;

		if (!is_shown(d, s))
			continue;
		from = x_of(d, drawn_at(d, s, s->begin));
		to = x_of(d, drawn_at(d, s, s->end));
		if (b->there && b->kind == s->kind && from - b->to < MERGED &&
			to - from < 1) {
			b->to = to;
			continue;
		}
		if (b->there)
			draw_bar(d, s->track, s->depth, b);
		*b = (struct bar){ from, to, s->kind, true };
		if (to - from < 20)
			continue;
		draw_bar(d, s->track, s->depth, b);
		b->there = false;
		if (to - from >= 7.0 * (double)strlen(name) + 4) {
			fprintf(d->f, "<text x=\"%.1f\" y=\"%.1f\">", from + 2,
				d->top[s->track] + s->depth * ROW + ROW - 4);
			put_text(d->f, name);
			fputs("</text>\n", d->f);
		}
	}
	for (size_t i = 0; i < t->n_track; i++)
		for (uint32_t k = 0; k < t->track[i].deepest; k++)
			if (d->bar[d->first[i] + k].there)
				draw_bar(d, i, k, &d->bar[d->first[i] + k]);
}

/* Mark faults and lost events by lines across all tracks. */
static void draw_faults(struct drawing *d)
{
	const struct timeline *t = d->t;

	for (size_t i = 0; i < t->n_slice; i++) {
		const struct timeline_slice *s = &t->slice[i];
		double x = x_of(d, s->begin);

		if (!s->instant || s->kind != TRACE_KIND_FAULT ||
			!in_range(d, s))
			continue;
		fprintf(d->f,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
			"y2=\"%.1f\" stroke=\"%s\"><title>",
			x, x, TOP - 4, d->height - 26, draw_color(s->kind));
		put_text(d->f, t->text[s->name]);
		fputs("</title></line>\n", d->f);
	}
}

static void draw_axis(struct drawing *d)
{
	static const double factor[] = { 1, 2, 5, 10 };
	double ms = (double)(d->end - d->begin) * 1e-6;
	double per_ms = (WIDTH - LEFT - RIGHT) / ms;
	double power = pow(10, floor(log10(ms / TICKS))), step;
	unsigned k = 0;

	/* The step between ticks is 1, 2 or 5 times a power of ten, so that
	 * there are at most TICKS ticks. */
	while (ms / (power * factor[k]) > TICKS && factor[k] < 10)
		k++;
	step = power * factor[k];
	for (unsigned i = 0; i * step <= ms; i++) {
		double x = LEFT + i * step * per_ms;

		fprintf(d->f,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
			"y2=\"%.1f\" stroke=\"#d8dce0\"/>\n"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%g "
			"ms</text>\n",
			x, x, TOP - 6, d->height - 24, x, d->height - 10,
			x < WIDTH - 50 ? "middle" : "end", i * step);
	}
}

int draw_svg(const struct timeline *t, FILE *f, struct err *e)
{
	struct drawing d = { .t = t, .f = f };
	const struct timeline_slice *text = first_text(t);
	int ret;

	/* The shift between the host's clock and the phone's clock is the same
	 * for all slices of the simulated phone, so compute the shift from the
	 * first slice. */
	for (size_t i = 0; text && i < t->n_slice; i++) {
		const struct timeline_slice *s = &t->slice[i];
		uint64_t began, ps;

		if (!timeline_is_phone(t->track[s->track].role))
			continue;
		began = s->begin - timeline_arg(t, s, "begin_ps") / 1000;
		ps = timeline_arg(t, text, "phone_ps");
		d.shift = (int64_t)(text->begin - began - ps / 1000);
		break;
	}
	find_range(&d);
	ret = lay_out(&d, e);
	if (!ret) {
		double x = LEFT;

		fprintf(f,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" "
			"viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
			"font-size=\"10\">\n"
			"<rect width=\"100%%\" height=\"100%%\" "
			"fill=\"#ffffff\"/>\n",
			WIDTH, d.height);
		draw_axis(&d);

		for (unsigned k = 0; k < TRACE_KINDS; k++) {
			fprintf(d.f,
				"<rect x=\"%.1f\" y=\"14\" width=\"10\" "
				"height=\"10\" fill=\"%s\"/><text x=\"%.1f\" "
				"y=\"23\">%s</text>\n",
				x, draw_color(k), x + 13, trace_kinds[k]);
			x += 28 + 6.2 * (double)strlen(trace_kinds[k]);
		}

		for (size_t i = 0; i < t->n_track; i++) {
			if (d.top[i] < 0)
				continue;
			fprintf(d.f, "<text x=\"4\" y=\"%.1f\">",
				d.top[i] + ROW - 4);
			if (timeline_is_device(t->track[i].role))
				fputs("device: ", d.f);
			put_text(d.f, t->track[i].name);
			fputs("</text>\n", d.f);
		}

		draw_slices(&d);
		draw_faults(&d);
		fputs("</svg>\n", f);
	}
	free(d.top);
	free(d.first);
	free(d.bar);
	return ret;
}
