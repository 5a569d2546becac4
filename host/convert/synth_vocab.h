/*
 * A byte-level BPE vocabulary for synthesized models: 256 byte tokens, merges
 * of frequent English letter pairs and triples, the special tokens of the real
 * family at their real ids, and unused [PADn] tokens up to the real size. It
 * can tokenize any text.
 */
#ifndef HOST_CONVERT_SYNTH_VOCAB_H
#define HOST_CONVERT_SYNTH_VOCAB_H

#include "host/model/shapes.h"
#include "tensor/gguf.h"

#include <stdint.h>

struct synth_vocab {
	uint32_t n;
	struct gguf_str *token; /* [n] */
	int32_t *type;          /* [n] GGUF's numbers: 1 normal ... */
	uint32_t n_merges;
	struct gguf_str *merge; /* [n_merges] "left right" */
	char *text, *end;       /* storage of the strings */
	const char *pre;        /* name of the pre-tokenizer */
	uint32_t bos, eos, eot, pad;
	uint32_t mask; /* for a model that fills masks */
	bool add_bos;
	const char *chat_template;
};

/*
 * `n` tokens, of which those from `first_special` on are special or unused.
 * -ENOMEM leaves nothing to release.
 */
int synth_vocab_init(struct synth_vocab *, enum shape_vocab, uint32_t n,
	uint32_t first_special);
/*
 * The vocabulary of a model, which it points into, extended by unused tokens to
 * `n`; without merges, and with no other member set. -ENOMEM leaves nothing to
 * release.
 */
int synth_vocab_of(struct synth_vocab *, const struct gguf *, uint32_t n);

/* Make the first unused token this special one; the text must outlive the
 * vocabulary. -ENOENT: no unused token. */
int synth_vocab_name(struct synth_vocab *, const char *text);

void synth_vocab_release(struct synth_vocab *);

#endif
