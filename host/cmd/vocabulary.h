/*
 * The vocabulary of a model file, for commands that only make ids of texts and
 * texts of ids: they need no weights, so a file that holds a vocabulary alone
 * will do. And lists of ids as people write them.
 */
#ifndef HOST_CMD_VOCABULARY_H
#define HOST_CMD_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

/* Of the file, NULL: the target that comes with the program. *hash (may be
 * NULL) is its vocabulary_hash. tokenizer_close is the caller's. */
int vocabulary_open(struct tokenizer **out, const char *model, uint64_t *hash,
	struct err *);

#define VOCABULARY_OPTION(model)                                          \
	{                                                                 \
		OPT_STRING, 'm', "model", &(model), "MODEL",              \
			"GGUF file; one with a vocabulary alone will do " \
			"(the target that comes with the program)"        \
	}

/*
 * A list of token ids: decimal numbers, with spaces, line ends or commas
 * between. A file of ids may be long, so they are read one by one.
 */
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
