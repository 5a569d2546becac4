/*
 * Private state of a history, for history*.c and for the test that opens files
 * of arbitrary bytes. history.c opens the file, reads changes of other
 * processes and returns records; history_scan.c finds the records in the file;
 * history_write.c changes the file.
 */
#ifndef HOST_TEXT_HISTORY_IMPL_H
#define HOST_TEXT_HISTORY_IMPL_H

#include "host/text/history.h"
#include "host/text/history_format.h"

#include <sys/stat.h>

/* Number of bytes that a scan reads at a time; a multiple of 8. */
#define HISTORY_WINDOW (256u << 10)

struct history {
	char *path;
	struct history_opts opts;
	int fd; /* file descriptor of the open file; -1 if there is no file */
	dev_t dev;
	ino_t ino;
	uint64_t size; /* size of the file in bytes when last checked */
	/* offset of the end of the last record; 0 if no head has been written
	 * to the file yet */
	uint64_t end;
	/* number of bytes between the head and `end` that are in no record */
	uint64_t damaged;
	struct history_head head; /* head of the file; valid if end is not 0 */
	/* [n] offsets of the records in the file; owned */
	uint64_t *at;
	size_t n, cap;
	/* number of the last record, or head.first - 1 if there are no
	 * records */
	uint64_t last;
	/* mapping of the first `mapped` bytes of the file */
	const unsigned char *map;
	uint64_t mapped;
	/* During a scan: the window_n bytes of the file that begin at offset
	 * window_at. */
	unsigned char *window;
	uint64_t window_at;
	size_t window_n;
	struct XXH64_state_s *hash;
};

/* ---- history_scan.c ------------------------------------------------------ */

/* Read the head of the open file, which has h->size bytes, and the complete
 * records after h->end. Takes no lock. Returns 0 or a negative errno. */
int history_scan(struct history *, struct err *);

/* Make room for `more` records in h->at. Returns 0 or -ENOMEM. */
int history_reserve(struct history *, size_t more, struct err *);

/* Size in bytes of a record with n tokens. */
static inline uint64_t history_record_bytes(uint64_t n)
{
	return (sizeof(struct history_entry) + 4 * n + 7) & ~(uint64_t)7;
}

/* ---- history.c ----------------------------------------------------------- */

/* Open the file at h->path, unless it is already open. With `create`, create
 * the file if it does not exist. Without `create`, a missing file is not an
 * error: fd is then -1. Returns 0 or a negative errno. */
int history_attach(struct history *, bool create, struct err *);

/* Whether h->path still refers to the open file. */
bool history_is_current(const struct history *);

/* Find the records that were appended to the open file since the previous call,
 * and map them. Returns 0 or a negative errno. */
int history_load(struct history *, struct err *);

#endif
