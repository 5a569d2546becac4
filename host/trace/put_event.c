#include "host/trace/put_event.h"

#include "host/trace/perfetto.h"
#include "host/trace/proto_write.h"

#include <endian.h>
#include <string.h>

static uint8_t *put_number(uint8_t *at, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*at++ = (uint8_t)(v | 0x80);
	*at++ = (uint8_t)v;
	return at;
}

/*
 * Write a number that usually takes many bytes, without a loop over its bytes.
 * The 56 low bits are spread over eight bytes of seven bits each, and the
 * continuation bit is set in all bytes except the last. Leading zeros are
 * valid. A number with more than 56 bits is written by put_number.
 */
static uint8_t *put_long_number(uint8_t *at, uint64_t v)
{
	uint64_t x = v;

	if (v >> 56)
		return put_number(at, v);
	x = (x & 0x00fffffff0000000) << 4 | (x & 0x000000000fffffff);
	x = (x & 0x0fffc0000fffc000) << 2 | (x & 0x00003fff00003fff);
	x = (x & 0x3f803f803f803f80) << 1 | (x & 0x007f007f007f007f);
	x = htole64(x | 0x0080808080808080);
	memcpy(at, &x, sizeof(x));
	return at + sizeof(x);
}

static uint8_t *put_field(uint8_t *at, uint32_t field, uint64_t v)
{
	return put_number(put_number(at, proto_tag(field, PROTO_VARINT)), v);
}

/* Begin a nested message. Returns the position after the message's length,
 * which takes two bytes and which message_end fills in. */
static uint8_t *message_begin(uint8_t *at, uint32_t field)
{
	return put_number(at, proto_tag(field, PROTO_BYTES)) + 2;
}

static void message_end(uint8_t *begun, const uint8_t *end)
{
	size_t n = (size_t)(end - begun);

	begun[-2] = (uint8_t)(n | 0x80);
	begun[-1] = (uint8_t)(n >> 7);
}

static uint8_t *put_body(
	uint8_t *at, uint64_t track_uuid, const struct trace_event *v)
{
	static const uint8_t type[] = {
		[TRACE_BEGIN] = PF_SLICE_BEGIN,
		[TRACE_END] = PF_SLICE_END,
		[TRACE_INSTANT] = PF_INSTANT,
		[TRACE_COUNT] = PF_COUNTER,
	};

	const char *const *named = trace_what[v->name].arg;

	at = put_field(at, PF_TYPE, type[v->type]);
	at = put_field(at, PF_TRACK_UUID, track_uuid);
	if (v->type == TRACE_COUNT)
		return put_field(at, PF_COUNTER_VALUE, v->arg[0]);
	/* Omit an argument whose value is 0: timeline_arg returns 0 for a
	 * missing argument. */
	for (uint32_t i = 0, k = v->first;
		i < v->n && k < TRACE_ARGS && named[k]; i++, k++) {
		uint8_t *begun;

		if (!v->arg[i])
			continue;
		begun = at = message_begin(at, PF_ARGUMENT);
		at = put_field(at, PF_ARG_NAME_IID, argument_iid(v->name, k));
		at = put_field(at, PF_ARG_UINT, v->arg[i]);
		message_end(begun, at);
	}
	if (v->type != TRACE_END) {
		at = put_field(at, PF_NAME_IID,
			v->text ? TEXT_IID - 1 + (uint64_t)v->text
				: name_iid(v->name));
		at = put_field(at, PF_CATEGORY_IID,
			kind_iid(trace_what[v->name].kind));
	}
	if (!v->flow)
		return at;
	at = put_number(at,
		proto_tag(v->flow_ends ? PF_FLOW_END : PF_FLOW, PROTO_FIXED64));
	memcpy(at, &(uint64_t){ htole64(v->flow) }, 8);
	return at + 8;
}

size_t put_event(uint8_t *to, uint64_t ns, uint64_t track_uuid,
	const struct trace_event *v)
{
	uint8_t *packet = message_begin(to, PF_TRACE_PACKET), *body, *at;

	at = put_long_number(
		put_number(packet, proto_tag(PF_TIMESTAMP, PROTO_VARINT)), ns);
	body = message_begin(at, PF_TRACK_EVENT);
	at = put_body(body, track_uuid, v);
	message_end(body, at);
	at = put_field(at, PF_SEQUENCE_ID, 1);
	at = put_field(at, PF_SEQUENCE_FLAGS, PF_NEEDS_STATE);
	message_end(packet, at);
	return (size_t)(at - to);
}
