/*
 * Shows a text whose tokens become final out of order (as a diffusion model
 * generates it), as terminal output or as lines.
 *
 * Text whose tokens are all final (settled text) is ordinary output: it
 * scrolls, and the terminal wraps it. The part after settled text may still
 * change (open text). Open text is drawn again after each pass, in rows that
 * end before the terminal would wrap them, with a status line below. Open text
 * and status line together are the drawing.
 *
 * Between calls the cursor is visible, and colors and modes are those of the
 * user. The cursor is in the first column of the last row of settled text,
 * where the drawing begins. So if the terminal wraps its lines differently
 * after a resize, no text is lost: erasing from the cursor to the end of the
 * screen erases the drawing and no other text.
 *
 * The functions write to a buffer and do not query the terminal. Texts are
 * UTF-8; each call passes whole characters. The caller checks out->failed.
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
	/* show the state of each token by a color; if not set, by a symbol */
	bool colour;
	locale_t utf8;       /* locale that gives the width of characters */
	uint64_t tokens;     /* number of settled tokens */
	struct strbuf ahead; /* settled text that has not been output yet */
	/* settled text in the last row of the terminal that has settled text */
	struct strbuf row;
	unsigned col; /* column after the text in `row` */
	/* columns of the terminal at the previous call; 0 if not known yet */
	unsigned cols;
	bool open; /* a drawing follows the settled text */
};

void watch_view_init(struct watch_view *, bool colour);
void watch_view_release(struct watch_view *);

/*
 * Add settled text: the text of a token (id >= 0), or only text (id < 0). If a
 * drawing is visible, the text is output with the next step, so that a block of
 * tokens that settles together does not flicker. Otherwise the text is output
 * at once.
 */
void watch_view_text(struct watch_view *, int32_t id, const char *text,
	size_t len, unsigned cols, struct strbuf *out);

struct watch_size {
	unsigned cols, rows; /* both are at least 1 */
};

/* A test whether a token ends the text. */
struct watch_ends {
	bool (*is)(const void *arg, int32_t id);
	const void *arg;
};
/* Draw the state after a pass (a step), for a terminal of the given size. A
 * token that ends the text gets a symbol if it has no text. If the pointer to
 * struct watch_ends is NULL, no token ends the text. */
void watch_view_step(struct watch_view *, const struct tandem_step *,
	const struct watch_ends *, struct watch_size, struct strbuf *out);

/* Erase the drawing. The settled text remains, with the cursor after it. */
void watch_view_end(struct watch_view *, unsigned cols, struct strbuf *out);

/* Print the state after a pass as one line such as "pass 12: ..."; symbols show
 * the states of the tokens (step->marks). */
void watch_line(const struct tandem_step *, const struct watch_ends *,
	struct strbuf *out);

#endif
