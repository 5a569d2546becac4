/*
 * Hyperparameters of a model, read from the keys of its GGUF file. Every number
 * is checked against a bound before any size is computed from it; errors name a
 * key that is missing, of another type or out of range. A key that changes the
 * arithmetic in an unsupported way is refused: an approximation of the model
 * would be worse than an error.
 */
#ifndef HOST_MODEL_MODEL_KEYS_H
#define HOST_MODEL_MODEL_KEYS_H

struct err;
struct model;

#define MODEL_MAX_LAYERS 1024u

/* Set all numbers of *m except n_vocab and rope_freq; m->gguf must be open. */
int keys_read(struct model *m, struct err *);

/*
 * Set m->rope_freq (from malloc): the base, linear scaling, and the divisors of
 * tensor rope_freqs.weight (Llama 3) if the file has it.
 */
int keys_read_rope(struct model *m, struct err *);

#endif
