/*
 * Sequences of vector instructions, described by the hardware resources that
 * they use, and the smallest number of VLIW packets (groups of instructions
 * that start together) for a sequence. The cost model counts vector work in
 * packets. The resources are those of Qualcomm's HVX manuals: one load, one
 * store, one shift and one permute unit and two multipliers, with four
 * instructions in a packet.
 *
 * A sequence is the body of a loop. Successive bodies overlap, so a body takes
 * as many packets as its most used resource needs (the resource bound of modulo
 * scheduling). If a body is too large to overlap with the next body, `chain`,
 * the length of the body's longest chain of dependent instructions, is a second
 * lower bound.
 */
#ifndef TENSOR_SOC_HVX_H
#define TENSOR_SOC_HVX_H

struct soc;

struct hvx {
	unsigned load; /* aligned loads */
	/* unaligned loads, which use both memory slots and the permute unit */
	unsigned loadu;
	/* aligned stores of a result that the same packet computes */
	unsigned store;
	unsigned scalar; /* loads of the scalar core */
	/* instructions that any unit executes: logic, compare, select, add, max
	 */
	unsigned alu;
	/* instructions of the shift unit: shifts; additions and conversions of
	 * floats */
	unsigned shift;
	/* instructions of the permute unit: align, rotate */
	unsigned permute;
	/* instructions that use both the shift and the permute unit:
	 * look-up, shuffle, unpack */
	unsigned pair;
	/* instructions that use one multiplier: splat, narrowing */
	unsigned mpy;
	/* instructions that use both multipliers: products of floats */
	unsigned wide;
	/* conversions from qfloat, HVX's own float format, to IEEE floats: one
	 * shift each on phones with qfloat, otherwise free */
	unsigned convert;

	/* The longest chain of dependent instructions: its number of packets
	 * without conversions, and its number of conversions. Both are 0 if
	 * successive bodies overlap. */
	unsigned chain, chain_converts;
};

/* The smallest number of packets for one loop body on this phone. */
unsigned hvx_packets(const struct soc *, const struct hvx *);

#endif
