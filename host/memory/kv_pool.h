/*
 * Which slots of the key-value cache are whose: bookkeeping alone, no memory
 * and no device. Slots come in runs of KV_RUN, and a run is what is taken,
 * shared and given back: it has as many references as there are sequences
 * that see it. Runs that follow one another in a sequence are put side by
 * side where there is room, because a pass names what a row sees by spans of
 * slots, and few spans are soon told. One thread.
 */
#ifndef HOST_MEMORY_KV_POOL_H
#define HOST_MEMORY_KV_POOL_H

#include <stdint.h>

/*
 * A sequence wastes half a run on average and a fork copies one at most, which
 * asks for short runs; spans are at least one run, which asks for long ones.
 * With 32 slots the WIRE_MAX_SPANS of a pass hold 64 sequences of 2048 tokens
 * even if no two runs lie side by side.
 */
#define KV_RUN     32
#define KV_NOWHERE UINT32_MAX

struct err;
struct kv_pool;

/* `slots` >= 1; the last run may be short. -ENOMEM. */
int kv_pool_open(struct kv_pool **out, uint32_t slots, struct err *);
void kv_pool_close(struct kv_pool *);

/* Runs: all of them, and those that nobody has. */
uint32_t kv_pool_runs(const struct kv_pool *);
uint32_t kv_pool_free(const struct kv_pool *);

/*
 * n <= kv_pool_free() runs into run[n], with one reference each, in the order
 * in which their slots will be read: behind the run `before` if that is free,
 * else where they and what may follow them have most room.
 */
void kv_pool_take(struct kv_pool *, uint32_t before, uint32_t n, uint32_t *run);

/* One reference more, one less; a run without any is free. */
void kv_pool_ref(struct kv_pool *, uint32_t run);
void kv_pool_unref(struct kv_pool *, uint32_t run);
uint32_t kv_pool_refs(const struct kv_pool *, uint32_t run);

#endif
