/*
 * Writes protocol-buffer messages to the caller's memory, field by field; the
 * length of a nested message is filled in when it ends. What does not fit is
 * dropped and sets `full`, which the caller checks after the outermost message.
 * No allocation; any thread, each with its own struct.
 */
#ifndef HOST_TRACE_PROTO_WRITE_H
#define HOST_TRACE_PROTO_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Wire type of a field. */
enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2 };

struct proto {
	uint8_t *data;
	size_t len, room;
	bool full;
};

/* Begin a message; returns the place of its length. It must be shorter than 16
 * KiB. */
size_t proto_begin(struct proto *, uint32_t field);
void proto_end(struct proto *, size_t begun);

void proto_varint(struct proto *, uint32_t field, uint64_t value);
void proto_string(struct proto *, uint32_t field, const char *text);

#endif
