#include "tests/stress/coherence_model.h"

#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_LINE 16u /* words in a line */

static uint32_t bit(uint32_t line)
{
	return 1u << line;
}

/* The words of [at, at + n) that lie in a line, as bits. */
static uint32_t words_in(uint32_t line, uint32_t at, uint32_t n)
{
	uint32_t from = line * PER_LINE, mask = 0;

	for (uint32_t i = 0; i < PER_LINE; i++)
		if (from + i >= at && from + i < at + n)
			mask |= 1u << i;
	return mask;
}

static void clip(const struct coherence_model *m, uint32_t *at, uint32_t *n)
{
	*at %= m->n_words;
	if (*n > m->n_words - *at)
		*n = m->n_words - *at;
}

void coherence_model_init(struct coherence_model *m, const char *level,
	uint32_t lines, bool by_run, uint32_t evict)
{
	*m = (struct coherence_model){ .n_words = lines * PER_LINE,
		.n_lines = lines,
		.check = !strcmp(level, "check"),
		.by_run = by_run,
		.request = 1,
		.value = 1 };
	strbuf_addf(&m->text, "begin %s %" PRIu32 " %" PRIu32 "\n", level,
		evict, lines);
}

void coherence_model_release(struct coherence_model *m)
{
	strbuf_release(&m->text);
	strbuf_release(&m->expected);
	*m = (struct coherence_model){ 0 };
}

/* ---- maintenance --------------------------------------------------------- */

static void heard(struct model_line *l)
{
	l->declared = false;
	l->cached = false;
	l->news = 0;
	l->invalidate = NULL;
}

static void unheard(struct model_line *l, uint32_t b, struct forgotten *f)
{
	l->declared = false;
	f->lines |= b;
	/* If the line is not in the device's cache, the next access loads it,
	 * so the omitted call has no effect. */
	if (!l->cached)
		return;
	l->invalidate = f;
	l->tainted = true;
}

static void cleaned(struct model_line *l, uint32_t b)
{
	/* The clean overwrites the CPU's new words in memory with the device's
	 * old copy, which the checker must report. */
	if (l->invalidate && l->news)
		l->invalidate->must |= b;
	l->dirty = l->owed = false;
	l->clean = NULL;
}

static void uncleaned(struct model_line *l, uint32_t b, struct forgotten *f)
{
	f->lines |= b;
	l->dirty = false;
	l->owed = l->tainted = true;
	l->clean = f;
}

/* Append one maintenance call for the lines [first, last], unless a step
 * requested to leave it out. */
static void call(struct coherence_model *m, bool invalidate, uint32_t first,
	uint32_t last)
{
	bool forget =
		m->forget_next && m->n_forgotten < COHERENCE_MODEL_FORGETS;
	struct forgotten *f = forget ? &m->forgotten[m->n_forgotten++] : NULL;
	uint32_t bracket = 0;

	m->forget_next = false;
	if (forget)
		f->invalidate = invalidate;
	for (uint32_t i = first; i <= last; i++) {
		struct model_line *l = &m->line[i];

		if (l->bracket > bracket)
			bracket = l->bracket;
		if (invalidate)
			forget ? unheard(l, bit(i), f) : heard(l);
		else
			forget ? uncleaned(l, bit(i), f) : cleaned(l, bit(i));
	}
	m->calls += !forget;
	if (forget)
		return;
	strbuf_addf(&m->text, "%s %" PRIu32 " %" PRIu32 " %" PRIu32 "\n",
		invalidate ? "invalidate" : "clean", first * PER_LINE,
		(last + 1 - first) * PER_LINE, bracket);
}

static bool needs(const struct model_line *l, bool invalidate)
{
	return invalidate ? l->declared : l->dirty;
}

/* Append maintenance calls for those of the lines [first, last] that need
 * maintenance. */
static void maintenance(struct coherence_model *m, bool invalidate,
	uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++) {
		uint32_t end = i;

		if (!needs(&m->line[i], invalidate))
			continue;
		while (m->by_run && end < last &&
			needs(&m->line[end + 1], invalidate))
			end++;
		call(m, invalidate, i, end);
		i = end;
	}
}

/* If no request is in progress, the device begins one and invalidates the
 * declared lines. */
static void begin_request(struct coherence_model *m)
{
	m->steps++;
	if (m->open)
		return;
	m->open = true;
	maintenance(m, true, 0, m->n_lines - 1);
}

void coherence_model_done(struct coherence_model *m)
{
	if (!m->open)
		return;
	maintenance(m, false, 0, m->n_lines - 1);
	for (uint32_t i = 0; i < m->n_lines; i++) {
		struct model_line *l = &m->line[i];

		if (l->owed)
			l->clean->must |= bit(i);
		l->owed = false;
	}
	m->open = false;
	strbuf_addf(&m->text, "request %" PRIu32 " 0\n", ++m->request);
}

/* ---- accesses ------------------------------------------------------------ */

static void expect(struct coherence_model *m, uint32_t at, uint32_t n)
{
	strbuf_addf(&m->expected, "=");
	for (uint32_t i = at; i < at + n; i++)
		if (m->line[i / PER_LINE].tainted)
			strbuf_addf(&m->expected, " *");
		else
			strbuf_addf(&m->expected, " %" PRIx32, m->word[i]);
	strbuf_addf(&m->expected, "\n");
	m->reads++;
}

static void new_words(struct coherence_model *m, uint32_t at, uint32_t n)
{
	for (uint32_t i = at; i < at + n; i++)
		m->word[i] = m->value++;
}

void coherence_model_cpu(struct coherence_model *m, uint32_t at, uint32_t n)
{
	clip(m, &at, &n);
	coherence_model_done(m);
	m->steps++;
	m->bracket++;
	strbuf_addf(&m->text, "cpu %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", at,
		n, m->value);
	new_words(m, at, n);
	for (uint32_t i = at / PER_LINE; i <= (at + n - 1) / PER_LINE; i++) {
		m->line[i].declared = true;
		m->line[i].bracket = m->bracket;
		m->line[i].news |= words_in(i, at, n);
	}
}

/* An access of the device: if the line is not in the cache, it is loaded from
 * memory. */
static void touch(struct model_line *l, uint32_t b)
{
	if (!l->cached)
		l->news = 0;
	else if (l->invalidate)
		l->invalidate->may |= b;
	l->cached = true;
}

void coherence_model_read(struct coherence_model *m, uint32_t at, uint32_t n)
{
	clip(m, &at, &n);
	begin_request(m);
	for (uint32_t i = at / PER_LINE; i <= (at + n - 1) / PER_LINE; i++) {
		struct model_line *l = &m->line[i];

		touch(l, bit(i));
		if (l->invalidate && l->news & words_in(i, at, n))
			l->invalidate->must |= bit(i);
	}
	strbuf_addf(&m->text, "read %" PRIu32 " %" PRIu32 "\n", at, n);
	expect(m, at, n);
}

void coherence_model_write(
	struct coherence_model *m, uint32_t at, uint32_t n, bool clean_now)
{
	uint32_t first, last;

	clip(m, &at, &n);
	first = at / PER_LINE;
	last = (at + n - 1) / PER_LINE;
	begin_request(m);
	strbuf_addf(&m->text, "write %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", at,
		n, m->value);
	new_words(m, at, n);
	for (uint32_t i = first; i <= last; i++) {
		touch(&m->line[i], bit(i));
		m->line[i].news &= ~words_in(i, at, n);
		m->line[i].dirty = true;
	}
	if (clean_now)
		maintenance(m, false, first, last);
}

void coherence_model_dma(struct coherence_model *m, uint32_t at, uint32_t n)
{
	uint32_t first, last;

	clip(m, &at, &n);
	first = at / PER_LINE;
	last = (at + n - 1) / PER_LINE;
	begin_request(m);
	maintenance(m, false, first, last);
	for (uint32_t i = first; i <= last; i++)
		if (m->line[i].clean)
			m->line[i].clean->may |= bit(i);
	strbuf_addf(&m->text, "dma %" PRIu32 " %" PRIu32 "\n", at, n);
	expect(m, at, n);
}

void coherence_model_end(struct coherence_model *m)
{
	coherence_model_done(m);
	strbuf_addf(&m->text, "look 0 %" PRIu32 "\n", m->n_words);
	expect(m, 0, m->n_words);
}

/* ---- the results --------------------------------------------------------- */

static bool same_words(const char *got, const char *want)
{
	for (;;) {
		size_t g = strcspn(got, " \n"), w = strcspn(want, " \n");

		if (*want != '*' && (g != w || memcmp(got, want, g)))
			return false;
		got += g;
		want += w;
		if (*got != *want || *got == '\n')
			return *got == *want;
		got++;
		want++;
	}
}

/* Whether the text `what` is in the line. */
static bool says(const char *line, const char *what)
{
	return memmem(line, strcspn(line, "\n"), what, strlen(what));
}

/*
 * Whether a report is about a missing invalidation (is_of_invalidation) or a
 * missing clean (is_of_clean). All other reports are about unnecessary
 * maintenance.
 */
static bool is_of_invalidation(const char *report)
{
	return says(report, "stale read: ") || says(report, ": written back ");
}

static bool is_of_clean(const char *report)
{
	return says(report, ": dropped with ") ||
		says(report, ", but not cleaned: ") ||
		says(report, "DMA over dirty lines: ");
}

/* The lines that a report names, as bits; 0 if there are none. */
static uint32_t lines_of(const struct coherence_model *m, const char *report)
{
	const char *range = strstr(report, " [");
	uint64_t from, to;
	uint32_t lines = 0;

	if (!range ||
		sscanf(range, " [%" SCNu64 ", %" SCNu64 ")", &from, &to) != 2 ||
		from >= to)
		return 0;
	for (uint32_t i = 0; i < m->n_lines; i++)
		if (i * 64u < to && (i + 1) * 64u > from)
			lines |= bit(i);
	return lines;
}

static int take_report(
	struct coherence_model *m, const char *report, struct err *e)
{
	bool invalidation = is_of_invalidation(report);
	bool clean = is_of_clean(report);
	uint32_t lines = lines_of(m, report), suspect = 0;

	for (uint32_t i = 0; i < m->n_forgotten; i++) {
		struct forgotten *f = &m->forgotten[i];

		suspect |= f->must | f->may;
		if (f->invalidate ? invalidation : clean)
			f->reported |= lines & f->lines;
	}
	if (m->check && lines & suspect)
		return 0;
	return err_set(e, EILSEQ, "a false alarm: %.*s",
		(int)strcspn(report, "\n"), report);
}

/* `line` names the missing call; it follows a report that is printed in full.
 * Check that this call is of the kind that the report is about. */
static int take_missing(const char *line, const char *report, struct err *e)
{
	const char *call = is_of_invalidation(report) ? "invalidate of"
		: is_of_clean(report)                 ? "clean of"
						      : "";

	if (says(line, call))
		return 0;
	return err_set(e, EILSEQ, "'%.*s', of '%.*s'", (int)strcspn(line, "\n"),
		line, (int)strcspn(report, "\n"), report);
}

static int check_left_out(
	struct coherence_model *m, const struct forgotten *f, struct err *e)
{
	uint32_t missed = f->must & ~f->reported;
	uint32_t line = 0;

	m->named += f->must && !missed;
	m->harmless += !f->must && !f->may;
	if (!missed)
		return 0;
	while (!(missed & bit(line)))
		line++;
	return err_set(e, EILSEQ,
		"%s of cache line %" PRIu32 " was left out, but the checker "
		"did not report it",
		f->invalidate ? "an invalidation" : "a clean", line);
}

/* Compare a line of words that were read with the next expected line. */
static int take_words(const char *got, const char **want, struct err *e)
{
	if (**want && same_words(got, *want)) {
		*want += strcspn(*want, "\n") + 1;
		return 0;
	}
	return err_set(e, EILSEQ, "read were '%.*s', not '%.*s'",
		(int)(strcspn(got, "\n") % 200), got,
		(int)(strcspn(*want, "\n") % 200), *want);
}

int coherence_model_check(
	struct coherence_model *m, const char *answer, struct err *e)
{
	const char *want = m->expected.data, *report = "";
	bool counted_only = false;
	int ret = 0;

	for (; *answer && !ret; answer += strcspn(answer, "\n") + 1) {
		if (*answer == '=')
			ret = take_words(answer, &want, e);
		else if (!strncmp(answer, "!! ", 3))
			ret = take_missing(answer, report, e);
		else if (says(answer, " violations in all"))
			counted_only = true;
		else
			ret = take_report(m, report = answer, e);
	}
	if (!ret && *want)
		ret = err_set(e, EILSEQ, "the answer ends early");
	for (uint32_t i = 0; i < m->n_forgotten && !ret; i++)
		if (m->check && !counted_only)
			ret = check_left_out(m, &m->forgotten[i], e);
	return ret;
}
