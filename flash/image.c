#include "flash/image.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "flash/image_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#ifdef __x86_64__
#include <xxh_x86dispatch.h> /* includes xxhash.h */
#else
#include <xxhash.h>
#endif

/* The highest compression ratio of a zstd frame: one zstd block of up to 128
 * KiB takes at least 4 bytes. */
#define ZSTD_MAX_RATIO 32768
#define CHECK_STEP     ((size_t)1 << 20)

struct image {
	char *path; /* for messages */
	int fd;
	uint64_t size;
	uint32_t version;
	size_t n;
	struct image_extent *extent;
	/* [kind] index of the first extent of the kind; number of extents of
	 * the kind */
	size_t first[IMAGE_EXPERT + 1], count[IMAGE_EXPERT + 1];
};

/* The image that is being opened. `where` names the part that is being checked,
 * for messages: "header", "extent 3 (layer 1)". */
struct image_in {
	struct image *image;
	char where[64];
	struct err *e;
};

static int bad(struct image_in *in, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int bad(struct image_in *in, int code, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(
		in->e, code, "'%s': %s: %s", in->image->path, in->where, text);
}

/* ---- names ---- */

static const char *const kind_names[] = {
	[IMAGE_METADATA] = "metadata",
	[IMAGE_HOST] = "host tensors",
	[IMAGE_OUTPUT] = "output matrix",
	[IMAGE_LAYER] = "layer",
	[IMAGE_EXPERT] = "expert",
};

const char *image_extent_name(
	enum image_kind kind, uint32_t index, char *buf, size_t size)
{
	if (kind >= IMAGE_LAYER)
		snprintf(buf, size, "%s %u", kind_names[kind], index);
	else
		snprintf(buf, size, "%s", kind_names[kind]);
	return buf;
}

const char *image_codec_name(enum image_codec codec)
{
	return codec == IMAGE_ZSTD ? "zstd" : "raw";
}

/* ---- checksums ---- */

struct image_sum {
	enum image_sum_kind kind;
	XXH64_state_t *xxh64;
	XXH3_state_t *xxh3;
};

struct image_sum *image_sum_open(void)
{
	struct image_sum *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->xxh64 = XXH64_createState();
	s->xxh3 = XXH3_createState();
	if (s->xxh64 && s->xxh3)
		return s;
	image_sum_close(s);
	return NULL;
}

void image_sum_close(struct image_sum *s)
{
	if (!s)
		return;
	XXH64_freeState(s->xxh64);
	XXH3_freeState(s->xxh3);
	free(s);
}

void image_sum_begin(struct image_sum *s, enum image_sum_kind kind)
{
	s->kind = kind;
	if (kind == IMAGE_XXH3)
		XXH3_64bits_reset(s->xxh3);
	else
		XXH64_reset(s->xxh64, 0);
}

void image_sum_add(struct image_sum *s, const void *data, size_t n)
{
	if (s->kind == IMAGE_XXH3)
		XXH3_64bits_update(s->xxh3, data, n);
	else
		XXH64_update(s->xxh64, data, n);
}

uint64_t image_sum_so_far(const struct image_sum *s)
{
	return s->kind == IMAGE_XXH3 ? XXH3_64bits_digest(s->xxh3)
				     : XXH64_digest(s->xxh64);
}

uint64_t image_sum_of(enum image_sum_kind kind, const void *data, size_t n)
{
	return kind == IMAGE_XXH3 ? XXH3_64bits(data, n) : XXH64(data, n, 0);
}

/* ---- opening, and checks of the header and table ---- */

bool image_probe(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char magic[8];
	bool is = fd >= 0 && !fd_read_exact(fd, magic, sizeof(magic), -1) &&
		!memcmp(magic, FORMAT_MAGIC, sizeof(magic));

	fd_close(&fd);
	return is;
}

static bool all_zero(const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		if (p[i])
			return false;
	return true;
}

/* Check that extent x may follow the extent `before`, which is NULL if x is the
 * first extent: kinds ascend, the indices of each kind count from 0, and only
 * layers and experts have several extents. */
static int check_order(struct image_in *in, const struct format_extent *x,
	const struct image_extent *before)
{
	uint32_t due = 0;

	if (x->kind < IMAGE_METADATA || x->kind > IMAGE_EXPERT)
		return bad(in, ENOTSUP, "kind %u is unknown", x->kind);
	if (before && x->kind < before->kind)
		return bad(in, EINVAL,
			"kind %u (%s) must not come after kind "
			"%u (%s)",
			x->kind, kind_names[x->kind], before->kind,
			kind_names[before->kind]);
	if (!before && x->kind != IMAGE_METADATA)
		return bad(in, EINVAL,
			"the first extent has kind %u (%s), "
			"must be metadata",
			x->kind, kind_names[x->kind]);
	if (before && x->kind == before->kind && x->kind < IMAGE_LAYER)
		return bad(in, EINVAL,
			"a second extent of kind %u (%s); one "
			"is allowed",
			x->kind, kind_names[x->kind]);
	if (before && x->kind == before->kind)
		due = before->index + 1;
	if (x->index != due)
		return bad(in, EINVAL, "index %u, expected %u", x->index, due);
	return 0;
}

/* Check an extent. *end is the end of the preceding extents, rounded up to
 * pages; the function advances it to the end of this extent. */
static int check_extent(struct image_in *in, const struct format_extent *x,
	size_t i, uint64_t *end)
{
	struct image *im = in->image;
	char name[32];
	int ret;

	snprintf(in->where, sizeof(in->where), "extent %zu", i);
	ret = check_order(in, x, i ? &im->extent[i - 1] : NULL);
	if (ret)
		return ret;
	snprintf(in->where, sizeof(in->where), "extent %zu (%s)", i,
		image_extent_name((enum image_kind)x->kind, x->index, name,
			sizeof(name)));
	if (x->reserved0 || !all_zero(x->reserved, sizeof(x->reserved)))
		return bad(in, EINVAL, "reserved bytes are not 0");

	if (!x->bytes || x->bytes > SIZE_MAX)
		return bad(in, EINVAL, "size is %llu bytes",
			(unsigned long long)x->bytes);
	if (x->codec != IMAGE_RAW && x->codec != IMAGE_ZSTD)
		return bad(in, ENOTSUP, "codec %u is unknown", x->codec);
	if (x->codec == IMAGE_RAW && x->stored != x->bytes)
		return bad(in, EINVAL,
			"the raw extent has %llu stored bytes, but a size of "
			"%llu bytes",
			(unsigned long long)x->stored,
			(unsigned long long)x->bytes);
	if (x->codec == IMAGE_ZSTD &&
		(x->stored >= x->bytes ||
			x->bytes / ZSTD_MAX_RATIO > x->stored))
		return bad(in, EINVAL,
			"%llu stored bytes cannot be a zstd frame of %llu "
			"bytes",
			(unsigned long long)x->stored,
			(unsigned long long)x->bytes);

	if (x->offset % IMAGE_PAGE)
		return bad(in, EINVAL, "offset %llu is not a multiple of %d",
			(unsigned long long)x->offset, IMAGE_PAGE);
	if (x->offset < *end)
		return bad(in, EINVAL,
			"offset %llu overlaps the preceding extents, which end "
			"at %llu",
			(unsigned long long)x->offset,
			(unsigned long long)*end);
	if (!range_within(x->offset, x->stored, im->size) ||
		!range_within(
			x->offset, align_up(x->stored, IMAGE_PAGE), im->size))
		return bad(in, EINVAL,
			"%llu stored bytes at offset %llu, in whole pages, "
			"lie outside the file of %llu bytes",
			(unsigned long long)x->stored,
			(unsigned long long)x->offset,
			(unsigned long long)im->size);
	*end = x->offset + align_up(x->stored, IMAGE_PAGE);
	im->extent[i] = (struct image_extent){ (enum image_kind)x->kind,
		x->index, x->offset, x->stored, x->bytes,
		(enum image_codec)x->codec, x->checksum,
		FORMAT_SUM(im->version) };
	if (!im->count[x->kind]++)
		im->first[x->kind] = i;
	return 0;
}

static int read_image(struct image *im, struct err *e)
{
	struct image_in in = { .image = im, .where = "header", .e = e };
	struct format_extent *table;
	struct format_header h;
	uint64_t most, end;
	size_t bytes;
	int ret;

	if (im->size < sizeof(h))
		return bad(&in, EINVAL,
			"truncated: the header takes %zu bytes, but the file "
			"has only %llu",
			sizeof(h), (unsigned long long)im->size);
	ret = fd_read_exact(im->fd, &h, sizeof(h), 0);
	if (ret)
		return bad(&in, -ret, "%s", strerror(-ret));
	if (memcmp(h.magic, FORMAT_MAGIC, sizeof(h.magic)))
		return bad(&in, EINVAL, "bad magic: not a flash image");
	if (h.version < FORMAT_OLDEST || h.version > FORMAT_VERSION)
		return bad(&in, ENOTSUP,
			"version %u is not supported (%d to %d are); convert "
			"the model again with this 'tandem convert'",
			h.version, FORMAT_OLDEST, FORMAT_VERSION);
	if (XXH64(&h, offsetof(struct format_header, checksum), 0) !=
		h.checksum)
		return bad(&in, EBADMSG,
			"checksum is not %016llx: the file is damaged; "
			"convert the model again",
			(unsigned long long)h.checksum);
	if (!all_zero(h.reserved, sizeof(h.reserved)))
		return bad(&in, EINVAL, "reserved bytes are not 0");
	if (h.file_bytes != im->size)
		return bad(&in, EINVAL,
			"the header gives a file size of %llu bytes, but the "
			"file has %llu%s",
			(unsigned long long)h.file_bytes,
			(unsigned long long)im->size,
			h.file_bytes > im->size ? ": is it truncated?" : "");
	most = (im->size - sizeof(h)) / sizeof(struct format_extent);
	if (!h.n_extents || h.n_extents > most)
		return bad(&in, EINVAL,
			"number of extents is %u; a file of %llu bytes has "
			"room for 1 to %llu",
			h.n_extents, (unsigned long long)im->size,
			(unsigned long long)most);
	im->version = h.version;
	im->n = h.n_extents;

	snprintf(in.where, sizeof(in.where), "table of extents");
	bytes = h.n_extents * sizeof(*table);
	end = align_up(IMAGE_PAGE + bytes, IMAGE_PAGE);
	table = malloc(bytes);
	im->extent = calloc(h.n_extents, sizeof(*im->extent));
	if (!table || !im->extent)
		ret = bad(&in, ENOMEM, "no memory for %u extents", h.n_extents);
	else if ((ret = fd_read_exact(im->fd, table, bytes, IMAGE_PAGE)))
		bad(&in, -ret, "%s", strerror(-ret));
	else if (XXH64(table, bytes, 0) != h.table_checksum)
		ret = bad(&in, EBADMSG,
			"checksum is not %016llx: the file is damaged; "
			"convert the model again",
			(unsigned long long)h.table_checksum);
	for (size_t i = 0; !ret && i < h.n_extents; i++)
		ret = check_extent(&in, &table[i], i, &end);
	free(table);
	return ret;
}

int image_open(struct image **out, const char *path, struct err *e)
{
	struct image *im = calloc(1, sizeof(*im));
	struct stat st;
	int ret;

	if (!im)
		return err_sys(e, ENOMEM, "cannot open '%s'", path);
	im->path = strdup(path);
	im->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (im->fd < 0) {
		ret = err_sys(e, errno, "cannot open '%s'", path);
	} else if (!im->path) {
		ret = err_sys(e, ENOMEM, "cannot open '%s'", path);
	} else if (fstat(im->fd, &st)) {
		ret = err_sys(e, errno, "cannot stat '%s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		ret = err_set(e, EINVAL, "'%s' is not a regular file", path);
	} else {
		im->size = (uint64_t)st.st_size;
		ret = read_image(im, e);
	}
	if (ret)
		image_close(im);
	else
		*out = im;
	return ret;
}

void image_close(struct image *im)
{
	if (!im)
		return;
	fd_close(&im->fd);
	free(im->extent);
	free(im->path);
	free(im);
}

/* ---- reading of extents ---- */

static int extent_bad(const struct image *im, const struct image_extent *x,
	int code, const char *what, struct err *e)
{
	char name[32];

	return err_set(e, code, "'%s': %s: %s", im->path,
		image_extent_name(x->kind, x->index, name, sizeof(name)), what);
}

static int check_sum(const struct image *im, const struct image_extent *x,
	uint64_t sum, struct err *e)
{
	char text[128];

	if (sum == x->checksum)
		return 0;
	snprintf(text, sizeof(text),
		"checksum %016llx, expected %016llx: the file is damaged; "
		"convert the model again",
		(unsigned long long)sum, (unsigned long long)x->checksum);
	return extent_bad(im, x, EBADMSG, text, e);
}

/* Read n bytes of an extent, from byte `at` of the extent. */
static int read_bytes(const struct image *im, const struct image_extent *x,
	void *dst, size_t n, uint64_t at, struct err *e)
{
	int ret = fd_read_exact(im->fd, dst, n, x->offset + at);

	if (!ret)
		return 0;
	return extent_bad(im, x, -ret,
		ret == -ENODATA
			? "the file has become shorter since it was opened"
			: strerror(-ret),
		e);
}

static int read_stored(const struct image *im, const struct image_extent *x,
	void *dst, struct err *e)
{
	int ret = read_bytes(im, x, dst, x->stored, 0, e);

	if (ret)
		return ret;
	return check_sum(im, x, image_sum_of(x->sum, dst, x->stored), e);
}

static int unpack(const struct image *im, const struct image_extent *x,
	void *dst, const void *frame, struct err *e)
{
	unsigned long long says = ZSTD_getFrameContentSize(frame, x->stored);
	char text[128];
	size_t n;

	if (says != x->bytes) {
		snprintf(text, sizeof(text),
			"the zstd frame does not unpack to %llu bytes",
			(unsigned long long)x->bytes);
		return extent_bad(im, x, EBADMSG, text, e);
	}
	n = ZSTD_decompress(dst, x->bytes, frame, x->stored);
	if (!ZSTD_isError(n) && n == x->bytes)
		return 0;
	snprintf(text, sizeof(text), "the zstd frame is damaged: %s",
		ZSTD_isError(n) ? ZSTD_getErrorName(n) : "it ends early");
	return extent_bad(im, x, EBADMSG, text, e);
}

int image_read(const struct image *im, const struct image_extent *x, void *dst,
	struct err *e)
{
	void *frame;
	int ret;

	if (x->codec == IMAGE_RAW)
		return read_stored(im, x, dst, e);
	frame = malloc(x->stored);
	if (!frame)
		return extent_bad(im, x, ENOMEM, "no memory to unpack", e);
	ret = read_stored(im, x, frame, e);
	if (!ret)
		ret = unpack(im, x, dst, frame, e);
	free(frame);
	return ret;
}

int image_check(
	const struct image *im, const struct image_extent *x, struct err *e)
{
	struct image_sum *sum = image_sum_open();
	size_t step =
		x->stored && x->stored < CHECK_STEP ? x->stored : CHECK_STEP;
	void *buf = malloc(step);
	int ret = 0;

	if (!sum || !buf) {
		ret = extent_bad(im, x, ENOMEM, "no memory to check", e);
		goto out;
	}
	image_sum_begin(sum, x->sum);
	for (uint64_t at = 0; at < x->stored; at += step) {
		size_t n = x->stored - at < step ? x->stored - at : step;

		ret = read_bytes(im, x, buf, n, at, e);
		if (ret)
			goto out;
		image_sum_add(sum, buf, n);
	}
	ret = check_sum(im, x, image_sum_so_far(sum), e);
out:
	image_sum_close(sum);
	free(buf);
	return ret;
}

const char *image_path(const struct image *im)
{
	return im->path;
}

int image_fd(const struct image *im)
{
	return im->fd;
}

uint64_t image_file_bytes(const struct image *im)
{
	return im->size;
}

uint32_t image_version(const struct image *im)
{
	return im->version;
}

size_t image_n_extents(const struct image *im)
{
	return im->n;
}

const struct image_extent *image_extent_at(const struct image *im, size_t i)
{
	return i < im->n ? &im->extent[i] : NULL;
}

const struct image_extent *image_find(
	const struct image *im, enum image_kind kind, uint32_t index)
{
	return index < im->count[kind] ? &im->extent[im->first[kind] + index]
				       : NULL;
}
