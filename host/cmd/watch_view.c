#include "host/cmd/watch_view.h"

#include "host/api/tandem.h"
#include "host/text/utf8.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#define HIDE  "\033[?25l"
#define SHOW  "\033[?25h"
#define WIPE  "\033[J" /* erase from the cursor to the end of the screen */
#define PLAIN "\033[0m"
/* Turn the terminal's line wrapping off (CUT) and on (WRAP). The rows of the
 * drawing (watch_view.h) end before the terminal would wrap them. But a row can
 * still be too wide, because the terminal has become narrower or draws a
 * character wider than expected. Without wrapping, the terminal cuts such a
 * row, so the drawing has as many rows as calculated. */
#define CUT    "\033[?7l"
#define WRAP   "\033[?7h"

#define MASK   "\xe2\x96\xa2" /* U+25A2 */
#define END    "\xe2\x88\x8e" /* U+220E */
#define RETURN "\xe2\x86\xb5" /* U+21B5 */
#define TAB    "\xe2\x87\xa5" /* U+21E5 */
#define ODD    "\xef\xbf\xbd" /* U+FFFD */

static const char *const colour_of[] = {
	[TANDEM_MASK] = "\033[2m",
	[TANDEM_VISIBLE] = "\033[33m",
	[TANDEM_STABLE] = "\033[1m",
	[TANDEM_DRAFT] = "\033[2;36m",
};

/* Sign for each state of a token, printed before the token if states are not
 * shown by colors. */
static const char *const sign_of[] = {
	[TANDEM_MASK] = "",
	[TANDEM_VISIBLE] = "~",
	[TANDEM_STABLE] = "",
	[TANDEM_DRAFT] = "?",
};

void watch_view_init(struct watch_view *v, bool colour)
{
	*v = (struct watch_view){ .colour = colour };
	v->utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

void watch_view_release(struct watch_view *v)
{
	strbuf_release(&v->ahead);
	strbuf_release(&v->row);
	if (v->utf8)
		freelocale(v->utf8);
	v->utf8 = (locale_t)0;
}

/* ---- characters ---------------------------------------------------------- */

struct glyph {
	const char *text;
	size_t len;
	int width; /* width in columns; -1 if not printable */
	char own[4];
};

/* Return the character at *at, and advance *at to the next one. */
static struct glyph next_glyph(
	const struct watch_view *v, const char **at, const char *end)
{
	static const unsigned char first[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	const unsigned char *p = (const unsigned char *)*at;
	int len = utf8_length(p, (size_t)(end - *at));
	struct glyph g = { .text = *at, .len = len > 0 ? (size_t)len : 1 };
	uint32_t c = p[0] & first[g.len];

	*at += g.len;
	for (size_t i = 1; i < g.len; i++)
		c = c << 6 | (p[i] & 0x3f);
	g.width = 1;
	if (len <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
		g.width = -1;
	/* A character is assumed to be one column wide if the locale is not
	 * UTF-8, or if the C library does not know the character's width. */
	else if (v->utf8 && wcwidth((wchar_t)c) >= 0)
		g.width = wcwidth((wchar_t)c);
	return g;
}

/* Return a visible symbol for a control character or an invisible character;
 * other characters are returned unchanged. */
static struct glyph sign_for(struct glyph g)
{
	unsigned char c = (unsigned char)g.text[0];

	if (g.width >= 0)
		return g;
	g.width = 1;
	g.len = 3;
	g.text = c == '\n' ? RETURN : c == '\t' ? TAB : ODD;
	if (c == '\n' || c == '\t' || (c >= 0x20 && c != 0x7f))
		return g;
	/* U+2400 + c is the symbol of the control character c; U+2421 is the
	 * symbol of DEL. */
	memcpy(g.own, "\xe2\x90\x80", 3);
	g.own[2] = (char)(0x80 + (c == 0x7f ? 0x21 : c));
	g.text = NULL;
	return g;
}

/* ---- settled text: tokens that are final --------------------------------- */

static void settle(struct watch_view *v, struct strbuf *out)
{
	const char *at = v->ahead.data, *end = at + v->ahead.len;

	if (!v->ahead.len)
		return;
	strbuf_add(out, at, v->ahead.len);
	/* Track the position of the cursor. A character that does not fit
	 * starts a new row. */
	while (at < end) {
		const struct glyph g = next_glyph(v, &at, end);
		const char c = g.text[0];
		unsigned width = g.width > 0 ? (unsigned)g.width : 0;

		if (c == '\n' || c == '\r' || v->col + width > v->cols) {
			strbuf_reset(&v->row);
			v->col = 0;
		}
		if (c == '\n' || c == '\r')
			continue;
		strbuf_add(&v->row, g.text, g.len);
		v->col += width;
		if (c != '\t' || v->col >= v->cols)
			continue;
		v->col = (v->col / 8 + 1) * 8;
		v->col = v->col < v->cols ? v->col : v->cols - 1;
	}
	strbuf_reset(&v->ahead);
}

/*
 * Adapt to another width of the terminal. It is not known how the terminal has
 * wrapped the last row, so end the line; after that the column of the cursor is
 * known again.
 */
static void resize(struct watch_view *v, unsigned cols, struct strbuf *out)
{
	if (v->cols && v->cols != cols && v->col) {
		strbuf_addf(out, "\r\n");
		strbuf_reset(&v->row);
		v->col = 0;
	}
	v->cols = cols;
}

/* Erase the drawing, and move the cursor to the end of the settled text. */
static void wipe(struct watch_view *v, bool moved, struct strbuf *out)
{
	if (!v->open)
		return;
	/* Normally erase from the first column, because the user may have typed
	 * something. If the width has changed, settled text may have moved to
	 * the left of the cursor, so erase only from the cursor on. */
	strbuf_addf(out, "%s", moved ? WIPE : "\r" WIPE);
	if (v->row.len)
		strbuf_add(out, v->row.data, v->row.len);
	v->open = false;
}

void watch_view_text(struct watch_view *v, int32_t id, const char *text,
	size_t len, unsigned cols, struct strbuf *out)
{
	locale_t was = uselocale(v->utf8);

	v->tokens += id >= 0;
	strbuf_add(&v->ahead, text, len);
	if (!v->open) {
		resize(v, cols, out);
		settle(v, out);
	}
	uselocale(was);
}

void watch_view_end(struct watch_view *v, unsigned cols, struct strbuf *out)
{
	locale_t was = uselocale(v->utf8);

	if (v->open) {
		wipe(v, v->cols != cols, out);
		resize(v, cols, out);
	}
	settle(v, out);
	uselocale(was);
}

/* ---- drawing of open text: tokens that may still change ------------------ */

/* State of drawing the open text, either as rows on a terminal or as part of a
 * single line. */
struct pen {
	const struct watch_view *view;
	struct strbuf *out;
	unsigned col, cols; /* cols 0 means unlimited */
	unsigned row, rows; /* rows is the maximum number of rows */
	/* token state (index into colour_of[]) whose color the terminal now
	 * uses; -1: the default color */
	int mark;
	bool full;
};

static void set_colour(struct pen *p, int mark)
{
	if (!p->view->colour || p->mark == mark)
		return;
	if (p->mark >= 0)
		strbuf_addf(p->out, PLAIN);
	if (mark >= 0)
		strbuf_addf(p->out, "%s", colour_of[mark]);
	p->mark = mark;
}

static void draw_text(struct pen *p, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end && !p->full) {
		struct glyph g = sign_for(next_glyph(p->view, &text, end));
		unsigned width = (unsigned)g.width;

		if (p->cols && p->col + width > p->cols && p->col) {
			p->full |= p->row + 1 >= p->rows;
			if (p->full)
				return;
			strbuf_addf(p->out, "\r\n");
			p->row++;
			p->col = 0;
		}
		strbuf_add(p->out, g.text ? g.text : g.own, g.len);
		p->col += width;
	}
}

/* Draw the open text. Returns the number of positions that fit. */
static size_t draw(struct pen *p, const struct tandem_step *s,
	const struct watch_ends *ends)
{
	size_t i;

	draw_text(p, s->text, s->at[0]);
	for (i = 0; i < s->n && !p->full; i++) {
		const size_t len = s->at[i + 1] - s->at[i];
		const int mark = s->marks[i];
		bool end = mark != TANDEM_MASK && !len && ends &&
			ends->is(ends->arg, s->tokens[i]);

		set_colour(p, mark);
		if (!p->view->colour && (len || end))
			draw_text(p, sign_of[mark], strlen(sign_of[mark]));
		if (mark == TANDEM_MASK)
			draw_text(p, MASK, strlen(MASK));
		else if (end)
			draw_text(p, END, strlen(END));
		draw_text(p, s->text + s->at[i], len);
	}
	set_colour(p, -1);
	return p->full && i ? i - 1 : i;
}

void watch_view_step(struct watch_view *v, const struct tandem_step *s,
	const struct watch_ends *ends, struct watch_size size,
	struct strbuf *out)
{
	locale_t was = uselocale(v->utf8);
	struct pen p = {
		.view = v,
		.out = out,
		.cols = size.cols,
		.rows = size.rows > 1 ? size.rows - 1 : 1,
		.mark = -1,
	};
	size_t shown;

	strbuf_addf(out, HIDE);
	wipe(v, v->cols != p.cols, out);
	resize(v, p.cols, out);
	settle(v, out);
	p.col = v->col;
	strbuf_addf(out, CUT);
	shown = draw(&p, s, ends);
	if (size.rows != 1) {
		/* Draw the status line, truncated to the width. */
		uint64_t left = 0, filled = p.view->tokens;
		char line[160];
		int len;

		for (size_t i = 0; i < s->n; i++) {
			left += s->marks[i] == TANDEM_MASK;
			filled += s->marks[i] == TANDEM_VISIBLE ||
				s->marks[i] == TANDEM_STABLE;
		}
		len = snprintf(line, sizeof(line),
			"pass %llu, %llu mask%s left, %.1f tokens a pass",
			(unsigned long long)s->pass, (unsigned long long)left,
			left == 1 ? "" : "s", (double)filled / (double)s->pass);
		if (shown < s->n)
			len += snprintf(line + len, sizeof(line) - (size_t)len,
				", %zu positions not shown", s->n - shown);
		strbuf_addf(p.out, "\r\n");
		set_colour(&p, TANDEM_MASK);
		/* Do not write to the last column, because a terminal may wrap
		 * there. */
		strbuf_add(p.out, line,
			(unsigned)len < p.cols ? (unsigned)len : p.cols - 1);
		set_colour(&p, -1);
		p.row++;
	}
	if (p.row)
		strbuf_addf(out, "\033[%uA", p.row);
	strbuf_addf(out, "\r" WRAP SHOW);
	v->open = true;
	uselocale(was);
}

void watch_line(const struct tandem_step *s, const struct watch_ends *ends,
	struct strbuf *out)
{
	const struct watch_view plain = { .colour = false };
	struct pen p = { .view = &plain, .out = out, .mark = -1 };

	strbuf_addf(out, "pass %llu: ", (unsigned long long)s->pass);
	draw(&p, s, ends);
	strbuf_addf(out, "\n");
}
