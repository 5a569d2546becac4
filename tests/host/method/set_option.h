/* Sets method options by name, as on the command line. */
#ifndef TESTS_HOST_METHOD_SET_OPTION_H
#define TESTS_HOST_METHOD_SET_OPTION_H

#include "base/err.h"
#include "base/opt.h"
#include "host/method/methods.h"
#include "tests/harness.h"

#include <stdint.h>
#include <stdio.h>

static inline void set_option(
	struct opt_values *v, const char *name, const char *text)
{
	struct err e = { 0 };

	assert_ok(opt_set(method_table, v, name, text, &e), &e);
}

static inline void set_option_number(
	struct opt_values *v, const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	set_option(v, name, text);
}

#endif
