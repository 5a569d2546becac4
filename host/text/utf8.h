/*
 * Decodes UTF-8 one character at a time, as RFC 3629 allows it: no overlong
 * forms, no surrogates, nothing above U+10FFFF. The tokenizer uses this file to
 * find valid text for regular expressions, the detokenizer to withhold
 * incomplete characters, and the JSON automaton to allow only valid text. None
 * of these needs code points, so this file computes none.
 */
#ifndef HOST_TEXT_UTF8_H
#define HOST_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

enum {
	UTF8_BAD = 0, /* result: no character starts with these bytes */
	/* result: all given bytes are the start of an incomplete character */
	UTF8_PARTIAL = -1,
};

/* Whether `byte` can be the second byte of a character whose first byte is
 * `first`: some first bytes restrict the second. For `first` 0: whether `byte`
 * can be a later byte. */
static inline bool utf8_continues(unsigned first, unsigned char byte)
{
	unsigned char low = 0x80, high = 0xbf;

	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	return byte >= low && byte <= high;
}

/* Returns the number of bytes (1 to 4) of the character that starts at p[n], n
 * >= 1, or UTF8_BAD or UTF8_PARTIAL. */
static inline int utf8_length(const unsigned char *p, size_t n)
{
	size_t want;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return UTF8_BAD;
	want = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	for (size_t i = 1; i < want; i++) {
		if (i == n)
			return UTF8_PARTIAL;
		if (!utf8_continues(i == 1 ? p[0] : 0, p[i]))
			return UTF8_BAD;
	}
	return (int)want;
}

/* Whether s[len] consists of complete characters. */
static inline bool utf8_is_valid(const char *s, size_t len)
{
	while (len) {
		int n = utf8_length((const unsigned char *)s, len);

		if (n <= 0)
			return false;
		s += n;
		len -= (size_t)n;
	}
	return true;
}

#endif
