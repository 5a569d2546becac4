/*
 * Lists of token ids as people write them: decimal numbers, with spaces, line
 * ends or commas between. A file of ids may be long, so they are read one by
 * one.
 */
#ifndef HOST_CMD_IDS_H
#define HOST_CMD_IDS_H

#include <stddef.h>
#include <stdint.h>

struct err;

struct ids {
	const char *at, *end; /* *end is a NUL; one before it is no gap */
	uint32_t n_vocab;
	size_t n; /* read so far */
};

/*
 * The next id, below n_vocab: 1 with *id, 0 at the end, or -EINVAL with the
 * number of the item that is none.
 */
int ids_next(struct ids *, int32_t *id, struct err *);

#endif
