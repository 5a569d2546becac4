/*
 * The file of a trace. Packets are collected in memory and written in large
 * blocks, each of which consists of complete packets. A file with a limit is
 * rotated when it reaches half of the limit: it is renamed to FILE.1, which
 * replaces an earlier file of this name, and a new file is begun. The caller
 * writes the header of the new file.
 *
 * After a write error nothing more is written. The caller must serialize all
 * calls.
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
	/* maximum total size of the current and the previous file in bytes; 0:
	 * no limit */
	uint64_t limit;
	uint64_t opened_ns, flushed_ns;
	uint64_t written; /* bytes written to the current file */
	/* packets: number of packets in the current file. rotated: number of
	 * packets in earlier files. */
	uint64_t packets, rotated;
	/* errno of the first error; 0 if there was none */
	int failed;
	uint64_t failed_ns;
	size_t used;
	uint8_t buffer[TRACE_FILE_BUFFER];
};

/* Open the file, which must be closed even if this fails. Returns 0, -EBUSY if
 * another process is writing a trace to the file, or another negative errno. */
int trace_file_open(
	struct trace_file *, const char *path, uint64_t limit, struct err *);
/* Close the file. Returns 0, or an error if the file is incomplete. */
int trace_file_close(struct trace_file *, struct err *);

/* trace_file_room returns memory in the file's buffer for a packet of up to
 * `most` bytes. trace_file_put appends a packet of n bytes that the caller has
 * written there. */
uint8_t *trace_file_room(struct trace_file *, size_t most);
void trace_file_put(struct trace_file *, size_t n);

void trace_file_flush(struct trace_file *);

/* trace_file_is_full is true when the file has reached half of the limit. The
 * caller then calls trace_file_turn, which begins an empty file. */
bool trace_file_is_full(const struct trace_file *);
void trace_file_turn(struct trace_file *);

#endif
