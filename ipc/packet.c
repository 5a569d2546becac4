#include "base/checked.h"
#include "base/err.h"
#include "ipc/channel.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int packet_parse(
	const void *data, size_t len, struct packet *out, struct err *e)
{
	struct wire_header h;
	size_t refs_len;

	memset(out, 0, sizeof(*out));
	if (len < sizeof(h))
		return err_set(e, EBADMSG,
			"a packet of %zu bytes has no room for its header",
			len);
	memcpy(&h, data, sizeof(h));
	out->seq = h.seq;
	if ((size_t)h.length8 * 8 != len)
		return err_set(e, EBADMSG,
			"length8 is %zu bytes, but the packet has %zu bytes",
			(size_t)h.length8 * 8, len);
	if (h.flags)
		return err_set(e, EBADMSG, "flags is 0x%x, must be 0", h.flags);
	if (h.n_refs > WIRE_MAX_REFS)
		return err_set(e, EBADMSG, "n_refs is %u, must be at most %d",
			h.n_refs, WIRE_MAX_REFS);
	refs_len = h.n_refs * sizeof(struct wire_ref);
	if (refs_len + sizeof(uint32_t) > len - sizeof(h))
		return err_set(e, EBADMSG,
			"n_refs is %u, but so many references and an "
			"operation do not fit in a packet of %zu bytes",
			h.n_refs, len);
	out->refs = (const struct wire_ref *)((const char *)data + sizeof(h));
	for (unsigned i = 0; i < h.n_refs; i++) {
		const struct wire_ref *r = &out->refs[i];

		if (r->role >= WIRE_ROLE_COUNT)
			return err_set(e, EBADMSG,
				"ref[%u].role is %u, must be < %d", i, r->role,
				WIRE_ROLE_COUNT);
		if (r->flags & ~(WIRE_REF_INVALIDATE | WIRE_REF_EXTENDED))
			return err_set(e, EBADMSG,
				"ref[%u].flags 0x%x has unknown bits", i,
				r->flags);
		if (r->by > WIRE_NAMES)
			return err_set(e, EBADMSG,
				"ref[%u].by is %u, must be <= %d", i, r->by,
				WIRE_NAMES);
		/* The end of the range must be below 2^32, because the end is a
		 * 32-bit address too. For a range in the extended region
		 * (memory that only DMA reads), addr counts units of
		 * WIRE_EXTENDED_UNIT bytes, and the device checks the end. */
		if (!(r->flags & WIRE_REF_EXTENDED) &&
			r->len > UINT32_MAX - r->addr)
			return err_set(e, EBADMSG,
				"ref[%u].len %" PRIu32 " at 0x%08" PRIx32
				" runs past the 32-bit address space",
				i, r->len, r->addr);
	}
	out->n_refs = h.n_refs;
	out->msg = (const char *)data + sizeof(h) + refs_len;
	out->len = len - sizeof(h) - refs_len;
	return 0;
}

static uint64_t lines(size_t body)
{
	return align_up(sizeof(struct wire_header) + body, COHERENCE_LINE) /
		COHERENCE_LINE;
}

uint64_t packet_invalidated_lines(unsigned n_refs, size_t len)
{
	return 1 + lines(n_refs * sizeof(struct wire_ref) + len);
}

uint64_t packet_cleaned_lines(size_t len)
{
	return 2 + lines(len);
}
