/*
 * Allocation of slots of the key-value cache (one slot holds one token). The
 * pool only keeps records; it accesses neither the memory nor the device. Slots
 * are allocated, shared and freed in runs of KV_RUN adjacent slots. A run is
 * reference counted: each sequence that uses it has one reference.
 *
 * The pool makes consecutive runs of a sequence adjacent where it can. A pass
 * (one forward computation) describes the slots to which a row attends as a
 * list of spans (ranges of adjacent slots); a pass with fewer spans takes less
 * time. A pool is used by one thread.
 */
#ifndef HOST_MEMORY_KV_POOL_H
#define HOST_MEMORY_KV_POOL_H

#include <stdint.h>

/*
 * KV_RUN is the number of slots in a run. Short runs waste fewer slots (half a
 * run for each sequence on average) and make forks cheaper (a fork copies up to
 * one run). Long runs need fewer spans, because a span has at least one run.
 * With 32 slots per run, the WIRE_MAX_SPANS spans of a pass suffice for 64
 * sequences of 2048 tokens even if no two runs are adjacent.
 */
#define KV_RUN     32
#define KV_NOWHERE UINT32_MAX

struct err;
struct kv_pool;

/* Create a pool of `slots` >= 1 slots. The last run may have fewer than KV_RUN
 * slots. Returns 0 or -ENOMEM. */
int kv_pool_open(struct kv_pool **out, uint32_t slots, struct err *);
void kv_pool_close(struct kv_pool *);

/* kv_pool_runs: number of all runs. kv_pool_free: number of free runs. */
uint32_t kv_pool_runs(const struct kv_pool *);
uint32_t kv_pool_free(const struct kv_pool *);

/*
 * Allocate n <= kv_pool_free() runs, each with one reference. Their indices are
 * written to run[n] in the order in which their slots will be read. The first
 * run directly follows the run `before` if the run at that place is free;
 * otherwise the pool chooses a place where these runs and later runs have the
 * most free space. `before` is KV_NOWHERE if the new runs have no predecessor.
 */
void kv_pool_take(struct kv_pool *, uint32_t before, uint32_t n, uint32_t *run);

/* Add or remove a reference to a run. A run without references is free. */
void kv_pool_ref(struct kv_pool *, uint32_t run);
void kv_pool_unref(struct kv_pool *, uint32_t run);
uint32_t kv_pool_refs(const struct kv_pool *, uint32_t run);

#endif
