/*
 * Draws a timeline, either as a picture (SVG) or as an interactive page (HTML).
 * The picture shows the time during which texts were generated or, if there
 * were none, the whole trace. Each output is a single file without references
 * to other files. Slices are colored by kind. In the picture, a slice narrower
 * than one pixel is merged with the previous slice of the same kind if the gap
 * between them is less than a tenth of a pixel.
 *
 * The functions write to the stream and read only memory. The caller must check
 * the stream for errors.
 */
#ifndef HOST_TRACE_DRAW_H
#define HOST_TRACE_DRAW_H

#include <stdio.h>

struct err;
struct timeline;

/* draw_svg returns 0 or -ENOMEM. */
int draw_svg(const struct timeline *, FILE *, struct err *);
void draw_html(const struct timeline *, FILE *);

/* The color of an enum trace_kind, such as "#4c78a8". */
const char *draw_color(unsigned kind);

/* The contents of timeline_page.html, which draw_html fills in. */
extern const char timeline_page[];

#endif
