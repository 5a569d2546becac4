#include "flash/image_write.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/newfile.h"
#include "flash/image_format.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define STEP ((size_t)4 << 20) /* between two looks at `cancel` */

struct image_writer {
	struct newfile file;
	struct image_write_opts opts;
	struct format_extent *table;
	uint32_t n;
	uint64_t end; /* of what is written, in whole pages */
	ZSTD_CCtx *zstd;
};

static int canceled(const struct image_writer *w, struct err *e)
{
	if (!w->opts.cancel || !*w->opts.cancel)
		return 0;
	return err_set(e, ECANCELED, "interrupted; '%s' was not written",
		w->file.path);
}

static int cannot_write(
	const struct image_writer *w, int code, uint64_t at, struct err *e)
{
	if (code != ENOSPC && code != EDQUOT)
		return err_sys(e, code, "cannot write '%s'", w->file.path);
	return err_sys(e, code,
		"cannot write '%s': the disk was full after %llu MiB; free "
		"some space or name a file on another disk",
		w->file.path, (unsigned long long)(at >> 20));
}

static int write_at(struct image_writer *w, const void *data, size_t len,
	uint64_t offset, struct err *e)
{
	const char *p = data;

	while (len) {
		size_t some = len < STEP ? len : STEP;
		ssize_t n = pwrite(w->file.fd, p, some, (off_t)offset);
		int ret = canceled(w, e);

		if (ret)
			return ret;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cannot_write(w, errno, offset, e);
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* ---- zstd ---- */

static int open_zstd(struct image_writer *w, struct err *e)
{
	if (!w->opts.zstd)
		return 0;
	w->zstd = ZSTD_createCCtx();
	if (!w->zstd)
		return err_set(e, ENOMEM, "no memory to compress");
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->opts.zstd);
	/* A library without threads refuses, and compresses on ours. */
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_nbWorkers, (int)w->opts.threads);
	return 0;
}

/*
 * A frame of at most `limit` bytes at dst: *stored, or 0 where that is not
 * enough. In steps, because a large extent at a high level takes minutes.
 */
static int compress(struct image_writer *w, void *dst, size_t limit,
	const void *data, size_t bytes, size_t *stored, struct err *e)
{
	ZSTD_outBuffer out = { dst, limit, 0 };
	ZSTD_inBuffer in = { data, 0, 0 };
	size_t left = 1;
	int ret;

	*stored = 0;
	ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
	ZSTD_CCtx_setPledgedSrcSize(w->zstd, bytes);
	while (left && out.pos < limit) {
		in.size = bytes - in.pos < STEP ? bytes : in.pos + STEP;
		ret = canceled(w, e);
		if (ret)
			return ret;
		left = ZSTD_compressStream2(w->zstd, &out, &in,
			in.size == bytes ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(e, ENOMEM, "cannot compress: %s",
				ZSTD_getErrorName(left));
		left = left || in.size < bytes;
	}
	*stored = left ? 0 : out.pos;
	return 0;
}

/* *frame: from malloc, or NULL where the extent had better stay raw. */
static int try_zstd(struct image_writer *w, const void *data, size_t bytes,
	void **frame, size_t *stored, struct err *e)
{
	size_t limit = bytes - bytes / 100 * 3 - (bytes % 100 * 3 + 99) / 100;
	int ret;

	*frame = NULL;
	if (!w->zstd || !limit)
		return 0;
	*frame = malloc(limit);
	if (!*frame)
		return err_set(e, ENOMEM, "no memory to compress %zu MiB",
			bytes >> 20);
	ret = compress(w, *frame, limit, data, bytes, stored, e);
	if (!ret && *stored)
		return 0;
	free(*frame);
	*frame = NULL;
	return ret;
}

/* ---- extents ---- */

static int append(struct image_writer *w, struct format_extent x,
	const void *stored, struct err *e)
{
	static const char zeros[IMAGE_PAGE];
	uint64_t end = w->end + x.stored;
	int ret = write_at(w, stored, x.stored, w->end, e);

	if (!ret)
		ret = write_at(
			w, zeros, align_up(end, IMAGE_PAGE) - end, end, e);
	if (ret)
		return ret;
	x.offset = w->end;
	x.checksum = image_sum_of(FORMAT_SUM(FORMAT_VERSION), stored, x.stored);
	w->table[w->n++] = x;
	w->end = align_up(end, IMAGE_PAGE);
	return 0;
}

int image_write(struct image_writer *w, enum image_kind kind, uint32_t index,
	const void *data, size_t bytes, struct err *e)
{
	struct format_extent x = { .kind = kind,
		.index = index,
		.codec = IMAGE_RAW,
		.stored = bytes,
		.bytes = bytes };
	size_t stored;
	void *frame;
	int ret;

	assert(bytes && w->n < w->opts.n_extents);
	ret = try_zstd(w, data, bytes, &frame, &stored, e);
	if (ret)
		return ret;
	if (frame) {
		x.codec = IMAGE_ZSTD;
		x.stored = stored;
	}
	ret = append(w, x, frame ? frame : data, e);
	free(frame);
	return ret;
}

/* ---- the file ---- */

int image_writer_open(struct image_writer **out, const char *path,
	const struct image_write_opts *o, struct err *e)
{
	struct image_writer *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return err_sys(e, ENOMEM, "cannot write '%s'", path);
	w->opts = *o;
	w->file.fd = -1;
	w->table = calloc(o->n_extents, sizeof(*w->table));
	w->end = align_up(
		IMAGE_PAGE + o->n_extents * sizeof(*w->table), IMAGE_PAGE);
	if (!w->table)
		ret = err_sys(e, ENOMEM, "cannot write '%s'", path);
	else if (!(ret = open_zstd(w, e)))
		ret = newfile_open(&w->file, path, e);
	if (ret)
		image_writer_close(w);
	else
		*out = w;
	return ret;
}

void image_writer_close(struct image_writer *w)
{
	if (!w)
		return;
	newfile_close(&w->file);
	ZSTD_freeCCtx(w->zstd);
	free(w->table);
	free(w);
}

int image_writer_commit(struct image_writer *w, struct err *e)
{
	size_t table = w->n * sizeof(*w->table);
	struct format_header h = {
		.magic = FORMAT_MAGIC,
		.version = FORMAT_VERSION,
		.n_extents = w->n,
		.file_bytes = w->end,
		.table_checksum = XXH64(w->table, table, 0),
	};
	int ret;

	assert(w->n == w->opts.n_extents);
	h.checksum = XXH64(&h, offsetof(struct format_header, checksum), 0);
	if ((ret = write_at(w, w->table, table, IMAGE_PAGE, e)) ||
		(ret = write_at(w, &h, sizeof(h), 0, e)))
		return ret;
	return newfile_commit(&w->file, e);
}
