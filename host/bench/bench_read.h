/*
 * How fast a plain program reads the layers of a flash image: reads of one
 * size behind one another, past the page cache, to as much memory as three
 * layers take (a small buffer would stay in the processor's cache). What
 * streaming is compared with, in the same run, and so in the way that is best
 * on this machine: plain reads or io_uring, more or fewer at once, to huge
 * pages or small ones.
 */
#ifndef HOST_BENCH_BENCH_READ_H
#define HOST_BENCH_BENCH_READ_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct image;

struct bench_read {
	double bytes_per_s;
	/* Of the reads that were fastest: */
	size_t block;
	unsigned threads; /* that took turns with them */
	unsigned depth;   /* of io_uring, by one thread; 0: plain reads */
	bool small_pages; /* of the memory that was read to */
	bool direct;      /* O_DIRECT; else the system refused it */
};

/*
 * The best of 1, 4 and 16 MiB by one thread, by two, and by io_uring with 1, 2,
 * 4 and 8 reads under way, to huge pages and to small ones: tried on parts of
 * the layers, and the best then on all of them. Ways that the system refuses
 * are left out.
 */
int bench_read(const struct image *, struct bench_read *out, struct err *);

/* Once more, in the way that was best: storage is not always as fast. */
int bench_read_again(
	const struct image *, struct bench_read *best, struct err *);

/* "4 MiB, io_uring 8 deep, huge pages, O_DIRECT" */
#define BENCH_READ_TEXT 96
const char *bench_read_text(
	const struct bench_read *, char text[BENCH_READ_TEXT]);

#endif
