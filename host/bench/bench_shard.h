/*
 * Shards of a benchmark (host/eval/shard.h). A shard runs the whole experiment,
 * but only on a part of the items. Its report has the tables for these items
 * and, for each run of the experiment, the unrounded sums over these items. A
 * merge plans the experiment again, as each shard did, and adds up the sums of
 * each run. Single-threaded.
 */
#ifndef HOST_BENCH_BENCH_SHARD_H
#define HOST_BENCH_BENCH_SHARD_H

#include <jansson.h>

struct bench_run;
struct err;
struct shards;

/*
 * Print the report with the sums of the benchmark's runs added to it, as one
 * line of JSON. Takes ownership of `report`, which may be NULL if memory ran
 * out. Returns 0 or a negative errno.
 */
int bench_shard_print(const struct bench_run *, json_t *report, struct err *);

/* Add the sums of all shards to the run. Returns 0 on success, or -EINVAL if
 * the runs of a shard differ from the planned runs of the struct bench_run. */
int bench_shards_take(struct bench_run *, const struct shards *, struct err *);

#endif
