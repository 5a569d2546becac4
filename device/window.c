#include "device/window.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "device/extended.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define HUGE_PAGE ((uint64_t)2 << 20)

int window_init(struct window *w, uint64_t bytes, unsigned slots, struct err *e)
{
	memset(w, 0, sizeof(*w));
	if (bytes < WIRE_WINDOW_MIN || bytes > WIRE_WINDOW_MAX)
		return err_set(e, EINVAL,
			"window: %" PRIu64 " bytes, allowed are %llu to %llu",
			bytes, WIRE_WINDOW_MIN, WIRE_WINDOW_MAX);
	if (!slots || slots > WINDOW_SLOTS_MAX)
		return err_set(e, EINVAL,
			"window: %u mapping slots; must be 1 to %d", slots,
			WINDOW_SLOTS_MAX);
	w->page = (uint64_t)sysconf(_SC_PAGESIZE);
	w->bytes = bytes & ~(w->page - 1);
	w->slots = slots;
	w->reserved_bytes = 3 * w->bytes + HUGE_PAGE;
	w->reserved = mmap(NULL, w->reserved_bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (w->reserved == MAP_FAILED) {
		w->reserved = NULL;
		return err_sys(e, errno,
			"window: cannot reserve %" PRIu64
			" bytes of addresses (see prlimit --as)",
			w->reserved_bytes);
	}
	w->base = (uint8_t *)align_up((uintptr_t)w->reserved, HUGE_PAGE);
	return 0;
}

void window_release(struct window *w)
{
	if (w->shown) {
		munmap(w->shown, sizeof(*w->shown));
		fd_close(&w->shown_fd);
	}
	if (w->reserved)
		munmap(w->reserved, w->reserved_bytes);
	memset(w, 0, sizeof(*w));
}

/* ---- the view for other processes ---------------------------------------- */

/* Store a word with release order (W1 in ipc/window_view.h). A reader that
 * loads this word with acquire order (W2) also sees the value of `turn` that
 * was stored before the word. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static void put_words(void *to, const void *from, size_t bytes)
{
	const uint32_t *word = from;
	uint32_t *out = to;

	for (size_t i = 0; i < bytes / sizeof(*word); i++)
		PUT(out[i], word[i]);
}

void window_report(const struct window *w)
{
	const struct extended *x = w->extended;
	struct window_view *v = w->shown;
	uint64_t free;
	uint32_t turn;

	if (!v)
		return;
	/* `turn` is odd while the view is being written, and even afterwards.
	 */
	turn = atomic_load_explicit(&v->turn, memory_order_relaxed);
	atomic_store_explicit(&v->turn, turn + 1, memory_order_relaxed);
	PUT(v->bytes, w->bytes);
	PUT(v->page, w->page);
	PUT(v->slots, w->slots);
	PUT(v->used, w->used);
	PUT(v->maps, w->maps);
	PUT(v->unmaps, w->unmaps);
	PUT(v->refused, w->refused);
	PUT(v->asked, w->refused_bytes);
	for (unsigned i = 0; i < w->used; i++) {
		const struct mapping *m = w->order[i];
		struct window_view_mapping to = { .addr = m->addr,
			.pending = m->due > 0,
			.bytes = m->share.bytes,
			.span = m->span };

		_Static_assert(
			sizeof(to.name) == sizeof(m->share.name), "the same");
		memcpy(to.name, m->share.name, sizeof(to.name));
		put_words(&v->map[i], &to, sizeof(to));
	}
	free = x ? x->bytes : 0;
	for (unsigned i = 0; x && i < x->used; i++) {
		const struct extent *n = &x->order[i];
		struct window_view_extent to = { .at = n->at,
			.bytes = n->share.bytes };

		free -= n->span;
		memcpy(to.name, n->share.name, sizeof(n->share.name));
		if (i < WINDOW_VIEW_SLOTS)
			put_words(&v->extent[i], &to, sizeof(to));
	}
	if (x) {
		PUT(v->extended, x->bytes);
		PUT(v->extended_free, free);
		PUT(v->extents, x->used);
	}
	atomic_store_explicit(&v->turn, turn + 2, memory_order_release);
}

int window_show(struct window *w, struct err *e)
{
	struct window_view *v = MAP_FAILED;

	w->shown_fd = memfd_create(WINDOW_VIEW_NAME, MFD_CLOEXEC);
	if (w->shown_fd < 0)
		return err_sys(e, errno, "cannot create a memfd");
	if (!ftruncate(w->shown_fd, sizeof(*v)))
		v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE, MAP_SHARED,
			w->shown_fd, 0);
	if (v == MAP_FAILED) {
		int ret = err_sys(e, errno, "cannot map the window's view");

		fd_close(&w->shown_fd);
		return ret;
	}
	v->magic = WINDOW_VIEW_MAGIC;
	v->version = WINDOW_VIEW_VERSION;
	w->shown = v;
	window_report(w);
	return 0;
}

/* ---- holes: free ranges of addresses ------------------------------------- */

/* The beginning of hole i, a range of free addresses. Hole i precedes mapping
 * order[i]; the last hole follows all mappings. A mapping includes its guard
 * page. */
static uint64_t hole_from(const struct window *w, unsigned i)
{
	const struct mapping *m;

	if (!i)
		return w->page;
	m = w->order[i - 1];
	return m->addr + m->span + w->page;
}

static uint64_t hole_to(const struct window *w, unsigned i)
{
	return i < w->used ? w->order[i]->addr : w->bytes;
}

static void measure(const struct window *w, struct window_space *space)
{
	*space = (struct window_space){
		.wanted = space->wanted, .used = w->used, .slots = w->slots
	};
	for (unsigned i = 0; i < w->used; i++)
		space->pending += w->order[i]->due > 0;
	for (unsigned i = 0; i <= w->used; i++) {
		uint64_t n = hole_to(w, i) - hole_from(w, i);

		space->free += n;
		if (n > space->largest)
			space->largest = n;
	}
}

/* Check the page size of a buffer. The only large pages supported are reserved
 * huge pages (hugetlbfs) of at most 2 MiB, and only for buffers that fill at
 * least one such page. */
static int check_pages(
	const struct wire_share *share, uint64_t span, int fd, struct err *e)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) || fs.f_type != HUGETLBFS_MAGIC)
		return 0;
	if (span >= HUGE_PAGE && (uint64_t)fs.f_bsize <= HUGE_PAGE)
		return 0;
	return err_set(e, ENOTSUP,
		"window: %s has %" PRIu64 " bytes in huge pages of %" PRIu64
		" bytes; a buffer must fill at least one page, and a page "
		"may have at most %" PRIu64 " bytes",
		share->name, share->bytes, (uint64_t)fs.f_bsize, HUGE_PAGE);
}

/* Replace a mapping by reserved, inaccessible addresses. */
static void reserve_again(uint8_t *mem, uint64_t span)
{
	mmap(mem, span < HUGE_PAGE ? span : align_up(span, HUGE_PAGE),
		PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void free_room(struct window *w, unsigned i)
{
	struct mapping *m = w->order[i];

	w->used--;
	memmove(w->order + i, w->order + i + 1,
		(w->used - i) * sizeof(w->order[0]));
	memset(m, 0, sizeof(*m));
}

/* Map the buffer at the first hole (free range of addresses) that is large
 * enough. */
static int map_now(struct window *w, const struct wire_share *share, int fd,
	struct mapping **out, struct window_space *space, struct err *e)
{
	uint64_t span = align_up(share->bytes, w->page);
	struct mapping *m;
	uint8_t *mem;
	uint64_t at;
	unsigned hole = 0, slot = 0;
	char pending[48] = "";
	struct stat st;
	int flags, ret = check_pages(share, span, fd, e);

	measure(w, space);
	space->wanted = span + w->page;
	if (ret)
		return ret;
	while (hole <= w->used &&
		hole_to(w, hole) < hole_from(w, hole) + span + w->page)
		hole++;
	if (w->used == w->slots || hole > w->used) {
		w->refused++;
		w->refused_bytes = space->wanted;
		window_report(w);
		if (space->pending)
			snprintf(pending, sizeof(pending),
				", %u of them unmapped and not free yet",
				space->pending);
		return err_set(e, ENOSPC,
			"window: %" PRIu64 " bytes requested, %" PRIu64
			" bytes free, largest hole %" PRIu64
			" bytes, %u of %u slots used%s",
			space->wanted, space->free, space->largest, space->used,
			space->slots, pending);
	}
	at = hole_from(w, hole);
	/* If the host has allocated all pages of the buffer, such as weights,
	 * map all pages now (MAP_POPULATE): one call takes a fraction of the
	 * time that one page fault for each page takes. Other buffers are not
	 * populated, because that would allocate their pages. */
	flags = !fstat(fd, &st) && (uint64_t)st.st_blocks * 512 >= share->bytes
		? MAP_POPULATE
		: 0;
	/* In this process, the address of a buffer of at least a huge page must
	 * be a multiple of a huge page. Device address `at` is mapped at base +
	 * 3 * at, and a mapping of `span` bytes has 3 * span bytes up to the
	 * next mapping. Two mappings therefore never overlap, even if the
	 * address and the length of a mapping are rounded up to huge pages. */
	mem = w->base +
		align_up(3 * at, span < HUGE_PAGE ? w->page : HUGE_PAGE);
	if (mmap(mem, span, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED | flags, fd, 0) == MAP_FAILED) {
		int code = errno;

		reserve_again(mem, span);
		return err_sys(e, code,
			"window: cannot map %s, %" PRIu64 " bytes", share->name,
			span);
	}
	while (w->map[slot].addr)
		slot++;
	m = &w->map[slot];
	*m = (struct mapping){ *share, (uint32_t)at, span, mem, slot, 0 };
	memmove(w->order + hole + 1, w->order + hole,
		(w->used - hole) * sizeof(w->order[0]));
	w->order[hole] = m;
	w->used++;
	w->maps++;
	measure(w, space);
	window_report(w);
	*out = m;
	return 0;
}

int window_map(struct window *w, const struct wire_share *share, int fd,
	struct mapping **out, struct window_space *space, struct err *e)
{
	bool freed = false;
	int ret = map_now(w, share, fd, out, space, e);

	/* A deferred unmap is completed after `due` more map requests. Count
	 * this map request, and complete the unmaps whose `due` becomes 0. */
	for (unsigned i = w->used; i--;) {
		struct mapping *m = w->order[i];

		if (!m->due || --m->due)
			continue;
		free_room(w, i);
		freed = true;
	}
	if (freed)
		window_report(w);
	return ret;
}

void window_unmap(struct window *w, struct mapping *m)
{
	unsigned i = 0;

	reserve_again(m->mem, m->span);
	while (w->order[i] != m)
		i++;
	if (w->defer)
		m->due = w->defer;
	else
		free_room(w, i);
	w->unmaps++;
	window_report(w);
}

/* Returns the last mapping that starts at or below `addr`, or NULL if there is
 * none. */
static struct mapping *below(const struct window *w, uint32_t addr)
{
	unsigned lo = 0, hi = w->used;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (w->order[mid]->addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? w->order[lo - 1] : NULL;
}

const struct mapping *window_find(
	const struct window *w, uint32_t addr, uint64_t len, struct err *e)
{
	const struct mapping *m = below(w, addr);

	if (!len) {
		err_set(e, EINVAL, "address 0x%x: length 0", addr);
		return NULL;
	}
	if (!m || m->due || addr - m->addr >= m->share.bytes) {
		err_set(e, EFAULT, "address 0x%x: nothing is mapped there",
			addr);
		return NULL;
	}
	if (len > m->share.bytes - (addr - m->addr)) {
		err_set(e, EFAULT,
			"address 0x%x, length %" PRIu64 " bytes: goes beyond "
			"the end of %s at 0x%" PRIx64,
			addr, len, m->share.name, m->addr + m->share.bytes);
		return NULL;
	}
	return m;
}

struct mapping *window_at(struct window *w, uint32_t addr)
{
	struct mapping *m = below(w, addr);

	return m && m->addr == addr && !m->due ? m : NULL;
}

const struct mapping *window_holds(
	const struct window *w, uint32_t buffer, uint32_t generation)
{
	for (unsigned i = 0; i < w->used; i++) {
		const struct mapping *m = w->order[i];

		if (!m->due && m->share.buffer == buffer &&
			m->share.generation == generation)
			return m;
	}
	return NULL;
}
