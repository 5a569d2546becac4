/*
 * A benchmark's shard (host/eval/shard.h): what all its runs came to,
 * unrounded, beside the tables of its own items; and the runs of an experiment
 * made of all shards, which plans them as each shard did. One thread.
 */
#ifndef HOST_BENCH_BENCH_SHARD_H
#define HOST_BENCH_BENCH_SHARD_H

#include <jansson.h>

struct bench_run;
struct err;
struct shards;

/* A line: what the benchmark tells, and the runs. Takes the object, which may
 * be NULL: no memory. */
int bench_shard_print(const struct bench_run *, json_t *told, struct err *);

/* -EINVAL where a shard has not the runs that are planned here. */
int bench_shards_take(struct bench_run *, const struct shards *, struct err *);

#endif
