/*
 * Opens the vocabulary of a model file, for commands that only convert between
 * text and token ids. These commands need no weights, so the file may contain
 * just a vocabulary. Also parses lists of token ids.
 */
#ifndef HOST_CMD_VOCABULARY_H
#define HOST_CMD_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tokenizer;

/*
 * Open the vocabulary of the file `model`, or of the bundled target model if
 * `model` is NULL. Stores the hash of the vocabulary (vocabulary_hash()) in
 * *hash unless `hash` is NULL. The caller closes the vocabulary with
 * tokenizer_close().
 * Returns 0 or a negative errno.
 */
int vocabulary_open(struct tokenizer **out, const char *model, uint64_t *hash,
	struct err *);

#define VOCABULARY_OPTION(model)                                       \
	{                                                              \
		OPT_STRING, 'm', "model", &(model), "MODEL",           \
			"GGUF file, which may have only a vocabulary " \
			"(the bundled target)"                         \
	}

/*
 * A list of token ids: decimal numbers, separated by spaces, newlines or
 * commas. The ids are read one at a time, because a list may be long.
 */
struct ids {
	/* *end must be a NUL; any other NUL in the list is an error */
	const char *at, *end;
	uint32_t n_vocab;
	size_t n; /* number of ids that were read */
};

/*
 * Get the next id, which must be below n_vocab. Returns 1 and sets *id, 0 at
 * the end of the list, or -EINVAL for an invalid item; the message gives its
 * position in the list.
 */
int ids_next(struct ids *, int32_t *id, struct err *);

#endif
