#include "host/bench/bench_machine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/workers.h"
#include "shm/buffer.h"
#include "tensor/kern.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES ((size_t)512 << 20) /* far larger than any cache */
#define READ_PART  ((size_t)1 << 20)
#define TIMES      3 /* number of repetitions; the best result is used */
#define PEAK_PARTS 8 /* number of work items for each thread */
#define PEAK_STEPS 200000

struct bench_machine {
	struct workers *workers;
	struct buffer *buffer; /* allocated like a buffer for weights */
	const uint8_t *bytes;
	unsigned parts; /* number of parts of the buffer to read */
	const struct kern *kern;
	uint64_t (*peak)(uint64_t steps);
	/* number of operations of each thread */
	uint64_t operations[WORKERS_MAX];
};

int bench_machine_open(
	struct bench_machine **out, unsigned threads, struct err *e)
{
	struct bench_machine *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	if ((ret = kern_select(&m->kern, e)) ||
		(ret = workers_open(&m->workers, threads, e)) ||
		(ret = buffer_create(&m->buffer, "bench", READ_BYTES,
			 BUFFER_DMA | BUFFER_HUGE, e))) {
		bench_machine_close(m);
		return ret;
	}
	buffer_take_memory(m->buffer, NULL);
	memset(buffer_begin(m->buffer, 0, READ_BYTES, BUFFER_WRITE), 1,
		READ_BYTES);
	buffer_end(m->buffer, 0, READ_BYTES, BUFFER_WRITE);
	m->bytes = buffer_begin(m->buffer, 0, READ_BYTES, BUFFER_READ);
	buffer_end(m->buffer, 0, READ_BYTES, BUFFER_READ);
	*out = m;
	return 0;
}

void bench_machine_close(struct bench_machine *m)
{
	if (!m)
		return;
	workers_close(m->workers);
	buffer_close(m->buffer);
	free(m);
}

static void read_part(void *arg, unsigned part, unsigned thread)
{
	const struct bench_machine *m = arg;

	m->kern->peak_read(m->bytes + part % m->parts * READ_PART, READ_PART);
}

double bench_read_bandwidth(struct bench_machine *m, size_t bytes)
{
	const unsigned all = READ_BYTES / READ_PART;
	double best = 0;

	m->parts =
		bytes / READ_PART < all ? (unsigned)(bytes / READ_PART) : all;
	m->parts += !m->parts;
	if (!m->kern->peak_read)
		return 0;
	for (unsigned i = 0; i < TIMES; i++) {
		uint64_t began = clock_ns();
		double rate;

		workers_run(m->workers, read_part, m, all);
		rate = (double)READ_BYTES * 1e9 / (double)(clock_ns() - began);
		best = rate > best ? rate : best;
	}
	return best;
}

static void peak_part(void *arg, unsigned part, unsigned thread)
{
	struct bench_machine *m = arg;

	m->operations[thread] += m->peak(PEAK_STEPS);
}

static double peak(struct bench_machine *m, uint64_t (*fn)(uint64_t))
{
	unsigned n = workers_count(m->workers);
	uint64_t began = clock_ns(), all = 0;

	if (!fn)
		return 0;
	m->peak = fn;
	memset(m->operations, 0, sizeof(m->operations));
	workers_run(m->workers, peak_part, m, n * PEAK_PARTS);
	for (unsigned i = 0; i < n; i++)
		all += m->operations[i];
	return (double)all * 1e9 / (double)(clock_ns() - began);
}

double bench_int8_peak(struct bench_machine *m)
{
	double best = 0;

	for (unsigned i = 0; i < TIMES; i++) {
		double rate = peak(m, m->kern->peak_int8);

		best = rate > best ? rate : best;
	}
	return best;
}
