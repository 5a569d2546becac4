#include "shm/buffer.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/workers.h"
#include "shm/coherence/tandem_coherence.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX    "tandem:"
#define HUGE_PAGE ((size_t)2 << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct buffer {
	char name[BUFFER_NAME_MAX];
	int fd;
	unsigned flags;
	bool wants_huge; /* true: buffer_take_memory tries to get huge pages */
	size_t bytes;
	/* bytes of the mapping: `bytes` or, in reserved huge pages, `bytes`
	 * rounded up to whole huge pages */
	size_t backed;
	uint8_t *map;
	uint32_t generation;
	/* number of write accesses of the CPU that have ended; the next write
	 * access gets the next number */
	uint32_t seq;
	struct buffer_watch watch;
	unsigned n_ranges;
	/* The ranges that the CPU wrote since buffer_written_clear, sorted by
	 * offset and at least a cache line apart. The extra element is used
	 * only during an insertion. */
	struct buffer_range ranges[BUFFER_RANGES + 1];
};

static uint8_t *map_at(uint8_t *at, int flags, int fd, size_t bytes)
{
	uint8_t *map = mmap(
		at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

/*
 * Map a file of at least HUGE_PAGE bytes at a multiple of HUGE_PAGE: at any
 * other address the file's pages cannot be huge. Returns NULL with errno on
 * failure. If the mapping of the file fails, the function does not unmap the
 * addresses that were reserved for the file: the failed mmap may have unmapped
 * them, and another thread may already use them.
 */
static uint8_t *map_aligned(int fd, size_t bytes)
{
	size_t room = bytes + HUGE_PAGE, before;
	uint8_t *free = mmap(NULL, room, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *map;
	int error;

	if (free == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)free % HUGE_PAGE;
	map = map_at(free + before, MAP_FIXED, fd, bytes);
	error = errno;
	if (before)
		munmap(free, before);
	munmap(free + before + bytes, HUGE_PAGE - before);
	errno = error;
	return map;
}

/*
 * Create, size, seal and map the memfd. The memfd is sealed before another
 * process gets the descriptor: an access to a mapping of a file that has shrunk
 * would raise SIGBUS.
 */
static int buffer_back(
	struct buffer *b, size_t bytes, unsigned memfd_flags, struct err *e)
{
	b->fd = memfd_create(
		b->name, MFD_CLOEXEC | MFD_ALLOW_SEALING | memfd_flags);
	if (b->fd < 0)
		return err_sys(e, errno, "cannot create buffer '%s'%s", b->name,
			errno == EMFILE ? " (see ulimit -n)" : "");
	if (ftruncate(b->fd, (off_t)bytes))
		return err_sys(e, errno,
			"cannot set the size of buffer '%s' to %zu bytes",
			b->name, bytes);
	if (fcntl(b->fd, F_ADD_SEALS, SEALS))
		return err_sys(e, errno, "cannot seal buffer '%s'", b->name);
	/* The kernel aligns mappings of reserved huge pages by itself. */
	b->map = bytes < HUGE_PAGE || (memfd_flags & MFD_HUGETLB)
		? map_at(NULL, 0, b->fd, bytes)
		: map_aligned(b->fd, bytes);
	if (!b->map)
		return err_sys(e, errno, "cannot map buffer '%s' (%zu bytes)",
			b->name, bytes);
	b->backed = bytes;
	return 0;
}

static void buffer_unback(struct buffer *b)
{
	if (b->map)
		munmap(b->map, b->backed);
	b->map = NULL;
	fd_close(&b->fd);
}

/* Whether madvise has an effect on shared memory on this system. The return
 * value of madvise does not show this, because the call always succeeds. */
static bool shmem_takes_advice(void)
{
	char text[128];

	return fd_read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		       text, sizeof(text)) &&
		*text && !strstr(text, "[never]") && !strstr(text, "[deny]");
}

static int buffer_back_huge(struct buffer *b)
{
	/* For weights, try reserved huge pages (nr_hugepages) first: either all
	 * pages of such a file are huge, or the call fails. Other buffers are
	 * created before the weights and would take these pages from them. */
	if (b->flags & BUFFER_DMA &&
		!buffer_back(b, align_up(b->bytes, HUGE_PAGE),
			MFD_HUGETLB | MFD_HUGE_2MB, NULL)) {
		b->flags |= BUFFER_HUGE;
		return 0;
	}
	buffer_unback(b);
	if (buffer_back(b, b->bytes, 0, NULL)) {
		buffer_unback(b);
		/* set no message: the caller tries small pages next, and a
		 * failure of that attempt sets the message */
		return -ENOMEM;
	}
	b->wants_huge = true;
	if (!madvise(b->map, b->backed, MADV_HUGEPAGE) && shmem_takes_advice())
		b->flags |= BUFFER_HUGE;
	return 0;
}

int buffer_create(struct buffer **out, const char *name, size_t bytes,
	unsigned flags, struct err *e)
{
	static _Atomic uint32_t generations;
	const size_t max = BUFFER_NAME_MAX - sizeof(PREFIX);
	struct buffer *b;
	int ret = 0;

	if (!bytes || bytes > BUFFER_MAX)
		return err_set(e, EINVAL,
			"buffer '%s' has %zu bytes, must have 1 to %zu", name,
			bytes, BUFFER_MAX);
	if (!*name || strlen(name) > max)
		return err_set(e, EINVAL,
			"buffer name '%s' must have 1 to %zu characters", name,
			max);
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/')
			return err_set(e, EINVAL,
				"buffer name has a character (code %d) that is "
				"not printable or is a slash",
				(unsigned char)*p);
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, ENOMEM, "no memory for buffer '%s'", name);
	b->fd = -1;
	b->flags = flags & BUFFER_DMA;
	b->bytes = align_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
	b->generation = atomic_fetch_add(&generations, 1) + 1;
	snprintf(b->name, sizeof(b->name), PREFIX "%s", name);
	if (!(flags & BUFFER_HUGE) || b->bytes < HUGE_PAGE ||
		buffer_back_huge(b))
		ret = buffer_back(b, b->bytes, 0, e);
	if (ret)
		buffer_close(b);
	else
		*out = b;
	return ret;
}

/* The state of a call of buffer_take_memory. Each thread allocates parts of the
 * buffer. A part consists of whole huge pages, except the last part. */
struct taking {
	struct buffer *b;
	size_t part;
	_Atomic bool small; /* true: some memory is not in huge pages */
};

static void take_part(void *arg, unsigned part, unsigned thread)
{
	struct taking *t = arg;
	size_t at = part * t->part, left = t->b->backed - at;
	size_t n = left < t->part ? left : t->part;
	size_t whole = n & ~(HUGE_PAGE - 1);
	uint8_t *map = t->b->map + at;

	/*
	 * Collapse small pages into huge pages. Kernels from 6.1 on collapse
	 * pages on request, regardless of the system's huge-page settings. A
	 * control group's limit counts this memory as if it were in small
	 * pages. Each huge page is touched first, because an empty range cannot
	 * be collapsed. The bytes after the last whole huge page stay in small
	 * pages.
	 */
	for (size_t i = 0; t->b->wants_huge && i < whole; i += HUGE_PAGE)
		*(volatile uint8_t *)(map + i) = 0;
	if (t->b->wants_huge && madvise(map, whole, MADV_COLLAPSE))
		atomic_store_explicit(&t->small, true, memory_order_relaxed);
	/* Allocate all pages in one call: one page fault per page, at the first
	 * write, would take up to fifteen times as long. */
	madvise(map, n, MADV_POPULATE_WRITE);
}

void buffer_take_memory(struct buffer *b, struct workers *w)
{
	size_t parts = w ? workers_count(w) : 1;
	struct taking t = { b,
		align_up((b->backed + parts - 1) / parts, HUGE_PAGE), false };

	parts = (b->backed + t.part - 1) / t.part;
	if (w)
		workers_run(w, take_part, &t, (unsigned)parts);
	else
		take_part(&t, 0, 0);
	if (b->wants_huge && !atomic_load(&t.small))
		b->flags |= BUFFER_HUGE;
}

void buffer_close(struct buffer *b)
{
	if (!b)
		return;
	buffer_unback(b);
	free(b);
}

int buffer_fd(const struct buffer *b)
{
	return b->fd;
}

size_t buffer_bytes(const struct buffer *b)
{
	return b->bytes;
}

const char *buffer_name(const struct buffer *b)
{
	return b->name;
}

uint32_t buffer_generation(const struct buffer *b)
{
	return b->generation;
}

unsigned buffer_flags(const struct buffer *b)
{
	return b->flags;
}

void buffer_set_watch(struct buffer *b, const struct buffer_watch *watch)
{
	b->watch = *watch;
}

void *buffer_begin_by(struct buffer *b, size_t off, size_t len,
	enum buffer_access access, const char *by)
{
	assert(range_within(off, len, b->bytes));
	if (b->watch.begun) {
		const struct buffer_bracket bracket = { b->generation, access,
			off, len, b->seq + 1, by };

		b->watch.begun(b->watch.arg, &bracket);
	}
	return b->map + off;
}

/* ---- written ranges ---------------------------------------------------- */

static size_t range_end(const struct buffer_range *r)
{
	return r->off + r->len;
}

/*
 * Whether the cache lines of range b overlap or adjoin the cache lines of range
 * a, which begins before b. Such ranges are merged: the device invalidates
 * whole lines, so after the merge it invalidates the same lines as before, and
 * the request has one range fewer.
 */
static bool ranges_meet(
	const struct buffer_range *a, const struct buffer_range *b)
{
	return b->off / COHERENCE_LINE <=
		align_up(range_end(a), COHERENCE_LINE) / COHERENCE_LINE;
}

/* Merge range i + 1 into range i. */
static void ranges_join(struct buffer *b, unsigned i)
{
	struct buffer_range *r = &b->ranges[i];
	size_t end = range_end(r), next_end = range_end(r + 1);

	r->len = (end > next_end ? end : next_end) - r->off;
	if (r[1].seq > r->seq) {
		r->seq = r[1].seq;
		r->by = r[1].by;
	}
	b->n_ranges--;
	memmove(r + 1, r + 2, (b->n_ranges - i - 1) * sizeof(*r));
}

static void note_write(struct buffer *b, size_t off, size_t len, const char *by)
{
	struct buffer_range *r = b->ranges;
	size_t least = SIZE_MAX;
	unsigned i = b->n_ranges;

	while (i && r[i - 1].off > off)
		i--;
	memmove(r + i + 1, r + i, (b->n_ranges - i) * sizeof(*r));
	r[i] = (struct buffer_range){ off, len, b->seq, by };
	b->n_ranges++;
	if (i && ranges_meet(&r[i - 1], &r[i]))
		ranges_join(b, --i);
	while (i + 1 < b->n_ranges && ranges_meet(&r[i], &r[i + 1]))
		ranges_join(b, i);
	if (b->n_ranges <= BUFFER_RANGES)
		return;
	/* Too many ranges: merge the two neighbors with the smallest gap
	 * between them. */
	for (unsigned k = i = 0; k + 1 < b->n_ranges; k++) {
		size_t gap = r[k + 1].off - range_end(&r[k]);

		if (gap < least) {
			least = gap;
			i = k;
		}
	}
	ranges_join(b, i);
}

void buffer_end_by(struct buffer *b, size_t off, size_t len,
	enum buffer_access access, const char *by)
{
	assert(range_within(off, len, b->bytes));
	if (access & BUFFER_WRITE)
		b->seq++;
	if (b->watch.ended) {
		const struct buffer_bracket bracket = { b->generation, access,
			off, len, b->seq, by };

		b->watch.ended(b->watch.arg, &bracket);
	}
	if (access & BUFFER_WRITE && len && !(b->flags & BUFFER_DMA))
		note_write(b, off, len, by);
}

unsigned buffer_written(
	const struct buffer *b, const struct buffer_range **ranges)
{
	*ranges = b->ranges;
	return b->n_ranges;
}

void buffer_written_clear(struct buffer *b)
{
	b->n_ranges = 0;
}

/* ---- descriptors from a peer --------------------------------------------- */

int buffer_check_fd(int fd, uint64_t bytes, struct err *e)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (!bytes || bytes > BUFFER_MAX)
		return err_set(e, EPROTO,
			"a buffer has %" PRIu64 " bytes, must have 1 to %zu",
			bytes, BUFFER_MAX);
	if (seals < 0)
		return err_set(e, EPROTO, "the descriptor is not a memfd");
	if (!(seals & F_SEAL_SHRINK))
		return err_set(
			e, EPROTO, "the memfd is not sealed against shrinking");
	if (fstat(fd, &st))
		return err_sys(e, errno, "cannot stat the memfd");
	if ((uint64_t)st.st_size < bytes)
		return err_set(e, EPROTO,
			"the memfd has %" PRIu64 " bytes, but the peer "
			"announced %" PRIu64 " bytes",
			(uint64_t)st.st_size, bytes);
	return 0;
}
