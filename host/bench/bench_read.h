/*
 * The speed at which a plain program reads the layers of a flash image:
 * consecutive reads of one size, past the page cache, to memory for three
 * layers (a small buffer would stay in the CPU's cache). Streaming is compared
 * with it in the same run, so it reads in the fastest way on this machine:
 * plain reads or io_uring, more or fewer at once, to huge or small pages.
 */
#ifndef HOST_BENCH_BENCH_READ_H
#define HOST_BENCH_BENCH_READ_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct image;

struct bench_read {
	double bytes_per_s;
	/* The fastest way: */
	size_t block;
	unsigned threads; /* that read in turn */
	unsigned depth;   /* of io_uring, used by one thread; 0: plain reads */
	bool small_pages; /* of the destination */
	bool direct;      /* O_DIRECT; false if the system refused it */
};

/*
 * Try reads of 1, 4 and 16 MiB by one and by two threads, and by io_uring with
 * 1, 2, 4 and 8 reads in flight, to huge and to small pages, on parts of the
 * layers; then measure the fastest way on all layers. Skips ways that the
 * system refuses.
 */
int bench_read(const struct image *, struct bench_read *out, struct err *);

/* Measure the fastest way again: the speed of storage varies. */
int bench_read_again(
	const struct image *, struct bench_read *best, struct err *);

/* "4 MiB, io_uring 8 deep, huge pages, O_DIRECT" */
#define BENCH_READ_TEXT 96
const char *bench_read_text(
	const struct bench_read *, char text[BENCH_READ_TEXT]);

#endif
