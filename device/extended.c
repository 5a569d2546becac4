#include "device/extended.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "device/window.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void extended_init(struct extended *x, uint64_t bytes)
{
	x->page = (uint64_t)sysconf(_SC_PAGESIZE);
	x->bytes = bytes & ~(x->page - 1);
	x->used = 0;
}

void extended_release(struct extended *x)
{
	for (unsigned i = 0; i < x->used; i++)
		fd_close(&x->order[i].fd);
	x->used = 0;
}

/* The beginning of hole i, a range of free bytes. Hole i precedes extent i; the
 * last hole follows all extents. */
static uint64_t hole_from(const struct extended *x, unsigned i)
{
	return i ? x->order[i - 1].at + x->order[i - 1].span : 0;
}

static uint64_t hole_to(const struct extended *x, unsigned i)
{
	return i < x->used ? x->order[i].at : x->bytes;
}

static void measure(const struct extended *x, struct window_space *space)
{
	*space = (struct window_space){ .wanted = space->wanted };
	for (unsigned i = 0; i <= x->used; i++) {
		uint64_t n = hole_to(x, i) - hole_from(x, i);

		space->free += n;
		if (n > space->largest)
			space->largest = n;
	}
}

int extended_map(struct extended *x, const struct wire_share *share, int fd,
	uint64_t *at, struct window_space *space, struct err *e)
{
	unsigned i = 0;
	int own;

	if (!x->bytes)
		return err_set(e, ENOTSUP,
			"this device has no extended region (see tandem-npu "
			"--va-extended)");
	space->wanted = align_up(share->bytes, x->page);
	measure(x, space);
	while (i <= x->used && hole_to(x, i) - hole_from(x, i) < space->wanted)
		i++;
	if (i > x->used || x->used == ARRAY_LEN(x->order))
		return err_set(e, ENOSPC,
			"extended region: no room for %" PRIu64
			" bytes: %" PRIu64 " are free, %" PRIu64
			" in the largest hole",
			space->wanted, space->free, space->largest);
	/* Duplicate the descriptor: while this buffer is in the region, the
	 * host may share another buffer under the same number, and the device
	 * then closes the earlier descriptor. */
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return err_sys(e, errno,
			"extended region: no file descriptor is free for "
			"buffer %s",
			share->name);
	*at = hole_from(x, i);
	memmove(x->order + i + 1, x->order + i,
		(x->used++ - i) * sizeof(x->order[0]));
	x->order[i] = (struct extent){ *share, *at, space->wanted, own };
	measure(x, space);
	return 0;
}

int extended_unmap(struct extended *x, uint64_t at, struct err *e)
{
	unsigned i = 0;

	while (i < x->used && x->order[i].at != at)
		i++;
	if (i == x->used)
		return err_set(e, EFAULT,
			"extended region: no buffer begins at 0x%" PRIx64, at);
	fd_close(&x->order[i].fd);
	memmove(x->order + i, x->order + i + 1,
		(--x->used - i) * sizeof(x->order[0]));
	return 0;
}

const struct extent *extended_find(
	const struct extended *x, uint64_t at, uint64_t len, struct err *e)
{
	unsigned lo = 0, hi = x->used;
	const struct extent *n;

	/* find the last extent that begins at or below `at` */
	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (x->order[mid].at <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	n = lo ? &x->order[lo - 1] : NULL;
	if (!len) {
		err_set(e, EINVAL, "extended region, 0x%" PRIx64 ": length 0",
			at);
		return NULL;
	}
	if (!n || at - n->at >= n->share.bytes) {
		err_set(e, EFAULT,
			"extended region: there is no buffer at 0x%" PRIx64,
			at);
		return NULL;
	}
	if (len > n->share.bytes - (at - n->at)) {
		err_set(e, EFAULT,
			"extended region, 0x%" PRIx64 ", length %" PRIu64
			" bytes: goes beyond the end of %s at 0x%" PRIx64,
			at, len, n->share.name, n->at + n->share.bytes);
		return NULL;
	}
	return n;
}

const struct extent *extended_holds(
	const struct extended *x, uint32_t buffer, uint32_t generation)
{
	for (unsigned i = 0; i < x->used; i++)
		if (x->order[i].share.buffer == buffer &&
			x->order[i].share.generation == generation)
			return &x->order[i];
	return NULL;
}

void extended_read(const struct extent *x, uint64_t from, size_t len, void *to)
{
	/* The memfd is sealed against shrinking, so a read fails only for lack
	 * of memory. An access to a mapping would raise SIGBUS in that case. */
	if (fd_read_exact(x->fd, to, len, (int64_t)from))
		abort();
}
