#include "tests/stress/flash_files.h"

#include "base/err.h"
#include "base/fd.h"
#include "flash/image_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE ((size_t)IMAGE_PAGE)

/* Sizes of the extents: metadata, host tensors, output matrix, and layers. */
static const size_t sizes[FLASH_EXTENTS] = { 1, PAGE, PAGE + 1, 20 * PAGE + 1,
	PAGE - 1, 8 * PAGE, 8 * PAGE - 1, 9 * PAGE + 7, 777, 16 * PAGE,
	3 * PAGE, 23 * PAGE };

size_t flash_extent_bytes(unsigned extent)
{
	return sizes[extent];
}

/* Byte i of an extent. Extents with odd numbers cannot be compressed; extents
 * with even numbers can. */
uint8_t flash_byte(unsigned extent, size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + extent;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	return extent % 2 || i % 4 == 0 ? (uint8_t)(x >> 40) : (uint8_t)extent;
}

void flash_file_path(const char *folder, bool zstd, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s.tdm", folder, zstd ? "zstd" : "raw");
}

static int write_extents(struct image_writer *w, struct err *e)
{
	uint8_t *data = malloc(FLASH_ROOM);
	int ret = data ? 0 : err_set(e, ENOMEM, "no memory for an extent");

	for (unsigned x = 0; x < FLASH_EXTENTS && !ret; x++) {
		enum image_kind kind = x < 3 ? IMAGE_METADATA + x : IMAGE_LAYER;

		for (size_t i = 0; i < sizes[x]; i++)
			data[i] = flash_byte(x, i);
		ret = image_write(
			w, kind, x < 3 ? 0 : x - 3, data, sizes[x], e);
	}
	free(data);
	return ret;
}

static int make(const char *folder, bool zstd, struct err *e)
{
	struct image_write_opts o = {
		.n_extents = FLASH_EXTENTS, .zstd = zstd ? 3 : 0, .threads = 1
	};
	struct image_writer *w;
	char path[PATH_MAX];
	int ret;

	flash_file_path(folder, zstd, path);
	ret = image_writer_open(&w, path, &o, e);
	if (ret)
		return ret;
	ret = write_extents(w, e);
	if (!ret)
		ret = image_writer_commit(w, e);
	image_writer_close(w);
	return ret;
}

int flash_files_make(const char *folder, struct err *e)
{
	int ret = make(folder, false, e);

	return ret ? ret : make(folder, true, e);
}

/* ---- a copy -------------------------------------------------------------- */

static int failed(struct flash_copy *c, struct err *e)
{
	return err_sys(e, errno ? errno : EIO, "'%s'", c->path);
}

int flash_copy_mend(struct flash_copy *c, struct err *e)
{
	char *data = malloc(c->bytes);
	int ret = data ? fd_read_exact(c->from, data, c->bytes, 0) : -ENOMEM;

	if (ret)
		ret = err_sys(e, -ret, "cannot copy an image");
	else if (ftruncate(c->fd, (off_t)c->bytes) ||
		pwrite(c->fd, data, c->bytes, 0) != (ssize_t)c->bytes ||
		fdatasync(c->fd))
		ret = failed(c, e);
	free(data);
	return ret;
}

int flash_copy_open(
	struct flash_copy *c, const char *folder, bool zstd, struct err *e)
{
	char path[PATH_MAX];
	off_t end;
	int ret;

	flash_file_path(folder, zstd, path);
	snprintf(c->path, sizeof(c->path), "%.*s/copy-%d.tdm",
		(int)(PATH_MAX / 2), folder, (int)getpid());
	c->from = open(path, O_RDONLY | O_CLOEXEC);
	c->fd = open(c->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	end = lseek(c->from, 0, SEEK_END);
	c->bytes = (uint64_t)end;
	ret = c->fd < 0 || end < 0 ? failed(c, e) : flash_copy_mend(c, e);
	if (ret)
		flash_copy_close(c);
	return ret;
}

void flash_copy_close(struct flash_copy *c)
{
	fd_close(&c->from);
	if (c->fd >= 0)
		unlink(c->path);
	fd_close(&c->fd);
}

int flash_copy_tear(struct flash_copy *c, uint64_t at, struct err *e)
{
	uint8_t byte;

	/* There is no byte to change if `at` is beyond the end of the copy. */
	if (pread(c->fd, &byte, 1, (off_t)at) != 1)
		return 0;
	byte ^= 0x55;
	return pwrite(c->fd, &byte, 1, (off_t)at) != 1 || fdatasync(c->fd)
		? failed(c, e)
		: 0;
}

int flash_copy_cut(struct flash_copy *c, uint64_t at, struct err *e)
{
	return ftruncate(c->fd, (off_t)at) || fdatasync(c->fd) ? failed(c, e)
							       : 0;
}
