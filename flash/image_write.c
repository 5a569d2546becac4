#include "flash/image_write.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/newfile.h"
#include "flash/image_format.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#define STEP ((size_t)4 << 20) /* bytes between two checks of `cancel` */

struct image_writer {
	struct newfile file;
	struct image_write_opts opts;
	struct format_extent *table;
	uint32_t n;
	uint64_t end; /* end of the written extents, rounded up to pages */
	ZSTD_CCtx *zstd;
};

static int canceled(const struct image_writer *w, struct err *e)
{
	if (!w->opts.cancel || !*w->opts.cancel)
		return 0;
	return err_set(e, ECANCELED, "interrupted; '%s' was not written",
		w->file.path);
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
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT))
			return err_sys(e, errno,
				"cannot write '%s': the disk was full after "
				"%llu MiB; free some space or name a file on "
				"another disk",
				w->file.path,
				(unsigned long long)(offset >> 20));
		if (n < 0)
			return err_sys(
				e, errno, "cannot write '%s'", w->file.path);
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/*
 * Compress `data` to a zstd frame at dst. *stored is the size of the frame, or
 * 0 if the frame would have more than `limit` bytes. The data is compressed in
 * steps, with a check of `cancel` after each step, because a large extent at a
 * high compression level takes minutes.
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

/* ---- extents ---- */

int image_write(struct image_writer *w, enum image_kind kind, uint32_t index,
	const void *data, size_t bytes, struct err *e)
{
	static const char zeros[IMAGE_PAGE];
	/* Use zstd only if it saves at least 3 % of the bytes. */
	size_t limit = bytes - bytes / 100 * 3 - (bytes % 100 * 3 + 99) / 100;
	struct format_extent x = { .kind = kind,
		.index = index,
		.offset = w->end,
		.codec = IMAGE_RAW,
		.stored = bytes,
		.bytes = bytes };
	const void *out = data;
	void *frame = NULL;
	uint64_t end;
	size_t stored;
	int ret;

	assert(bytes && w->n < w->opts.n_extents);
	if (w->zstd && limit) {
		frame = malloc(limit);
		if (!frame)
			return err_set(e, ENOMEM,
				"no memory to compress %zu MiB", bytes >> 20);
		ret = compress(w, frame, limit, data, bytes, &stored, e);
		if (ret)
			goto out;
		if (stored) {
			out = frame;
			x.codec = IMAGE_ZSTD;
			x.stored = stored;
		}
	}
	end = w->end + x.stored;
	if ((ret = write_at(w, out, x.stored, w->end, e)) ||
		(ret = write_at(
			 w, zeros, align_up(end, IMAGE_PAGE) - end, end, e)))
		goto out;
	x.checksum = image_sum_of(FORMAT_SUM(FORMAT_VERSION), out, x.stored);
	w->table[w->n++] = x;
	w->end = align_up(end, IMAGE_PAGE);
out:
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
	w->zstd = o->zstd ? ZSTD_createCCtx() : NULL;
	if (!w->table)
		ret = err_sys(e, ENOMEM, "cannot write '%s'", path);
	else if (o->zstd && !w->zstd)
		ret = err_set(e, ENOMEM, "no memory to compress");
	else
		ret = newfile_open(&w->file, path, NEWFILE_PUBLIC, e);
	if (ret) {
		image_writer_close(w);
		return ret;
	}
	if (w->zstd) {
		ZSTD_CCtx_setParameter(
			w->zstd, ZSTD_c_compressionLevel, o->zstd);
		/* If the zstd library was built without threads, it refuses
		 * this parameter and compresses on the calling thread. */
		ZSTD_CCtx_setParameter(
			w->zstd, ZSTD_c_nbWorkers, (int)o->threads);
	}
	*out = w;
	return 0;
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
