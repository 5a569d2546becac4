/*
 * A pass of attention in steps, for one row's (kern_attend.c, where the steps
 * are) and for that of several rows together (kern_attend_rows.c). A pass is
 * the heads of its rows, a block after the other: scores, weights, values, each
 * head by itself. Its memory is the caller's, kern_attend_scratch(group, dim)
 * floats, and nothing is checked. Private to these two files.
 */
#ifndef TENSOR_KERN_ATTEND_H
#define TENSOR_KERN_ATTEND_H

#include "tensor/kern_lanes.h"

#include <math.h>

struct pass {
	const struct kern_kv *kv;
	unsigned group;        /* query heads of a row */
	unsigned heads;        /* of all rows, a row's behind one another */
	unsigned dim, wide;    /* head_dim; that, rounded up to lanes */
	const uint16_t *table; /* NULL: everything in float32 */
	float scale;
	float *q, *o;  /* [heads][wide] */
	float *rows;   /* [KERN_ATTEND_BLOCK][wide], see pass_rows */
	float *turned; /* [wide][KERN_ATTEND_BLOCK] keys, see kern_turn.h */
	float *s;      /* [heads][KERN_ATTEND_BLOCK] scores, weights */
	/* [heads] and KERN_LANES more */
	float *most, *sum; /* m, l */
	float *zero;       /* what is taken from scores: m */
	float *c;
};

/* A block's keys or values, each `wide` long. Behind the n that are there, up
 * to whole lanes, repetitions of the last. */
struct rows {
	const uint8_t *at[KERN_ATTEND_BLOCK];
	uint32_t n, whole;
	bool f16;
};

/* The steps are there once for each instruction set. */
#define pass_begin  JOIN(kern_pass_begin_, KERN_ISA)
#define pass_query  JOIN(kern_pass_query_, KERN_ISA)
#define pass_rows   JOIN(kern_pass_rows_, KERN_ISA)
#define pass_score  JOIN(kern_pass_score_, KERN_ISA)
#define pass_weigh  JOIN(kern_pass_weigh_, KERN_ISA)
#define pass_value  JOIN(kern_pass_value_, KERN_ISA)
#define pass_block  JOIN(kern_pass_block_, KERN_ISA)
#define pass_finish JOIN(kern_pass_finish_, KERN_ISA)

/* Scores and weights are in powers of two where there is a table. */
static inline float pass_scale(float scale, const uint16_t *table)
{
	const float log2_e = 0x1.715476p0f;

	return table ? scale * log2_e : scale;
}

/* Cuts scratch up for `rows` rows. Set before: kv, group, dim, table, scale. */
void pass_begin(struct pass *, unsigned rows, float *scratch);

/* The queries of a row, [group][dim]: once for each row. */
void pass_query(const struct pass *, unsigned row, const float *q);

/*
 * The keys (base kv->k) or values (kv->v) of n slots, n >= 1: as they lie in
 * the cache where whole vectors can be taken from there, else, or if `copy`, by
 * way of the scratch, which the next call writes anew.
 */
void pass_rows(const struct pass *, struct rows *, const uint8_t *base,
	const uint32_t *slot, uint32_t n, bool copy);

/* Scores of all heads by a block's keys: `whole` each, of which those behind
 * the first n are to be put away by scores_end. */
void pass_score(const struct pass *, const struct rows *);

/* Behind the first n scores of each head, up to `whole` of them, -infinity. */
static inline void scores_end(const struct pass *p, uint32_t n, uint32_t whole)
{
	float *s = p->s;

	for (unsigned h = 0; h < p->heads; h++, s += KERN_ATTEND_BLOCK)
		for (uint32_t i = n; i < whole; i++)
			s[i] = -INFINITY;
}

/* n scores of a block to weights, with m, l and c; n a multiple of KERN_LANES,
 * -infinity behind those that there are. */
void pass_weigh(const struct pass *, uint32_t n);

/* A block's weights times its values joined to o. */
void pass_value(const struct pass *, const struct rows *);

/* A block from its keys to o, all heads seeing the same n slots, n >= 1. */
void pass_block(const struct pass *, const uint32_t *slot, uint32_t n);

/* What a row comes to, [group][dim]. */
void pass_finish(const struct pass *, unsigned row, float *out);

#endif
