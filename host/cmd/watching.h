/*
 * Watching a diffusion model write (`tandem run --watch`): on a terminal a
 * drawing of the open end of the text (watch_view.h), in a pipe or on a
 * terminal that cannot go back a line for each step, with --json an object for
 * each. Writes to standard output, whatever else went there before being
 * flushed first. One thread.
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

/* The form by what standard output is, and TERM and NO_COLOR say. */
void watch_init(struct watch *, bool json);
void watch_release(struct watch *);

/*
 * Text that stands, and what a step left: 0 or -errno. Text is shown by the
 * drawing, and by lines at the end, for half a line of it may be there when a
 * step comes; JSON has it from elsewhere.
 */
int watch_text(struct watch *, int32_t id, const char *text, size_t len);
int watch_step(struct watch *, const struct tandem_step *);

/* In a signal handler, before the program is ended at once: what is drawn
 * behind the text goes, and the line ends. For the last one that was
 * initialised. */
void watch_leave(void);

/* However it ended: the text, and nothing but that, is left. */
int watch_end(struct watch *);

#endif
