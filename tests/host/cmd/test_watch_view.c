/*
 * The view of the option --watch (the text while a diffusion model fills its
 * masks), drawn on a terminal that the test simulates. The terminal supports
 * the few control sequences that the view uses. It also wraps lines, scrolls,
 * and keeps the lines that scrolled away. At the end of a run the terminal must
 * show only the text, whatever was drawn before.
 */
#include "base/checked.h"
#include "base/rng.h"
#include "host/api/tandem.h"
#include "host/cmd/watch_view.h"
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HAN    "\xe6\xbc\xa2" /* a character two columns wide */
#define ACUTE  "\xcc\x81"     /* combines with the character before it */
#define MASK   "\xe2\x96\xa2"
#define RETURN "\xe2\x86\xb5"
#define END    "\xe2\x88\x8e"

/* ---- a terminal ---------------------------------------------------------- */

#define LINES 1000
#define WIDE  100

struct terminal {
	/* top: the line in the first row of the screen */
	unsigned cols, rows, top;
	unsigned line, col; /* col == cols: the next character wraps */
	bool hidden, cuts, coloured, was_coloured;
	/* "" if the cell is empty or has the second half of a wide character */
	char cell[LINES][WIDE][8];
};

static void line_feed(struct terminal *t)
{
	t->line++;
	assert_true(t->line < LINES);
	if (t->line >= t->top + t->rows)
		t->top = t->line - t->rows + 1;
}

/* Number of columns of a character, from its first byte. Supports only the
 * characters that occur in this test. */
static unsigned columns(const char *c)
{
	const unsigned char lead = (unsigned char)*c;

	if (lead == 0xcc)
		return 0;
	return lead >= 0xe4 && lead < 0xef ? 2 : 1;
}

static void show(struct terminal *t, const char *c, size_t len)
{
	unsigned width = columns(c);

	if (!width) {
		assert_true(t->col > 0);
		strncat(t->cell[t->line][t->col - 1], c, len);
		return;
	}
	if (t->col + width > t->cols && t->cuts) {
		t->col = t->cols - width;
	} else if (t->col + width > t->cols) {
		line_feed(t);
		t->col = 0;
	}
	memset(t->cell[t->line][t->col], 0, width * 8);
	memcpy(t->cell[t->line][t->col], c, len);
	t->col += width;
}

static void wipe(struct terminal *t)
{
	memset(t->cell[t->line][t->col], 0, (WIDE - t->col) * 8);
	for (unsigned l = t->line + 1; l < t->top + t->rows; l++)
		memset(t->cell[l], 0, sizeof(t->cell[l]));
}

/* Execute the control sequence `s`, which follows ESC [. */
static void obey(struct terminal *t, const char *s, size_t len)
{
	const unsigned n = (unsigned)strtoul(s, NULL, 10);
	const char last = s[len - 1];

	if (last == 'J' && len == 1) {
		wipe(t);
	} else if (last == 'A') {
		assert_in_range(n, 1, t->rows - 1);
		assert_true(t->line - t->top >= n);
		t->line -= n;
	} else if (last == 'm') {
		t->coloured = n != 0;
		t->was_coloured |= t->coloured;
	} else if (len == 4 && !memcmp(s, "?25", 3)) {
		t->hidden = last == 'l';
	} else if (len == 3 && !memcmp(s, "?7", 2)) {
		t->cuts = last == 'l';
	} else {
		fail_msg(
			"what no terminal here knows: ESC [ %.*s", (int)len, s);
	}
}

static void control(struct terminal *t, char c)
{
	const unsigned stop = (t->col / 8 + 1) * 8;

	if (c == '\n')
		line_feed(t);
	if (c == '\n' || c == '\r')
		t->col = 0;
	else if (c != '\t')
		fail_msg("control character %d", c);
	else if (t->col < t->cols)
		t->col = stop < t->cols ? stop : t->cols - 1;
}

static void feed(struct terminal *t, const char *s, size_t len)
{
	const char *end = s + len;

	while (s < end) {
		size_t n = 1;

		if (*s == '\033') {
			n = strcspn(s, "ABCDEFGHJKmhl") + 1;
			assert_true(n > 2 && s[1] == '[');
			obey(t, s + 2, n - 2);
		} else if ((unsigned char)*s < 0x20) {
			control(t, *s);
		} else {
			while (s + n < end && ((unsigned char)s[n] >> 6) == 2)
				n++;
			show(t, s, n);
		}
		s += n;
	}
}

/* Returns the lines from `line` on, separated by |. The caller frees the
 * string. */
static char *seen(const struct terminal *t, unsigned line)
{
	char *text = NULL;
	size_t len, kept = 0;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	for (; line < LINES && line < t->top + t->rows; line++) {
		unsigned end = t->cols;

		while (end && !*t->cell[line][end - 1])
			end--;
		for (unsigned c = 0; c < end; c++) {
			const char *cell = t->cell[line][c];
			bool half = c && columns(t->cell[line][c - 1]) == 2;

			fputs(*cell || half ? cell : " ", f);
		}
		fflush(f);
		if (end)
			kept = len;
		fputc('|', f);
	}
	fclose(f);
	text[kept] = '\0';
	return text;
}

/* ---- a view -------------------------------------------------------------- */

struct fixture {
	struct terminal t;
	struct watch_view v;
	struct strbuf out;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->t.cols = 10;
	f->t.rows = 6;
	watch_view_init(&f->v, false);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	watch_view_release(&f->v);
	strbuf_release(&f->out);
	free(f);
	return 0;
}

/* Write the view's output to the terminal. After each write the cursor must be
 * visible, line wrapping on, and the colors reset. */
static void write_out(struct fixture *f)
{
	assert_false(f->out.failed);
	if (f->out.len)
		feed(&f->t, f->out.data, f->out.len);
	assert_false(f->t.hidden);
	assert_false(f->t.cuts);
	assert_false(f->t.coloured);
	strbuf_reset(&f->out);
}

static void text(struct fixture *f, const char *s)
{
	watch_view_text(&f->v, 1, s, strlen(s), f->t.cols, &f->out);
	write_out(f);
}

static bool is_two(const void *arg, int32_t id)
{
	return id == 2;
}

static const struct watch_ends ends = { is_two, NULL };

#define MOST 64
struct made {
	struct tandem_step step;
	int32_t token[MOST];
	unsigned char mark[MOST];
	size_t at[MOST + 1];
	struct strbuf text;
};

static void make(struct made *m, const char *held)
{
	*m = (struct made){ .step = { .pass = 4 } };
	strbuf_add(&m->text, held, strlen(held));
	m->at[0] = m->text.len;
}

static void make_token(
	struct made *m, enum tandem_mark mark, int32_t id, const char *s)
{
	assert_true(m->step.n < MOST);
	strbuf_add(&m->text, s, strlen(s));
	m->mark[m->step.n] = (unsigned char)mark;
	m->token[m->step.n] = id;
	m->at[++m->step.n] = m->text.len;
	m->step.tokens = m->token;
	m->step.marks = m->mark;
	m->step.at = m->at;
	m->step.text = m->text.data ? m->text.data : "";
}

/* Build a step from a list of strings, one per token, that ends with NULL. "m"
 * is a mask, "end" an end token. In other strings the first letter is the
 * token's mark (v visible, s stable, d draft), and the rest is its text. `held`
 * is text that was withheld from the sink before the step. */
static void make_step(struct made *m, const char *held, const char *const *s)
{
	make(m, held);
	for (; *s; s++) {
		if (!strcmp(*s, "end"))
			make_token(m, TANDEM_STABLE, 2, "");
		else if (**s == 'm')
			make_token(m, TANDEM_MASK, -1, "");
		else if (**s == 'v')
			make_token(m, TANDEM_VISIBLE, 7, *s + 1);
		else if (**s == 'd')
			make_token(m, TANDEM_DRAFT, 7, *s + 1);
		else
			make_token(m, TANDEM_STABLE, 7, *s + 1);
	}
}

static void draw(struct fixture *f, struct made *m)
{
	watch_view_step(&f->v, &m->step, &ends,
		(struct watch_size){ f->t.cols, f->t.rows }, &f->out);
	strbuf_release(&m->text);
	write_out(f);
}

static void step(struct fixture *f, const char *held, const char *const *s)
{
	struct made m;

	make_step(&m, held, s);
	draw(f, &m);
}

#define STEP(f, held, ...) \
	step(f, held, (const char *const[]){ __VA_ARGS__, NULL })

static void finish(struct fixture *f)
{
	watch_view_end(&f->v, f->t.cols, &f->out);
	write_out(f);
}

static void screen_is(const struct fixture *f, const char *want)
{
	char *got = seen(&f->t, 0);

	assert_string_equal(got, want);
	free(got);
}

static void cursor_is(const struct fixture *f, unsigned line, unsigned col)
{
	assert_int_equal(f->t.line, line);
	assert_int_equal(f->t.col, col);
}

/* ---- drawing ------------------------------------------------------------- */

static void test_marks(void **state)
{
	struct fixture *f = *state;

	f->t.cols = 50;
	text(f, "ab");
	STEP(f, "", "m", "vc d", "se", "dfg", "m", "end");
	screen_is(f,
		"ab" MASK "~c de?fg" MASK END
		"|pass 4, 2 masks left, 1.0 tokens a pass");
	cursor_is(f, 0, 0);
	assert_false(f->t.was_coloured);
	finish(f);
	screen_is(f, "ab");
	cursor_is(f, 0, 2);
}

static void test_colours(void **state)
{
	struct fixture *f = *state;

	f->t.cols = 50;
	f->v.colour = true;
	text(f, "ab");
	STEP(f, "", "m", "vc", "sd", "de", "end");
	screen_is(f,
		"ab" MASK "cde" END "|pass 4, 1 mask left, 1.0 tokens a pass");
	assert_true(f->t.was_coloured);
}

/* Text that the sink (the callback for generated text) has not received yet is
 * shown, and control characters are shown as symbols. */
static void test_signs(void **state)
{
	struct fixture *f = *state;

	f->t.cols = 50;
	STEP(f, "he", "sl\n", "m", "v\t\x1b", "s\x7f" HAN "e" ACUTE);
	screen_is(f,
		"hel" RETURN MASK "~\xe2\x87\xa5\xe2\x90\x9b\xe2\x90\xa1" HAN
		"e" ACUTE "|pass 4, 1 mask left, 0.8 tokens a pass");
}

static void test_wraps(void **state)
{
	struct fixture *f = *state;

	text(f, "line\nabcdefg");
	STEP(f, "", "shi", "sjklmno", "sp" HAN HAN, "s" HAN "q", "m");
	screen_is(f,
		"line|abcdefghij|klmnop" HAN HAN "|" HAN "q" MASK "|pass 4, 1");
	cursor_is(f, 1, 0);
	/* text for the sink; the view does not show it before the next step */
	text(f, "hijklm");
	screen_is(f,
		"line|abcdefghij|klmnop" HAN HAN "|" HAN "q" MASK "|pass 4, 1");
	STEP(f, "", "m", "m");
	screen_is(f, "line|abcdefghij|klm" MASK MASK "|pass 4, 2");
	cursor_is(f, 2, 0);
	finish(f);
	screen_is(f, "line|abcdefghij|klm");
	cursor_is(f, 2, 3);
}

/* If a row is full to its last column, no empty row follows it. */
static void test_full_row(void **state)
{
	struct fixture *f = *state;

	text(f, "abcdefghij");
	STEP(f, "", "sk", "m");
	screen_is(f, "abcdefghij|k" MASK "|pass 4, 1");
	cursor_is(f, 0, 0);
	text(f, "k");
	finish(f);
	screen_is(f, "abcdefghij|k");
	cursor_is(f, 1, 1);
}

static void test_more_than_the_screen(void **state)
{
	struct fixture *f = *state;

	text(f, "one\ntwo\nthree\nfour");
	for (int i = 0; i < 3; i++) {
		STEP(f, "", "s0123456789", "s0123456789", "s0123456789",
			"s0123456789", "s0123456789", "s0123456789", "m");
		screen_is(f,
			"one|two|three|four012345|6789012345|6789012345|"
			"6789012345|6789012345|pass 4, 1");
		cursor_is(f, 3, 0);
	}
	finish(f);
	screen_is(f, "one|two|three|four");
	cursor_is(f, 3, 4);
}

static void test_one_row(void **state)
{
	struct fixture *f = *state;

	f->t.rows = 1;
	text(f, "one\ntwo");
	STEP(f, "", "s0123456789", "m");
	screen_is(f, "one|two0123456");
	finish(f);
	screen_is(f, "one|two");
}

/* If the terminal becomes narrower, the view continues on a new line. No text
 * is lost, and nothing of the step that was drawn before remains. */
static void test_resized(void **state)
{
	struct fixture *f = *state;

	text(f, "abcd");
	STEP(f, "", "s012345", "m");
	f->t.cols = 8;
	STEP(f, "", "s012345", "m");
	screen_is(f, "abcd|012345" MASK "|pass 4,");
	cursor_is(f, 1, 0);
	text(f, "012345");
	f->t.cols = 9;
	finish(f);
	screen_is(f, "abcd|012345");
	cursor_is(f, 1, 6);
	/* after finish() no incomplete row is held back, so the text is drawn
	 * at once */
	text(f, "x\nabcdefghij");
	screen_is(f, "abcd|012345x|abcdefghi|j");
	f->t.cols = 8;
	text(f, "klm");
	screen_is(f, "abcd|012345x|abcdefgh|j|klm");
}

/* The terminal may have become narrower since it reported its size. */
static void test_narrower_than_it_says(void **state)
{
	struct fixture *f = *state;
	struct made m;

	watch_view_text(&f->v, 1, "line\nab", 7, 20, &f->out);
	for (int i = 0; i < 3; i++) {
		make_step(&m, "",
			(const char *const[]){ "s0123456789012345", "m",
				"s0123456789", "m", NULL });
		watch_view_step(&f->v, &m.step, &ends,
			(struct watch_size){ 20, f->t.rows }, &f->out);
		strbuf_release(&m.text);
		write_out(f);
		cursor_is(f, 1, 0);
	}
	finish(f);
	screen_is(f, "line|ab");
}

static void test_line(void **state)
{
	struct fixture *f = *state;
	struct made m;

	make_step(&m, "he",
		(const char *const[]){ "sl\n", "m", "vo", "dx", "end", NULL });
	m.step.pass = 123456;
	watch_line(&m.step, &ends, &f->out);
	assert_string_equal(
		f->out.data, "pass 123456: hel" RETURN MASK "~o?x" END "\n");
	strbuf_release(&m.text);
}

/* ---- at random ----------------------------------------------------------- */

static const char *const pieces[] = { "a", "bc", " def", "\n", "\t", HAN,
	("e" ACUTE), "", "g\n\nh", "ijklmnopqrstuvw" };

struct dice {
	uint64_t seed, n;
};

static unsigned roll(struct dice *d, unsigned sides)
{
	return (unsigned)(rng_uniform(d->seed, 0, d->n++) * sides);
}

static void random_step(struct fixture *f, struct dice *d)
{
	struct made m;

	make(&m, roll(d, 4) ? "" : "held");
	m.step.at = m.at;
	m.step.text = m.text.data ? m.text.data : "";
	for (unsigned n = roll(d, MOST); n; n--) {
		enum tandem_mark mark = (enum tandem_mark)roll(d, 4);
		bool mask = mark == TANDEM_MASK;

		make_token(&m, mark, mask ? -1 : (int32_t)roll(d, 3),
			mask ? "" : pieces[roll(d, ARRAY_LEN(pieces))]);
	}
	draw(f, &m);
}

static void check_random(struct fixture *f, struct dice *d)
{
	struct fixture *plain = calloc(1, sizeof(*plain));
	char *got, *want;

	f->t = (struct terminal){ .cols = 3 + roll(d, 20),
		.rows = 1 + roll(d, 7) };
	plain->t = f->t;
	f->v.colour = roll(d, 2);
	for (unsigned n = roll(d, 60); n; n--) {
		const char *s = pieces[roll(d, ARRAY_LEN(pieces))];

		if (!roll(d, 3)) {
			random_step(f, d);
			continue;
		}
		text(f, s);
		feed(&plain->t, s, strlen(s));
	}
	finish(f);
	got = seen(&f->t, 0);
	want = seen(&plain->t, 0);
	if (strcmp(got, want))
		fail_msg("%u columns, %u rows:\n%s\nnot\n%s", f->t.cols,
			f->t.rows, got, want);
	cursor_is(f, plain->t.line, plain->t.col);
	free(got);
	free(want);
	free(plain);
}

static void test_text_stays(void **state)
{
	struct dice d = { .seed = harness_seed() };

	int times = harness_full() ? 1000 : 100;

	for (int i = 0; i < times; i++) {
		void *one;

		setup(&one);
		check_random(one, &d);
		teardown(&one);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_marks),
	TEST(test_colours),
	TEST(test_signs),
	TEST(test_wraps),
	TEST(test_full_row),
	TEST(test_more_than_the_screen),
	TEST(test_one_row),
	TEST(test_resized),
	TEST(test_narrower_than_it_says),
	TEST(test_line),
	cmocka_unit_test(test_text_stays),
};

TEST_FILE(tests)
