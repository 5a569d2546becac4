/*
 * Sequences of vector instructions by the resources that they use, and the
 * fewest VLIW packets that hold them: the unit in which the cost model counts
 * vector work. The resources are those of Qualcomm's HVX manuals (one load, one
 * store, shift, permute, two multipliers; four instructions in a packet).
 *
 * A sequence is the body of a loop. Successive bodies overlap, so the packets
 * of a body are those of its most used resource (as in the resource bound of
 * modulo scheduling). If the body is too large for bodies to overlap, its
 * longest chain of dependent instructions, `chain`, is a bound as well.
 */
#ifndef TENSOR_SOC_HVX_H
#define TENSOR_SOC_HVX_H

struct soc;

struct hvx {
	unsigned load;    /* aligned */
	unsigned loadu;   /* unaligned: both memory slots, and permute */
	unsigned store;   /* aligned, of a result of the packet */
	unsigned scalar;  /* loads of the scalar core */
	unsigned alu;     /* any unit: logic, compare, select, add, max */
	unsigned shift;   /* shifts; adds and conversions of floats */
	unsigned permute; /* align, rotate */
	unsigned pair;    /* shift and permute: look-up, shuffle, unpack */
	unsigned mpy;     /* one multiplier: splat, narrowing */
	unsigned wide;    /* both multipliers: products of floats */
	unsigned convert; /* qfloat to IEEE: a shift, on phones with qfloat */

	/* If bodies do not overlap: packets of the longest chain, without
	 * conversions, and the conversions on the chain. */
	unsigned chain, chain_converts;
};

/* Packets of one body. */
unsigned hvx_packets(const struct soc *, const struct hvx *);

#endif
