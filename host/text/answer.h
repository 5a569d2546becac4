/*
 * Extracts the answer of a text in a canonical form, in which equal answers are
 * equal bytes, for voting and comparing. The form names the part of the text:
 *
 *   last-number    the last number: 1,234.50 is 1234.5, -0 is 0, 007 is 7, and
 *                  3/4 stays. A minus is a sign if nothing that it could be
 *                  subtracted from precedes it.
 *   boxed          contents of the last \boxed{...}, with balanced braces;
 *                  a single number in it as above
 *   text           all of it, with each run of white space as one space
 *   regex:PATTERN  the first group of a regular expression's last match or,
 *                  without groups, all of that match; white space as in text.
 *                  PCRE2's syntax, over UTF-8.
 *
 * A form is read-only once open; any thread may use it.
 */
#ifndef HOST_TEXT_ANSWER_H
#define HOST_TEXT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct answer_form;
struct err;
struct strbuf;

#define ANSWER_FORMS "last-number, boxed, text, regex:PATTERN"

/* -EINVAL for an unknown form or an invalid pattern, with the place of the
 * error; -ENOMEM. */
int answer_form_open(struct answer_form **out, const char *form, struct err *);
void answer_form_close(struct answer_form *);

/*
 * Append the answer of text[len] to *out; true if it is not empty. False: no
 * answer, or no memory (out->failed). A pattern that takes too many steps has
 * no match.
 */
bool answer_of(const struct answer_form *, const char *text, size_t len,
	struct strbuf *out);

#endif
