#include "tensor/soc/hvx.h"

#include "tensor/soc/price_impl.h"
#include "tensor/soc/soc.h"

/* The number of packets from a shift, a permutation or a product to the first
 * packet that can use the result. */
#define LATENCY 2

unsigned hvx_packets(const struct soc *soc, const struct hvx *h)
{
	unsigned convert = soc->vector_qfloat != 0 ? h->convert : 0;
	unsigned shift = h->shift + convert, permute = h->permute + h->loadu;
	unsigned compute =
		h->alu + shift + h->permute + h->pair + h->mpy + h->wide;
	unsigned memory = h->load + 2 * h->loadu + h->store + h->scalar;
	/* How many compute units the instructions occupy, of the four in a
	 * packet. An aligned load occupies one unit to write its register, an
	 * unaligned load occupies the permute unit, and a store of a new value
	 * occupies none. `pair` and `wide` instructions occupy two units. */
	unsigned units = compute + h->pair + h->wide + h->load + h->loadu;
	/* A packet has two memory slots, and only slot 0 can store. */
	unsigned packets =
		larger(larger(h->load + h->loadu, h->store + h->loadu),
			ceil_div(memory, 2));
	/* Packets that the shift unit and the permute unit need for
	 * instructions that use one of them. Instructions that use both units
	 * (`pair`) are added below. */
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
