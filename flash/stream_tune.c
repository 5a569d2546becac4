#include "flash/stream_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hugemem.h"
#include "base/newfile.h"
#include "base/user_file.h"
#include "flash/image.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/*
 * Each candidate (a block size) reads several parts of the file at different
 * times, because the rate of a virtual machine's storage device varies. For the
 * same reason, the default is replaced only if another candidate is clearly
 * faster. A part is at least as long as the bytes that a candidate keeps in
 * flight. Each part is read only once, because a hypervisor may cache it.
 * PART_NS limits the time for a part, so that the measurement does not take
 * long on slow flash.
 */
#define ROUNDS   3
#define PART_MIN ((uint64_t)8 << 20)
#define PART_MAX ((uint64_t)16 << 20)
#define PART_NS  ((uint64_t)60000000)
#define WAIT_NS  (2 * (uint64_t)1000000000) /* longest wait for one read */
#define CLEARLY  1.2

/*
 * The block sizes to try. IN_FLIGHT, the number of bytes in flight, is smaller
 * than in a stream, so that even slow flash completes these reads during the
 * measurement.
 */
static const size_t candidates[] = {
	STREAM_BLOCK_DEFAULT,
	(size_t)512 << 10,
	(size_t)2 << 20,
	(size_t)4 << 20,
};
#define N_CANDIDATES ARRAY_LEN(candidates)
#define IN_FLIGHT    ((size_t)8 << 20)
/* bytes of memory for reads: IN_FLIGHT plus one block of the largest size */
#define MEMORY ((size_t)12 << 20)

/* ---- the saved result ---- */

/* Get the path of the saved result of a file system, "block-TYPE-ID" in the
 * user's cache folder. */
static bool cache_file(char path[PATH_MAX], int fd, bool make)
{
	char name[64];
	struct statfs fs;
	uint32_t id[2];

	if (fstatfs(fd, &fs))
		return false;
	_Static_assert(sizeof(id) == sizeof(fs.f_fsid), "f_fsid");
	memcpy(id, &fs.f_fsid, sizeof(id));
	snprintf(name, sizeof(name), "block-%lx-%08x%08x",
		(unsigned long)fs.f_type, id[0], id[1]);
	return !(make ? user_file_make_way(USER_CACHE, name, path)
		      : user_file(USER_CACHE, name, path));
}

/* Read the saved result, a block size in bytes. Returns false if there is no
 * file or if the file has any other content. */
static bool recall(const char *path, size_t *block)
{
	char text[64], end;
	size_t noted = 0;

	if (!fd_read_text(path, text, sizeof(text)) ||
		sscanf(text, "%zu%c", &noted, &end) != 2 || end != '\n' ||
		!noted || noted % IMAGE_PAGE || noted > STREAM_BLOCK_MAX)
		return false;
	*block = noted;
	return true;
}

/* ---- the measurement ---- */

struct trial {
	struct reader *reader;
	uint8_t *memory;   /* [MEMORY] destination of the reads */
	size_t size;       /* bytes of a block */
	uint64_t off, end; /* range of the part that is still to be read */
	struct block block[STREAM_DEPTH_MAX + 1];
	/* checksum of all blocks; a stream computes one too, so the measured
	 * time must include it */
	uint64_t sum;
	unsigned flying;
};

static void send(struct trial *p, struct block *b)
{
	uint64_t left = p->end - p->off;

	b->off = p->off;
	b->len = left < p->size ? (size_t)left : p->size;
	p->off += b->len;
	p->flying++;
	p->reader->ops->submit(p->reader, b);
	p->reader->ops->flush(p->reader);
}

/*
 * Read a part of the file, and add its bytes and time to *bytes and *ns.
 * Returns 0 or a negative errno. Like a stream, the function submits the next
 * read before it computes the checksum of a completed block, so that a busy CPU
 * does not reduce the number of reads in flight.
 */
static int read_part(struct trial *p, uint64_t off, uint64_t part,
	uint64_t *bytes, uint64_t *ns)
{
	size_t depth = IN_FLIGHT / p->size;
	struct block *spare = &p->block[depth];
	uint64_t from = clock_ns();
	int bad = 0;

	p->off = off;
	p->end = off + part;
	for (size_t i = 0; i <= depth; i++)
		p->block[i].dst = p->memory + i * p->size;
	for (size_t i = 0; i < depth && p->off < p->end; i++)
		send(p, &p->block[i]);
	while (p->flying) {
		struct block *b = p->reader->ops->take(p->reader, WAIT_NS);

		if (!b)
			return -ETIMEDOUT;
		p->flying--;
		if (b->res <= 0)
			bad = b->res ? (int)b->res : -ENODATA;
		if (bad)
			continue;
		if (p->off < p->end && clock_ns() - from < PART_NS)
			send(p, spare);
		*bytes += (uint64_t)b->res;
		p->sum ^= image_sum_of(IMAGE_XXH3, b->dst, (size_t)b->res);
		spare = b;
	}
	*ns += clock_ns() - from;
	return bad;
}

/* Measure all candidates, and set *best to the fastest one, or to the default
 * if no other is clearly faster. Without io_uring, a thread reads the file; the
 * default size suits this thread, so *best is not changed. */
static int tune_file(int fd, uint64_t size, size_t *best, struct err *e)
{
	struct trial p = { 0 };
	uint64_t n = ROUNDS * N_CANDIDATES;
	uint64_t step = size / n & ~(uint64_t)(IMAGE_PAGE - 1);
	uint64_t part = step < PART_MAX ? step : PART_MAX;
	uint64_t bytes[N_CANDIDATES] = { 0 }, ns[N_CANDIDATES] = { 0 };
	double most = 0;
	char why[STREAM_WHY];
	int ret =
		reader_open_uring(&p.reader, fd, STREAM_DEPTH_MAX, false, why);

	if (ret)
		return 0;
	p.memory = hugemem_alloc(MEMORY);
	ret = p.memory ? 0 : -ENOMEM;
	for (uint64_t i = 0; i < n && !ret; i++) {
		size_t k = i % N_CANDIDATES;

		p.size = candidates[k];
		ret = read_part(&p, i * step, part, &bytes[k], &ns[k]);
	}
	for (size_t k = 0; k < N_CANDIDATES && !ret; k++) {
		double rate = (double)bytes[k] / (double)ns[k];

		if (rate <= most)
			continue;
		most = k ? rate : rate * CLEARLY;
		*best = candidates[k];
	}
	/* If reads are still in flight, they may still write to the memory, so
	 * do not free the memory. */
	p.reader->ops->close(p.reader, p.flying);
	if (!p.flying)
		free(p.memory);
	return ret ? err_sys(e, -ret, "cannot measure the speed of reads") : 0;
}

int stream_tune(const struct image *im, size_t *block, struct err *e)
{
	uint64_t size = image_file_bytes(im);
	char why[STREAM_WHY], path[PATH_MAX], text[64];
	struct newfile f;
	size_t best = 0;
	bool direct;
	int fd, ret;

	*block = STREAM_BLOCK_DEFAULT;
	if (size < ROUNDS * N_CANDIDATES * PART_MIN)
		return 0;
	ret = stream_file(im, false, &fd, &direct, why, e);
	if (ret)
		return ret;
	/* Use the saved result of the file system if there is one, else
	 * measure. */
	if (direct && cache_file(path, fd, false) && !recall(path, block)) {
		ret = tune_file(fd, size, &best, e);
		if (!ret && best)
			*block = best;
		/* Save the result. If that fails, the next stream measures
		 * again. */
		if (!ret && best && cache_file(path, fd, true) &&
			!newfile_open(&f, path, NEWFILE_PUBLIC, NULL)) {
			snprintf(text, sizeof(text), "%zu\n", best);
			if (!fd_write_all(f.fd, text, strlen(text)))
				newfile_commit(&f, NULL);
			newfile_close(&f);
		}
	}
	fd_close(&fd);
	if (ret)
		err_in(e, "'%s'", image_path(im));
	return ret;
}
