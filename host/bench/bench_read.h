/*
 * How fast a plain program reads the layers of a flash image: reads of one
 * size behind one another, past the page cache into huge pages, as much memory
 * as three layers take (a small buffer would stay in the processor's cache).
 * What streaming is compared with, in the same run.
 */
#ifndef HOST_BENCH_BENCH_READ_H
#define HOST_BENCH_BENCH_READ_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct image;

struct bench_read {
	double bytes_per_s;
	size_t block;     /* of the reads that were fastest */
	unsigned threads; /* that took turns with them */
	bool direct;      /* O_DIRECT; else the system refused it */
};

/* The best of 1, 4 and 16 MiB by one thread and by two: each reads all layers,
 * for 50 ms at least. */
int bench_read(const struct image *, struct bench_read *out, struct err *);

/* Once more, in the way that was best: storage is not always as fast. */
int bench_read_again(
	const struct image *, struct bench_read *best, struct err *);

#endif
