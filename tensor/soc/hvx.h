/*
 * Sequences of vector instructions by the resources they take, and how many
 * packets they need at least: what the cost model counts vector work in. The
 * resources are those of Qualcomm's HVX manuals (one load, one store, shift,
 * permute, two multipliers; four instructions a packet).
 *
 * A sequence is the body of a loop; bodies follow one another without waiting,
 * so its packets are those of its scarcest resource, unless its longest chain
 * of dependent instructions is longer than that and the body too large for
 * bodies to overlap: then `chain` says how long it is.
 */
#ifndef TENSOR_SOC_HVX_H
#define TENSOR_SOC_HVX_H

struct soc;

struct hvx {
	unsigned load;    /* aligned */
	unsigned loadu;   /* unaligned: both memory slots, and permute */
	unsigned store;   /* aligned, of what the packet computes */
	unsigned scalar;  /* loads of the scalar core */
	unsigned alu;     /* any unit: logic, compare, select, add, max */
	unsigned shift;   /* shifts; adds and conversions of floats */
	unsigned permute; /* align, rotate */
	unsigned pair;    /* shift and permute: look-up, shuffle, unpack */
	unsigned mpy;     /* one multiplier: splat, narrowing */
	unsigned wide;    /* both multipliers: products of floats */
	unsigned convert; /* qfloat to IEEE: a shift, where there is qfloat */

	/* Packets of the longest chain where bodies do not overlap, without
	 * conversions, and the conversions on it. */
	unsigned chain, chain_converts;
};

/* Packets of one body. */
unsigned hvx_packets(const struct soc *, const struct hvx *);

#endif
