/*
 * The interface of a fuzz target: a function that is called with arbitrary
 * bytes and must neither crash nor hang. A target is built with libFuzzer (make
 * fuzz CC=clang FUZZER=1) or with driver.c, which replays a corpus and mutates
 * the inputs of the corpus.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Process one input. Returns 0. The bytes belong to the caller and are in a
 * block of exactly `size` bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A target may generate seed inputs in addition to the corpus files: write the
 * i-th seed to buf and return its length (at most cap), or 0 if there is no
 * i-th seed. The seeds are the same in every run.
 */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap) __attribute__((weak));

/*
 * A target may mutate an input so that its form (lengths, counts, checksums)
 * remains valid and the change reaches the code under test. Returns the new
 * length, at most cap. The driver uses this function for three of four
 * mutations.
 */
struct fuzz_draw {
	uint32_t (*below)(void *arg, uint32_t n); /* in [0, n), n > 0 */
	void *arg;
};
size_t fuzz_mutate(uint8_t *buf, size_t len, size_t cap,
	const struct fuzz_draw *) __attribute__((weak));

/* A target calls this function if the input has passed the first checks. The
 * driver prints how many inputs have passed these checks. */
void fuzz_got_past(void);

/* Returns a random number: a power of two (or 0) plus -2 to 2 or, in one of
 * four calls, a number below 1024. */
static inline uint64_t fuzz_interesting(const struct fuzz_draw *d)
{
	uint32_t shift = d->below(d->arg, 65);
	uint64_t edge = shift == 64 ? 0 : (uint64_t)1 << shift;

	if (!d->below(d->arg, 4))
		return d->below(d->arg, 1024);
	return edge + d->below(d->arg, 5) - 2;
}

#endif
