/* Sharing buffers with the device, and mapping them. */
#include "host/npu/npu_impl.h"

#include "base/checked.h"
#include "host/npu/npu_ops.h"
#include "ipc/window_view.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* smallest page size of a device; larger page sizes are multiples of it */
#define PAGE 4096

int npu_share(
	struct npu *n, const struct buffer *b, uint32_t *id, struct err *e)
{
	struct shared *s = &n->shared[n->n_shared];
	int ret;

	if (n->broken)
		return npu_broken(n, &n->failed, e);
	if (n->n_shared >= WIRE_MAX_BUFFERS)
		return err_set(e, ENOSPC, "more than %d shared buffers",
			WIRE_MAX_BUFFERS);
	ret = n->ops->share(n->device, n->n_shared, b, e);
	if (ret)
		return ret;
	*s = (struct shared){ .generation = buffer_generation(b),
		.bytes = buffer_bytes(b) };
	snprintf(s->name, sizeof(s->name), "%s", buffer_name(b));
	*id = n->n_shared++;
	return 0;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* The buffer with the lowest offset in the extended region (the device memory
 * that only DMA reads) that is not below `from`, or NULL if there is none. */
static const struct shared *next_extended(const struct npu *n, uint64_t from)
{
	const struct shared *next = NULL;

	for (uint32_t i = 0; i < n->n_shared; i++) {
		const struct shared *s = &n->shared[i];

		if (s->extended && s->at >= from && (!next || s->at < next->at))
			next = s;
	}
	return next;
}

/* Returns the free bytes of the extended region; *largest becomes the size of
 * the region's largest hole. */
static uint64_t extended_room(const struct npu *n, uint64_t *largest)
{
	uint64_t at = 0, free = 0, end, page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct shared *s;

	*largest = 0;
	do {
		s = next_extended(n, at);
		end = s ? s->at : n->welcome.va_extended;
		if (end > at) {
			free += end - at;
			*largest = end - at > *largest ? end - at : *largest;
		}
		at = s ? s->at + align_up(s->bytes, page) : end;
	} while (s);
	return free;
}

static int no_room(const struct npu *n, const struct shared *s,
	const uint32_t *arg, struct err *e)
{
	char beside[96] = "", try[32] = "--va-window";
	uint64_t largest, free = extended_room(n, &largest);

	if (n->welcome.va_extended) {
		snprintf(beside, sizeof(beside),
			"; %.1f of %.1f MiB of the extended region are free",
			mib(free), mib(n->welcome.va_extended));
		snprintf(try, sizeof(try), "--va-window, --va-extended");
	}
	return err_set(e, ENOSPC,
		"%s (%.1f MiB) does not fit into the device's window of %.1f "
		"MiB: %.1f MiB free, largest hole %.1f MiB, %u of %u slots "
		"used%s; try a larger %s or --va-slots, or a smaller --ctx",
		s->name, mib(s->bytes), mib(n->opts.hello.va_window),
		mib(arg[WIRE_MAP_FREE]), mib(arg[WIRE_MAP_LARGEST]),
		arg[WIRE_MAP_SLOTS_USED], arg[WIRE_MAP_SLOTS], beside, try);
}

/* Check the address that the device returned for a mapped buffer. All later
 * accesses to the buffer use this address, so no other mapping may overlap the
 * buffer's addresses. */
static int check_addr(const struct npu *n, const struct shared *s,
	uint32_t addr, struct err *e)
{
	if (!addr || addr % PAGE)
		return err_set(e, EPROTO,
			"the device mapped %s at address 0x%x, which is not "
			"the start of a page in its window",
			s->name, addr);
	if (addr + s->bytes > n->opts.hello.va_window)
		return err_set(e, EPROTO,
			"the device mapped %s (%llu bytes) at address 0x%x, "
			"outside its window of %llu bytes",
			s->name, (unsigned long long)s->bytes, addr,
			(unsigned long long)n->opts.hello.va_window);
	for (uint32_t i = 0; i < n->n_shared; i++) {
		const struct shared *other = &n->shared[i];

		if (other->addr && addr < other->addr + other->bytes &&
			other->addr < addr + s->bytes)
			return err_set(e, EPROTO,
				"the device mapped %s at address 0x%x, over %s "
				"at 0x%x",
				s->name, addr, other->name, other->addr);
	}
	return 0;
}

int npu_map(struct npu *n, uint32_t id, uint32_t *addr, struct err *e)
{
	struct shared *s = &n->shared[id];
	struct wire_map msg = {
		.op = WIRE_MAP, .buffer = id, .generation = s->generation
	};
	struct wire_done done;
	struct err why;
	int ret;

	/*
	 * The device may free unmapped space with a delay, so retry while the
	 * device reports that such space is pending. The number of retries is
	 * limited, in case a faulty device never stops reporting this.
	 */
	for (unsigned i = 0; i <= WIRE_DEFER_MAX; i++) {
		ret = npu_call(n, &msg, sizeof(msg), &done, e);
		if (ret || done.status != -ENOSPC ||
			!done.arg[WIRE_MAP_PENDING])
			break;
	}
	if (ret)
		return ret;
	if (done.status == -ENOSPC)
		return no_room(n, s, done.arg, e);
	/* A device that has no memory left is reported like a full window,
	 * because the remedy is the same: unmap a buffer. */
	if (done.status == -ENOMEM)
		return err_set(e, ENOSPC,
			"the device has no memory for %s (%.1f MiB) in its "
			"window: %s",
			s->name, mib(s->bytes), done.text);
	if (done.status)
		return err_set(e, EIO, "the device cannot map %s: %s", s->name,
			done.text);
	if (check_addr(n, s, done.arg[WIRE_MAP_ADDR], &why))
		return npu_broken(n, &why, e);
	*addr = s->addr = done.arg[WIRE_MAP_ADDR];
	npu_trace_mapped(n, s);
	return 0;
}

static int check_place(
	const struct npu *n, const struct shared *s, uint64_t at, struct err *e)
{
	if (at % PAGE || at + s->bytes > n->welcome.va_extended)
		return err_set(e, EPROTO,
			"the device placed %s (%llu bytes) at 0x%llx of its "
			"extended region; the offset must be a multiple of a "
			"page, and the end within the region's %llu bytes",
			s->name, (unsigned long long)s->bytes,
			(unsigned long long)at,
			(unsigned long long)n->welcome.va_extended);
	for (uint32_t i = 0; i < n->n_shared; i++) {
		const struct shared *other = &n->shared[i];

		if (other->extended && at < other->at + other->bytes &&
			other->at < at + s->bytes)
			return err_set(e, EPROTO,
				"the device placed %s at 0x%llx of its "
				"extended region, over %s at 0x%llx",
				s->name, (unsigned long long)at, other->name,
				(unsigned long long)other->at);
	}
	return 0;
}

int npu_map_extended(struct npu *n, uint32_t id, uint32_t *addr, struct err *e)
{
	struct shared *s = &n->shared[id];
	struct wire_map msg = { .op = WIRE_MAP,
		.buffer = id,
		.generation = s->generation,
		.where = WIRE_IN_EXTENDED };
	struct wire_done done;
	uint64_t largest, at;
	struct err why;
	int ret;

	extended_room(n, &largest);
	if (largest < align_up(s->bytes, (uint64_t)sysconf(_SC_PAGESIZE)))
		return err_set(e, ENOSPC,
			"%s (%.1f MiB) does not fit into the device's extended "
			"region, whose largest hole has %.1f MiB; try a larger "
			"--va-extended",
			s->name, mib(s->bytes), mib(largest));
	ret = npu_call(n, &msg, sizeof(msg), &done, e);
	if (ret)
		return ret;
	if (done.status)
		return err_set(e, done.status == -ENOMEM ? ENOSPC : EIO,
			"the device cannot place %s in its extended region: %s",
			s->name, done.text);
	*addr = done.arg[WIRE_MAP_ADDR];
	at = (uint64_t)*addr * WIRE_EXTENDED_UNIT;
	if (check_place(n, s, at, &why))
		return npu_broken(n, &why, e);
	s->extended = true;
	s->at = at;
	n->stats.extended_bytes += s->bytes;
	n->stats.extended_buffers++;
	return 0;
}

/* The mapping with the lowest address that is not below `from`, or NULL if
 * there is none. */
static const struct shared *next_mapped(const struct npu *n, uint64_t from)
{
	const struct shared *next = NULL;

	for (uint32_t i = 0; i < n->n_shared; i++) {
		const struct shared *s = &n->shared[i];

		if (s->addr && s->addr >= from &&
			(!next || s->addr < next->addr))
			next = s;
	}
	return next;
}

void npu_room(const struct npu *n, struct npu_room *out)
{
	const struct wire_hello *h = &n->opts.hello;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = page, end;
	const struct shared *s;

	*out = (struct npu_room){ .page = page, .slots = h->va_slots };
	extended_room(n, &out->extended);
	do {
		s = next_mapped(n, at);
		end = s ? s->addr : h->va_window;
		out->holes += end > at;
		if (end > at && end - at > out->largest)
			out->largest = end - at;
		if (s) {
			out->mapped += align_up(s->bytes, page);
			at = s->addr + align_up(s->bytes, page) + page;
			out->slots -= out->slots ? 1 : 0;
		}
	} while (s);
}

void npu_window(const struct npu *n, struct window_view *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at, largest;
	const struct shared *s;

	*out = (struct window_view){ .magic = WINDOW_VIEW_MAGIC,
		.version = WINDOW_VIEW_VERSION,
		.slots = n->opts.hello.va_slots,
		.bytes = n->opts.hello.va_window,
		.page = page };
	out->extended = n->welcome.va_extended;
	out->extended_free = extended_room(n, &largest);
	for (at = 0; (s = next_extended(n, at)); at = s->at + 1) {
		struct window_view_extent *x;

		if (out->extents++ >= WINDOW_VIEW_SLOTS)
			continue;
		x = &out->extent[out->extents - 1];
		x->at = s->at;
		x->bytes = s->bytes;
		snprintf(x->name, sizeof(x->name), "%s", s->name);
	}
	at = page;
	while (out->used < WINDOW_VIEW_SLOTS && (s = next_mapped(n, at))) {
		struct window_view_mapping *m = &out->map[out->used++];

		m->addr = s->addr;
		m->bytes = s->bytes;
		m->span = align_up(s->bytes, page);
		snprintf(m->name, sizeof(m->name), "%s", s->name);
		at = m->addr + m->span + page;
	}
}

int npu_unmap(struct npu *n, uint32_t id, struct err *e)
{
	struct shared *s = &n->shared[id];
	struct wire_simple msg = { .op = WIRE_UNMAP, .arg = s->addr };
	struct wire_done done;
	int ret = npu_call(n, &msg, sizeof(msg), &done, e);

	if (ret)
		return ret;
	if (done.status)
		return err_set(e, EIO, "the device cannot unmap %s: %s",
			s->name, done.text);
	s->addr = 0;
	npu_trace_unmapped(n, s);
	return 0;
}
