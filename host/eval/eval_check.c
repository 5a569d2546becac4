#include "host/eval/eval_check.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/eval/eval_items.h"
#include "host/text/answer.h"
#include "host/text/part.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

static struct part first_line(struct part p)
{
	const char *newline = p.len ? memchr(p.at, '\n', p.len) : NULL;

	if (newline)
		p.len = (size_t)(newline - p.at);
	return part_trimmed(p);
}

/* Return the next character of a trimmed text, with each run of white space
 * reduced to one blank. */
static char next_char(struct part p, size_t *at)
{
	char c = p.at[(*at)++];

	if (!part_is_space(c))
		return c;
	while (part_is_space(p.at[*at]))
		(*at)++;
	return ' ';
}

/* Set *same to whether both texts contain an answer of the form `form` and the
 * two answers are equal. */
static int same_answer(const char *form, struct part a, struct part b,
	bool *same, struct err *e)
{
	struct strbuf x = STRBUF_INIT, y = STRBUF_INIT;
	struct answer_form *f;
	int ret = answer_form_open(&f, form, e);

	if (ret)
		return ret;
	*same = answer_of(f, a.at, a.len, &x) &&
		answer_of(f, b.at, b.len, &y) && answers_equal(x.data, y.data);
	if (x.failed || y.failed)
		ret = err_set(e, ENOMEM, "no memory to compare answers");
	strbuf_release(&x);
	strbuf_release(&y);
	answer_form_close(f);
	return ret;
}

int eval_check(const struct eval_item *item, const char *output, size_t len,
	bool *right, struct err *e)
{
	struct part has = { output, len };
	struct part wants = { item->answer, strlen(item->answer) };
	const json_t *fact;
	size_t i = 0, k = 0;

	*right = false;
	switch (item->check) {
	case EVAL_EXACT:
		has = first_line(has);
		wants = first_line(wants);
		*right = wants.len && has.len == wants.len &&
			!memcmp(has.at, wants.at, wants.len);
		return 0;
	case EVAL_NUMBER:
		return same_answer("last-number", has, wants, right, e);
	case EVAL_BOXED:
		return same_answer("boxed", has, wants, right, e);
	case EVAL_TEXT:
		has = part_trimmed(has);
		wants = part_trimmed(wants);
		while (i < has.len && k < wants.len)
			if (next_char(has, &i) != next_char(wants, &k))
				return 0;
		*right = wants.len && i == has.len && k == wants.len;
		return 0;
	case EVAL_FACTS:
		json_array_foreach(item->facts, i, fact)
		{
			if (!len ||
				!memmem(output, len, json_string_value(fact),
					json_string_length(fact)))
				return 0;
		}
		*right = true;
		return 0;
	}
	return 0;
}
