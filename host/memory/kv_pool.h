/*
 * Allocation of key-value cache slots: bookkeeping alone, without memory or
 * device. Slots are allocated, shared and freed in runs of KV_RUN; a run has as
 * many references as there are sequences that use it. Consecutive runs of a
 * sequence are adjacent where possible, as a pass lists what a row attends to
 * as spans of slots, and fewer spans are cheaper. One thread.
 */
#ifndef HOST_MEMORY_KV_POOL_H
#define HOST_MEMORY_KV_POOL_H

#include <stdint.h>

/*
 * A sequence wastes half a run on average and a fork copies one at most, which
 * favours short runs; spans are at least one run, which favours long ones. With
 * 32 slots the WIRE_MAX_SPANS of a pass hold 64 sequences of 2048 tokens even
 * if no two runs are adjacent.
 */
#define KV_RUN     32
#define KV_NOWHERE UINT32_MAX

struct err;
struct kv_pool;

/* `slots` >= 1; the last run may be short. -ENOMEM. */
int kv_pool_open(struct kv_pool **out, uint32_t slots, struct err *);
void kv_pool_close(struct kv_pool *);

/* Number of runs: all, and free ones. */
uint32_t kv_pool_runs(const struct kv_pool *);
uint32_t kv_pool_free(const struct kv_pool *);

/*
 * Take n <= kv_pool_free() runs into run[n], with one reference each, in the
 * order in which their slots will be read: after the run `before` if that is
 * free, else where they and later runs have most room.
 */
void kv_pool_take(struct kv_pool *, uint32_t before, uint32_t n, uint32_t *run);

/* Add or drop a reference; a run without any is free. */
void kv_pool_ref(struct kv_pool *, uint32_t run);
void kv_pool_unref(struct kv_pool *, uint32_t run);
uint32_t kv_pool_refs(const struct kv_pool *, uint32_t run);

#endif
