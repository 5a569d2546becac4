#include "host/trace/proto_write.h"

#include <string.h>

#define LENGTH_BYTES 2 /* number of bytes of a length, enough for 14 bits */
#define VARINT_MAX   10

static void put(struct proto *p, const void *bytes, size_t n)
{
	if (n > p->room - p->len) {
		p->full = true;
		return;
	}
	memcpy(p->data + p->len, bytes, n);
	p->len += n;
}

static void put_varint(struct proto *p, uint64_t v)
{
	uint8_t *at = p->data + p->len;

	if (p->room - p->len < VARINT_MAX) {
		p->full = true;
		return;
	}
	for (; v >= 0x80; v >>= 7)
		*at++ = (uint8_t)(v | 0x80);
	*at++ = (uint8_t)v;
	p->len = (size_t)(at - p->data);
}

size_t proto_begin(struct proto *p, uint32_t field)
{
	static const uint8_t none[LENGTH_BYTES];

	put_varint(p, proto_tag(field, PROTO_BYTES));
	put(p, none, sizeof(none));
	return p->len;
}

/* Write the length into the bytes that were reserved for it. The encoding
 * always takes all of these bytes, even for a short message. */
void proto_end(struct proto *p, size_t begun)
{
	size_t n = p->len - begun;

	if (p->full || n >= 1u << 14) {
		p->full = true;
		return;
	}
	p->data[begun - 2] = (uint8_t)(n | 0x80);
	p->data[begun - 1] = (uint8_t)(n >> 7);
}

void proto_varint(struct proto *p, uint32_t field, uint64_t value)
{
	put_varint(p, proto_tag(field, PROTO_VARINT));
	put_varint(p, value);
}

void proto_string(struct proto *p, uint32_t field, const char *text)
{
	size_t n = strlen(text);

	put_varint(p, proto_tag(field, PROTO_BYTES));
	put_varint(p, n);
	put(p, text, n);
}
