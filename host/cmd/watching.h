/*
 * Shows how a diffusion model generates text (`tandem run --watch`). On a
 * terminal, the part of the text that may still change is drawn (watch_view.h).
 * In a pipe, or on a terminal that cannot move the cursor, a line is printed
 * for each step (the state after a pass). With --json an object is printed for
 * each step. Writes to standard output after flushing stdio. Single-threaded.
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

/* Choose the form: JSON if `json` is set; else a drawing if standard output is
 * a terminal and TERM does not exclude it; else lines. If the environment
 * variable NO_COLOR is set, a drawing has no colors. */
void watch_init(struct watch *, bool json);
void watch_release(struct watch *);

/*
 * watch_text reports settled text (whose tokens are final); watch_step reports
 * the state after a step. Both return 0 or a negative errno. In drawn form, the
 * text appears at once or, if a drawing is visible, with the next step. In
 * lines form, the text appears only at the end, because a step may occur in the
 * middle of a line of text. In JSON form, the text is ignored here, because the
 * JSON report contains it.
 */
int watch_text(struct watch *, int32_t id, const char *text, size_t len);
int watch_step(struct watch *, const struct tandem_step *);

/* Erase the drawing and end the line. A signal handler calls this before the
 * program ends. Applies to the last drawing that was written. */
void watch_leave(void);

/* Erase the drawing, so that only the settled text is left. Returns 0 or a
 * negative errno. */
int watch_end(struct watch *);

#endif
