/*
 * The web page at "/": a C string that the build makes from page.html.
 */
#ifndef HOST_SERVE_PAGE_H
#define HOST_SERVE_PAGE_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_size;

#endif
