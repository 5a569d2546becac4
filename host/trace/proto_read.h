/*
 * Protocol-buffer messages out of memory: field after field, each within the
 * bytes there are. Nothing is believed: a length that is too long, a number
 * that does not end and a type that is none are -EBADMSG. No allocation, no
 * state.
 */
#ifndef HOST_TRACE_PROTO_READ_H
#define HOST_TRACE_PROTO_READ_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that are still to be read. */
struct proto_in {
	const uint8_t *at;
	size_t left;
};

struct proto_field {
	uint32_t number;
	uint64_t value;        /* of a number; of bytes how many there are */
	struct proto_in bytes; /* of text and messages; else none */
};

/*
 * 1 and the next field, 0 behind the last one, or -EBADMSG. -ENODATA: a field
 * of bytes has fewer than it says, and *out is it with those that there are.
 */
int proto_next(struct proto_in *, struct proto_field *out);

#endif
