/*
 * A shard of a benchmark (host/eval/shard.h): the unrounded sums of all its
 * runs, beside the tables of its own items; and the merge, which plans the same
 * experiment as each shard did and adds up the sums. One thread.
 */
#ifndef HOST_BENCH_BENCH_SHARD_H
#define HOST_BENCH_BENCH_SHARD_H

#include <jansson.h>

struct bench_run;
struct err;
struct shards;

/* Print a line with the benchmark's report and the sums of its runs. Takes the
 * object, which may be NULL: no memory. */
int bench_shard_print(const struct bench_run *, json_t *report, struct err *);

/* -EINVAL for a shard whose runs are not those planned here. */
int bench_shards_take(struct bench_run *, const struct shards *, struct err *);

#endif
