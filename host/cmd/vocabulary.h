/*
 * The vocabulary of a model file, for commands that only convert between text
 * and ids: they need no weights, so a file with only a vocabulary will do. And
 * lists of ids as text.
 */
#ifndef HOST_CMD_VOCABULARY_H
#define HOST_CMD_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

/* Open the vocabulary of a file, NULL: the bundled target. *hash (may be NULL)
 * is its vocabulary_hash. The caller closes it with tokenizer_close. */
int vocabulary_open(struct tokenizer **out, const char *model, uint64_t *hash,
	struct err *);

#define VOCABULARY_OPTION(model)                                          \
	{                                                                 \
		OPT_STRING, 'm', "model", &(model), "MODEL",              \
			"GGUF file; one with a vocabulary alone will do " \
			"(the target that comes with the program)"        \
	}

/*
 * A list of token ids: decimal numbers, separated by spaces, newlines or
 * commas. They are read one at a time, since a file of ids may be long.
 */
struct ids {
	const char *at, *end; /* *end is a NUL; a NUL before it is an error */
	uint32_t n_vocab;
	size_t n; /* read so far */
};

/*
 * The next id, below n_vocab: 1 with *id, 0 at the end, or -EINVAL with the
 * number of the invalid item.
 */
int ids_next(struct ids *, int32_t *id, struct err *);

#endif
