#include "ipc/trace_ring.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void trace_ring_format(struct wire_trace *t, uint32_t room)
{
	t->magic = WIRE_TRACE_MAGIC;
	t->version = WIRE_VERSION;
	t->room = room;
}

int trace_ring_attach(
	struct trace_ring *r, struct wire_trace *t, size_t bytes, struct err *e)
{
	uint32_t room;

	if (bytes < sizeof(*t))
		return err_set(e, EPROTO,
			"the trace buffer has %zu bytes, must have %zu", bytes,
			sizeof(*t));
	room = t->room;
	if (t->magic != WIRE_TRACE_MAGIC || t->version != WIRE_VERSION)
		return err_set(e, EPROTO,
			"trace.magic 0x%08x or version %u is wrong; install "
			"tandem and tandem-npu from the same release",
			t->magic, t->version);
	if (!is_pow2(room) || room > WIRE_TRACE_ROOM_MAX ||
		trace_ring_bytes(room) > bytes)
		return err_set(e, EPROTO,
			"trace.room %u is not a power of two that fits in %zu "
			"bytes",
			room, bytes);
	*r = (struct trace_ring){ .shared = t,
		.event = (struct wire_trace_event *)(t + 1),
		.room = room };
	return 0;
}

/* ---- the device ---------------------------------------------------------- */

/* Add a name and return its number. The host reads the name only after it has
 * read an event with this number, so the release store in trace_ring_put (R1)
 * also publishes the name. */
static uint16_t add_name(struct trace_ring *r, const char *name)
{
	if (r->names == WIRE_TRACE_NAMES)
		return 0;
	snprintf(r->shared->name[r->names], WIRE_TRACE_NAME_BYTES, "%s", name);
	return (uint16_t)++r->names;
}

/* Look up the name in an open-addressing hash table. The table has more entries
 * than there can be names, so one entry is always free. */
uint16_t trace_ring_name(struct trace_ring *r, const char *literal)
{
	size_t at = (uintptr_t)literal;

	for (at ^= at >> 7;; at++) {
		size_t i = at % ARRAY_LEN(r->known);

		if (r->known[i].literal == literal)
			return r->known[i].number;
		if (r->known[i].literal)
			continue;
		if (r->names == WIRE_TRACE_NAMES)
			return 0;
		r->known[i].literal = literal;
		r->known[i].number = add_name(r, literal);
		return r->known[i].number;
	}
}

uint16_t trace_ring_name_copied(struct trace_ring *r, const char *name)
{
	for (unsigned i = 0; i < r->names; i++)
		if (!strncmp(r->shared->name[i], name,
			    WIRE_TRACE_NAME_BYTES - 1))
			return (uint16_t)(i + 1);
	return add_name(r, name);
}

struct wire_trace_event *trace_ring_next(struct trace_ring *r)
{
	struct wire_trace *t = r->shared;

	if (r->at - r->seen >= r->room)
		r->seen = atomic_load_explicit(
			/* R2, an acquire load that pairs with R4
			 * (trace_ring_take): the host has copied the events
			 * that it counts as taken */
			&t->taken, memory_order_acquire);
	if (r->at - r->seen < r->room)
		return &r->event[r->at & (r->room - 1)];
	atomic_fetch_add_explicit(&t->lost, 1, memory_order_relaxed);
	return NULL;
}

/* ---- the host ------------------------------------------------------------ */

int trace_ring_take(struct trace_ring *r, struct wire_trace_event *out,
	unsigned least, unsigned most)
{
	struct wire_trace *t = r->shared;
	uint64_t put =
		/* R3, an acquire load that pairs with R1 (trace_ring_put): the
		 * first `put` events are complete */
		atomic_load_explicit(&t->put, memory_order_acquire);
	unsigned n;

	if (put - r->at > r->room)
		return -EPROTO;
	if (put - r->at < least)
		return 0;
	for (n = 0; n < most && r->at != put; n++)
		out[n] = r->event[r->at++ & (r->room - 1)];
	/* R4, a release store that pairs with R2 (trace_ring_next): the events
	 * have been copied, so the device may now overwrite them. */
	if (n)
		atomic_store_explicit(&t->taken, r->at, memory_order_release);
	return (int)n;
}

void trace_ring_read_name(const struct trace_ring *r, uint16_t number,
	char out[WIRE_TRACE_NAME_BYTES])
{
	out[0] = '\0';
	if (!number || number > WIRE_TRACE_NAMES)
		return;
	memcpy(out, r->shared->name[number - 1], WIRE_TRACE_NAME_BYTES);
	out[WIRE_TRACE_NAME_BYTES - 1] = '\0';
	err_plain(out);
}
