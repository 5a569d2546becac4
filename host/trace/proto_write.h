/*
 * Protocol-buffer messages into memory of the caller's: fields one behind
 * another, messages within messages by a length that is filled in at their end.
 * What does not fit is left out and remembered in `full`; the caller looks once
 * behind the outermost message. No allocation; any thread, its own.
 */
#ifndef HOST_TRACE_PROTO_WRITE_H
#define HOST_TRACE_PROTO_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a field's bytes are to be taken. */
enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2 };

struct proto {
	uint8_t *data;
	size_t len, room;
	bool full;
};

/* A message that is begun: where its length will stand. It has less than
 * 16 KiB. */
size_t proto_begin(struct proto *, uint32_t field);
void proto_end(struct proto *, size_t begun);

void proto_varint(struct proto *, uint32_t field, uint64_t value);
void proto_string(struct proto *, uint32_t field, const char *text);

#endif
