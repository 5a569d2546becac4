/*
 * Opens flash images with arbitrary numbers in header and table, and with
 * correct checksums. An image that is accepted must have the guaranteed
 * properties: every extent lies within the file, in whole pages, and no extent
 * overlaps the extent before it. All extents are read.
 *
 * An input is a file without its padding: one byte, the number of table entries
 * in the input; 4 bytes, the number of entries that the header states; one
 * byte, a signed number that is added to the file size in the header; the
 * entries; and the bytes from the third page on.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "flash/image.h"
#include "flash/image_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define HEAD     6
#define ENTRIES  16 /* largest number of entries */
#define DATA     ((size_t)2 * IMAGE_PAGE)
#define READ_MAX ((size_t)1 << 20)

static void seal(uint8_t *file, size_t size, size_t entries)
{
	struct format_header *h = (void *)file;
	struct format_extent *x = (void *)(file + IMAGE_PAGE);

	for (size_t i = 0; i < entries; i++)
		if (range_within(x[i].offset, x[i].stored, size) &&
			x[i].offset >= DATA)
			x[i].checksum =
				XXH3_64bits(file + x[i].offset, x[i].stored);
	if (h->n_extents <= (size - IMAGE_PAGE) / sizeof(*x))
		h->table_checksum = XXH64(x, h->n_extents * sizeof(*x), 0);
	h->checksum = XXH64(h, offsetof(struct format_header, checksum), 0);
}

static void read_all(const struct image *im, size_t size)
{
	uint64_t end = 0;

	for (size_t i = 0; i < image_n_extents(im); i++) {
		const struct image_extent *x = image_extent_at(im, i);
		void *got;

		if (x->offset % IMAGE_PAGE || x->offset < end ||
			!range_within(x->offset,
				align_up(x->stored, IMAGE_PAGE), size) ||
			image_find(im, x->kind, x->index) != x)
			abort();
		end = x->offset + x->stored;
		if (image_check(im, x, NULL) && x->offset >= DATA)
			/* the fuzz target has corrected the checksum of this
			 * extent, so image_check must not fail */
			abort();
		got = x->bytes <= READ_MAX ? malloc(x->bytes) : NULL;
		if (got)
			image_read(im, x, got, NULL);
		free(got);
	}
}

/* Use one file for all inputs, because creating a file takes longer than
 * reading it. */
static void open_bytes(const uint8_t *file, size_t size)
{
	static int fd = -1;
	static size_t had;
	struct image *im;
	char path[32];

	if (fd < 0)
		fd = memfd_create("image", MFD_CLOEXEC);
	if (size != had && ftruncate(fd, (off_t)size))
		abort();
	had = size;
	if (pwrite(fd, file, size, 0) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!image_open(&im, path, NULL)) {
		fuzz_got_past();
		read_all(im, size);
		image_close(im);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t entries, bytes;
	struct format_header h = { .magic = FORMAT_MAGIC,
		.version = FORMAT_VERSION };
	uint8_t *file;

	if (size < HEAD)
		return 0;
	entries = data[0] % (ENTRIES + 1);
	if (entries > (size - HEAD) / sizeof(struct format_extent))
		return 0;
	bytes = size - HEAD - entries * sizeof(struct format_extent);
	size = DATA + align_up(bytes, IMAGE_PAGE);
	file = aligned_alloc(IMAGE_PAGE, size);
	if (!file)
		return 0;
	memset(file, 0, size);
	memcpy(&h.n_extents, data + 1, sizeof(h.n_extents));
	h.file_bytes = size + (uint64_t)(int8_t)data[5];
	memcpy(file, &h, sizeof(h));
	memcpy(file + IMAGE_PAGE, data + HEAD,
		entries * sizeof(struct format_extent));
	memcpy(file + DATA,
		data + HEAD + entries * sizeof(struct format_extent), bytes);
	seal(file, size, entries);
	open_bytes(file, size);
	free(file);
	return 0;
}

/* ---- changes that keep the form ---- */

static uint32_t below(const struct fuzz_draw *d, size_t n)
{
	return n ? d->below(d->arg, (uint32_t)n) : 0;
}

/* Change a field of an entry: add a small number or a few pages, or set any
 * number. */
static void change_entry(struct format_extent *x, const struct fuzz_draw *d)
{
	uint64_t *wide[] = { &x->offset, &x->stored, &x->bytes };
	uint32_t *narrow[] = { &x->kind, &x->index, &x->codec };
	uint64_t *at = wide[below(d, 3)];

	switch (below(d, 5)) {
	case 0:
		*at += below(d, 5) - (uint64_t)2;
		break;
	case 1:
		*at += IMAGE_PAGE * (below(d, 5) - (uint64_t)2);
		break;
	case 2:
		*at = fuzz_interesting(d);
		break;
	case 3: /* a raw extent of another size */
		x->stored = x->bytes = below(d, 3 * IMAGE_PAGE);
		break;
	default:
		*narrow[below(d, 3)] += below(d, 5) - 2;
	}
}

/* Add or remove an entry at the end of the table, and adjust the header's
 * count. */
static size_t change_count(uint8_t *buf, size_t len, size_t cap, size_t n,
	const struct fuzz_draw *d)
{
	const size_t one = sizeof(struct format_extent);
	uint8_t *end = buf + HEAD + n * one;
	size_t behind = len - HEAD - n * one;
	uint32_t says;

	if (below(d, 2) && n > 1) {
		memmove(end - one, end, behind);
		n--;
		len -= one;
	} else if (n && n < ENTRIES && len + one <= cap) {
		struct format_extent x;

		memmove(end + one, end, behind);
		memcpy(&x, end - one, one);
		x.index++;
		x.offset += align_up(x.stored % (1 << 20), IMAGE_PAGE);
		memcpy(end, &x, one);
		n++;
		len += one;
	}
	buf[0] = (uint8_t)n;
	says = (uint32_t)n;
	memcpy(buf + 1, &says, sizeof(says));
	return len;
}

size_t fuzz_mutate(
	uint8_t *buf, size_t len, size_t cap, const struct fuzz_draw *d)
{
	const size_t one = sizeof(struct format_extent);
	struct format_extent x;
	size_t n, at, data;

	n = len < HEAD ? 0 : buf[0] % (ENTRIES + 1);
	if (!n || n > (len - HEAD) / one)
		return len;
	data = HEAD + n * one;
	switch (below(d, 8)) {
	case 0:
		return change_count(buf, len, cap, n, d);
	case 1:
	case 2:
	case 3:
	case 4: /* the bytes of the extents, which are mostly zstd frames */
		if (len > data)
			buf[data + below(d, len - data)] ^=
				(uint8_t)(1u << below(d, 8));
		return len;
	default:
		at = HEAD + below(d, n) * one;
		memcpy(&x, buf + at, one);
		change_entry(&x, d);
		memcpy(buf + at, &x, one);
		return len;
	}
}

/* ---- seeds: raw, zstd, many layers, and experts ---- */

static void put_entry(uint8_t *buf, size_t i, enum image_kind kind,
	uint32_t index, size_t stored, size_t bytes, uint64_t *at)
{
	struct format_extent x = { .kind = kind,
		.index = index,
		.offset = DATA + *at,
		.stored = stored,
		.bytes = bytes,
		.codec = stored < bytes };

	memcpy(buf + HEAD + i * sizeof(x), &x, sizeof(x));
	*at = align_up(*at + stored, IMAGE_PAGE);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const size_t n_of[] = { 1, 3, 12, 11 };
	/* number of extents before the first expert */
	static const size_t others[] = { 1, 3, 12, 5 };
	uint8_t text[2000], frame[600];
	size_t n, stored, len = 0;
	uint64_t at = 0;
	uint32_t says;

	if (i >= ARRAY_LEN(n_of))
		return 0;
	n = n_of[i];
	len = HEAD + n * sizeof(struct format_extent) + n * IMAGE_PAGE;
	if (len > cap)
		return 0;
	for (size_t j = 0; j < sizeof(text); j++)
		text[j] = (uint8_t)(j / 60 * 7);
	stored = ZSTD_compress(frame, sizeof(frame), text, sizeof(text), 1);
	memset(buf, 0, len);
	says = (uint32_t)n;
	buf[0] = (uint8_t)n;
	memcpy(buf + 1, &says, sizeof(says));
	for (size_t j = 0; j < n; j++) {
		uint8_t *payload =
			buf + HEAD + n * sizeof(struct format_extent) + at;

		memcpy(payload, j % 2 ? frame : text,
			j % 2 ? stored : sizeof(text));
		put_entry(buf, j,
			j >= others[i]  ? IMAGE_EXPERT
				: j < 2 ? (enum image_kind)(j + 1)
					: IMAGE_LAYER,
			(uint32_t)(j >= others[i] ? j - others[i]
					: j < 2   ? 0
						  : j - 2),
			j % 2 ? stored : sizeof(text), sizeof(text), &at);
	}
	return len;
}
