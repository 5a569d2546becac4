/*
 * What a fuzz target is: one function that takes any bytes and must neither
 * crash nor hang, whatever they are. Built with libFuzzer (make fuzz
 * CC=clang FUZZER=1) or with driver.c, which replays a corpus and mutates it.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0. The bytes are the caller's and lie in a block of just `size`. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A target may make seed inputs beside its corpus files: write the i-th into
 * buf and return its length (at most cap), 0 when there is no i-th. The same
 * every time.
 */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap) __attribute__((weak));

#endif
