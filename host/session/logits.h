/*
 * From hidden states to logits, on the host: the final norm, then the output
 * matrix in the same layout and arithmetic as on the device, its outputs
 * divided among worker threads. A row's bytes do not depend on the rows
 * computed with it nor on the number of threads.
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
 * `workers` are borrowed. With `stays` the output matrix of a flash image stays
 * on flash where that is worthwhile (PACKED_STAYS): it is read in parts, each
 * of which is checked, whenever logits are computed, and takes no memory.
 * Otherwise it is read once.
 */
int logits_open(struct logits **out, const struct model *, enum layout,
	enum wire_precision, bool stays, struct workers *, struct err *);
void logits_close(struct logits *);

/* A callback of the computing thread between parts of a product, some tens of
 * microseconds each, for work that must continue. */
struct logits_beside {
	void (*fn)(void *arg); /* NULL: none */
	void *arg;
};
void logits_set_beside(struct logits *, const struct logits_beside *);

/* Number of values of a model file's output matrix and norm that are not
 * finite. */
uint64_t logits_weights_not_finite(const struct logits *);

/*
 * -EPROTO when a row's state has a value that is not finite, which no layer
 * computes.
 */
int logits_check(
	const float *hidden, uint32_t n_embd, uint32_t row, struct err *);

/* hidden[i] [n_embd] to out[i] [n_vocab], i < n <= LOGITS_ROWS, float32. Fails
 * if the matrix is on flash and a part of it cannot be read, or has changed
 * since it was opened (-EBADMSG). */
int logits_compute(struct logits *, const float *const *hidden,
	float *const *out, unsigned n, struct err *);

/* Count a computed row that a token is sampled from, or that is used otherwise,
 * and add it to the hash; unused rows are not hashed. */
void logits_used(struct logits *, const float *logits);

/* Rows computed; those with a value that is not finite, or from a state whose
 * norm has one; rows used, and XXH64 of all bytes of the used rows in order,
 * since the last logits_hash_anew. */
uint64_t logits_rows(const struct logits *);
uint64_t logits_rows_not_finite(const struct logits *);
uint64_t logits_rows_used(const struct logits *);
uint64_t logits_hash(const struct logits *);
void logits_hash_anew(struct logits *);

#endif
