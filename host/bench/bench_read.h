/*
 * Measures how fast a plain program reads the layers of a flash image:
 * consecutive reads of one size that bypass the page cache, into a buffer for
 * three layers (a smaller buffer would stay in the CPU's cache). Reports
 * compare layer streaming with this speed, measured in the same run. So the
 * plain program must read in the fastest way that the machine offers: plain
 * reads or io_uring, one or more reads in flight, into huge or small pages.
 */
#ifndef HOST_BENCH_BENCH_READ_H
#define HOST_BENCH_BENCH_READ_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct image;

struct bench_read {
	double bytes_per_s;
	/* The fastest way of reading: */
	size_t block;
	unsigned threads; /* number of threads that read alternate blocks */
	/* queue depth of io_uring, used by one thread; 0 means plain reads */
	unsigned depth;
	bool small_pages; /* the destination has small pages */
	/* whether reads use O_DIRECT; false if the system refused O_DIRECT */
	bool direct;
};

/*
 * Find the fastest way of reading with trials on a part of the layers: reads of
 * 1, 4 and 16 MiB by one and by two threads, and by io_uring with 1, 2, 4 and 8
 * reads in flight, into huge and into small pages. Then measure the fastest way
 * on all layers. Ways that the system refuses are skipped. Returns 0 or a
 * negative errno.
 */
int bench_read(const struct image *, struct bench_read *out, struct err *);

/* Measure the way of reading *best again, because the speed of storage varies.
 * Stores the new result in *best. Returns 0 or a negative errno. */
int bench_read_again(
	const struct image *, struct bench_read *best, struct err *);

/* Write a description such as "4 MiB, io_uring 8 deep, huge pages, O_DIRECT" to
 * `text` and return it. */
#define BENCH_READ_TEXT 96
const char *bench_read_text(
	const struct bench_read *, char text[BENCH_READ_TEXT]);

#endif
