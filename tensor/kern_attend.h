/*
 * The steps of attention, implemented in kern_attend.c, for one row
 * (kern_attend.c) and for several rows together (kern_attend_rows.c). A pass
 * computes all heads of its rows, block by block: scores, weights, values. The
 * caller owns its memory, kern_attend_scratch(group, dim) floats. Nothing is
 * checked. The names m, l, c and o are those of kern_attend.c. Private to these
 * two files.
 */
#ifndef TENSOR_KERN_ATTEND_H
#define TENSOR_KERN_ATTEND_H

#include "tensor/kern_lanes.h"

#include <math.h>

struct pass {
	const struct kern_kv *kv;
	unsigned group;        /* query heads of a row */
	unsigned heads;        /* of all rows, row by row */
	unsigned dim, wide;    /* head_dim, and rounded up to KERN_LANES */
	const uint16_t *table; /* NULL: everything in float32 */
	float scale;
	float *q, *o;      /* [heads][wide] */
	float *rows;       /* [KERN_ATTEND_BLOCK][wide] copies of pass_rows */
	float *transposed; /* [wide][KERN_ATTEND_BLOCK] keys (kern_transpose.h)
			    */
	float *s;          /* [heads][KERN_ATTEND_BLOCK] scores, weights */
	/* [heads + KERN_LANES] */
	float *most, *sum; /* m, l */
	float *zero;       /* m, but 0 where m is -infinity */
	float *c;
};

/* A block's n keys or values, each `wide` long, padded to whole lanes with
 * copies of the last one. */
struct rows {
	const uint8_t *at[KERN_ATTEND_BLOCK];
	uint32_t n, whole;
	bool f16;
};

/* The steps exist once for each instruction set. */
#define pass_begin  JOIN(kern_pass_begin_, KERN_ISA)
#define pass_query  JOIN(kern_pass_query_, KERN_ISA)
#define pass_rows   JOIN(kern_pass_rows_, KERN_ISA)
#define pass_score  JOIN(kern_pass_score_, KERN_ISA)
#define pass_weigh  JOIN(kern_pass_weigh_, KERN_ISA)
#define pass_value  JOIN(kern_pass_value_, KERN_ISA)
#define pass_block  JOIN(kern_pass_block_, KERN_ISA)
#define pass_finish JOIN(kern_pass_finish_, KERN_ISA)

/* With a table scores are exponents of two, not of e. */
static inline float pass_scale(float scale, const uint16_t *table)
{
	const float log2_e = 0x1.715476p0f;

	return table ? scale * log2_e : scale;
}

/* Divide scratch for `rows` rows. kv, group, dim, table and scale are set. */
void pass_begin(struct pass *, unsigned rows, float *scratch);

/* Set the queries of a row, [group][dim]; call once for each row. */
void pass_query(const struct pass *, unsigned row, const float *q);

/*
 * The keys (base kv->k) or values (kv->v) of n slots, n >= 1: in place in the
 * cache if whole vectors can be loaded there, else, or if `copy`, widened to
 * scratch, which the next call overwrites.
 */
void pass_rows(const struct pass *, struct rows *, const uint8_t *base,
	const uint32_t *slot, uint32_t n, bool copy);

/* Scores of all heads and a block's keys, `whole` for each head; call
 * scores_end to invalidate those after the first n. */
void pass_score(const struct pass *, const struct rows *);

/* Set scores n to whole - 1 of each head to -infinity. */
static inline void scores_end(const struct pass *p, uint32_t n, uint32_t whole)
{
	float *s = p->s;

	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK)
		for (uint32_t i = n; i < whole; i++)
			s[i] = -INFINITY;
}

/* Turn n scores of each head into weights and update m, l and c. n is a
 * multiple of KERN_LANES; padding scores are -infinity. */
void pass_weigh(const struct pass *, uint32_t n);

/* Update o with a block's weights and values. */
void pass_value(const struct pass *, const struct rows *);

/* All steps of a block; all heads see the same n slots, n >= 1. */
void pass_block(const struct pass *, const uint32_t *slot, uint32_t n);

/* The result of a row, [group][dim]. */
void pass_finish(const struct pass *, unsigned row, float *out);

#endif
