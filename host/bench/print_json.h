/*
 * Prints one JSON object to standard output, for benchmarks and reports. Fails
 * if the object could not be built or could not be written completely.
 */
#ifndef HOST_BENCH_PRINT_JSON_H
#define HOST_BENCH_PRINT_JSON_H

#include <jansson.h>

struct err;

/* Print the object as one compact line, with real numbers of `digits` digits.
 * Takes ownership of the object, which may be NULL if memory ran out. Returns 0
 * or a negative errno. */
int print_json(json_t *, size_t digits, struct err *);

#endif
