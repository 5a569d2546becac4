/*
 * From a hidden state to logits, on the host: final norm, then the output
 * matrix as it lies in the model file, its rows shared out to the worker
 * threads. One hidden state at a time, always by the same kernel and the
 * same cut, so the bytes do not depend on how many rows were asked for nor
 * on the number of threads.
 */
#ifndef HOST_LOGITS_H
#define HOST_LOGITS_H

#include <stdint.h>

struct err;
struct logits;
struct model;

int logits_open(struct logits **out, const struct model *, unsigned threads,
	struct err *);
void logits_close(struct logits *);

/* hidden [n_embd] to out [n_vocab], both float32. */
void logits_row(struct logits *, const float *hidden, float *out);

/* Rows computed, and XXH64 of all their bytes in order. */
uint64_t logits_rows(const struct logits *);
uint64_t logits_hash(const struct logits *);

#endif
