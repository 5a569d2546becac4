/*
 * The steps of attention, used for one row (kern_attend.c) and for several rows
 * together (kern_attend_rows.c). A pass (struct pass) computes all heads of its
 * rows, one block of slots after the other: scores, then softmax weights, then
 * the weighted sum of values. The caller provides the memory,
 * kern_attend_scratch(group, dim) floats. Arguments are not checked. The names
 * m (running maximum), l (running sum), c (factor) and o (output) are those of
 * the formulas in kern_attend.c. Private to these two files.
 */
#ifndef TENSOR_KERN_ATTEND_H
#define TENSOR_KERN_ATTEND_H

#include "tensor/kern_lanes.h"

#include <math.h>

struct pass {
	const struct kern_kv *kv;
	unsigned group; /* query heads of one row */
	/* number of query heads of all rows together */
	unsigned heads;
	/* head_dim, and head_dim rounded up to KERN_LANES */
	unsigned dim, wide;
	/* table of exp2 (kern_exp2_table); NULL: compute everything in
	 * float32 */
	const uint16_t *table;
	float scale;
	float *q, *o; /* queries and outputs, [heads][wide] */
	/* [KERN_ATTEND_BLOCK][wide] copies of keys or values in float32, made
	 * by pass_rows */
	float *rows;
	/* [wide][KERN_ATTEND_BLOCK] transposed keys (kern_transpose.h) */
	float *transposed;
	/* [heads][KERN_ATTEND_BLOCK] scores of the current block, later its
	 * softmax weights */
	float *s;
	/* The next four arrays have heads + KERN_LANES values each. */
	float *most, *sum; /* each head's running maximum m, and sum l */
	float *zero;       /* each head's m, but 0 where m is -infinity */
	float *c;          /* each head's factor c */
};

/* The n keys or values of a block: at[i] points to the key or value of slot i
 * of the block, which has `wide` elements. The pointers at[n] to at[whole - 1]
 * are padding: copies of the last pointer. `whole` is a multiple of
 * KERN_LANES. */
struct rows {
	const uint8_t *at[KERN_ATTEND_BLOCK];
	uint32_t n, whole;
	bool f16;
};

/* Each step is compiled once for each instruction set; the macros add the name
 * of the instruction set to the names of the functions. */
#define pass_begin  JOIN(kern_pass_begin_, KERN_ISA)
#define pass_query  JOIN(kern_pass_query_, KERN_ISA)
#define pass_rows   JOIN(kern_pass_rows_, KERN_ISA)
#define pass_score  JOIN(kern_pass_score_, KERN_ISA)
#define pass_weigh  JOIN(kern_pass_weigh_, KERN_ISA)
#define pass_value  JOIN(kern_pass_value_, KERN_ISA)
#define pass_block  JOIN(kern_pass_block_, KERN_ISA)
#define pass_finish JOIN(kern_pass_finish_, KERN_ISA)

/* With a table, scores are exponents of two, not of e, so the scale includes
 * log2(e). */
static inline float pass_scale(float scale, const uint16_t *table)
{
	const float log2_e = 0x1.715476p0f;

	return table ? scale * log2_e : scale;
}

/* Divide `scratch` among the arrays of a pass over `rows` rows. The caller has
 * set kv, group, dim, table and scale. */
void pass_begin(struct pass *, unsigned rows, float *scratch);

/* Set the queries q, [group][dim], of one row. Call this once for each row. */
void pass_query(const struct pass *, unsigned row, const float *q);

/*
 * Set the pointers of struct rows to the keys (base is kv->k) or the values
 * (base is kv->v) of n slots, n >= 1. The pointers point into the KV cache if
 * the kernels can load full vectors from there and `copy` is not set. Otherwise
 * they point to float32 copies in the scratch memory of the pass, which the
 * next call overwrites.
 */
void pass_rows(const struct pass *, struct rows *, const uint8_t *base,
	const uint32_t *slot, uint32_t n, bool copy);

/*
 * Compute the scores of all heads for the keys of a block, `whole` scores for
 * each head. The caller then calls scores_end to set the scores after the first
 * n to -infinity.
 */
void pass_score(const struct pass *, const struct rows *);

/* For each head, store -infinity in the scores from index n to index whole - 1.
 */
static inline void scores_end(const struct pass *p, uint32_t n, uint32_t whole)
{
	float *s = p->s;

	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK)
		for (uint32_t i = n; i < whole; i++)
			s[i] = -INFINITY;
}

/* Turn n scores of each head into softmax weights and update the running
 * maximum m, the running sum l and the factor c. n is a multiple of KERN_LANES;
 * the scores of padding are -infinity. */
void pass_weigh(const struct pass *, uint32_t n);

/* Multiply the values of a block by their softmax weights, and add the products
 * to the outputs o. */
void pass_value(const struct pass *, const struct rows *);

/* Do all steps for one block of n >= 1 slots, to which all heads of the pass
 * attend. */
void pass_block(const struct pass *, const uint32_t *slot, uint32_t n);

/* Write the result of one row, [group][dim], to `out`. */
void pass_finish(const struct pass *, unsigned row, float *out);

#endif
