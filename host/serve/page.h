/*
 * The page at "/": page.html, which the build turns into a C string. Constant.
 */
#ifndef HOST_SERVE_PAGE_H
#define HOST_SERVE_PAGE_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_size;

#endif
