#include "tensor/soc/hvx.h"

#include "tensor/soc/soc.h"

/* The result of a shift, a permutation or a product is there in the packet
 * after the next. */
#define LATENCY 2

static unsigned most(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

static unsigned half(unsigned v)
{
	return (v + 1) / 2;
}

static unsigned quarter(unsigned v)
{
	return (v + 3) / 4;
}

/* Two memory slots, of which only slot 0 stores. */
static unsigned memory_packets(const struct hvx *h)
{
	unsigned slots = h->load + h->scalar + h->store + 2 * h->loadu;

	return most(most(h->load + h->loadu, h->store + h->loadu), half(slots));
}

/* Shift, permute, and what takes both. */
static unsigned lane_packets(
	const struct soc *soc, const struct hvx *h, unsigned shift)
{
	unsigned permute = h->permute + h->loadu;

	if (soc->vector_permute_shifts != 0)
		return h->pair + most(permute, half(shift + permute));
	return h->pair + most(permute, shift);
}

unsigned hvx_packets(const struct soc *soc, const struct hvx *h)
{
	unsigned convert = soc->vector_qfloat != 0 ? h->convert : 0;
	unsigned shift = h->shift + convert;
	unsigned compute =
		h->alu + shift + h->permute + h->pair + h->mpy + h->wide;
	unsigned slots =
		compute + h->load + 2 * h->loadu + h->store + h->scalar;
	/* A plain load writes its register through a compute unit, a store of
	 * a new value takes none; an unaligned load has its permute. */
	unsigned units = compute + h->pair + h->wide + h->load + h->loadu;
	unsigned packets = most(memory_packets(h), lane_packets(soc, h, shift));

	packets = most(packets, h->wide + half(h->mpy));
	packets = most(packets, most(quarter(slots), quarter(units)));
	if (h->chain) {
		unsigned converts =
			soc->vector_qfloat != 0 ? h->chain_converts : 0;

		packets = most(packets, h->chain + LATENCY * converts);
	}
	return packets;
}
