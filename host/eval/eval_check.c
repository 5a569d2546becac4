#include "host/eval/eval_check.h"

#include "host/eval/eval_items.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

#define DIGITS_MAX 18 /* any number with so few digits fits into an int64_t */

/* A part of a text, not NUL-terminated. */
struct part {
	const char *at;
	size_t len;
};

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static struct part trimmed(struct part p)
{
	while (p.len && is_space(p.at[0])) {
		p.at++;
		p.len--;
	}
	while (p.len && is_space(p.at[p.len - 1]))
		p.len--;
	return p;
}

static struct part first_line(struct part p)
{
	const char *newline = p.len ? memchr(p.at, '\n', p.len) : NULL;

	if (newline)
		p.len = (size_t)(newline - p.at);
	return trimmed(p);
}

static bool last_number(struct part p, int64_t *out)
{
	size_t end = p.len, begin;
	int64_t n = 0;

	while (end && !is_digit(p.at[end - 1]))
		end--;
	for (begin = end; begin && is_digit(p.at[begin - 1]); begin--)
		;
	if (begin == end || end - begin > DIGITS_MAX)
		return false;
	for (size_t i = begin; i < end; i++)
		n = n * 10 + (p.at[i] - '0');
	/* A minus sign right after a digit is a subtraction, as in "5-3". The
	 * character before `begin` is not a digit, because otherwise it would
	 * belong to the same run of digits. */
	if (begin && p.at[begin - 1] == '-' &&
		!(begin > 1 && is_digit(p.at[begin - 2])))
		n = -n;
	*out = n;
	return true;
}

/* Return the next character of a trimmed text, with each run of white space
 * reduced to one blank. */
static char next_char(struct part p, size_t *at)
{
	char c = p.at[(*at)++];

	if (!is_space(c))
		return c;
	while (is_space(p.at[*at]))
		(*at)++;
	return ' ';
}

bool eval_right(const struct eval_item *item, const char *output, size_t len)
{
	struct part has = { output, len };
	struct part wants = { item->answer, strlen(item->answer) };
	int64_t a, b;
	const json_t *fact;
	size_t i;
	size_t k;

	switch (item->check) {
	case EVAL_EXACT:
		has = first_line(has);
		wants = first_line(wants);
		return wants.len && has.len == wants.len &&
			!memcmp(has.at, wants.at, wants.len);
	case EVAL_NUMBER:
		return last_number(has, &a) && last_number(wants, &b) && a == b;
	case EVAL_TEXT:

		i = 0;
		k = 0;
		has = trimmed(has);
		wants = trimmed(wants);
		while (i < has.len && k < wants.len)
			if (next_char(has, &i) != next_char(wants, &k))
				return false;
		return wants.len && i == has.len && k == wants.len;

	case EVAL_FACTS:
		json_array_foreach(item->facts, i, fact)
		{
			if (!len ||
				!memmem(output, len, json_string_value(fact),
					json_string_length(fact)))
				return false;
		}
		return true;
	}
	return false;
}
