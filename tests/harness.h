/*
 * What every cmocka program of this project shares: its main. A test runs in
 * a process of its own with a timeout: tests/run asks a program for its list
 * (--list) and starts it once for each name.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

/* In the order cmocka needs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

struct err;

/* --list prints the names; NAME runs one; nothing runs all. */
int harness_main(
	int argc, char **argv, const struct CMUnitTest *tests, size_t n);

#define TEST_MAIN(tests)                                     \
	int main(int argc, char **argv)                      \
	{                                                    \
		return harness_main(argc, argv, tests,       \
			sizeof(tests) / sizeof((tests)[0])); \
	}

/* Fails with *e's text when ret is not 0. */
void assert_ok(int ret, const struct err *e);

/* |a - b| <= bound, printing both and where. */
void assert_close(double a, double b, double bound, const char *what);

/* A seed from TANDEM_SEED or 1, printed. */
uint64_t harness_seed(void);

/* ../shared/data/NAME, or skips the test visibly when it is absent. */
const char *harness_data(const char *name, char *buf, size_t size);

/* A fresh directory, removed by the runner's clean-up. */
const char *harness_tmp(void);

/* One bit of the file's byte at `at` turns: there, and with another call back.
 */
void harness_flip(const char *path, uint64_t at);

#endif
