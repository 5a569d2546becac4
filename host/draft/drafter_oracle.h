/*
 * A drafter that knows the continuation, for studies of speed on models whose
 * text means nothing: how far it agrees with the target is said, not learnt.
 *
 * Behind the text, as far as it is known, the true next token has rank r = 0, 1
 * ... among the candidates with probability P (1 - P)^r, and none beyond the
 * tree's k; the others are pseudo-random. Everywhere else all are. The
 * candidate of rank r has q = P (1 - P)^r, so the draft is calibrated; one
 * whose q is 0 in float32 is none. Every choice is a pure function of the seed
 * and the path (base/rng.h).
 */
#ifndef HOST_DRAFT_DRAFTER_ORACLE_H
#define HOST_DRAFT_DRAFTER_ORACLE_H

#include "tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct drafter;
struct err;
struct shape;
struct soc;

/*
 * text[n], the prompt and what follows it, is copied. `agreement` is P, above 0
 * and at most 1. -EINVAL when that is not so, when a token of the text is not
 * in the vocabulary, or when that has no more than TREE_CANDIDATES tokens.
 * It is free, and expands nodes one by one.
 */
int drafter_oracle_open(struct drafter *out, const int32_t *text, size_t n,
	double agreement, uint64_t seed, uint32_t n_vocab, struct err *);

/*
 * It takes what a draft model of that shape would on the phone's CPU, in
 * matrices of this type (F32: Q8_0): a pass for each `batch` nodes, as a
 * drafter that expands so many together; with 0 it is asked as a draft model on
 * the host is of which nothing is said.
 */
void drafter_oracle_price_as(struct drafter *, const struct soc *,
	const struct shape *as, enum dtype type, uint32_t batch);

#endif
