#include "host/bench/bench_read.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hugemem.h"
#include "flash/image.h"
#include "flash/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define THREADS    2
#define LAYERS     3 /* that memory is read to for, as into staging slots */
#define BLOCK_MAX  ((size_t)16 << 20)
#define LASTING_NS 50000000

/* Every n-th block of the layers, from the index-th on: all of them, and again
 * until it is time. */
struct reader {
	int fd;
	uint64_t from, to, until_ns;
	size_t block;
	unsigned index, n;
	uint8_t *memory; /* blocks go round in it */
	size_t room;     /* whole BLOCK_MAX */
	uint64_t bytes;
	int ret;
};

static void *read_blocks(void *arg)
{
	struct reader *r = arg;
	uint64_t step = r->block * r->n, at = r->from + r->block * r->index;

	while (!r->ret && (at < r->to || clock_ns() < r->until_ns)) {
		size_t len;

		if (at >= r->to)
			at = r->from + r->block * r->index % (r->to - r->from);
		len = r->to - at < r->block ? (size_t)(r->to - at) : r->block;
		len = len / IMAGE_PAGE * IMAGE_PAGE;
		r->ret = fd_read_exact_at(r->fd,
			r->memory +
				(at - r->from) / r->block * r->block % r->room,
			len, at);
		r->bytes += len;
		at += step;
	}
	return NULL;
}

/* The layers lie one behind the other, each on whole pages. */
static int find_layers(const struct image *m, struct reader *r, struct err *e)
{
	const struct image_extent *last = NULL;
	uint64_t largest = 0;

	for (size_t i = 0; i < image_n_extents(m); i++) {
		const struct image_extent *x = image_extent_at(m, i);

		if (x->kind != IMAGE_LAYER)
			continue;
		if (!last)
			r->from = x->offset;
		largest = x->bytes > largest ? x->bytes : largest;
		last = x;
	}
	if (!last)
		return err_set(e, EINVAL, "'%s' has no layers", image_path(m));
	r->to = align_up(last->offset + last->stored, IMAGE_PAGE);
	r->room = (size_t)align_up(LAYERS * largest, BLOCK_MAX);
	return 0;
}

static int measure(
	const struct reader *what, size_t block, unsigned threads, double *rate)
{
	struct reader r[THREADS];
	pthread_t thread[THREADS];
	uint64_t began = clock_ns(), bytes = 0;
	unsigned started = 1;
	int ret;

	for (unsigned i = 0; i < threads; i++) {
		r[i] = *what;
		r[i].block = block;
		r[i].index = i;
		r[i].n = threads;
		r[i].until_ns = began + LASTING_NS;
	}
	while (started < threads &&
		!pthread_create(
			&thread[started], NULL, read_blocks, &r[started]))
		started++;
	read_blocks(&r[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(thread[i], NULL);
	ret = started < threads ? -EAGAIN : 0;
	for (unsigned i = 0; i < started; i++) {
		ret = ret ? ret : r[i].ret;
		bytes += r[i].bytes;
	}
	*rate = (double)bytes * 1e9 / (double)(clock_ns() - began);
	return ret;
}

static int best_of_all(
	const struct reader *r, struct bench_read *out, struct err *e)
{
	for (size_t block = (size_t)1 << 20; block <= BLOCK_MAX; block *= 4)
		for (unsigned n = 1; n <= THREADS; n++) {
			double rate;
			int ret = measure(r, block, n, &rate);

			if (ret)
				return err_sys(e, -ret,
					"cannot read the layers' bytes");
			if (rate <= out->bytes_per_s)
				continue;
			out->bytes_per_s = rate;
			out->block = block;
			out->threads = n;
		}
	return 0;
}

/* The layers open, and memory to read them to. */
static int open_reader(
	const struct image *m, struct reader *r, bool *direct, struct err *e)
{
	char why[STREAM_WHY];
	int ret = find_layers(m, r, e);

	if (ret)
		return ret;
	r->memory = hugemem_alloc(r->room);
	if (!r->memory)
		return err_set(e, ENOMEM, "no memory to read to");
	memset(r->memory, 0, r->room); /* first touches are not reading */
	return stream_file(m, false, &r->fd, direct, why, e);
}

int bench_read(const struct image *m, struct bench_read *out, struct err *e)
{
	struct reader r = { .fd = -1 };
	int ret;

	*out = (struct bench_read){ 0 };
	ret = open_reader(m, &r, &out->direct, e);
	if (!ret)
		ret = best_of_all(&r, out, e);
	fd_close(&r.fd);
	hugemem_free(r.memory);
	return ret;
}

int bench_read_again(
	const struct image *m, struct bench_read *best, struct err *e)
{
	struct reader r = { .fd = -1 };
	int ret = open_reader(m, &r, &best->direct, e);

	if (!ret) {
		ret = measure(
			&r, best->block, best->threads, &best->bytes_per_s);
		if (ret)
			err_sys(e, -ret, "cannot read the layers' bytes");
	}
	fd_close(&r.fd);
	hugemem_free(r.memory);
	return ret;
}
