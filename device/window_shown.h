/*
 * The window as it is shown to whoever looks from outside (ipc/window_view.h):
 * a memfd of a few pages, written at each map and unmap, by the thread that
 * does them. Nothing in the device reads it.
 */
#ifndef DEVICE_WINDOW_SHOWN_H
#define DEVICE_WINDOW_SHOWN_H

#include "ipc/window_view.h"

struct err;
struct window;

/* Create it. *fd stays open for as long as it is shown. */
int window_shown_open(struct window_view **out, int *fd, struct err *);
void window_shown_close(struct window_view *, int *fd);

/* As the window is now; NULL: it is not shown. */
void window_shown_update(struct window_view *, const struct window *);

#endif
