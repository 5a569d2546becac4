#include "tensor/soc/hvx.h"

#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"

/* The number of packets from a shift, a permutation or a product to the first
 * packet that can use its result. */
#define LATENCY 2

unsigned hvx_packets(const struct soc *soc, const struct hvx *h)
{
	unsigned convert = soc->vector_qfloat != 0 ? h->convert : 0;
	unsigned shift = h->shift + convert, permute = h->permute + h->loadu;
	unsigned compute =
		h->alu + shift + h->permute + h->pair + h->mpy + h->wide;
	unsigned memory = h->load + 2 * h->loadu + h->store + h->scalar;
	/* An aligned load occupies a compute unit to write its register; a
	 * store of a new value occupies none; an unaligned load occupies the
	 * permute unit. */
	unsigned units = compute + h->pair + h->wide + h->load + h->loadu;
	/* There are two memory slots, and only slot 0 can store. */
	unsigned packets =
		larger(larger(h->load + h->loadu, h->store + h->loadu),
			ceil_div(memory, 2));
	/* Packets that shifts and permutes need. Instructions that use both
	 * units (`pair`) are added below. */
	unsigned lanes = soc->vector_permute_shifts != 0
		? larger(permute, ceil_div(shift + permute, 2))
		: larger(permute, shift);

	packets = larger(packets, h->pair + lanes);
	packets = larger(packets, h->wide + ceil_div(h->mpy, 2));
	packets = larger(packets, ceil_div(compute + memory, 4));
	packets = larger(packets, ceil_div(units, 4));
	if (h->chain) {
		unsigned converts =
			soc->vector_qfloat != 0 ? h->chain_converts : 0;

		packets = larger(packets, h->chain + LATENCY * converts);
	}
	return packets;
}
