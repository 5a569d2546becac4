/*
 * Reads protocol-buffer messages from memory, field by field and within the
 * given bytes. The input is not trusted: too long a length, an unterminated
 * number and an unknown type are -EBADMSG. No allocation, no state.
 */
#ifndef HOST_TRACE_PROTO_READ_H
#define HOST_TRACE_PROTO_READ_H

#include <stddef.h>
#include <stdint.h>

/* The bytes that are still to be read. */
struct proto_in {
	const uint8_t *at;
	size_t left;
};

struct proto_field {
	uint32_t number;
	uint64_t value;        /* a number; or the number of bytes */
	struct proto_in bytes; /* contents of text and messages */
};

/*
 * 1 and the next field, 0 at the end, or -EBADMSG. -ENODATA: a field of bytes
 * is truncated; *out has the bytes that exist.
 */
int proto_next(struct proto_in *, struct proto_field *out);

#endif
