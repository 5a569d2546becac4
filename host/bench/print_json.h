/*
 * One JSON object on standard output, for benches and reports: what could not
 * be built or written whole is an error, and says whether memory was short.
 */
#ifndef HOST_BENCH_PRINT_JSON_H
#define HOST_BENCH_PRINT_JSON_H

#include <jansson.h>

struct err;

/* A line, compact, real numbers with so many digits; takes the object, which
 * may be NULL: no memory. */
int print_json(json_t *, size_t digits, struct err *);

#endif
