/*
 * A text whose tokens settle out of order, as terminal output or as lines.
 * Settled text is ordinary output: it scrolls, and the terminal wraps it. The
 * open part after it is drawn again after each pass, as rows with explicit
 * ends, with a status line below.
 *
 * Between calls the cursor is visible, colours and modes are the user's, and
 * the cursor is where the drawing begins: in the last row of the text, at the
 * margin. So nothing is lost if the terminal rewraps its lines, and erasing
 * from the cursor on erases the drawing and no text.
 *
 * Writes to a buffer and does not query the terminal. Texts are UTF-8, whole
 * characters at a time. The caller checks out->failed.
 */
#ifndef HOST_CMD_WATCH_VIEW_H
#define HOST_CMD_WATCH_VIEW_H

#include "base/strbuf.h"

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tandem_step;

struct watch_view {
	bool colour;         /* otherwise symbols show the marks */
	locale_t utf8;       /* gives the width of characters */
	uint64_t tokens;     /* settled so far */
	struct strbuf ahead; /* Settled text that is not on the terminal yet. */
	struct strbuf row;   /* last row of the text on the terminal */
	unsigned col;        /* column after that row */
	/* of the terminal, as last passed; 0: not known yet */
	unsigned cols;
	bool open; /* a drawing follows the text */
};

void watch_view_init(struct watch_view *, bool colour);
void watch_view_release(struct watch_view *);

/*
 * Add settled text: a token's (id >= 0), or text only. It is output at once if
 * there is no drawing, otherwise with the next step: then a settled block does
 * not flicker.
 */
void watch_view_text(struct watch_view *, int32_t id, const char *text,
	size_t len, unsigned cols, struct strbuf *out);

struct watch_size {
	unsigned cols, rows; /* both at least 1 */
};

/*
 * Draw the state after a pass, for a terminal of that size. `ends` tests
 * whether a token ends texts (it gets a symbol if it has no text); NULL: none
 * does.
 */
struct watch_ends {
	bool (*is)(const void *arg, int32_t id);
	const void *arg;
};
void watch_view_step(struct watch_view *, const struct tandem_step *,
	const struct watch_ends *, struct watch_size, struct strbuf *out);

/* Erase the drawing; the text stays, with the cursor after it. */
void watch_view_end(struct watch_view *, unsigned cols, struct strbuf *out);

/* Print a step as one line, "pass 12: ..."; symbols show the marks. */
void watch_line(const struct tandem_step *, const struct watch_ends *,
	struct strbuf *out);

#endif
