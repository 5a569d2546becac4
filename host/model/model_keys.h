/*
 * Hyperparameters of a model, read from the keys of its GGUF file. Every number
 * is checked against a limit before any size is computed from it. An error
 * names the key that is missing, has another type or is out of range. A key
 * that changes the arithmetic in an unsupported way is an error as well,
 * because wrong output would be worse than an error.
 */
#ifndef HOST_MODEL_MODEL_KEYS_H
#define HOST_MODEL_MODEL_KEYS_H

struct err;
struct model;

#define MODEL_MAX_LAYERS 1024u

/* Set the hyperparameters of *m, except n_vocab and rope_freq. m->gguf must be
 * open. Returns 0 or a negative errno. */
int keys_read(struct model *m, struct err *);

/*
 * Allocate m->rope_freq and compute it from the base, the linear scaling, and
 * the divisors in tensor rope_freqs.weight (Llama 3) if the file has it.
 * Returns 0 or a negative errno.
 */
int keys_read_rope(struct model *m, struct err *);

#endif
