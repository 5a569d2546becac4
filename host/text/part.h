/* A part of a text, not NUL-terminated. Only ASCII white space counts as white
 * space. */
#ifndef HOST_TEXT_PART_H
#define HOST_TEXT_PART_H

#include <stdbool.h>
#include <stddef.h>

struct part {
	const char *at;
	size_t len;
};

static inline bool part_is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the part without the white space around it. */
static inline struct part part_trimmed(struct part p)
{
	for (; p.len && part_is_space(p.at[0]); p.len--)
		p.at++;
	while (p.len && part_is_space(p.at[p.len - 1]))
		p.len--;
	return p;
}

#endif
