/*
 * Writes protocol-buffer messages to the caller's memory, field by field. The
 * length of a nested message is filled in when the message ends. Data that does
 * not fit is dropped and sets `full`, which the caller checks after the
 * outermost message. The functions allocate no memory. Threads may write at the
 * same time, each to its own struct.
 */
#ifndef HOST_TRACE_PROTO_WRITE_H
#define HOST_TRACE_PROTO_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Wire type of a field. */
enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2 };

/* The number that precedes a field. */
static inline uint64_t proto_tag(uint32_t field, enum proto_type type)
{
	return (uint64_t)field << 3 | type;
}

struct proto {
	uint8_t *data;
	size_t len, room;
	bool full;
};

/* Begin a nested message, which must be shorter than 16 KiB. Returns the
 * position of its length, which must be passed to proto_end. */
size_t proto_begin(struct proto *, uint32_t field);
void proto_end(struct proto *, size_t begun);

void proto_varint(struct proto *, uint32_t field, uint64_t value);
void proto_string(struct proto *, uint32_t field, const char *text);

#endif
