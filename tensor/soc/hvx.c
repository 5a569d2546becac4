#include "tensor/soc/hvx.h"

#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"

/* The result of a shift, a permutation or a product is there in the packet
 * after the next. */
#define LATENCY 2

/* Two memory slots, of which only slot 0 stores. */
static unsigned memory_packets(const struct hvx *h)
{
	unsigned slots = h->load + h->scalar + h->store + 2 * h->loadu;

	return larger(larger(h->load + h->loadu, h->store + h->loadu),
		ceil_div(slots, 2));
}

/* Shift, permute, and what takes both. */
static unsigned lane_packets(
	const struct soc *soc, const struct hvx *h, unsigned shift)
{
	unsigned permute = h->permute + h->loadu;

	if (soc->vector_permute_shifts != 0)
		return h->pair + larger(permute, ceil_div(shift + permute, 2));
	return h->pair + larger(permute, shift);
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
	unsigned packets =
		larger(memory_packets(h), lane_packets(soc, h, shift));

	packets = larger(packets, h->wide + ceil_div(h->mpy, 2));
	packets =
		larger(packets, larger(ceil_div(slots, 4), ceil_div(units, 4)));
	if (h->chain) {
		unsigned converts =
			soc->vector_qfloat != 0 ? h->chain_converts : 0;

		packets = larger(packets, h->chain + LATENCY * converts);
	}
	return packets;
}
