/*
 * The figures of bench lever's tables, from its runs. Of a run that came to no
 * token they are 0 or NAN.
 */
#ifndef HOST_BENCH_BENCH_LEVER_TABLES_H
#define HOST_BENCH_BENCH_LEVER_TABLES_H

#include "host/bench/bench_lever.h"

struct bench_table;

#define LEVER_TABLES_OF_A_KIND 3

/* Bytes/s that reading the layers alone gives. */
double lever_plain_rate(const struct bench_lever *);

/* Tokens/s: of the rounds the median, of the tasks the geometric mean. */
double lever_rate(const struct bench_lever *, const struct lever_run *);

/* Fill the tables of a kind, which has rows; returns how many, at
 * most LEVER_TABLES_OF_A_KIND. */
unsigned lever_fill(const struct bench_lever *, enum lever_table_kind,
	struct bench_table *);

#endif
