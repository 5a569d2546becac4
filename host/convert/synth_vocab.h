/*
 * A byte-level BPE vocabulary for synthesized models. It consists of 256 byte
 * tokens, merges of frequent English letter pairs and triples, the special
 * tokens of the real model family with their real ids, and unused [PADn] tokens
 * up to the real size. It can tokenize any text.
 */
#ifndef HOST_CONVERT_SYNTH_VOCAB_H
#define HOST_CONVERT_SYNTH_VOCAB_H

#include "host/model/shapes.h"
#include "tensor/gguf.h"

#include <stdint.h>

struct synth_vocab {
	uint32_t n;
	struct gguf_str *token; /* [n] texts of the tokens */
	int32_t *type;          /* [n] numbered as in GGUF (1: normal, ...) */
	uint32_t n_merges;
	/* [n_merges] strings of the form "left right" */
	struct gguf_str *merge;
	/* storage of the strings, and the end of its used part */
	char *text, *end;
	const char *pre; /* name of the pre-tokenizer */
	uint32_t bos, eos, eot, pad;
	uint32_t mask; /* mask token of a diffusion model */
	bool add_bos;
	const char *chat_template;
};

/*
 * Make a vocabulary of `n` tokens; those from `first_special` on are special or
 * unused. Returns 0, or -ENOMEM, after which there is nothing to release.
 */
int synth_vocab_init(struct synth_vocab *, enum shape_vocab, uint32_t n,
	uint32_t first_special);
/*
 * Make a vocabulary from that of a model, extended to `n` tokens by unused
 * ones. It points into the model's vocabulary; it has no merges, and the other
 * members are not set. Returns 0, or -ENOMEM, after which there is nothing to
 * release.
 */
int synth_vocab_of(struct synth_vocab *, const struct gguf *, uint32_t n);

/* Rename the first unused token to `text` and make it a special token. `text`
 * must outlive the vocabulary. Returns 0, or -ENOENT if there is no unused
 * token. */
int synth_vocab_name(struct synth_vocab *, const char *text);

void synth_vocab_release(struct synth_vocab *);

#endif
