/*
 * The file of a trace: packets are gathered in memory and written in large
 * blocks of whole packets. A file with a limit is rotated at half of it:
 * renamed to FILE.1, replacing the previous one, and begun anew; the caller
 * writes the new file's header.
 *
 * After a write error nothing more is written until the file is closed. The
 * caller serializes all calls.
 */
#ifndef HOST_TRACE_TRACE_FILE_H
#define HOST_TRACE_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TRACE_FILE_BUFFER ((size_t)256 << 10)
#define TRACE_FILE_PACKET ((size_t)1 << 10) /* largest packet in bytes */

struct trace_file {
	int fd;
	char *path;
	uint64_t limit; /* bytes of both files; 0: none */
	uint64_t opened_ns, flushed_ns;
	uint64_t written;        /* bytes of this file */
	uint64_t packets, aside; /* of this file; of files before it */
	int failed;              /* an errno; 0: no error */
	uint64_t failed_ns;
	size_t used;
	uint8_t buffer[TRACE_FILE_BUFFER];
};

/* To be closed on failure too. -EBUSY if another process writes to the file. */
int trace_file_open(
	struct trace_file *, const char *path, uint64_t limit, struct err *);
/* 0, or an error if the file is incomplete. */
int trace_file_close(struct trace_file *, struct err *);

/* Room for a packet of up to `most` bytes; the caller advances `n`. */
uint8_t *trace_file_room(struct trace_file *, size_t most);
void trace_file_put(struct trace_file *, size_t n);

void trace_file_flush(struct trace_file *);

/* At half of the limit; then rotate to an empty file. */
bool trace_file_is_full(const struct trace_file *);
void trace_file_turn(struct trace_file *);

#endif
