#include "host/bench/bench_read.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hugemem.h"
#include "flash/image.h"
#include "flash/stream_read.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS   2
#define DEPTH_MAX 8
/* number of layers for which a buffer has room, as many as a session has in
 * memory while it streams layers */
#define LAYERS    3
#define BLOCK_MAX ((size_t)16 << 20)
/* A trial, a short measurement of one way of reading, reads the first TRIAL
 * bytes of the layers (all bytes if there are fewer), and starts again until
 * TRIAL_NS nanoseconds have passed. */
#define TRIAL      ((uint64_t)192 << 20)
#define TRIAL_NS   20000000
#define LASTING_NS 50000000
#define PATIENCE   ((uint64_t)10000000000) /* time limit of one read in ns */

/* The layers of a file, and the buffers that they are read to. */
struct place {
	int fd;
	uint64_t from, to;
	/* [room] buffers with huge and with small pages; blocks fill a buffer
	 * from its start to its end, then from its start again */
	uint8_t *huge, *small;
	size_t room; /* size of a buffer, a multiple of BLOCK_MAX */
};

/* The blocks that one reader (a thread, or io_uring) reads: every n-th block,
 * starting with block `index`. The reader reads these blocks at least once, and
 * repeats them until the time `until_ns` (clock_ns()). */
struct part {
	const struct place *place;
	uint8_t *memory;
	uint64_t to, until_ns;
	size_t block;
	unsigned index, n;
	/* at: offset in the file of the next block; reads: number of reads that
	 * were started */
	uint64_t at, reads;
	uint64_t bytes;
	int ret;
};

/* Get the next block to read. Returns false when all blocks were read and the
 * time is up. */
static bool next_block(struct part *p, struct block *out)
{
	uint64_t from = p->place->from, left;
	/* The buffer has room for `places * n` blocks. Only reader k mod n
	 * writes to the k-th block of the buffer, so that no two readers write
	 * to the same memory. */
	const uint64_t places = p->place->room / p->block / p->n;

	if (p->at >= p->to && clock_ns() >= p->until_ns)
		return false;
	if (p->at >= p->to)
		p->at = from + p->block * p->index % (p->to - from);
	left = p->to - p->at;
	out->len = (left < p->block ? (size_t)left : p->block) / IMAGE_PAGE *
		IMAGE_PAGE;
	out->off = p->at;
	out->dst = p->memory +
		(p->index + p->n * (p->reads++ % places)) * p->block;
	p->at += p->block * p->n;
	return true;
}

static void *read_plainly(void *arg)
{
	struct part *p = arg;
	struct block b;

	while (!p->ret && next_block(p, &b)) {
		p->ret = fd_read_exact(p->place->fd, b.dst, b.len, b.off);
		p->bytes += b.len;
	}
	return NULL;
}

static int by_threads(
	const struct part *what, unsigned threads, uint64_t *bytes)
{
	struct part p[THREADS];
	pthread_t thread[THREADS];
	unsigned started = 1;
	int ret;

	for (unsigned i = 0; i < threads; i++) {
		p[i] = *what;
		p[i].index = i;
		p[i].n = threads;
		p[i].at += p[i].block * i;
	}
	while (started < threads &&
		!pthread_create(
			&thread[started], NULL, read_plainly, &p[started]))
		started++;
	read_plainly(&p[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(thread[i], NULL);
	ret = started < threads ? -EAGAIN : 0;
	for (unsigned i = 0; i < started; i++) {
		ret = ret ? ret : p[i].ret;
		*bytes += p[i].bytes;
	}
	return ret;
}

static int by_uring(const struct part *what, unsigned depth, uint64_t *bytes)
{
	struct part p = *what;
	char why[STREAM_WHY];
	struct iovec area = { p.memory, p.place->room };
	struct block block[DEPTH_MAX] = { 0 }, *b;
	unsigned flying = 0; /* number of reads in flight */
	struct reader *r;
	int ret = reader_open_uring(&r, p.place->fd, depth, false, why);

	if (ret)
		return -EOPNOTSUPP;
	/* Register the buffer with io_uring. The kernel may refuse; reads also
	 * work without registration. */
	r->ops->add_areas(r, &area, 1);
	while (flying < depth && next_block(&p, &block[flying]))
		r->ops->submit(r, &block[flying++]);
	while (flying && !ret) {
		r->ops->flush(r);

		/* A short read is an error, because nothing truncates the
		 * file. */
		b = r->ops->take(r, PATIENCE);
		if (!b)
			ret = -ETIMEDOUT;
		else if (b->res != (int64_t)b->len)
			ret = b->res < 0 ? (int)b->res : -ENODATA;
		else
			*bytes += b->len;
		flying--;
		if (ret || !next_block(&p, b))
			continue;
		r->ops->submit(r, b);
		flying++;
	}
	r->ops->close(r, ret);
	return ret;
}

/* Measure the bytes/s of reading the layers up to offset `to` in the way that
 * *way describes, for at least `ns` nanoseconds. Stores the result in
 * way->bytes_per_s. Returns 0 or a negative errno. */
static int measure(const struct place *place, struct bench_read *way,
	uint64_t to, uint64_t ns)
{
	uint64_t began = clock_ns(), bytes = 0;
	const struct part p = { .place = place,
		.memory = way->small_pages ? place->small : place->huge,
		.to = to,
		.until_ns = began + ns,
		.block = way->block,
		.at = place->from,
		.n = 1 };
	int ret = way->depth ? by_uring(&p, way->depth, &bytes)
			     : by_threads(&p, way->threads, &bytes);

	way->bytes_per_s = (double)bytes * 1e9 / (double)(clock_ns() - began);
	return ret;
}

/* ---- ways of reading ----------------------------------------------------- */

static int try_way(const struct place *p, struct bench_read way,
	struct bench_read *best, struct err *e)
{
	uint64_t to = p->from + TRIAL < p->to ? p->from + TRIAL : p->to;
	int ret;

	/* Reads that are in flight at the same time must not share memory. */
	if (way.depth * way.block > p->room ||
		way.threads * way.block > p->room)
		return 0;
	ret = measure(p, &way, to, TRIAL_NS);
	if (ret == -EOPNOTSUPP)
		return 0;
	if (ret)
		return err_sys(e, -ret, "cannot read the layers' bytes");
	if (way.bytes_per_s > best->bytes_per_s)
		*best = way;
	return 0;
}

/* ---- memory -------------------------------------------------------------- */

/* Allocate memory with small pages, and touch all pages, so that page faults
 * are not part of a measurement. */
static uint8_t *small_pages(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* Ignore errors: the call fails only on kernels that have no huge
	 * pages. */
	madvise(p, bytes, MADV_NOHUGEPAGE);
	memset(p, 0, bytes);
	return p;
}

static int open_place(
	const struct image *m, struct place *p, bool *direct, struct err *e)
{
	char why[STREAM_WHY];
	const struct image_extent *last = NULL;
	uint64_t largest = 0;

	/* The layers are contiguous in the file; each starts and ends on a page
	 * boundary. */
	for (size_t i = 0; i < image_n_extents(m); i++) {
		const struct image_extent *x = image_extent_at(m, i);

		if (x->kind != IMAGE_LAYER)
			continue;
		if (!last)
			p->from = x->offset;
		largest = x->bytes > largest ? x->bytes : largest;
		last = x;
	}
	if (!last)
		return err_set(e, EINVAL, "'%s' has no layers", image_path(m));
	p->to = align_up(last->offset + last->stored, IMAGE_PAGE);
	p->room = (size_t)align_up(LAYERS * largest, BLOCK_MAX);

	p->huge = hugemem_alloc(p->room);
	p->small = small_pages(p->room);
	if (!p->huge || !p->small)
		return err_set(e, ENOMEM, "no memory for the layers to read");
	return stream_file(m, false, &p->fd, direct, why, e);
}

static void close_place(struct place *p)
{
	fd_close(&p->fd);
	free(p->huge);
	if (p->small)
		munmap(p->small, p->room);
}

static int measure_all(
	const struct place *p, struct bench_read *way, struct err *e)
{
	int ret = measure(p, way, p->to, LASTING_NS);

	return ret ? err_sys(e, -ret, "cannot read the layers' bytes") : 0;
}

int bench_read(const struct image *m, struct bench_read *out, struct err *e)
{
	struct place p = { .fd = -1 };
	struct bench_read way = { 0 };
	int ret;

	*out = (struct bench_read){ 0 };
	ret = open_place(m, &p, &out->direct, e);
	way.direct = out->direct;
	for (way.block = (size_t)1 << 20; way.block <= BLOCK_MAX;
		way.block *= 4)
		for (int small = 0; small < 2; small++) {
			way.small_pages = small;
			way.depth = 0;
			for (way.threads = 1; !ret && way.threads <= THREADS;
				way.threads++)
				ret = try_way(&p, way, out, e);
			way.threads = 1;
			for (way.depth = 1; !ret && way.depth <= DEPTH_MAX;
				way.depth *= 2)
				ret = try_way(&p, way, out, e);
		}
	if (!ret)
		ret = measure_all(&p, out, e);
	close_place(&p);
	return ret;
}

int bench_read_again(
	const struct image *m, struct bench_read *best, struct err *e)
{
	struct place p = { .fd = -1 };
	int ret = open_place(m, &p, &best->direct, e);

	if (!ret)
		ret = measure_all(&p, best, e);
	close_place(&p);
	return ret;
}

const char *bench_read_text(
	const struct bench_read *r, char text[BENCH_READ_TEXT])
{
	char how[32];

	if (r->depth)
		snprintf(how, sizeof(how), "io_uring %u deep", r->depth);
	else
		snprintf(how, sizeof(how), "%u thread%s", r->threads,
			r->threads > 1 ? "s" : "");
	snprintf(text, BENCH_READ_TEXT, "%zu MiB, %s, %s pages, %s",
		r->block >> 20, how, r->small_pages ? "small" : "huge",
		r->direct ? "O_DIRECT" : "through the page cache");
	return text;
}
