/*
 * Shows how a diffusion model writes (`tandem run --watch`): on a terminal a
 * drawing of the open part of the text (watch_view.h); in a pipe, or on a
 * terminal that cannot move the cursor, a line for each step; with --json an
 * object for each step. Writes to standard output, which it flushes first. One
 * thread.
 */
#ifndef HOST_CMD_WATCHING_H
#define HOST_CMD_WATCHING_H

#include "base/strbuf.h"
#include "host/cmd/watch_view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tandem_step;
struct tokenizer;

enum watch_form {
	WATCH_DRAWN,
	WATCH_LINES,
	WATCH_JSON,
};

struct watch {
	enum watch_form form;
	struct watch_view view;
	struct strbuf out;
	const struct tokenizer *tokenizer;
};

/* Choose the form by the type of standard output and by TERM and NO_COLOR. */
void watch_init(struct watch *, bool json);
void watch_release(struct watch *);

/*
 * Report settled text, and the state after a step: 0 or -errno. A drawing shows
 * the text at once, the form of lines only at the end, since a step may come in
 * the middle of a line; JSON output has the text elsewhere.
 */
int watch_text(struct watch *, int32_t id, const char *text, size_t len);
int watch_step(struct watch *, const struct tandem_step *);

/* Called in a signal handler before the program ends: erase the drawing and end
 * the line. Applies to the struct watch that was initialised last. */
void watch_leave(void);

/* Erase the drawing, so that only the text is left. */
int watch_end(struct watch *);

#endif
