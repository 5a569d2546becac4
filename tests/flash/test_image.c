/*
 * Tests the flash image format. The offsets of fields are those of
 * docs/flash-image.md, written out here, so that the test shares no declaration
 * of the format with the code that it tests.
 */
#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/rng.h"
#include "flash/image_write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define HEADER_SUM 4088
#define TABLE      4096
#define ENTRY      64
/* offset of the first extent; the table takes one page */
#define DATA 8192

enum { KIND = 0, INDEX = 4, OFFSET = 8, STORED = 16, BYTES = 24, CODEC = 32 };
enum { RESERVED0 = 36, SUM = 40, RESERVED = 48 };

/* ---- an image with extents of all kinds ---- */

static const struct part {
	enum image_kind kind;
	uint32_t index;
	size_t bytes;
	bool random;
	const char *name;
} parts[] = {
	{ IMAGE_METADATA, 0, 100, true, "metadata" },
	{ IMAGE_HOST, 0, 5000, false, "host tensors" },
	{ IMAGE_OUTPUT, 0, 70000, false, "output matrix" },
	{ IMAGE_LAYER, 0, 4096, true, "layer 0" },
	{ IMAGE_LAYER, 1, 4097, false, "layer 1" },
	{ IMAGE_LAYER, 2, 1, true, "layer 2" },
	{ IMAGE_EXPERT, 0, 4100, false, "expert 0" },
	{ IMAGE_EXPERT, 1, 1, true, "expert 1" },
};
#define N ARRAY_LEN(parts)

static uint8_t *part_data(size_t i)
{
	uint8_t *data = malloc(parts[i].bytes);

	assert_non_null(data);
	for (size_t j = 0; j < parts[i].bytes; j++)
		data[j] = parts[i].random
			? (uint8_t)(rng_uniform(7, i, j) * 256)
			: (uint8_t)(j / 50 + i);
	return data;
}

static char dir[4200], path[4300];

static void write_parts(struct image_writer *w, size_t n)
{
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++) {
		uint8_t *data = part_data(i);

		assert_ok(image_write(w, parts[i].kind, parts[i].index, data,
				  parts[i].bytes, &e),
			&e);
		free(data);
	}
}

/* Write an image to `path`, in a new folder `dir`. */
static void write_image(int zstd)
{
	struct image_write_opts o = {
		.n_extents = N, .zstd = zstd, .threads = 2
	};
	struct image_writer *w;
	struct err e = { 0 };

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	snprintf(path, sizeof(path), "%s/m.tdm", dir);
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	write_parts(w, N);
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
}

static int files_in(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* ---- the bytes of the image ---- */

static uint8_t *file;
static size_t size;

static void load(void)
{
	struct err e = { 0 };

	assert_ok(fd_read_file(path, 1 << 24, (char **)&file, &size, &e), &e);
}

static void store(const void *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, n), 0);
	fd_close(&fd);
}

static uint64_t get(size_t at, size_t bytes)
{
	uint64_t v = 0;

	memcpy(&v, file + at, bytes);
	return v;
}

static void put(size_t at, size_t bytes, uint64_t v)
{
	memcpy(file + at, &v, bytes);
}

static size_t entry(size_t i, size_t field)
{
	return TABLE + i * ENTRY + field;
}

/* Write the correct checksums of header and table. */
static void seal(void)
{
	uint64_t n = get(12, 4);

	if (TABLE + n * ENTRY <= size)
		put(24, 8, XXH64(file + TABLE, n * ENTRY, 0));
	put(HEADER_SUM, 8, XXH64(file, HEADER_SUM, 0));
}

/* Write the bytes in `file` to the image file, and check that opening this file
 * is refused with this message. */
static void refused(const char *what, int code, const char *says)
{
	struct image *im = NULL;
	struct err e = { 0 };
	int ret;

	store(file, size);
	ret = image_open(&im, path, &e);
	if (ret != -code || e.code != -code || im)
		fail_msg("%s: returned %d, '%s'", what, ret, e.text);
	if (!strstr(e.text, says) || !strstr(e.text, path))
		fail_msg("%s: the message '%s' does not say '%s'", what, e.text,
			says);
}

/* ---- tests ---- */

static void check_part(const struct image *im, size_t i)
{
	const struct image_extent *x = image_extent_at(im, i);
	uint8_t *want = part_data(i), *got = malloc(parts[i].bytes);
	struct err e = { 0 };
	char name[32];

	assert_int_equal(x->kind, parts[i].kind);
	assert_int_equal(x->index, parts[i].index);
	assert_int_equal(x->bytes, parts[i].bytes);
	assert_ptr_equal(image_find(im, x->kind, x->index), x);
	assert_string_equal(
		image_extent_name(x->kind, x->index, name, sizeof(name)),
		parts[i].name);
	assert_ok(image_read(im, x, got, &e), &e);
	assert_memory_equal(got, want, parts[i].bytes);
	assert_ok(image_check(im, x, &e), &e);
	free(want);
	free(got);
}

static void round_trip(int zstd)
{
	struct image *im;
	struct err e = { 0 };

	write_image(zstd);
	assert_true(image_probe(path));
	assert_ok(image_open(&im, path, &e), &e);
	assert_int_equal(image_n_extents(im), N);
	assert_null(image_extent_at(im, N));
	assert_null(image_find(im, IMAGE_LAYER, 3));
	assert_null(image_find(im, IMAGE_EXPERT, 2));
	assert_null(image_find(im, IMAGE_EXPERT, UINT32_MAX));
	for (size_t i = 0; i < N; i++) {
		check_part(im, i);
		assert_int_equal(image_extent_at(im, i)->codec,
			zstd && !parts[i].random ? IMAGE_ZSTD : IMAGE_RAW);
	}
	image_close(im);
	assert_int_equal(files_in(dir), 1);
}

static void test_round_trip(void **state)
{
	round_trip(0);
	round_trip(1);
	round_trip(19);
}

/* An image of version 1, whose extents have XXH64 checksums. */
static void test_first_version(void **state)
{
	struct image *im;
	struct err e = { 0 };

	write_image(1);
	load();
	put(8, 4, 1);
	seal();
	store(file, size);
	assert_ok(image_open(&im, path, &e), &e);
	assert_int_equal(
		image_check(im, image_extent_at(im, 0), NULL), -EBADMSG);
	image_close(im);
	for (size_t i = 0; i < N; i++)
		put(entry(i, SUM), 8,
			XXH64(file + get(entry(i, OFFSET), 8),
				get(entry(i, STORED), 8), 0));
	seal();
	store(file, size);
	assert_ok(image_open(&im, path, &e), &e);
	assert_int_equal(image_version(im), 1);
	for (size_t i = 0; i < N; i++)
		check_part(im, i);
	image_close(im);
	put(8, 4, 3);
	seal();
	refused("a later version", ENOTSUP, "convert the model again");
	free(file);
}

/* The fields are at the offsets that docs/flash-image.md gives. */
static void test_format(void **state)
{
	uint64_t end = DATA;

	write_image(3);
	load();
	assert_memory_equal(file, "TANDEM1\n", 8);
	assert_int_equal(get(8, 4), 2);
	assert_int_equal(get(12, 4), N);
	assert_int_equal(get(16, 8), size);
	assert_int_equal(size % 4096, 0);
	assert_int_equal(get(24, 8), XXH64(file + TABLE, N * ENTRY, 0));
	assert_int_equal(get(HEADER_SUM, 8), XXH64(file, HEADER_SUM, 0));
	for (size_t i = 0; i < N; i++) {
		uint64_t stored = get(entry(i, STORED), 8);
		uint8_t *want = part_data(i), *got = malloc(parts[i].bytes);

		assert_int_equal(get(entry(i, KIND), 4), parts[i].kind);
		assert_int_equal(get(entry(i, INDEX), 4), parts[i].index);
		assert_int_equal(get(entry(i, OFFSET), 8), end);
		assert_int_equal(get(entry(i, BYTES), 8), parts[i].bytes);
		assert_int_equal(
			get(entry(i, SUM), 8), XXH3_64bits(file + end, stored));
		if (get(entry(i, CODEC), 4))
			assert_int_equal(ZSTD_decompress(got, parts[i].bytes,
						 file + end, stored),
				parts[i].bytes);
		else
			memcpy(got, file + end, stored);
		assert_memory_equal(got, want, parts[i].bytes);
		end += align_up(stored, 4096);
		free(want);
		free(got);
	}
	assert_int_equal(end, size);
	free(file);
}

/* An extent is stored with zstd only if zstd saves at least 3 % of its
 * bytes. */
static void test_zstd_must_save(void **state)
{
	struct image_write_opts o = { .n_extents = 2, .zstd = 1, .threads = 1 };
	const struct image_extent *x;
	struct image_writer *w;
	struct image *im;
	struct err e = { 0 };
	uint8_t data[20000];

	/* one extent ends with 2 % and one with 5 % of zeros, after
	 * incompressible bytes */
	snprintf(path, sizeof(path), "%s/z.tdm", harness_tmp());
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	for (size_t j = 0; j < sizeof(data); j++)
		data[j] = (uint8_t)(rng_uniform(1, 2, j) * 256);
	memset(data + 19600, 0, 400);
	assert_ok(
		image_write(w, IMAGE_METADATA, 0, data, sizeof(data), &e), &e);
	memset(data + 19000, 0, 1000);
	assert_ok(image_write(w, IMAGE_HOST, 0, data, sizeof(data), &e), &e);
	assert_ok(image_writer_commit(w, &e), &e);
	image_writer_close(w);
	assert_ok(image_open(&im, path, &e), &e);
	assert_int_equal(image_extent_at(im, 0)->codec, IMAGE_RAW);
	x = image_extent_at(im, 1);
	assert_int_equal(x->codec, IMAGE_ZSTD);
	assert_true(x->stored > 18900 && x->stored <= 19400);
	image_close(im);
}

static void test_fields(void **state)
{
	static const struct {
		const char *what;
		size_t at, bytes;
		uint64_t value;
		int code;
		const char *says;
	} bad[] = {
		{ "magic", 0, 1, 'G', EINVAL, "magic" },
		{ "magic's end", 7, 1, '\r', EINVAL, "magic" },
		{ "version", 8, 4, 3, ENOTSUP, "version 3" },
		{ "version 0", 8, 4, 0, ENOTSUP, "version 0" },
		{ "no extents", 12, 4, 0, EINVAL, "number of extents is 0" },
		{ "2^32-1 extents", 12, 4, UINT32_MAX, EINVAL,
			"number of extents is 4294967295" },
		{ "file size", 16, 8, 4096, EINVAL, "file size of 4096" },
		{ "file size 2^64-1", 16, 8, UINT64_MAX, EINVAL,
			"is it truncated?" },
		{ "reserved", 32, 1, 1, EINVAL, "header: reserved" },
		{ "reserved's end", 4087, 1, 1, EINVAL, "header: reserved" },
#define EXTENT(i, field) TABLE + i *ENTRY + field
		{ "kind 0", EXTENT(0, KIND), 4, 0, ENOTSUP, "kind 0" },
		{ "kind 6", EXTENT(7, KIND), 4, 6, ENOTSUP, "kind 6" },
		{ "no metadata", EXTENT(0, KIND), 4, 2, EINVAL,
			"must be metadata" },
		{ "kinds descend", EXTENT(4, KIND), 4, 3, EINVAL,
			"kind 3 (output matrix) must not come after kind 4" },
		{ "two of a kind", EXTENT(2, KIND), 4, 2, EINVAL,
			"a second extent of kind 2" },
		{ "index", EXTENT(1, INDEX), 4, 1, EINVAL,
			"index 1, expected 0" },
		{ "layer twice", EXTENT(4, INDEX), 4, 0, EINVAL,
			"extent 4: index 0, expected 1" },
		{ "layer missing", EXTENT(5, INDEX), 4, 3, EINVAL,
			"index 3, expected 2" },
		{ "offset in the table", EXTENT(0, OFFSET), 8, 4096, EINVAL,
			"extent 0 (metadata): offset 4096 overlaps" },
		{ "offset 0", EXTENT(3, OFFSET), 8, 0, EINVAL,
			"extent 3 (layer 0): offset 0 overlaps" },
		{ "overlap", EXTENT(2, OFFSET), 8, DATA + 4096, EINVAL,
			"extent 2 (output matrix): offset 12288 overlaps" },
		{ "offset odd", EXTENT(3, OFFSET), 8, DATA + 512, EINVAL,
			"(layer 0): offset 8704 is not a multiple of 4096" },
		{ "layer after an expert", EXTENT(7, KIND), 4, 4, EINVAL,
			"kind 4 (layer) must not come after kind 5" },
		{ "expert twice", EXTENT(7, INDEX), 4, 0, EINVAL,
			"extent 7: index 0, expected 1" },
		{ "expert missing", EXTENT(6, INDEX), 4, 1, EINVAL,
			"extent 6: index 1, expected 0" },
		{ "layer that is an expert", EXTENT(5, KIND), 4, 5, EINVAL,
			"extent 5: index 2, expected 0" },
		{ "offset beyond", EXTENT(5, OFFSET), 8, 1 << 20, EINVAL,
			"extent 5 (layer 2): 1 stored bytes at offset 1048576" },
		{ "offset 2^64", EXTENT(5, OFFSET), 8, UINT64_MAX - 4095,
			EINVAL, "lie outside the file" },
		{ "bytes 0", EXTENT(5, BYTES), 8, 0, EINVAL,
			"size is 0 bytes" },
		{ "bytes of raw", EXTENT(4, BYTES), 8, 4096, EINVAL,
			"4097 stored bytes, but a size of 4096" },
		{ "stored 0", EXTENT(4, STORED), 8, 0, EINVAL,
			"0 stored bytes" },
		{ "codec", EXTENT(4, CODEC), 4, 2, ENOTSUP, "codec 2" },
		{ "zstd that is longer", EXTENT(4, CODEC), 4, 1, EINVAL,
			"cannot be a zstd frame" },
		{ "reserved", EXTENT(4, RESERVED0), 4, 1, EINVAL,
			"extent 4 (layer 1): reserved" },
		{ "reserved's end", EXTENT(4, RESERVED + 15), 1, 1, EINVAL,
			"extent 4 (layer 1): reserved" },
	};

	write_image(0);
	load();
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t *was = malloc(size);

		memcpy(was, file, size);
		put(bad[i].at, bad[i].bytes, bad[i].value);
		seal();
		refused(bad[i].what, bad[i].code, bad[i].says);
		memcpy(file, was, size);
		free(was);
	}
	free(file);
}

/* Images are refused if sizes of extents are valid alone but not together, or
 * if a size is never valid. */
static void test_sizes(void **state)
{
	write_image(0);
	load();
	/* one byte more than the pages of the extent, which then overlaps the
	 * next extent */
	put(entry(1, STORED), 8, 8193);
	put(entry(1, BYTES), 8, 8193);
	seal();
	refused("longer than its place", EINVAL,
		"extent 2 (output matrix): offset 20480 overlaps");
	put(entry(1, STORED), 8, 5000);
	put(entry(1, BYTES), 8, 5000);
	/* an extent that ends one byte past the end of the file, then an extent
	 * of almost 2^64 bytes */
	put(entry(N - 1, STORED), 8, 4097);
	put(entry(N - 1, BYTES), 8, 4097);
	seal();
	refused("beyond the end", EINVAL, "lie outside the file");
	put(entry(N - 1, STORED), 8, UINT64_MAX - 5);
	put(entry(N - 1, BYTES), 8, UINT64_MAX - 5);
	seal();
	refused("2^64 bytes", EINVAL, "lie outside the file");
	/* a zstd frame of one byte, too small to decompress to 2^40 bytes */
	put(entry(N - 1, STORED), 8, 1);
	put(entry(N - 1, CODEC), 4, 1);
	put(entry(N - 1, BYTES), 8, 1ull << 40);
	seal();
	refused("a bomb", EINVAL, "cannot be a zstd frame");
	free(file);
}

/* The checksums detect every flipped bit of header and table. */
static void test_bits(void **state)
{
	write_image(0);
	load();
	for (size_t i = 0; i < TABLE + N * ENTRY; i++) {
		struct image *im;
		struct err e = { 0 };
		int fd = open(path, O_WRONLY);
		uint8_t byte = file[i] ^ (uint8_t)(1 << i % 8);

		assert_int_equal(pwrite(fd, &byte, 1, (off_t)i), 1);
		if (!image_open(&im, path, &e))
			fail_msg("a bit of byte %zu turned unnoticed", i);
		assert_int_equal(pwrite(fd, file + i, 1, (off_t)i), 1);
		fd_close(&fd);
	}
	free(file);
}

static void test_truncated(void **state)
{
	size_t whole;

	write_image(0);
	load();
	whole = size;
	for (size = 0; size < whole; size += 512)
		refused("truncated", EINVAL,
			size < 4096 ? "truncated" : "is it truncated?");
	size = whole - 1;
	refused("truncated by a byte", EINVAL, "is it truncated?");
	file = realloc(file, whole + 4096);
	size = whole + 4096;
	refused("longer by a page", EINVAL, "the file has");
	free(file);
}

/* The file becomes shorter after it was opened. */
static void test_shortened(void **state)
{
	const struct image_extent *x;
	struct image *im;
	struct err e = { 0 };
	uint8_t *got;

	write_image(0);
	assert_ok(image_open(&im, path, &e), &e);
	x = image_extent_at(im, N - 1);
	got = malloc(x->bytes);
	assert_int_equal(truncate(path, (off_t)(x->offset + x->stored - 1)), 0);
	assert_int_equal(image_read(im, x, got, &e), -ENODATA);
	assert_non_null(strstr(e.text, "has become shorter"));
	e = (struct err){ 0 };
	assert_int_equal(image_check(im, x, &e), -ENODATA);
	assert_non_null(strstr(e.text, "has become shorter"));
	assert_ok(image_check(im, image_extent_at(im, 0), &e), &e);
	free(got);
	image_close(im);
}

/* Damage byte `at` of the file, which is in extent i, and check that reading
 * fails for this extent and for no other. */
static void damage(size_t i, size_t at, int zstd)
{
	struct image *im;
	struct err e = { 0 };
	uint8_t *got = malloc(parts[i].bytes);
	char *name = NULL;

	file[at] ^= 0x10;
	store(file, size);
	assert_ok(image_open(&im, path, &e), &e);
	assert_true(asprintf(&name, ": %s: ", parts[i].name) > 0);
	for (size_t j = 0; j < N; j++) {
		const struct image_extent *x = image_extent_at(im, j);
		int want = i == j ? -EBADMSG : 0;

		free(got);
		got = malloc(x->bytes);
		assert_int_equal(image_check(im, x, &e), want);
		assert_int_equal(image_read(im, x, got, &e), want);
	}
	if (!strstr(e.text, name) || !strstr(e.text, "convert"))
		fail_msg("zstd %d: the message '%s' does not say '%s'", zstd,
			e.text, name);
	file[at] ^= 0x10;
	free(name);
	free(got);
	image_close(im);
}

static void test_damage(void **state)
{
	for (int zstd = 0; zstd < 2; zstd++) {
		write_image(zstd);
		load();
		for (size_t i = 0; i < N; i++) {
			size_t at = get(entry(i, OFFSET), 8);
			size_t n = get(entry(i, STORED), 8);

			damage(i, at, zstd);
			damage(i, at + n / 2, zstd);
			damage(i, at + n - 1, zstd);
		}
		free(file);
	}
}

/* Check that an invalid zstd frame is refused, although its checksum is
 * correct. */
static void bad_frame(const char *what, const char *says)
{
	const size_t i = 4, at = get(entry(i, OFFSET), 8);
	uint8_t *got = malloc(get(entry(i, BYTES), 8));
	struct image *im;
	struct err e = { 0 };

	put(entry(i, SUM), 8, XXH3_64bits(file + at, get(entry(i, STORED), 8)));
	seal();
	store(file, size);
	assert_ok(image_open(&im, path, &e), &e);
	if (image_read(im, image_extent_at(im, i), got, &e) != -EBADMSG ||
		!strstr(e.text, says) || !strstr(e.text, "layer 1"))
		fail_msg("%s: '%s' does not say '%s'", what, e.text, says);
	image_close(im);
	free(got);
}

static void test_frames(void **state)
{
	size_t at, stored;

	write_image(1);
	load();
	at = get(entry(4, OFFSET), 8);
	stored = get(entry(4, STORED), 8);
	put(entry(4, BYTES), 8, 4098);
	bad_frame("of other size", "does not unpack to 4098 bytes");
	put(entry(4, BYTES), 8, 4097);
	put(entry(4, STORED), 8, stored - 1);
	bad_frame("cut short", "damaged");
	put(entry(4, STORED), 8, stored + 1);
	bad_frame("followed by a byte", "damaged");
	put(entry(4, STORED), 8, stored);
	file[at] ^= 1;
	bad_frame("of other magic", "does not unpack");
	free(file);
}

/* Replace a byte of header or table by a random byte, and correct the
 * checksums. Either the image is refused, or extents are read within bounds. */
static void test_random(void **state)
{
	uint64_t seed = harness_seed();
	uint8_t *was;
	int accepted = 0;

	write_image(1);
	load();
	was = malloc(TABLE + N * ENTRY);
	memcpy(was, file, TABLE + N * ENTRY);
	for (uint64_t round = 0; round < 3000; round++) {
		struct image *im;
		uint32_t w[4];
		int fd = open(path, O_WRONLY);

		rng_words(seed, 9, round, w);
		if (w[0] % 8 == 0)
			file[8 + w[1] % 24] = (uint8_t)w[2];
		else
			file[TABLE + w[1] % (N * ENTRY)] = (uint8_t)w[2];
		seal();
		assert_int_equal(pwrite(fd, file, TABLE + N * ENTRY, 0),
			(ssize_t)(TABLE + N * ENTRY));
		fd_close(&fd);
		if (!image_open(&im, path, NULL)) {
			for (size_t i = 0; i < image_n_extents(im); i++) {
				const struct image_extent *x =
					image_extent_at(im, i);
				void *got = malloc(x->bytes);

				if (got && !image_read(im, x, got, NULL))
					accepted++;
				free(got);
			}
			image_close(im);
		}
		memcpy(file, was, TABLE + N * ENTRY);
	}
	assert_true(accepted > 0);
	free(was);
	free(file);
}

static void test_other_files_are_refused(void **state)
{
	struct image *im;
	struct err e = { 0 };

	snprintf(path, sizeof(path), "%s/none", harness_tmp());
	assert_false(image_probe(path));
	assert_int_equal(image_open(&im, path, &e), -ENOENT);
	*strrchr(path, '/') = '\0';
	assert_false(image_probe(path));
	assert_int_equal(image_open(&im, path, &e), -EINVAL);
	assert_false(image_probe("/dev/null"));
	assert_int_equal(image_open(&im, "/dev/null", &e), -EINVAL);
	assert_non_null(strstr(e.text, "not a regular file"));
}

/* ---- writers that do not finish ---- */

static void test_not_committed(void **state)
{
	struct image_write_opts o = { .n_extents = N };
	struct image_writer *w;
	struct err e = { 0 };

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	snprintf(path, sizeof(path), "%s/m.tdm", dir);
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	write_parts(w, 3);
	assert_false(image_probe(path));
	image_writer_close(w);
	assert_int_equal(files_in(dir), 0);

	snprintf(path, sizeof(path), "%s/none/m.tdm", dir);
	assert_int_equal(image_writer_open(&w, path, &o, &e), -ENOENT);
	assert_int_equal(image_writer_open(&w, dir, &o, &e), -EINVAL);
	assert_int_equal(image_writer_open(&w, "/dev/full", &o, &e), -EINVAL);
	assert_int_equal(files_in(dir), 0);
}

static void test_interrupted(void **state)
{
	volatile sig_atomic_t stop = 0;
	struct image_write_opts o = {
		.n_extents = N, .zstd = 1, .cancel = &stop
	};
	struct image_writer *w;
	struct err e = { 0 };

	write_image(0); /* the old file must remain */
	load();
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	write_parts(w, 3);
	stop = 1;
	assert_int_equal(
		image_write(w, IMAGE_LAYER, 0, path, 1000, &e), -ECANCELED);
	image_writer_close(w);
	assert_int_equal(files_in(dir), 1);
	round_trip(0);
	free(file);
}

/* A limit on the file size simulates a full disk: a write fails. */
static void test_no_room(void **state)
{
	struct rlimit was, limit;
	struct image_write_opts o = { .n_extents = 2 };
	struct image_writer *w;
	struct err e = { 0 };
	uint8_t *data = part_data(2);

	snprintf(dir, sizeof(dir), "%s", harness_tmp());
	snprintf(path, sizeof(path), "%s/m.tdm", dir);
	signal(SIGXFSZ, SIG_IGN);
	assert_ok(image_writer_open(&w, path, &o, &e), &e);
	getrlimit(RLIMIT_FSIZE, &was);
	limit = was;
	limit.rlim_cur = 20000;
	setrlimit(RLIMIT_FSIZE, &limit);
	assert_int_equal(
		image_write(w, IMAGE_METADATA, 0, data, 70000, &e), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &was);
	assert_non_null(strstr(e.text, "cannot write"));
	assert_non_null(strstr(e.text, path));
	image_writer_close(w);
	assert_int_equal(files_in(dir), 0);
	free(data);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_round_trip),
	cmocka_unit_test(test_first_version),
	cmocka_unit_test(test_format),
	cmocka_unit_test(test_zstd_must_save),
	cmocka_unit_test(test_fields),
	cmocka_unit_test(test_sizes),
	cmocka_unit_test(test_bits),
	cmocka_unit_test(test_truncated),
	cmocka_unit_test(test_shortened),
	cmocka_unit_test(test_damage),
	cmocka_unit_test(test_frames),
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_other_files_are_refused),
	cmocka_unit_test(test_not_committed),
	cmocka_unit_test(test_interrupted),
	cmocka_unit_test(test_no_room),
};

TEST_FILE(tests)
