/*
 * Print one JSON object to standard output, for benchmarks and reports. Fails
 * if the object could not be built or written completely.
 */
#ifndef HOST_BENCH_PRINT_JSON_H
#define HOST_BENCH_PRINT_JSON_H

#include <jansson.h>

struct err;

/* Print a compact line, real numbers with `digits` digits. Takes the object,
 * which may be NULL: no memory. */
int print_json(json_t *, size_t digits, struct err *);

#endif
