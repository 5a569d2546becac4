#include "base/rng.h"

#include <string.h>

void rng_philox(
	const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
	uint32_t k[2] = { key[0], key[1] };

	memcpy(out, counter, 4 * sizeof(*out));
	for (int i = 0; i < 10; i++) {
		const uint64_t a = (uint64_t)0xD2511F53u * out[0];
		const uint64_t b = (uint64_t)0xCD9E8D57u * out[2];

		out[0] = (uint32_t)(b >> 32) ^ out[1] ^ k[0];
		out[1] = (uint32_t)b;
		out[2] = (uint32_t)(a >> 32) ^ out[3] ^ k[1];
		out[3] = (uint32_t)a;
		k[0] += 0x9E3779B9u;
		k[1] += 0xBB67AE85u;
	}
}

void rng_words(
	uint64_t seed, uint64_t stream, uint64_t position, uint32_t out[4])
{
	const uint32_t ctr[4] = { (uint32_t)position,
		(uint32_t)(position >> 32), (uint32_t)stream,
		(uint32_t)(stream >> 32) };
	const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };

	rng_philox(ctr, key, out);
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t position)
{
	uint32_t w[4];
	uint64_t bits;

	rng_words(seed, stream, position, w);
	bits = ((uint64_t)w[0] << 32 | w[1]) >> 11;
	return (double)bits * 0x1p-53;
}
