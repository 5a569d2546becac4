/*
 * JSON of benchmarks and reports, which is printed to standard output, one
 * object a line.
 */
#ifndef HOST_BENCH_PRINT_JSON_H
#define HOST_BENCH_PRINT_JSON_H

#include <jansson.h>

struct err;

/* A JSON number, or null if the value is infinite or NaN. */
json_t *number_json(double);

/* Print the object as one compact line, with `digits` significant digits of
 * real numbers. Takes ownership of the object, which may be NULL if memory ran
 * out. Returns 0, or a negative errno if the object is NULL or cannot be
 * written completely. */
int print_json(json_t *, size_t digits, struct err *);

#endif
