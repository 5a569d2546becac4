/*
 * Reads a history file of arbitrary bytes. Wrong checksums would stop the
 * reader early. So if the first byte of the input is odd, this fuzz target
 * corrects the checksums of the head and of everything that begins like a
 * record.
 *
 * The reader must not crash. Records must lie in the file one after another,
 * and the bytes between them must be counted. Each record must have a larger
 * record number than the record before it, the token ids in records must be in
 * the vocabulary, and the fields of a record must equal those in the file.
 */
#include "tests/fuzz/fuzz.h"

#include "base/fd.h"
#include "host/text/history_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#define VOCAB 1000

static void put64(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

/* The length of the record at `at`, or 0 if it extends beyond the end of the
 * file. */
static uint64_t length(const uint8_t *file, size_t size, size_t at)
{
	uint64_t n = (uint64_t)get32(file + at + 32) + get32(file + at + 36);

	n = (40 + 4 * n + 7) / 8 * 8;
	return n <= size - at ? n : 0;
}

static void make_right(uint8_t *file, size_t size)
{
	size_t at = 64;

	if (size < 64)
		return;
	put64(file + 56, XXH64(file, 56, 0));
	while (at + 40 <= size) {
		uint64_t len = get64(file + at) == HISTORY_MARK
			? length(file, size, at)
			: 0;

		if (len)
			put64(file + at + 8,
				XXH64(file + at + 16, len - 16, 0));
		at += len ? len : 8;
	}
}

static void want(bool is)
{
	if (!is)
		abort();
}

static void check(const struct history *h, const uint8_t *file, size_t size)
{
	uint64_t end = 64, damaged = 0, number = 0;

	want(h->end <= size && h->n == history_count(h));
	for (size_t i = 0; i < h->n; i++) {
		const uint8_t *p = file + h->at[i];
		uint64_t len = length(file, size, h->at[i]);

		want(h->at[i] >= end && h->at[i] % 8 == 0 && len);
		want(get64(p) == HISTORY_MARK && get64(p + 16) > number);
		want(get64(p + 8) == XXH64(p + 16, len - 16, 0));
		for (uint64_t k = 0;
			k < (uint64_t)get32(p + 32) + get32(p + 36); k++)
			want(get32(p + 40 + 4 * k) < VOCAB);
		damaged += h->at[i] - end;
		end = h->at[i] + len;
		number = get64(p + 16);
	}
	want(damaged == h->damaged && (!h->n || end == h->end));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct history h = { .path = (char[]){ "x" },
		.opts = { .vocabulary = 1, .n_vocab = VOCAB } };
	uint8_t *file = malloc(size + 1);

	h.window = malloc(HISTORY_WINDOW);
	h.hash = XXH64_createState();
	h.fd = memfd_create("history", MFD_CLOEXEC);
	want(file && h.window && h.hash && h.fd >= 0);
	if (size) {
		size--;
		memcpy(file, data + 1, size);
		if (data[0] % 2)
			make_right(file, size);
	}
	want(!fd_write_all(h.fd, file, size));
	h.size = size;
	if (!history_scan(&h, NULL))
		check(&h, file, size);
	fd_close(&h.fd);
	XXH64_freeState(h.hash);
	free(h.window);
	free(h.at);
	free(file);
	return 0;
}

/* The records of a seed have 3, 4, 5, 3, 4, 5 ... tokens. Each seed has more
 * records than the seed before it. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	uint8_t *file = buf + 1;
	size_t at = 64;

	if (i >= 8 || cap < 4096)
		return 0;
	memset(buf, 0, 4096);
	buf[0] = 1;
	memcpy(file, HISTORY_MAGIC, 8);
	put64(file + 8, HISTORY_VERSION | (uint64_t)VOCAB << 32);
	put64(file + 16, 1);
	put64(file + 24, 1);
	for (unsigned k = 0; k < 2 * i; k++) {
		put64(file + at, HISTORY_MARK);
		put64(file + at + 16, k + 1);
		put64(file + at + 32, k % 3 | (uint64_t)3 << 32);
		for (unsigned n = 0; n < 3 + k % 3; n++)
			file[at + 40 + 4 * n] = (uint8_t)(17 * n);
		at += length(file, 4095, at);
	}
	make_right(file, at);
	return 1 + at;
}
