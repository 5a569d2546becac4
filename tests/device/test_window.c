#include "tests/harness.h"

#include "base/err.h"
#include "base/rng.h"
#include "device/window.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1u << 20)

static int memfd(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

static struct wire_share share_of(uint32_t id, uint64_t bytes)
{
	struct wire_share s = { .buffer = id, .bytes = bytes };

	snprintf(s.name, sizeof(s.name), "test:%u", id);
	return s;
}

/* ---- single cases -------------------------------------------------------- */

static void refuses_absurd_sizes(void **state)
{
	struct window w;
	struct err e;

	assert_int_equal(window_init(&w, MIB - 1, 16, &e), -EINVAL);
	assert_int_equal(window_init(&w, 5ull << 30, 16, &e), -EINVAL);
	assert_int_equal(window_init(&w, 16 * MIB, 0, &e), -EINVAL);
	assert_int_equal(window_init(&w, 16 * MIB, 257, &e), -EINVAL);
	assert_ok(window_init(&w, WIRE_WINDOW_MAX, 256, &e), &e);
	window_release(&w);
}

/* The view of the window (w.shown) equals the window after every step. */
static void the_view_equals_the_window(void **state)
{
	const struct window_view *v;
	struct window_space space;
	struct window w;
	struct mapping *m[3];
	struct err e = { 0 };
	int fd = memfd(3 * MIB);

	assert_ok(window_init(&w, 8 * MIB, 2, &e), &e);
	assert_ok(window_show(&w, &e), &e);
	v = w.shown;
	assert_int_equal(v->bytes, 8 * MIB);
	assert_int_equal(v->slots, 2);
	for (uint32_t i = 0; i < 2; i++) {
		struct wire_share s = share_of(i, 3 * MIB - i);

		assert_ok(window_map(&w, &s, fd, &m[i], &space, &e), &e);
		assert_int_equal(v->used, i + 1);
		assert_int_equal(v->map[i].addr, m[i]->addr);
		assert_int_equal(v->map[i].bytes, 3 * MIB - i);
		assert_int_equal(v->map[i].span, 3 * MIB);
		assert_string_equal(v->map[i].name, s.name);
	}
	{
		struct wire_share s = share_of(7, MIB);

		assert_int_equal(
			window_map(&w, &s, fd, &m[2], &space, &e), -ENOSPC);
	}
	window_unmap(&w, m[0]);
	assert_int_equal(v->used, 1);
	assert_string_equal(v->map[0].name, "test:1");
	assert_int_equal(v->maps, 2);
	assert_int_equal(v->unmaps, 1);
	assert_int_equal(v->refused, 1);
	assert_int_equal(v->asked, MIB + w.page);
	assert_int_equal(v->turn, 2 * 5);
	window_release(&w);
	close(fd);
}

static void a_refusal_reports_the_space(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m;
	struct err e = { 0 };
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	int fd = memfd(12 * MIB);
	struct wire_share s = share_of(1, 6 * MIB), big = share_of(2, 12 * MIB);
	char want[200];

	assert_ok(window_init(&w, 16 * MIB, 3, &e), &e);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_int_equal(m->addr, page); /* after the first guard page */
	assert_int_equal(window_map(&w, &big, fd, &m, &space, &e), -ENOSPC);
	assert_int_equal(space.wanted, 12 * MIB + page);
	assert_int_equal(space.free, 10 * MIB - 2 * page);
	assert_int_equal(space.largest, space.free);
	assert_int_equal(space.used, 1);
	assert_int_equal(space.slots, 3);
	snprintf(want, sizeof(want),
		"window: %u bytes requested, %u bytes free, largest hole %u "
		"bytes, 1 of 3 slots used",
		12 * MIB + page, 10 * MIB - 2 * page, 10 * MIB - 2 * page);
	assert_string_equal(e.text, want);
	window_release(&w);
	close(fd);
}

/* A buffer whose descriptor cannot be mapped takes no space and no slot. */
static void a_failed_mapping_takes_nothing(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m = NULL;
	struct err e = { 0 };
	struct wire_share s = share_of(1, 4096);
	int fd = memfd(MIB),
	    unmappable = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_ok(window_init(&w, 16 * MIB, 1, &e), &e);
	assert_int_equal(
		window_map(&w, &s, unmappable, &m, &space, &e), -EACCES);
	assert_non_null(
		strstr(e.text, "window: cannot map test:1, 4096 bytes"));
	assert_null(m);
	assert_int_equal(space.used, 0);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_int_equal(m->addr, (uint32_t)sysconf(_SC_PAGESIZE));
	m->mem[4095] = 1;
	window_release(&w);
	close(unmappable);
	close(fd);
}

/* A buffer in reserved huge pages that it does not fill is refused. */
static void small_buffers_in_huge_pages_are_refused(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m = NULL;
	struct err e = { 0 };
	struct wire_share s = share_of(1, 4096);
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);

	if (fd < 0) {
		print_message("skipped: no reserved huge pages here\n");
		skip();
	}
	assert_ok(window_init(&w, 16 * MIB, 1, &e), &e);
	assert_int_equal(window_map(&w, &s, fd, &m, &space, &e), -ENOTSUP);
	assert_non_null(strstr(
		e.text, "window: test:1 has 4096 bytes in huge pages of "));
	assert_null(m);
	window_release(&w);
	close(fd);
}

static void runs_out_of_slots(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m;
	struct err e = { 0 };
	int fd = memfd(4096);
	struct wire_share s = share_of(0, 4096);

	assert_ok(window_init(&w, 16 * MIB, 2, &e), &e);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_int_equal(window_map(&w, &s, fd, &m, &space, &e), -ENOSPC);
	assert_true(space.largest > 15 * MIB);
	assert_int_equal(space.used, 2);
	window_release(&w);
	close(fd);
}

/* Three buffers of 4 MiB are mapped in a row, and the middle one is unmapped: 8
 * MiB are free, but not in one piece. */
static void fragments(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m[3], *n;
	struct err e = { 0 };
	int fd = memfd(8 * MIB);
	struct wire_share s = share_of(0, 4 * MIB), big = share_of(1, 6 * MIB);

	assert_ok(window_init(&w, 16 * MIB, 16, &e), &e);
	for (int i = 0; i < 3; i++)
		assert_ok(window_map(&w, &s, fd, &m[i], &space, &e), &e);
	window_unmap(&w, m[1]);
	assert_int_equal(window_map(&w, &big, fd, &n, &space, &e), -ENOSPC);
	assert_true(space.free > space.wanted);
	assert_true(space.largest < space.wanted);
	/* A buffer that fits is mapped in the first hole. */
	assert_ok(window_map(&w, &s, fd, &n, &space, &e), &e);
	assert_true(n->addr > m[0]->addr && n->addr < m[2]->addr);
	window_release(&w);
	close(fd);
}

/* A deferred unmap keeps slot and addresses for two map requests: each of these
 * requests is refused or gets other addresses. */
static void deferred_unmaps_keep_their_space(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m, *n;
	struct err e = { 0 };
	int fd = memfd(6 * MIB);
	struct wire_share a = share_of(1, 6 * MIB), b = share_of(2, 6 * MIB);
	struct wire_share tiny = share_of(3, 4096);
	uint32_t was;

	assert_ok(window_init(&w, 8 * MIB, 2, &e), &e);
	assert_ok(window_show(&w, &e), &e);
	w.defer = 2;
	assert_ok(window_map(&w, &a, fd, &m, &space, &e), &e);
	was = m->addr;
	window_unmap(&w, m);
	assert_null(window_at(&w, was));
	assert_null(window_find(&w, was, 1, &e));
	assert_null(window_holds(&w, 1, 0));
	assert_int_equal(w.shown->used, 1);
	assert_int_equal(w.shown->map[0].pending, 1);
	assert_int_equal(window_map(&w, &b, fd, &n, &space, &e), -ENOSPC);
	assert_int_equal(space.pending, 1);
	assert_true(space.free < 2 * MIB);
	if (!strstr(e.text, "1 of 2 slots used, 1 of them unmapped"))
		fail_msg("'%s' does not report the deferred unmaps", e.text);
	assert_ok(window_map(&w, &tiny, fd, &n, &space, &e), &e);
	assert_true(n->addr > was);
	assert_int_equal(w.shown->used, 1); /* only the tiny buffer */
	assert_int_equal(w.shown->map[0].pending, 0);
	window_unmap(&w, n);
	assert_ok(window_map(&w, &b, fd, &m, &space, &e), &e);
	assert_int_equal(m->addr, was);
	window_release(&w);
	close(fd);
}

static void finds_only_inside(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m;
	struct err e = { 0 };
	int fd = memfd(8192);
	struct wire_share s = share_of(0, 5000);

	assert_ok(window_init(&w, 16 * MIB, 16, &e), &e);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_ptr_equal(window_find(&w, m->addr, 5000, &e), m);
	assert_ptr_equal(window_find(&w, m->addr + 4999, 1, &e), m);
	assert_null(window_find(&w, m->addr, 0, &e));
	assert_null(window_find(&w, m->addr, 5001, &e));
	if (!strstr(e.text, "beyond the end of test:0"))
		fail_msg("'%s' does not name the buffer", e.text);
	assert_null(window_find(&w, m->addr + 5000, 1, &e));
	assert_null(window_find(&w, m->addr - 1, 1, &e));
	assert_null(window_find(&w, 0, 1, &e));
	assert_null(window_find(&w, UINT32_MAX, UINT64_MAX, &e));
	assert_ptr_equal(window_at(&w, m->addr), m);
	assert_null(window_at(&w, m->addr + 1));
	window_release(&w);
	close(fd);
}

/* Check that a process that reads *p is killed. */
__attribute__((unused)) static void assert_guarded(const volatile uint8_t *p)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		(void)*p;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void guards_every_edge(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m, *n;
	struct err e = { 0 };
	uint8_t *n_mem;
	int fd = memfd(8192), large = memfd(3 * MIB);
	struct wire_share s = share_of(0, 8192), l = share_of(1, 3 * MIB);

	if (harness_sanitized())
		skip(); /* the sanitizer handles the signal */
	assert_ok(window_init(&w, 16 * MIB, 16, &e), &e);
	assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
	assert_ok(window_map(&w, &s, fd, &n, &space, &e), &e);
	assert_guarded(w.base);
	assert_guarded(m->mem - 1);
	assert_guarded(m->mem + m->span);
	assert_guarded(n->mem + n->span);
	m->mem[8191] = 1;
	assert_int_equal(n->mem[8191], 1); /* m and n map the same memory */
	n_mem = n->mem;
	window_unmap(&w, n);
	assert_guarded(n_mem + 1);
	assert_ok(window_map(&w, &l, large, &m, &space, &e), &e);
	assert_ok(window_map(&w, &l, large, &n, &space, &e), &e);
	assert_guarded(m->mem - 1);
	assert_guarded(m->mem + m->span);
	assert_guarded(n->mem - 1);
	assert_guarded(n->mem + n->span);
	window_release(&w);
	close(fd);
	close(large);
}

/* A buffer that is large enough for huge pages begins at a multiple of a huge
 * page's size in the process. Its device address is the same as without huge
 * pages. */
static void large_buffers_begin_at_huge_pages(void **state)
{
	struct window w;
	struct window_space space;
	struct mapping *m;
	struct err e = { 0 };
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE), at = page;
	int fd = memfd(5 * MIB);

	assert_ok(window_init(&w, 16 * MIB, 16, &e), &e);
	for (uint32_t i = 1; i < 5; i++) {
		struct wire_share s = share_of(i, i * MIB);

		assert_ok(window_map(&w, &s, fd, &m, &space, &e), &e);
		assert_int_equal(m->addr, at);
		at += i * MIB + page;
		if (i > 1)
			assert_int_equal((uintptr_t)m->mem % (2 * MIB), 0);
		memset(m->mem, (int)i,
			i * MIB); /* the whole buffer is mapped */
	}
	window_release(&w);
	close(fd);
}

/* A limit on the process's address space is reported. */
static void obeys_the_address_limit(void **state)
{
	struct rlimit limit = { 512 * MIB, 512 * MIB };
	struct window w;
	struct err e = { 0 };

	if (harness_sanitized())
		skip(); /* the sanitizer needs more than the limit */
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_int_equal(window_init(&w, 2ull << 30, 16, &e), -ENOMEM);
	if (!strstr(e.text, "prlimit --as"))
		fail_msg("'%s' names no way out", e.text);
	assert_ok(window_init(&w, 64 * MIB, 16, &e), &e);
	window_release(&w);
}

/* ---- against a model ----------------------------------------------------- */

/* page[i] is 0 if page i is free, else the number of the mapping to which the
 * page belongs. The guard page after a mapping belongs to the mapping. */
#define PAGES 4096
struct model {
	uint8_t page[PAGES];
	unsigned used;
};

static int model_map(struct model *m, unsigned pages, uint8_t who)
{
	for (int at = 1; at + (int)pages < PAGES; at++) {
		unsigned n = 0;

		while (n <= pages && !m->page[at + (int)n])
			n++;
		if (n > pages) {
			memset(m->page + at, who, pages + 1);
			m->used++;
			return at;
		}
	}
	return -1;
}

static void model_space(
	const struct model *m, unsigned *free_pages, unsigned *largest)
{
	unsigned run = 0;

	*free_pages = *largest = 0;
	for (int i = 1; i < PAGES; i++) {
		run = m->page[i] ? 0 : run + 1;
		*free_pages += !m->page[i];
		*largest = run > *largest ? run : *largest;
	}
}

#define SLOTS 9
static void placement_equals_the_model(void **state)
{
	uint64_t seed = harness_seed(), page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct mapping *held[SLOTS + 1] = { 0 };
	static struct model model;
	struct window w;
	struct err e = { 0 };
	unsigned fulls = 0;
	int fd = memfd(PAGES * page);

	assert_ok(window_init(&w, PAGES * page, SLOTS, &e), &e);
	for (unsigned step = 0; step < 3000; step++) {
		unsigned free_pages, largest, who = 1, pages;
		struct window_space space;
		uint32_t word[4];
		int at, ret;

		rng_words(seed, 0, step, word);
		if (word[0] % 5 < 2) { /* unmap one, if it is mapped */
			who = 1 + word[1] % SLOTS;
			if (!held[who])
				continue;
			window_unmap(&w, held[who]);
			held[who] = NULL;
			for (int i = 0; i < PAGES; i++)
				if (model.page[i] == who)
					model.page[i] = 0;
			model.used--;
			continue;
		}
		while (who <= SLOTS && held[who])
			who++;
		pages = 1 + word[1] % (word[2] % 4 ? 600 : 3000);
		at = who <= SLOTS ? model_map(&model, pages, (uint8_t)who) : -1;
		ret = window_map(&w,
			&(struct wire_share){ .buffer = who,
				.bytes = pages * page - word[3] % 4000 },
			fd, &held[who <= SLOTS ? who : 0], &space, &e);
		model_space(&model, &free_pages, &largest);
		if (space.free != free_pages * page ||
			space.largest != largest * page ||
			space.used != model.used)
			fail_msg("step %u: free %" PRIu64 " %" PRIu64
				 ", largest %" PRIu64 " %" PRIu64
				 ", used %u %u",
				step, space.free, free_pages * page,
				space.largest, largest * page, space.used,
				model.used);
		if ((at < 0) != (ret == -ENOSPC))
			fail_msg("step %u: model %d, window %d: %s", step, at,
				ret, e.text);
		fulls += at < 0;
		if (at >= 0 && held[who]->addr != (uint64_t)at * page)
			fail_msg("step %u: page %d, address 0x%x", step, at,
				held[who]->addr);
	}
	print_message("refused %u times\n", fulls);
	assert_true(fulls > 50);
	window_release(&w);
	close(fd);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(refuses_absurd_sizes),
	cmocka_unit_test(the_view_equals_the_window),
	cmocka_unit_test(a_refusal_reports_the_space),
	cmocka_unit_test(a_failed_mapping_takes_nothing),
	cmocka_unit_test(small_buffers_in_huge_pages_are_refused),
	cmocka_unit_test(runs_out_of_slots),
	cmocka_unit_test(fragments),
	cmocka_unit_test(deferred_unmaps_keep_their_space),
	cmocka_unit_test(finds_only_inside),
	cmocka_unit_test(guards_every_edge),
	cmocka_unit_test(large_buffers_begin_at_huge_pages),
	cmocka_unit_test(placement_equals_the_model),
	cmocka_unit_test(obeys_the_address_limit),
};

TEST_FILE(tests)
