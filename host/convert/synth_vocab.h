/*
 * A byte-level BPE vocabulary for synthesized models. The vocabulary consists
 * of 256 byte tokens, of merges of frequent English letter pairs and triples,
 * and of the special tokens of the real model family with their real ids.
 * Unused [PADn] tokens fill the vocabulary up to the real size. The vocabulary
 * can tokenize any text.
 */
#ifndef HOST_CONVERT_SYNTH_VOCAB_H
#define HOST_CONVERT_SYNTH_VOCAB_H

#include "host/model/shapes.h"
#include "tensor/gguf.h"

#include <stdint.h>

struct synth_vocab {
	uint32_t n;
	struct gguf_str *token; /* [n] texts of the tokens */
	/* [n] types of the tokens, numbered as in GGUF (1: normal, ...) */
	int32_t *type;
	uint32_t n_merges;
	/* [n_merges] strings of the form "left right" */
	struct gguf_str *merge;
	/* text: memory of the strings; end: end of the used part of this
	 * memory */
	char *text, *end;
	const char *pre; /* name of the pre-tokenizer */
	uint32_t bos, eos, eot, pad;
	uint32_t mask; /* mask token of a diffusion model */
	bool add_bos;
	const char *chat_template;
};

/*
 * Make a vocabulary of `n` tokens. The tokens from `first_special` on are
 * special or unused. Returns 0 or -ENOMEM; after -ENOMEM nothing must be
 * released.
 */
int synth_vocab_init(struct synth_vocab *, enum shape_vocab, uint32_t n,
	uint32_t first_special);
/*
 * Make a vocabulary from a model's vocabulary, with unused tokens added up to
 * `n` tokens. The strings point into the model's vocabulary. There are no
 * merges, and the members after `end` are 0. Returns 0 or -ENOMEM; after
 * -ENOMEM nothing must be released.
 */
int synth_vocab_of(struct synth_vocab *, const struct gguf *, uint32_t n);

/* Rename the first unused token to `text` and make it a special token. `text`
 * must outlive the vocabulary. Returns 0, or -ENOENT if there is no unused
 * token. */
int synth_vocab_name(struct synth_vocab *, const char *text);

void synth_vocab_release(struct synth_vocab *);

#endif
