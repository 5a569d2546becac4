/*
 * The file that a trace is written to: packets, gathered in memory and written
 * many together, whole ones always. One that is not to grow beyond a limit is
 * put aside as FILE.1, in place of the one before, when it has half of that,
 * and begun anew; what the new one begins with is the caller's to say.
 *
 * A file that cannot be written any further ends there, and is silent until it
 * is closed. Whoever calls takes turns.
 */
#ifndef HOST_TRACE_TRACE_FILE_H
#define HOST_TRACE_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define TRACE_FILE_BUFFER ((size_t)256 << 10)
#define TRACE_FILE_PACKET ((size_t)1 << 10) /* bytes of one, at most */

struct trace_file {
	int fd;
	char *path;
	uint64_t limit; /* bytes of both; 0: none */
	uint64_t opened_ns, flushed_ns;
	uint64_t written;        /* bytes of this one */
	uint64_t packets, aside; /* of this one; of those before it */
	int failed;              /* an errno; 0: all is well */
	uint64_t failed_ns;
	size_t used;
	uint8_t buffer[TRACE_FILE_BUFFER];
};

/* On failure too it is to be closed. -EBUSY where another writes to it. */
int trace_file_open(
	struct trace_file *, const char *path, uint64_t limit, struct err *);
/* 0, or why not all is there, in a sentence. */
int trace_file_close(struct trace_file *, struct err *);

/* Room for a packet of at most so many bytes, of which `n` are put. */
uint8_t *trace_file_room(struct trace_file *, size_t most);
void trace_file_put(struct trace_file *, size_t n);

void trace_file_flush(struct trace_file *);

/* It has half of its limit; then it is put aside, and an empty one is there. */
bool trace_file_is_full(const struct trace_file *);
void trace_file_turn(struct trace_file *);

#endif
