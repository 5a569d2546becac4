/*
 * A model's hyperparameters, read from the keys of its GGUF file. Every
 * number is checked against a bound before anything is sized by it; a key
 * that is missing, of another type or out of range is named in the refusal.
 * So is a key that changes the arithmetic in a way this program does not
 * know: computing something close to the model would be worse than nothing.
 */
#ifndef HOST_MODEL_MODEL_KEYS_H
#define HOST_MODEL_MODEL_KEYS_H

struct err;
struct model;

#define MODEL_MAX_LAYERS 1024u

/* Fill all numbers of *m but n_vocab and rope_freq; m->gguf is open. */
int keys_read(struct model *m, struct err *);

/*
 * Fill m->rope_freq (from malloc): the base, linear scaling, and the
 * divisors of tensor rope_freqs.weight (Llama 3) where the file has it.
 */
int keys_read_rope(struct model *m, struct err *);

#endif
