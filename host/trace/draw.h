/*
 * A timeline drawn: a picture (SVG) of the texts, or of all where there are
 * none, and a page (HTML) in which one moves about. Both stand alone: nothing
 * is fetched from anywhere. Slices are coloured by kind; what is narrower than
 * a tenth of a pixel of the picture is drawn together with its neighbours.
 *
 * They write to the stream and look at nothing but memory there; whoever opened
 * the stream looks at its errors.
 */
#ifndef HOST_TRACE_DRAW_H
#define HOST_TRACE_DRAW_H

#include <stdio.h>

struct err;
struct timeline;

/* 0 or -ENOMEM. */
int draw_svg(const struct timeline *, FILE *, struct err *);
void draw_html(const struct timeline *, FILE *);

/* "#4c78a8", of an enum trace_kind. */
const char *draw_color(unsigned kind);

/* The page around what draw_html writes, of timeline_page.html. */
extern const char timeline_page[];

#endif
