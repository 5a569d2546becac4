/*
 * Private state of a history, for history*.c and the test that feeds arbitrary
 * bytes to the reader. history.c opens and follows the file and returns
 * records, history_scan.c finds them, history_write.c changes the file.
 */
#ifndef HOST_TEXT_HISTORY_IMPL_H
#define HOST_TEXT_HISTORY_IMPL_H

#include "host/text/history.h"
#include "host/text/history_format.h"

#include <sys/stat.h>

#define HISTORY_WINDOW                                        \
	(256u << 10) /* bytes read at a time; a multiple of 8 \
		      */

struct history {
	char *path;
	struct history_opts opts;
	int fd; /* -1: no file */
	dev_t dev;
	ino_t ino;
	uint64_t size;            /* of the file, when last checked */
	uint64_t end;             /* of the last record; 0: no head yet */
	uint64_t damaged;         /* bytes between records */
	struct history_head head; /* valid if end is not 0 */
	uint64_t *at;             /* [n], owned: offsets of records */
	size_t n, cap;
	/* the last record's number, or one less than the first possible */
	uint64_t last;
	const unsigned char *map; /* [end] of the file */
	uint64_t mapped;
	/* While scanning: bytes of the file, [window_n] from window_at. */
	unsigned char *window;
	uint64_t window_at;
	size_t window_n;
	struct XXH64_state_s *hash;
};

/* ---- history_scan.c ------------------------------------------------------ */

/* Read the head of the open file, of h->size bytes, and complete records after
 * h->end. Takes no lock. */
int history_scan(struct history *, struct err *);

/* Make room for `more` records in `at`. */
int history_reserve(struct history *, size_t more, struct err *);

/* Bytes of a record with n tokens. */
static inline uint64_t history_record_bytes(uint64_t n)
{
	return (sizeof(struct history_entry) + 4 * n + 7) & ~(uint64_t)7;
}

/* ---- history.c ----------------------------------------------------------- */

/* Open the file at the path, unless it is the open one; with `create`, create
 * it. Without a file fd is -1, which is no error. */
int history_attach(struct history *, bool create, struct err *);

/* Whether the path still names the open file. */
bool history_is_current(const struct history *);

/* Load the current state of the open file. */
int history_load(struct history *, struct err *);

#endif
