#include "host/bench/bench_machine.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "base/workers.h"
#include "shm/buffer.h"
#include "tensor/kern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES ((size_t)512 << 20) /* far larger than any cache */
#define READ_PART  ((size_t)1 << 20)
#define TIMES      3 /* number of measurements, of which the best one is used */
#define PEAK_PARTS 8 /* number of work items for each thread */
#define PEAK_STEPS 200000

struct bench_machine {
	struct workers *workers;
	struct buffer *buffer;
	const uint8_t *bytes;
	unsigned parts; /* number of parts of the buffer */
	const struct kern *kern;
	/* number of operations that each thread has done */
	uint64_t operations[WORKERS_MAX];
};

/* Fill the first part with pseudo-random bytes 0x28 to 0x2f and 0xa8 to 0xaf,
 * so that two adjacent bytes are a small fp16 number, and fill all other parts
 * with copies of the first part. */
static void fill_block(uint8_t *w, unsigned parts)
{
	for (size_t at = 0; at < READ_PART; at += 16) {
		uint32_t words[4];

		rng_words(1, 0, at, words);
		for (int i = 0; i < 4; i++)
			words[i] = (words[i] & 0x87878787) | 0x28282828;
		memcpy(w + at, words, sizeof(words));
	}
	for (unsigned i = 1; i < parts; i++)
		memcpy(w + i * READ_PART, w, READ_PART);
}

int bench_machine_open(struct bench_machine **out, unsigned threads,
	size_t bytes, struct err *e)
{
	struct bench_machine *m = calloc(1, sizeof(*m));
	int ret;

	if (!m)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	bytes = bytes < READ_BYTES ? align_up(bytes, READ_PART) : READ_BYTES;
	m->parts = (unsigned)(bytes / READ_PART);
	if ((ret = kern_select(&m->kern, e)) ||
		(ret = workers_open(&m->workers, threads, e)) ||
		(ret = buffer_create(&m->buffer, "bench", bytes,
			 BUFFER_DMA | BUFFER_HUGE, e))) {
		bench_machine_close(m);
		return ret;
	}
	buffer_take_memory(m->buffer, NULL);
	fill_block(buffer_begin(m->buffer, 0, bytes, BUFFER_WRITE), m->parts);
	buffer_end(m->buffer, 0, bytes, BUFFER_WRITE);
	m->bytes = buffer_begin(m->buffer, 0, bytes, BUFFER_READ);
	buffer_end(m->buffer, 0, bytes, BUFFER_READ);
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

const uint8_t *bench_machine_block(const struct bench_machine *m)
{
	return m->bytes;
}

static void read_part(void *arg, unsigned part, unsigned thread)
{
	const struct bench_machine *m = arg;

	m->kern->peak_read(m->bytes + part % m->parts * READ_PART, READ_PART);
}

double bench_read_bandwidth(struct bench_machine *m)
{
	double best = 0;

	if (!m->kern->peak_read)
		return 0;
	for (unsigned i = 0; i < TIMES; i++) {
		uint64_t began = clock_ns();
		double rate;

		workers_run(m->workers, read_part, m, READ_BYTES / READ_PART);
		rate = (double)READ_BYTES * 1e9 / (double)(clock_ns() - began);
		best = rate > best ? rate : best;
	}
	return best;
}

static void peak_part(void *arg, unsigned part, unsigned thread)
{
	struct bench_machine *m = arg;

	m->operations[thread] += m->kern->peak_int8(PEAK_STEPS);
}

double bench_int8_peak(struct bench_machine *m)
{
	unsigned n = workers_count(m->workers);
	double best = 0;

	if (!m->kern->peak_int8)
		return 0;
	for (unsigned i = 0; i < TIMES; i++) {
		uint64_t began = clock_ns(), all = 0;
		double rate;

		memset(m->operations, 0, sizeof(m->operations));
		workers_run(m->workers, peak_part, m, n * PEAK_PARTS);
		for (unsigned k = 0; k < n; k++)
			all += m->operations[k];
		rate = (double)all * 1e9 / (double)(clock_ns() - began);
		best = rate > best ? rate : best;
	}
	return best;
}
