/*
 * Reads protocol-buffer messages from memory, field by field, without reading
 * beyond the given bytes. The input is not trusted: a number that does not end
 * and an unknown wire type are reported as -EBADMSG, a length beyond the end of
 * the input as -ENODATA. No allocation, no state.
 */
#ifndef HOST_TRACE_PROTO_READ_H
#define HOST_TRACE_PROTO_READ_H

#include <stddef.h>
#include <stdint.h>

/* The bytes that have not been read yet. */
struct proto_in {
	const uint8_t *at;
	size_t left;
};

struct proto_field {
	uint32_t number;
	/* the value of a numeric field, or the number of bytes in a string or
	 * nested message */
	uint64_t value;
	/* contents of a field that is a string or a nested message */
	struct proto_in bytes;
};

/*
 * Read the next field. Returns 1 and the field in *out, 0 at the end of the
 * input, or -EBADMSG. If a field of bytes is truncated, returns -ENODATA; *out
 * then has the bytes that exist.
 */
int proto_next(struct proto_in *, struct proto_field *out);

#endif
