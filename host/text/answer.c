#define PCRE2_CODE_UNIT_WIDTH 8

#include "host/text/answer.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/part.h"

#include <errno.h>
#include <math.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/*
 * A regular expression for a number. Either commas separate all thousands, as
 * in 1,234,567, or the number has no commas. A point is part of the number only
 * if digits follow; otherwise the point ends a sentence. A minus is a sign
 * unless a number, word or bracket ends directly before it. The number may be a
 * fraction, such as 3/4.
 */
#define NUMBER                                    \
	"(?:(?<![\\w).])-)?"                      \
	"(?:(?:\\d{1,3}(?:,\\d{3})+(?!\\d)|\\d+)" \
	"(?:\\.\\d+)?|(?<!\\d)\\.\\d+)(?:/\\d+)?"

/* limit of backtracking steps per match; this many steps take a fraction of a
 * second */
#define MATCH_STEPS 1000000

/*
 * Replacements, applied in order, that reduce different spellings of the same
 * LaTeX to one. If the argument of a LaTeX command may be written with or
 * without braces, the pattern has one group for each way to write it.
 */
static const struct {
	const char *pattern, *replacement;
} spelling[] = {
	{ "\\\\[!,;:]|\\\\(?:left|right)(?![a-zA-Z])", "" },
	{ "\\\\ |~|\\s+", " " },
	{ "\\\\[dtc]frac(?![a-zA-Z])", "\\\\frac" },
	/* Remove a unit, that is, \text{...} with its exponent, unless the
	 * answer begins with \text{...}. */
	{ "(?<=.)\\\\(?:text|mbox|mathrm|textrm) ?\\{[^{}]*\\}"
	  "(?:\\^(?:\\d|\\{\\d\\}))?",
		"" },
	{ "\\\\(?:text|mbox|mathrm|textrm|textbf|mathbf) ?\\{([^{}]*)\\}",
		"$1" },
	{ "\\^ ?(?:\\{ ?\\\\circ ?\\}|\\\\circ)|\\\\?[%$]", "" },
	{ "\\{,\\}", "," },
	{ "\\\\frac ?(?:\\{([^{}]*)\\}|(\\w)) ?(?:\\{([^{}]*)\\}|(\\w))",
		"\\\\frac{${1}${2}}{${3}${4}}" },
	{ "(?<![\\w})])\\\\frac\\{(\\d+)\\}\\{(\\d+)\\}", "$1/$2" },
	{ "\\\\sqrt ?(\\w)", "\\\\sqrt{$1}" },
	/* Remove the left side of an equation and the equals sign, such as
	 * "x =", if the left side has one or two characters and the answer has
	 * only one equals sign. */
	{ "^ ?[^= ]{1,2} ?=(?!.*=)", "" },
	/* Remove spaces, except those between two words. */
	{ " (?!\\w)|(?<!\\w) ", "" },
	{ "\\.$", "" },
};
#define N_SPELLING (sizeof(spelling) / sizeof(spelling[0]))

struct answer_form {
	/* append an answer, the part of a text that was found, to the strbuf in
	 * canonical form: the one spelling that equal answers share */
	void (*put)(struct part, struct strbuf *);
	bool boxed;
	/* the pattern to find in a text; NULL if the answer is the whole
	 * text */
	pcre2_code *code;
	/* compiled patterns of spelling[]; used only if boxed is set */
	pcre2_code *spelling[N_SPELLING];
};

/* ---- canonical form ------------------------------------------------------ */

static void put_folded(struct part p, struct strbuf *out)
{
	size_t begin = out->len;

	for (size_t i = 0, end; i < p.len; i = end) {
		for (end = i; end < p.len && !part_is_space(p.at[end]);)
			end++;
		if (end > i && out->len > begin)
			strbuf_add(out, " ", 1);
		strbuf_add(out, p.at + i, end - i);
		while (end < p.len && part_is_space(p.at[end]))
			end++;
	}
}

/* Append digits without leading zeros, but at least one digit. */
static void put_whole(struct part p, struct strbuf *out)
{
	size_t begin = out->len;

	for (size_t i = 0; i < p.len; i++)
		if (p.at[i] >= (out->len > begin ? '0' : '1') && p.at[i] <= '9')
			strbuf_add(out, p.at + i, 1);
	if (out->len == begin)
		strbuf_add(out, "0", 1);
}

static struct part until(struct part *p, char c)
{
	const char *found = memchr(p->at, c, p->len);
	struct part first = *p;

	first.len = found ? (size_t)(found - p->at) : p->len;
	p->at += first.len + (found != NULL);
	p->len -= first.len + (found != NULL);
	return first;
}

/* Append a number that NUMBER has matched, in canonical form. */
static void put_number(struct part p, struct strbuf *out)
{
	struct strbuf n = STRBUF_INIT;
	bool minus = p.at[0] == '-';
	struct part below, upper, whole;

	p.at += minus;
	p.len -= minus;
	below = p;
	upper = until(&below, '/');
	whole = until(&upper, '.');
	put_whole(whole, &n);

	/* Append the digits of the fractional part, without trailing zeros. */
	while (upper.len && upper.at[upper.len - 1] == '0')
		upper.len--;
	if (upper.len)
		strbuf_add(&n, ".", 1);
	strbuf_add(&n, upper.at, upper.len);

	if (minus && !(n.len == 1 && n.data[0] == '0'))
		strbuf_add(out, "-", 1);
	strbuf_add(out, n.data, n.len);
	if (below.len) {
		strbuf_add(out, "/", 1);
		put_whole(below, out);
	}
	out->failed = out->failed || n.failed;
	strbuf_release(&n);
}

/* ---- finding the answer in a text ---------------------------------------- */

/* Find the last match of the form's pattern. A match that takes more than
 * MATCH_STEPS steps counts as no match. */
static bool last_match(
	const struct answer_form *f, struct part text, struct part *out)
{
	pcre2_match_data *m =
		pcre2_match_data_create_from_pattern(f->code, NULL);
	pcre2_match_context *c = pcre2_match_context_create(NULL);
	const PCRE2_SIZE *at = m ? pcre2_get_ovector_pointer(m) : NULL;
	bool found = false;

	if (c)
		pcre2_set_match_limit(c, MATCH_STEPS);
	for (size_t from = 0; m && c && from <= text.len;) {
		int ret = pcre2_match(
			f->code, (PCRE2_SPTR)text.at, text.len, from, 0, m, c);
		size_t group = ret > 1 && at[2] != PCRE2_UNSET ? 2 : 0;

		if (ret < 1)
			break;
		found = true;
		*out = (struct part){ text.at + at[group],
			at[group + 1] - at[group] };
		from = at[1] > at[0] ? at[1] : at[1] + 1;
		/* After an empty match, `from` may be inside a UTF-8 character.
		 * Skip to the start of the next character. */
		while (from < text.len &&
			((unsigned char)text.at[from] & 0xc0) == 0x80)
			from++;
	}
	pcre2_match_data_free(m);
	pcre2_match_context_free(c);
	return found;
}

static bool last_boxed(struct part text, struct part *out)
{
	static const char begin[] = "\\boxed{";
	size_t len = sizeof(begin) - 1;
	bool found = false;

	for (const char *at; (at = memmem(text.at, text.len, begin, len));) {
		size_t depth = 1, i = 0;

		text.len -= (size_t)(at + len - text.at);
		text.at = at + len;
		/* Find the brace that closes the box. */
		for (; i < text.len; i++) {
			if (text.at[i] == '\\' && i + 1 < text.len) {
				i++;
				continue;
			}
			depth += text.at[i] == '{';
			depth -= text.at[i] == '}';
			if (!depth)
				break;
		}
		if (i == text.len)
			continue;
		*out = (struct part){ text.at, i };
		found = true;
	}
	return found;
}

/* Append the contents of \boxed{...} in canonical form. If a replacement
 * fails, because memory is short or because it takes too many steps, sets
 * out->failed. */
static void put_boxed(
	const struct answer_form *f, struct part p, struct strbuf *out)
{
	/* This room is enough, because all replacements together make the text
	 * less than four times as long. */
	PCRE2_SIZE room = 4 * p.len + 64, len = p.len;
	char *text = malloc(2 * room), *next = text ? text + room : NULL;
	char *both = text;

	if (text)
		memcpy(text, p.at, len);
	else
		out->failed = true;
	for (size_t i = 0; i < N_SPELLING && !out->failed; i++) {
		PCRE2_SIZE size = room;
		char *swap = text;

		out->failed =
			pcre2_substitute(f->spelling[i], (PCRE2_SPTR)text, len,
				0,
				PCRE2_SUBSTITUTE_GLOBAL |
					PCRE2_SUBSTITUTE_EXTENDED |
					PCRE2_SUBSTITUTE_UNSET_EMPTY,
				NULL, NULL, (PCRE2_SPTR)spelling[i].replacement,
				PCRE2_ZERO_TERMINATED, (PCRE2_UCHAR *)next,
				&size) < 0;
		len = size;
		text = next;
		next = swap;
	}
	if (!out->failed) {
		struct part n;

		p = (struct part){ text, len };
		if (last_match(f, p, &n) && n.at == p.at && n.len == p.len)
			put_number(p, out);
		else
			put_folded(p, out);
	}
	free(both);
}

bool answer_of(const struct answer_form *f, const char *text, size_t len,
	struct strbuf *out)
{
	struct part p = { text, len };
	size_t before = out->len;

	if (!len ||
		(f->boxed ? !last_boxed(p, &p)
			  : f->code && !last_match(f, p, &p)))
		return false;

	p = part_trimmed(p);
	if (p.len && f->boxed)
		put_boxed(f, p, out);
	else if (p.len)
		f->put(p, out);
	return !out->failed && out->len > before;
}

/* Read a number in canonical form as the fraction *above / *below. Returns
 * false if `s` is not a number. */
static bool read_ratio(const char *s, double *above, double *below)
{
	char *end;

	if (strspn(s, "-0123456789./") != strlen(s))
		return false;
	*above = strtod(s, &end);
	*below = 1;
	if (end == s)
		return false;
	if (*end == '/')
		*below = strtod(end + 1, &end);
	return !*end && *below != 0;
}

bool answers_equal(const char *a, const char *b)
{
	double above[2], below[2], x, y;

	if (!strcmp(a, b))
		return true;
	/* The answers differ in their bytes. If neither answer is a fraction,
	 * the answers also differ in their values, because a number has only
	 * one canonical form. */
	if ((!strchr(a, '/') && !strchr(b, '/')) ||
		!read_ratio(a, &above[0], &below[0]) ||
		!read_ratio(b, &above[1], &below[1]))
		return false;
	x = above[0] * below[1];
	y = above[1] * below[0];
	return fabs(x - y) <= 1e-12 * fmax(fabs(x), fabs(y));
}

/* ---- opening a form ------------------------------------------------------ */

static int compile(pcre2_code **code_out, const char *pattern, struct err *e)
{
	char why[128];
	int code;
	PCRE2_SIZE at;

	*code_out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
		PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &code, &at,
		NULL);
	if (*code_out)
		return 0;
	pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
	return err_set(e, EINVAL,
		"the regular expression '%s' is not valid: at character %zu, "
		"%s",
		pattern, (size_t)at + 1, why);
}

int answer_form_open(struct answer_form **out, const char *form, struct err *e)
{
	static const char regex[] = "regex:";
	struct answer_form *f = calloc(1, sizeof(*f));
	int ret = 0;

	*out = NULL;
	if (!f)
		return err_set(
			e, ENOMEM, "no memory for the pattern of --answer");
	f->put = put_folded;
	f->boxed = !strcmp(form, "boxed");
	if (!strncmp(form, regex, strlen(regex))) {
		ret = compile(&f->code, form + strlen(regex), e);
	} else if (f->boxed || !strcmp(form, "last-number")) {
		f->put = put_number;
		for (size_t i = 0; f->boxed && i < N_SPELLING && !ret; i++)
			ret = compile(&f->spelling[i], spelling[i].pattern, e);
		if (!ret)
			ret = compile(&f->code, NUMBER, e);
	} else if (strcmp(form, "text")) {
		ret = err_set(e, EINVAL,
			"unknown form of an answer '%s'; the forms are: "
			"" ANSWER_FORMS,
			form);
	}
	if (ret)
		answer_form_close(f);
	else
		*out = f;
	return ret;
}

void answer_form_close(struct answer_form *f)
{
	if (!f)
		return;
	pcre2_code_free(f->code);
	for (size_t i = 0; i < N_SPELLING; i++)
		pcre2_code_free(f->spelling[i]);
	free(f);
}
