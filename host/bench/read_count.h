/*
 * What the system counts that this process had read from storage, by all of its
 * threads: read_bytes of /proc/self/io, which grows when a read is sent to the
 * device. What comes out of the page cache is not in it.
 */
#ifndef HOST_BENCH_READ_COUNT_H
#define HOST_BENCH_READ_COUNT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes so far; -1 where it cannot be read, and why it says. */
int64_t read_count(char *why, size_t size);

#endif
