/*
 * The interface of a fuzz target: a function that takes any bytes and must
 * neither crash nor hang. Built with libFuzzer (make fuzz CC=clang FUZZER=1) or
 * with driver.c, which replays a corpus and mutates it.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0. The bytes are the caller's and lie in a block of just `size`. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A target may generate seed inputs in addition to corpus files: write the i-th
 * to buf and return its length (at most cap), 0 when there is no i-th. The same
 * every time.
 */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap) __attribute__((weak));

/*
 * A target may mutate an input and keep its form (lengths, counts, checksums),
 * so that the change reaches the code under test: returns the new length, at
 * most cap. The driver does so for three of four inputs.
 */
struct fuzz_draw {
	uint32_t (*below)(void *arg, uint32_t n); /* in [0, n), n > 0 */
	void *arg;
};
size_t fuzz_mutate(uint8_t *buf, size_t len, size_t cap,
	const struct fuzz_draw *) __attribute__((weak));

/* Target: this input passed the first check. The driver prints their number. */
void fuzz_got_past(void);

/* An edge of the integer types or a neighbour of one, or a small number. */
static inline uint64_t fuzz_interesting(const struct fuzz_draw *d)
{
	uint32_t shift = d->below(d->arg, 65);
	uint64_t edge = shift == 64 ? 0 : (uint64_t)1 << shift;

	if (!d->below(d->arg, 4))
		return d->below(d->arg, 1024);
	return edge + d->below(d->arg, 5) - 2;
}

#endif
