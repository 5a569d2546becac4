/*
 * What a text answers, in a form in which the same answers are the same bytes,
 * for those who vote or compare. Which part of the text it is, is said by a
 * form:
 *
 *   last-number    the last number: 1,234.50 is 1234.5, -0 is 0, 007 is 7, and
 *                  3/4 stays. A minus counts where nothing that it could be
 *                  taken from stands before it.
 *   boxed          what the last \boxed{...} holds, its braces balanced;
 *                  where that is a number alone, as above
 *   text           all of it, each run of white space being one space
 *   regex:PATTERN  the first group of a regular expression's last match or, if
 *                  it has none, all of that match; white space as in text.
 *                  PCRE2's syntax, over UTF-8.
 *
 * A form is read-only once open; any thread may ask it.
 */
#ifndef HOST_TEXT_ANSWER_H
#define HOST_TEXT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct answer_form;
struct err;
struct strbuf;

#define ANSWER_FORMS "last-number, boxed, text, regex:PATTERN"

/* -EINVAL for a form that is none, or a pattern that is none, with where it
 * breaks off; -ENOMEM. */
int answer_form_open(struct answer_form **out, const char *form, struct err *);
void answer_form_close(struct answer_form *);

/*
 * The answer of text[len] is appended to *out, and is not empty; false: there
 * is none, or no memory (out->failed). A pattern that takes too many steps to
 * match finds none.
 */
bool answer_of(const struct answer_form *, const char *text, size_t len,
	struct strbuf *out);

#endif
