/*
 * A text that settles out of order, as bytes for a terminal or as lines. What
 * stands is ordinary text: it scrolls, and wraps where the terminal wraps. The
 * open end behind it is drawn again and again where it is, as rows of our own,
 * with a line about the passes below.
 *
 * At rest the cursor is visible, colours and modes are the user's, and the
 * cursor is where the drawing begins: in the text's last row, at the margin. So
 * a terminal that breaks its lines anew leaves us where we were, and whoever
 * wipes the screen from there on wipes the drawing and no text.
 *
 * Nothing is read or written here, no terminal is asked. Texts are UTF-8, whole
 * characters at a time. Whoever calls looks at out->failed.
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
	bool colour;         /* else marks are told by signs */
	locale_t utf8;       /* knows how wide characters are */
	uint64_t tokens;     /* that stand */
	struct strbuf ahead; /* text that stands and is not drawn yet */
	struct strbuf row;   /* the last row of what is drawn of it */
	unsigned col;        /* behind that */
	unsigned cols;       /* of the terminal, as last heard; 0: not yet */
	bool open;           /* something is drawn behind it */
};

void watch_view_init(struct watch_view *, bool colour);
void watch_view_release(struct watch_view *);

/*
 * Text that stands: a token's (id >= 0), or only text. It goes to the terminal
 * at once where nothing is drawn behind the text, else with the next step,
 * which it is part of: a block is not seen to vanish and to come again.
 */
void watch_view_text(struct watch_view *, int32_t id, const char *text,
	size_t len, unsigned cols, struct strbuf *out);

struct watch_size {
	unsigned cols, rows; /* 1 or more */
};

/*
 * What a pass left, drawn on a terminal of that size. `ends` says of a token
 * that it ends texts (it has a sign where it has no text); NULL: of none.
 */
struct watch_ends {
	bool (*is)(const void *arg, int32_t id);
	const void *arg;
};
void watch_view_step(struct watch_view *, const struct tandem_step *,
	const struct watch_ends *, struct watch_size, struct strbuf *out);

/* The drawing goes, the text stays, and the cursor is behind it. */
void watch_view_end(struct watch_view *, unsigned cols, struct strbuf *out);

/* A step as one line: "pass 12: ..."; marks are told by signs. */
void watch_line(const struct tandem_step *, const struct watch_ends *,
	struct strbuf *out);

#endif
