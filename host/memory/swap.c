#include "host/memory/swap.h"

#include "base/err.h"
#include "host/memory/weights.h"
#include "host/npu/phone.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POISON 0xff /* this byte, repeated, is NaN in float32 and fp16 */

struct slot {
	struct buffer *buffer;
	uint8_t *bytes;
	/* index of the block that is in the slot or being copied to it */
	uint32_t block;
	/* end of the copy on the simulated phone's timeline */
	uint64_t ready_ps;
	/* Whether the slot's block is complete: no copy into the slot is
	 * pending or running. Guarded by the lock. */
	bool present;
	/* whether the caller uses the slot: after swap_need, before
	 * swap_done */
	bool lent;
};

struct swap {
	struct swap_opts opts;
	struct swap_block *block;
	struct slot slot[SWAP_SLOTS];
	/* Slots that the caller does not use, in the order in which their
	 * blocks are used. */
	unsigned queue[SWAP_SLOTS], queued;
	uint32_t next; /* next block to copy */
	struct swap_stats stats;

	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	pthread_cond_t work, copied;
	/* Slots to fill, the oldest request first; guarded by the lock. */
	unsigned order[SWAP_SLOTS], ordered;
	bool ends;
};

/* ---- the copying thread -------------------------------------------------- */

static void *copier(void *arg)
{
	struct swap *s = arg;

	pthread_setname_np(pthread_self(), "copier");
	pthread_mutex_lock(&s->lock);
	while (!s->ends) {
		const struct swap_block *b;
		struct slot *at;

		if (!s->ordered) {
			pthread_cond_wait(&s->work, &s->lock);
			continue;
		}
		at = &s->slot[s->order[0]];
		b = &s->block[at->block];
		s->ordered--;
		memmove(s->order, s->order + 1,
			s->ordered * sizeof(s->order[0]));
		/* The lock is released during the copy. */
		pthread_mutex_unlock(&s->lock);
		trace_begin(s->opts.trace, TRACE_COPY, at->block, b->bytes);
		memcpy(at->bytes, b->from, b->bytes);
		trace_end(s->opts.trace, TRACE_COPY);
		pthread_mutex_lock(&s->lock);
		at->present = true;
		pthread_cond_signal(&s->copied);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* ---- opening ------------------------------------------------------------- */

int swap_open(struct swap **out, const struct swap_opts *opts, struct err *e)
{
	struct swap *s = calloc(1, sizeof(*s));
	pthread_condattr_t monotonic;
	size_t most = 0; /* bytes of the largest block */
	int ret = 0;

	if (!s)
		return err_set(e, ENOMEM,
			"no memory for the state of --placement swap");
	s->opts = *opts;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_cond_init(&s->copied, &monotonic);
	pthread_condattr_destroy(&monotonic);
	s->block = calloc(opts->n, sizeof(*s->block));
	if (!s->block)
		ret = err_set(e, ENOMEM,
			"no memory for the list of %u blocks of weights",
			opts->n);
	else
		memcpy(s->block, opts->block, opts->n * sizeof(*s->block));
	for (uint32_t k = 0; k < opts->n; k++)
		if (opts->block[k].bytes > most)
			most = opts->block[k].bytes;
	for (unsigned i = 0; i < SWAP_SLOTS && !ret; i++) {
		struct slot *at = &s->slot[i];
		char name[BUFFER_NAME_MAX];

		snprintf(name, sizeof(name), "swap%u", i);
		ret = buffer_create(&at->buffer, name, opts->slot_bytes,
			BUFFER_DMA | BUFFER_HUGE, e);
		if (ret)
			at->buffer = NULL;
		else if (most + WEIGHTS_ALIGN > opts->slot_bytes)
			buffer_take_memory(at->buffer, NULL);
		at->present = true;
	}
	if (!ret) {
		ret = pthread_create(&s->thread, NULL, copier, s);
		s->runs = !ret;
		if (ret)
			ret = err_sys(e, ret,
				"cannot start the thread that copies weights "
				"(no memory, or the limit of ulimit -u is "
				"reached)");
	}
	if (ret) {
		swap_close(s);
		return ret;
	}
	*out = s;
	return 0;
}

void swap_close(struct swap *s)
{
	if (!s)
		return;
	if (s->runs) {
		pthread_mutex_lock(&s->lock);
		s->ends = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	pthread_cond_destroy(&s->copied);
	pthread_cond_destroy(&s->work);
	pthread_mutex_destroy(&s->lock);
	for (unsigned i = 0; i < SWAP_SLOTS; i++)
		buffer_close(s->slot[i].buffer);
	free(s->block);
	free(s);
}

struct buffer *swap_buffer(const struct swap *s, unsigned slot)
{
	return s->slot[slot].buffer;
}

/* ---- lending slots to the caller, and filling slots ---------------------- */

static void fill_next(struct swap *s, unsigned slot, uint64_t from_ps)
{
	struct slot *at = &s->slot[slot];
	const struct swap_block *b = &s->block[s->next];

	at->block = s->next;
	s->next = (s->next + 1) % s->opts.n;
	s->queue[s->queued++] = slot;
	s->stats.copies++;
	s->stats.bytes += b->counted;
	if (s->opts.time)
		at->ready_ps = phone_copy(s->opts.time, from_ps, &b->price);
	at->bytes = buffer_begin(at->buffer, 0, b->bytes, BUFFER_WRITE);
	pthread_mutex_lock(&s->lock);
	at->present = false;
	s->order[s->ordered++] = slot;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
}

void swap_start(struct swap *s)
{
	for (unsigned i = 0; i < SWAP_SLOTS; i++)
		fill_next(s, i, 0);
}

bool swap_need(struct swap *s, uint32_t i, unsigned *slot, uint64_t *ready_ps)
{
	if (!s->queued)
		return false;
	if (s->slot[s->queue[0]].block != i) {
		/* Drop the blocks in the slots, which were copied for the rest
		 * of an interrupted pass. */
		unsigned n = s->queued, waiting[SWAP_SLOTS];

		memcpy(waiting, s->queue, sizeof(waiting));
		s->queued = 0;
		s->next = i;
		for (unsigned k = 0; k < n; k++) {
			while (!swap_is_there(s, waiting[k], 1000000))
				;
			fill_next(s, waiting[k], s->slot[waiting[k]].ready_ps);
		}
	}
	*slot = s->queue[0];
	s->queued--;
	memmove(s->queue, s->queue + 1, s->queued * sizeof(s->queue[0]));
	s->slot[*slot].lent = true;
	*ready_ps = s->slot[*slot].ready_ps;
	return true;
}

bool swap_is_there(struct swap *s, unsigned slot, unsigned wait_us)
{
	struct slot *at = &s->slot[slot];
	struct timespec until;
	int late = 0;
	bool present;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_us / 1000000;
	until.tv_nsec += (long)(wait_us % 1000000) * 1000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&s->lock);
	while (!at->present && !late)
		late = pthread_cond_timedwait(&s->copied, &s->lock, &until);
	present = at->present;
	pthread_mutex_unlock(&s->lock);
	if (present && at->bytes) {
		buffer_end(
			at->buffer, 0, s->block[at->block].bytes, BUFFER_WRITE);
		at->bytes = NULL;
	}
	return present;
}

void swap_done(struct swap *s, unsigned slot, uint64_t ps)
{
	struct buffer *b = s->slot[slot].buffer;
	size_t n = buffer_bytes(b);

	assert(s->slot[slot].lent);
	s->slot[slot].lent = false;
	if (s->opts.poison) {
		memset(buffer_begin(b, 0, n, BUFFER_WRITE), POISON, n);
		buffer_end(b, 0, n, BUFFER_WRITE);
	}
	fill_next(s, slot, ps);
}

void swap_stats(const struct swap *s, struct swap_stats *out)
{
	*out = s->stats;
}
