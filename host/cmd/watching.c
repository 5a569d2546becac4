#include "host/cmd/watching.h"

#include "base/fd.h"
#include "host/api/tandem.h"
#include "host/cmd/json_text.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

void watch_init(struct watch *w, bool json)
{
	const char *term = getenv("TERM");

	*w = (struct watch){ .form = WATCH_LINES };
	if (json)
		w->form = WATCH_JSON;
	else if (isatty(STDOUT_FILENO) && is_set("TERM") &&
		strcmp(term, "dumb"))
		w->form = WATCH_DRAWN;
	/* Only the form WATCH_DRAWN creates a locale, which watch_release()
	 * releases. */
	if (w->form == WATCH_DRAWN)
		watch_view_init(&w->view, !is_set("NO_COLOR"));
}

void watch_release(struct watch *w)
{
	watch_view_release(&w->view);
	strbuf_release(&w->out);
}

/* Return the size of the terminal, or 80 x 24 if it reports none. */
static struct watch_size terminal_size(void)
{
	struct winsize w;
	struct watch_size size = { 80, 24 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w))
		return size;
	size.cols = w.ws_col ? w.ws_col : size.cols;
	size.rows = w.ws_row ? w.ws_row : size.rows;
	return size;
}

/* Column at which the settled text (tokens that are final) ends; the drawing
 * follows. NOTHING means that there is no drawing; FULL means that the settled
 * text fills its last row. */
enum { NOTHING = -1, FULL = -2 };
static volatile sig_atomic_t drawn_after = NOTHING;

/* watch_leave() uses only async-signal-safe calls. The cursor is in the first
 * column (see watch_view.h). */
void watch_leave(void)
{
	char move[] = "\033[00000C";
	const char *wipe = drawn_after == FULL ? "\n\033[J" : "\033[J\n";
	int col = drawn_after;

	if (col == NOTHING)
		return;
	for (int i = 0, rest = col; i < 5; i++, rest /= 10)
		move[sizeof(move) - 3 - i] = (char)('0' + rest % 10);
	if (col > 0) /* a terminal treats a count of 0 as 1 */
		fd_write_all(STDOUT_FILENO, move, sizeof(move) - 1);
	fd_write_all(STDOUT_FILENO, wipe, strlen(wipe));
}

/* Write a drawing with one call. So no other output can come between its parts,
 * and the drawing on the terminal is complete even if the program ends at any
 * time. */
static int write_out(struct watch *w)
{
	const struct watch_view *v = &w->view;
	int ret = 0;

	if (w->out.failed || v->ahead.failed || v->row.failed)
		return -ENOMEM;
	if (w->out.len)
		ret = fflush(stdout)
			? -errno
			: fd_write_all(STDOUT_FILENO, w->out.data, w->out.len);
	strbuf_reset(&w->out);
	drawn_after = w->form != WATCH_DRAWN || !v->open ? NOTHING
		: v->col >= v->cols                      ? FULL
							 : (int)v->col;
	return ret;
}

int watch_text(struct watch *w, int32_t id, const char *text, size_t len)
{
	if (w->form == WATCH_JSON)
		return 0;
	if (w->form == WATCH_LINES) {
		strbuf_add(&w->view.ahead, text, len);
		return w->view.ahead.failed ? -ENOMEM : 0;
	}
	watch_view_text(&w->view, id, text, len, terminal_size().cols, &w->out);
	return write_out(w);
}

/* ---- JSON ---------------------------------------------------------------- */

static int step_json(const struct tandem_step *s, struct strbuf *out)
{
	static const char letter[] = { [TANDEM_MASK] = 'm',
		[TANDEM_VISIBLE] = 'v',
		[TANDEM_STABLE] = 's',
		[TANDEM_DRAFT] = 'd' };
	json_t *o = json_object(), *tokens = json_array(),
	       *texts = json_array(), *text;
	struct strbuf marks = STRBUF_INIT;
	char *line = NULL;
	int bad;

	for (size_t i = 0; i < s->n; i++) {
		bool mask = s->tokens[i] < 0;

		json_array_append_new(tokens,
			mask ? json_null() : json_integer(s->tokens[i]));
		json_array_append_new(texts,
			mask ? json_null()
			     : json_stringn(s->text + s->at[i],
				       s->at[i + 1] - s->at[i]));
		strbuf_add(&marks, &letter[s->marks[i]], 1);
	}
	put_u64(o, "step", s->pass);
	put_u64(o, "first", s->first);
	json_object_set_new(o, "tokens", tokens);
	/* The string `marks` is not allocated by Jansson, so check here whether
	 * its allocation failed. */
	text = marks.failed
		? NULL
		: json_stringn(marks.data ? marks.data : "", marks.len);
	strbuf_release(&marks);
	bad = json_object_set_new(o, "marks", text);
	json_object_set_new(o, "text", texts);
	if (!bad)
		line = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	if (!line)
		return -ENOMEM;
	strbuf_addf(out, "%s\n", line);
	free(line);
	return 0;
}

/* ---- steps --------------------------------------------------------------- */

static bool ends_text(const void *tokenizer, int32_t id)
{
	return tokenizer_is_eog(tokenizer, id);
}

int watch_step(struct watch *w, const struct tandem_step *s)
{
	const struct watch_ends ends = { ends_text, w->tokenizer };
	int ret = 0;

	switch (w->form) {
	case WATCH_DRAWN:
		watch_view_step(&w->view, s, &ends, terminal_size(), &w->out);
		break;
	case WATCH_LINES:
		watch_line(s, &ends, &w->out);
		break;
	case WATCH_JSON:
		ret = step_json(s, &w->out);
		break;
	}
	return ret ? ret : write_out(w);
}

int watch_end(struct watch *w)
{
	if (w->form == WATCH_DRAWN)
		watch_view_end(&w->view, terminal_size().cols, &w->out);
	else if (w->view.ahead.len)
		strbuf_add(&w->out, w->view.ahead.data, w->view.ahead.len);
	return write_out(w);
}
