/*
 * Inside of a history; for history*.c and the test that puts any bytes before
 * the reader. history.c opens, follows the file and hands out records,
 * history_scan.c finds them, history_write.c changes the file.
 */
#ifndef HOST_TEXT_HISTORY_IMPL_H
#define HOST_TEXT_HISTORY_IMPL_H

#include "host/text/history.h"
#include "host/text/history_format.h"

#include <sys/stat.h>

#define HISTORY_WINDOW (256u << 10) /* bytes read at a time; of 8 each */

struct history {
	char *path;
	struct history_opts opts;
	int fd; /* -1: there is no file */
	dev_t dev;
	ino_t ino;
	uint64_t size;            /* of the file, when it was looked at */
	uint64_t end;             /* of the last record; 0: no head yet */
	uint64_t damaged;         /* bytes between records */
	struct history_head head; /* where end is not 0 */
	uint64_t *at;             /* [n], owned: where records begin */
	size_t n, cap;
	uint64_t last; /* the last record's number, or one below the first */
	const unsigned char *map; /* [end] of the file */
	uint64_t mapped;
	/* While it is scanned: bytes of the file, [window_n] from window_at. */
	unsigned char *window;
	uint64_t window_at;
	size_t window_n;
	struct XXH64_state_s *hash;
};

/* ---- history_scan.c ------------------------------------------------------ */

/* The head of the open file, of h->size bytes, and then the records: what is
 * whole behind h->end. Nothing is locked. */
int history_scan(struct history *, struct err *);

/* Room to know of so many records more. */
int history_reserve(struct history *, size_t more, struct err *);

/* Of a record with n tokens. */
static inline uint64_t history_record_bytes(uint64_t n)
{
	return (sizeof(struct history_entry) + 4 * n + 7) & ~(uint64_t)7;
}

/* ---- history.c ----------------------------------------------------------- */

/* Open the file at the path, where that is not the one that is open; with
 * `create` make one. No file is no error: fd is -1. */
int history_attach(struct history *, bool create, struct err *);

/* The path names the file that is open. */
bool history_is_current(const struct history *);

/* Take in the open file as it is now. */
int history_take_in(struct history *, struct err *);

/* As if there were no file. */
void history_detach(struct history *);

#endif
