/*
 * Shared by every cmocka test. A room's test files are linked into one program,
 * $(O)/tests/test_ROOM. tests/run reads the names of its tests from a program
 * (--list) and starts it (--serve); each test is a process of its own, a copy
 * of that one.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

/* In the order that cmocka requires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct err;

/* Adds the tests of a source file (__FILE__) to those of its program. */
void harness_add(const char *file, const struct CMUnitTest *tests, size_t n);

#define TEST_FILE(tests)                                                      \
	__attribute__((constructor)) static void add_tests(void)              \
	{                                                                     \
		harness_add(                                                  \
			__FILE__, tests, sizeof(tests) / sizeof((tests)[0])); \
	}

/* Fails with *e's text when ret is not 0. */
void assert_ok(int ret, const struct err *e);

/* |a - b| <= bound, printing both and where. */
void assert_close(double a, double b, double bound, const char *what);

/* Whether tests that take long run at their full size: TANDEM_TEST_FULL=yes. */
bool harness_full(void);

/* Whether the program under test is built with a sanitizer of addresses or
 * threads; its runtime cannot live with a filter of system calls or a small
 * address space. */
bool harness_sanitized(void);

/* A seed from TANDEM_SEED or 1, printed. */
uint64_t harness_seed(void);

/* ../shared/data/NAME, or skips the test visibly when it is absent. */
const char *harness_data(const char *name, char *buf, size_t size);

/* A fresh directory, removed by the runner's clean-up. */
const char *harness_tmp(void);

/* Flips one bit of the file's byte at `at`; a second call restores it.
 */
void harness_flip(const char *path, uint64_t at);

#endif
