/*
 * From hidden states to logits, on the host: final norm, then the output
 * matrix in the same layout and arithmetic as the device's, its outputs shared
 * out to the worker threads. A row's bytes do not depend on how many rows were
 * asked for with it nor on the number of threads.
 */
#ifndef HOST_SESSION_LOGITS_H
#define HOST_SESSION_LOGITS_H

#include "ipc/wire.h"
#include "tensor/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct logits;
struct model;
struct workers;

#define LOGITS_ROWS 16 /* computed together: the matrix is read once */

/*
 * The workers are borrowed. With `stays` the output matrix of a flash image
 * stays on flash where that is worth it (PACKED_STAYS): it is read in parts,
 * each of which is checked, whenever logits are computed, and is not in this
 * process's memory. Else it is read once.
 */
int logits_open(struct logits **out, const struct model *, enum layout,
	enum wire_precision, bool stays, struct workers *, struct err *);
void logits_close(struct logits *);

/* Called by the thread that computes, between parts of a product, some tens of
 * microseconds each: what is to go on meanwhile. */
struct logits_beside {
	void (*fn)(void *arg); /* NULL: nothing */
	void *arg;
};
void logits_set_beside(struct logits *, const struct logits_beside *);

/* Values of the output matrix and its norm, of a model file, that are infinite
 * or no number. */
uint64_t logits_weights_not_finite(const struct logits *);

/*
 * -EPROTO when the state of a row holds what no layer computes: a value that is
 * infinite or no number.
 */
int logits_check(
	const float *hidden, uint32_t n_embd, uint32_t row, struct err *);

/* hidden[i] [n_embd] to out[i] [n_vocab], i < n <= LOGITS_ROWS, float32. Fails
 * where the matrix stays on flash and a part of it cannot be read, or is not
 * what it was when it was opened (-EBADMSG). */
int logits_compute(struct logits *, const float *const *hidden,
	float *const *out, unsigned n, struct err *);

/* A row that was computed is what a token is drawn from, or read otherwise:
 * rows that were computed in vain are not in the hash. */
void logits_used(struct logits *, const float *logits);

/* Rows computed; of these, rows with a value, or of a state whose norm has one,
 * that is infinite or no number; rows used, and XXH64 of all bytes of those in
 * order, since it was begun anew. */
uint64_t logits_rows(const struct logits *);
uint64_t logits_rows_not_finite(const struct logits *);
uint64_t logits_rows_used(const struct logits *);
uint64_t logits_hash(const struct logits *);
void logits_hash_anew(struct logits *);

#endif
