#include "tests/harness.h"

#include "base/err.h"
#include "base/process_maps.h"
#include "base/fd.h"
#include "base/rng.h"
#include "shm/buffer.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct buffer *create(const char *name, size_t bytes, unsigned flags)
{
	struct err e = { 0 };
	struct buffer *b = NULL;

	assert_ok(buffer_create(&b, name, bytes, flags, &e), &e);
	return b;
}

static void test_named_and_sealed(void **state)
{
	struct buffer *b = create("kv", 5000, 0);
	int fd = buffer_fd(b);
	char path[64], target[128] = "", line[512];
	bool mapped = false;
	FILE *f;

	assert_string_equal(buffer_name(b), "tandem:kv");
	assert_int_equal(buffer_bytes(b), 8192);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert_true(readlink(path, target, sizeof(target) - 1) > 0);
	assert_string_equal(target, "/memfd:tandem:kv (deleted)");
	f = fopen("/proc/self/maps", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		mapped |= strstr(line, "/memfd:tandem:kv") != NULL;
	fclose(f);
	assert_true(mapped);

	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 12288), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	buffer_close(b);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_generations_differ(void **state)
{
	struct buffer *a = create("a", 1, 0), *b = create("a", 1, 0);

	assert_int_not_equal(buffer_generation(a), buffer_generation(b));
	buffer_close(a);
	buffer_close(b);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *name;
		size_t bytes;
		const char *says;
	} bad[] = {
		{ "kv", 0, "0 bytes" },
		{ "kv", BUFFER_MAX + 1, "1073741825" },
		{ "kv", SIZE_MAX, "18446744073709551615" },
		{ "", 1, "1 to 24" },
		{ "a-name-that-is-too-long-by-one", 1, "1 to 24" },
		{ "a/b", 1, "slash" },
		{ "a b", 1, "printable" },
		{ "a\nb", 1, "code 10" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buffer *b = NULL;
		struct err e = { 0 };

		assert_int_equal(
			buffer_create(&b, bad[i].name, bad[i].bytes, 0, &e),
			-EINVAL);
		assert_null(b);
		if (!strstr(e.text, bad[i].says))
			fail_msg("'%s' does not say '%s'", e.text, bad[i].says);
	}
}

/* A second mapping of the same descriptor shows the bytes that were written
 * through the buffer. */
static void test_shared(void **state)
{
	struct buffer *b = create("rows", 4096, 0);
	char *mine = buffer_begin(b, 100, 5, BUFFER_WRITE);
	const char *theirs =
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, buffer_fd(b), 0);

	assert_ptr_not_equal(theirs, MAP_FAILED);
	memcpy(mine, "hello", 5);
	buffer_end(b, 100, 5, BUFFER_WRITE);
	assert_memory_equal(theirs + 100, "hello", 5);
	munmap((void *)(uintptr_t)theirs, 4096);
	buffer_close(b);
}

static void test_no_process_has_no_huge_pages(void **state)
{
	assert_int_equal(process_huge_bytes(0), 0);
	assert_int_equal(process_huge_bytes(INT32_MAX), 0);
}

static void test_huge_falls_back(void **state)
{
	struct buffer *b = create("weights", 3 << 20, BUFFER_HUGE);
	uint8_t *p = buffer_begin(b, 0, 3 << 20, BUFFER_WRITE);

	buffer_take_memory(b, NULL);
	print_message("huge pages: %s\n",
		buffer_flags(b) & BUFFER_HUGE ? "got" : "not got");
	assert_int_equal((uintptr_t)p % (2 << 20), 0);
	memset(p, 7, 3 << 20);
	if (buffer_flags(b) & BUFFER_HUGE)
		assert_true(process_huge_bytes(getpid()) >= 2 << 20);
	buffer_end(b, 0, 3 << 20, BUFFER_WRITE);
	assert_true(buffer_bytes(b) >= 3 << 20);
	assert_int_equal(ftruncate(buffer_fd(b), 0), -1);
	buffer_close(b);
}

/* ---- written ranges -------------------------------------------------- */

static void wrote(struct buffer *b, size_t off, size_t len)
{
	buffer_begin(b, off, len, BUFFER_WRITE);
	buffer_end(b, off, len, BUFFER_WRITE);
}

static void is_range(const struct buffer *b, unsigned i, size_t off, size_t len,
	uint32_t seq)
{
	const struct buffer_range *r;
	unsigned n = buffer_written(b, &r);

	assert_true(i < n);
	assert_int_equal(r[i].off, off);
	assert_int_equal(r[i].len, len);
	assert_int_equal(r[i].seq, seq);
}

static unsigned n_written(const struct buffer *b)
{
	const struct buffer_range *r;

	return buffer_written(b, &r);
}

static void test_ranges(void **state)
{
	struct buffer *b = create("x", 65536, 0);

	assert_int_equal(n_written(b), 0);
	wrote(b, 1000, 24);
	is_range(b, 0, 1000, 24, 1);
	wrote(b, 4096, 64); /* far away: a second range */
	assert_int_equal(n_written(b), 2);
	is_range(b, 1, 4096, 64, 2);
	wrote(b, 0, 8); /* before both ranges */
	is_range(b, 0, 0, 8, 3);
	is_range(b, 1, 1000, 24, 1);
	wrote(b, 1010, 4); /* inside a range */
	assert_int_equal(n_written(b), 3);
	is_range(b, 1, 1000, 24, 4);
	wrote(b, 1030, 10); /* the next line: joined to the range */
	assert_int_equal(n_written(b), 3);
	is_range(b, 1, 1000, 40, 5);
	wrote(b, 4, 8000); /* covers all ranges */
	assert_int_equal(n_written(b), 1);
	is_range(b, 0, 0, 8004, 6);
	buffer_written_clear(b);
	assert_int_equal(n_written(b), 0);
	/* The numbers of accesses (brackets) continue after
	 * buffer_written_clear. */
	wrote(b, 1, 1);
	is_range(b, 0, 1, 1, 7);
	buffer_close(b);
}

static void test_not_noted(void **state)
{
	struct buffer *b = create("x", 4096, 0);
	struct buffer *dma = create("w", 4096, BUFFER_DMA);

	buffer_begin(b, 0, 100, BUFFER_READ);
	buffer_end(b, 0, 100, BUFFER_READ);
	wrote(b, 50, 0);
	assert_int_equal(n_written(b), 0);
	wrote(dma, 0, 100);
	assert_int_equal(n_written(dma), 0);
	assert_true(buffer_flags(dma) & BUFFER_DMA);
	buffer_close(b);
	buffer_close(dma);
}

/*
 * Compare the recorded ranges with line[], which states for each cache line
 * whether it was written. The ranges must cover every written line, and be
 * sorted and separate. If `exact` is set, no ranges had to be joined, and they
 * must cover no other line.
 */
#define LINES 2048

static void covered(const struct buffer *b, const bool *line, bool exact)
{
	bool noted[LINES] = { false };
	const struct buffer_range *r;
	unsigned n = buffer_written(b, &r);

	assert_true(n <= BUFFER_RANGES);
	for (unsigned i = 0; i < n; i++) {
		size_t last = (r[i].off + r[i].len - 1) / COHERENCE_LINE;

		assert_true(r[i].len > 0);
		if (i)
			assert_true(r[i].off > r[i - 1].off + r[i - 1].len);
		for (size_t l = r[i].off / COHERENCE_LINE; l <= last; l++)
			noted[l] = true;
	}
	for (unsigned l = 0; l < LINES; l++) {
		if (line[l] && !noted[l])
			fail_msg("line %u was written and is not noted", l);
		if (exact && noted[l] && !line[l])
			fail_msg("line %u is noted and was not written", l);
	}
}

static void test_ranges_model(void **state)
{
	uint64_t seed = harness_seed();
	bool squeezed_once = false;

	for (uint64_t round = 0; round < (harness_full() ? 200 : 50); round++) {
		struct buffer *b = create("x", LINES * COHERENCE_LINE, 0);
		bool line[LINES] = { false }, squeezed = false;

		for (uint64_t i = 0; i < 400; i++) {
			uint32_t w[4];
			size_t off, len;
			unsigned before = n_written(b);

			rng_words(seed, round, i, w);
			off = w[0] % (LINES * COHERENCE_LINE);
			len = 1 + w[1] % (round % 2 ? 3000 : 100);
			if (len > LINES * COHERENCE_LINE - off)
				len = LINES * COHERENCE_LINE - off;
			wrote(b, off, len);
			for (size_t l = off / COHERENCE_LINE;
				l <= (off + len - 1) / COHERENCE_LINE; l++)
				line[l] = true;
			squeezed |= before == BUFFER_RANGES;
			covered(b, line, !squeezed);
		}
		squeezed_once |= squeezed;
		buffer_close(b);
	}
	assert_true(squeezed_once);
}

/* ---- descriptors from a peer --------------------------------------- */

static void refused(int fd, uint64_t bytes, const char *says)
{
	struct err e = { 0 };

	assert_int_equal(buffer_check_fd(fd, bytes, &e), -EPROTO);
	if (!strstr(e.text, says))
		fail_msg("'%s' does not say '%s'", e.text, says);
}

static void test_check_fd(void **state)
{
	struct buffer *b = create("x", 8192, 0);
	struct err e = { 0 };
	int fd;

	assert_ok(buffer_check_fd(buffer_fd(b), 8192, &e), &e);
	assert_ok(buffer_check_fd(buffer_fd(b), 1, &e), &e);
	refused(buffer_fd(b), 8193, "8193");
	refused(buffer_fd(b), 0, "0 bytes");
	refused(buffer_fd(b), BUFFER_MAX + 1, "1073741825");
	refused(buffer_fd(b), UINT64_MAX, "bytes");
	buffer_close(b);

	fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	refused(fd, 4096, "not sealed");
	fd_close(&fd);
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	refused(fd, 4096, "not a memfd");
	fd_close(&fd);
	refused(-1, 4096, "not a memfd");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_named_and_sealed),
	cmocka_unit_test(test_generations_differ),
	cmocka_unit_test(test_refusals),
	cmocka_unit_test(test_shared),
	cmocka_unit_test(test_no_process_has_no_huge_pages),
	cmocka_unit_test(test_huge_falls_back),
	cmocka_unit_test(test_ranges),
	cmocka_unit_test(test_not_noted),
	cmocka_unit_test(test_ranges_model),
	cmocka_unit_test(test_check_fd),
};

TEST_FILE(tests)
