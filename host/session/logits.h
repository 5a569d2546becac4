/*
 * Computes logits from hidden states, on the host: the final norm, followed by
 * the product with the output matrix in the same layout and arithmetic as on
 * the device. The outputs are divided among worker threads. A row's logits
 * depend neither on the number of threads nor on the other rows in the call,
 * down to the last bit.
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

/* maximum number of rows per call; each call reads the output matrix once */
#define LOGITS_ROWS 16

/*
 * The caller keeps ownership of `workers`. With `streamed`, the output matrix
 * of a flash image is not read into memory: logits_set_source must be called
 * before the first computation. Otherwise the matrix is read into memory once.
 */
int logits_open(struct logits **out, const struct model *, enum layout,
	enum wire_precision, bool streamed, struct workers *, struct err *);
void logits_close(struct logits *);

/*
 * The source of a streamed output matrix. Every computation takes all parts of
 * the matrix, in order. `need` provides part i: `n` outputs, a multiple of the
 * strip size (32 outputs). In the last part, n may exceed the number of
 * remaining outputs. `done` releases the part.
 */
struct logits_part {
	const uint8_t *weights;
	uint32_t n;
};
struct logits_source {
	int (*need)(void *arg, uint32_t i, struct logits_part *, struct err *);
	int (*done)(void *arg, struct err *);
	void *arg;
};
void logits_set_source(struct logits *, const struct logits_source *);

/* A function that does other work while logits are computed. The thread that
 * called logits_compute calls the function after each part of the matrix
 * product that this thread computes, at least every few hundred
 * microseconds. */
struct logits_beside {
	void (*fn)(void *arg); /* NULL: no callback */
	void *arg;
};
void logits_set_beside(struct logits *, const struct logits_beside *);

/* Copy the weights of the norm and the output matrix to `dst`, for use by a
 * device; the matrix starts at a multiple of 64 bytes. From then on the logits
 * are computed from this copy of the matrix, which must outlive the struct
 * logits. *norm and *matrix receive types, shapes and offsets. The matrix must
 * not be streamed. */
void logits_share(struct logits *, uint8_t *dst, struct wire_tensor *norm,
	struct wire_tensor *matrix);

/* Number of values in the model file's output matrix and norm that are not
 * finite. */
uint64_t logits_weights_not_finite(const struct logits *);

/* Check a hidden state. Returns 0, or -EPROTO if a value is not finite: such a
 * value indicates an error in the computation of the layers. `row` is used in
 * the error message. */
int logits_check(
	const float *hidden, uint32_t n_embd, uint32_t row, struct err *);

/* Compute the logits out[i] [n_vocab] of hidden state hidden[i] [n_embd] for i
 * < n <= LOGITS_ROWS, all float32. Returns 0 or an error of the source of a
 * streamed output matrix. */
int logits_compute(struct logits *, const float *const *hidden,
	float *const *out, unsigned n, struct err *);

/* Counters. logits_rows: number of computed rows. logits_rows_not_finite:
 * number of computed rows with a value that is not finite or has a magnitude of
 * 2^56 or more, in the logits or in the hidden state before or after the
 * norm. */
uint64_t logits_rows(const struct logits *);
uint64_t logits_rows_not_finite(const struct logits *);

#endif
