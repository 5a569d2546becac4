/*
 * Draws a timeline: a picture (SVG) of the texts, or of the whole trace without
 * texts, and an interactive page (HTML). Both are complete in one file. Slices
 * are coloured by kind; slices narrower than a tenth of a pixel of the picture
 * are merged with their neighbours.
 *
 * The functions write to the stream and read only memory; the caller checks the
 * stream for errors.
 */
#ifndef HOST_TRACE_DRAW_H
#define HOST_TRACE_DRAW_H

#include <stdio.h>

struct err;
struct timeline;

/* 0 or -ENOMEM. */
int draw_svg(const struct timeline *, FILE *, struct err *);
void draw_html(const struct timeline *, FILE *);

/* The color, "#4c78a8", of an enum trace_kind. */
const char *draw_color(unsigned kind);

/* The page that draw_html fills: timeline_page.html. */
extern const char timeline_page[];

#endif
