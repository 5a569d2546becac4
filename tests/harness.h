/*
 * Declarations for all cmocka tests. The test files of one directory are linked
 * into one program, $(O)/tests/test_DIRECTORY. tests/run reads the names of the
 * program's tests (--list) and starts the program once (--serve). Each test
 * then runs in a separate process, a copy of the started process.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

/* These headers are in the order that cmocka requires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct err;

/* Adds the tests of a source file (`file` is __FILE__) to the tests of the
 * program. */
void harness_add(const char *file, const struct CMUnitTest *tests, size_t n);

#define TEST_FILE(tests)                                                      \
	__attribute__((constructor)) static void add_tests(void)              \
	{                                                                     \
		harness_add(                                                  \
			__FILE__, tests, sizeof(tests) / sizeof((tests)[0])); \
	}

/* Fails the test with the message of *e if ret is not 0. */
void assert_ok(int ret, const struct err *e);

/* Fails the test unless |a - b| <= bound. The message has both numbers and
 * `what`. */
void assert_close(double a, double b, double bound, const char *what);

/* Whether long tests run at their full size: TANDEM_TEST_FULL=yes. */
bool harness_full(void);

/* Whether the program is built with the address or thread sanitizer, whose
 * runtime does not work with a system call filter or in a small address
 * space. */
bool harness_sanitized(void);

/* The seed of random tests: TANDEM_SEED, or 1 if TANDEM_SEED is not set. The
 * seed is printed. */
uint64_t harness_seed(void);

/* The path ../shared/data/NAME, in buf. If the file does not exist, the test is
 * skipped with a message. */
const char *harness_data(const char *name, char *buf, size_t size);

/* The path of a new directory, which the runner removes. */
const char *harness_tmp(void);

/* The number of open file descriptors of this process. */
unsigned harness_fds(void);

/* Lets this process open only n more file descriptors; UINT_MAX: as many as the
 * system allows. */
void harness_limit_fds(unsigned n);

/* Lets this process map only n more bytes of memory; UINT64_MAX: as many as the
 * system allows. Not for a program that is built with a sanitizer. */
void harness_limit_memory(uint64_t n);

/* Flips one bit of byte `at` of a file. A second call restores the byte. */
void harness_flip(const char *path, uint64_t at);

#endif
