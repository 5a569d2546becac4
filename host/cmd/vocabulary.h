/*
 * The vocabulary of a model file, for commands that only make ids of texts and
 * texts of ids: they need no weights, so a file that holds a vocabulary alone
 * will do.
 */
#ifndef HOST_CMD_VOCABULARY_H
#define HOST_CMD_VOCABULARY_H

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

#endif
