/*
 * Extracts the answer from a text and writes the answer in one canonical
 * spelling, so that equal answers are equal bytes, for voting and comparing. An
 * answer form defines which part of the text is the answer. The forms:
 *
 *   last-number    the last number: 1,234.50 becomes 1234.5, -0 becomes 0, 007
 *                  becomes 7, and 3/4 is unchanged. A minus is a sign unless a
 *                  number, word or bracket ends directly before it.
 *   boxed          contents of the last \boxed{...}, with balanced braces.
 *                  LaTeX is reduced to one spelling by the conventions of the
 *                  MATH data set (Hendrycks et al., 2021): units, "x =",
 *                  \left, \text and spaces are removed, and \dfrac12 becomes
 *                  1/2. A number is written as by last-number.
 *   text           the whole text, with each run of white space as one space
 *   regex:PATTERN  the first group of the last match of a regular expression
 *                  or, if the expression has no group, the whole match; white
 *                  space as in `text`. The syntax is that of PCRE2, over UTF-8.
 *
 * An open form is read-only; any thread may use it.
 */
#ifndef HOST_TEXT_ANSWER_H
#define HOST_TEXT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct answer_form;
struct err;
struct strbuf;

#define ANSWER_FORMS "last-number, boxed, text, regex:PATTERN"

/* Open a form by its name. Returns 0, -ENOMEM, or -EINVAL for an unknown form
 * or an invalid pattern; the error message then gives the position of the
 * error. */
int answer_form_open(struct answer_form **out, const char *form, struct err *);
void answer_form_close(struct answer_form *);

/*
 * Append the answer of text[len] to *out. Returns true if the answer is not
 * empty. Returns false if there is no answer, or if memory ran out (out->failed
 * is set). If the search for a pattern takes too many backtracking steps, the
 * text counts as having no answer.
 */
bool answer_of(const struct answer_form *, const char *text, size_t len,
	struct strbuf *out);

/* Whether two answers in canonical form are the same: equal bytes, or a
 * fraction and a number of equal value, such as 3/4 and 0.75. */
bool answers_equal(const char *a, const char *b);

#endif
