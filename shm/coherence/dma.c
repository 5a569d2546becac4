/*
 * DMA. A transfer may move its bytes at any moment between its start and its
 * wait. The emulation copies the bytes at the wait, so that a missing wait has
 * an effect. If evict_seed is set, the bytes are copied at the start or at the
 * wait, by a random choice. Until the wait the transfer is pending. Level check
 * reports a core that reads bytes that a pending transfer writes, or that
 * writes bytes that a pending transfer reads or writes.
 */
#include "shm/coherence/coherence_impl.h"

#include "base/rng.h"

#include <string.h>

static struct range range_of(const struct coherence_dma *d)
{
	return (struct range){ d->offset, d->offset + d->bytes };
}

static bool uses_local(
	const struct coherence_dma *d, const void *local, size_t bytes)
{
	uintptr_t a = (uintptr_t)d->local, b = (uintptr_t)local;

	return a < b + bytes && b < a + d->bytes;
}

static void report(struct coherence_cache *c, enum violation_kind kind,
	const struct transfer *t)
{
	struct violation v = { .kind = kind,
		.buffer = t->d.buffer->name,
		.from = t->d.offset,
		.to = t->d.offset + t->d.bytes,
		.loaded = t->by.request,
		.before = t->by.name,
		.before_layer = t->by.layer };

	violations_add(&c->maintenance.violations, &v);
}

void dma_move(struct coherence_cache *c, struct transfer *t)
{
	const struct coherence_dma *d = &t->d;

	if (t->done)
		return;
	t->done = true;
	if (!d->to_buffer) {
		memcpy(d->local, d->buffer->mem + d->offset, d->bytes);
		return;
	}
	memcpy(d->buffer->mem + d->offset, d->local, d->bytes);
	if (c->maintenance.check && has_lines(d->buffer))
		lines_dma_wrote(d->buffer, range_of(d), &t->by);
}

/* Check an access of a core or of another transfer to this range of the buffer
 * while transfer t is pending. If the ranges overlap, and the access or the
 * transfer writes, report the access. */
static void check_shared(struct coherence_cache *c, const struct transfer *t,
	const struct coherence_buffer *b, struct range r, bool writes)
{
	struct range of = range_of(&t->d);

	if (t->d.buffer != b || of.to <= r.from || r.to <= of.from)
		return;
	if (writes)
		report(c, VIOLATION_DMA_REUSED, t);
	else if (t->d.to_buffer)
		report(c, VIOLATION_DMA_EARLY_READ, t);
}

/* Remove a pending transfer from the table. */
static void retire(struct coherence_cache *c, unsigned i)
{
	memmove(&c->pending[i], &c->pending[i + 1],
		(c->n_pending - i - 1) * sizeof(c->pending[0]));
	c->n_pending--;
}

void coherence_dma_passes(struct coherence_cache *c, struct coherence_buffer *b,
	const char *name, uint32_t id, uint64_t from, uint64_t to)
{
	struct maintenance *u = &c->maintenance;
	struct range r = { from, to };

	if (!u->check)
		return;
	if (b && has_lines(b) && b->n_ahead)
		lines_check_dma(u, b, r, VIOLATION_DMA_DIRTY);
	lines_check_brackets(
		u, name, id, r, VIOLATION_HELD_READ, COHERENCE_WRITE);
}

/* Record that these bytes of local memory are used. The transfers that fetched
 * the bytes are removed from the list c->recent, so that waits for them are not
 * reported as needless. */
static void mark_used(
	struct coherence_cache *c, const void *local, size_t bytes)
{
	for (unsigned i = 0; i < c->n_recent; i++)
		if (uses_local(&c->recent[i].d, local, bytes))
			c->recent[i--] = c->recent[--c->n_recent];
}

static void start_one(
	struct coherence_cache *c, struct coherence_dma *d, uint32_t chain)
{
	struct maintenance *u = &c->maintenance;
	struct coherence_buffer *b = d->buffer;
	struct transfer t = { .chain = chain, .d = *d, .by = u->now };
	uint32_t word[4];

	t.number = d->number = ++c->transfers;
	if (u->check && d->to_buffer) {
		if (has_lines(b))
			lines_check_dma(
				u, b, range_of(d), VIOLATION_DMA_OVER_DIRTY);
		lines_check_brackets(u, b->name, b->id, range_of(d),
			VIOLATION_HELD_WRITE, COHERENCE_READ | COHERENCE_WRITE);
	} else if (u->check) {
		coherence_dma_passes(
			c, b, b->name, b->id, d->offset, d->offset + d->bytes);
	}
	for (unsigned i = 0; u->check && i < c->n_pending; i++) {
		struct transfer *p = &c->pending[i];

		/* Transfers of one chain run in order, so they do not conflict.
		 */
		if (p->chain == chain)
			continue;
		if (uses_local(&p->d, d->local, d->bytes)) {
			if (!d->to_buffer)
				report(c, VIOLATION_DMA_REUSED, p);
			else if (!p->d.to_buffer)
				report(c, VIOLATION_DMA_EARLY_READ, p);
		}
		check_shared(c, p, b, range_of(d), d->to_buffer);
	}
	mark_used(c, d->local, d->bytes);
	if (c->n_pending == DMA_PENDING) {
		dma_move(c, &c->pending[0]);
		c->pushed_out = c->pending[0].number;
		retire(c, 0);
	}
	if (c->config.evict_seed) {
		rng_words(c->config.evict_seed, UINT32_MAX, t.number, word);
		/* If the random bit is set, the new transfer ends now.
		 * Transfers of one chain end in order, so end the earlier
		 * transfers of its chain first. */
		for (unsigned i = 0; word[0] & 1 && i < c->n_pending; i++)
			if (c->pending[i].chain == chain)
				dma_move(c, &c->pending[i]);
		if (word[0] & 1)
			dma_move(c, &t);
	}
	c->pending[c->n_pending++] = t;
}

void coherence_dma_start(struct coherence_cache *c, struct coherence_dma *chain)
{
	uint32_t first;

	pthread_mutex_lock(&c->dma_lock);
	first = c->transfers + 1;
	for (struct coherence_dma *d = chain; d; d = d->next) {
		if (c->config.level != COHERENCE_OFF) {
			start_one(c, d, first);
			continue;
		}
		d->number = ++c->transfers;
		dma_move(c, &(struct transfer){ .d = *d });
	}
	pthread_mutex_unlock(&c->dma_lock);
}

void coherence_dma_wait(
	struct coherence_cache *c, const struct coherence_dma *d)
{
	struct range r = range_of(d);
	uint32_t chain = 0;

	if (c->config.level == COHERENCE_OFF) {
		coherence_left_out(c, COHERENCE_CALL_WAIT, d->buffer, r, 0, 0);
		return;
	}
	pthread_mutex_lock(&c->dma_lock);
	if (coherence_left_out(c, COHERENCE_CALL_WAIT, d->buffer, r, 0, 0))
		goto out;
	for (unsigned i = 0; i < c->n_pending; i++)
		if (c->pending[i].number == d->number)
			chain = c->pending[i].chain;
	if (!chain && c->maintenance.check && d->number > c->pushed_out)
		report(c, VIOLATION_NEEDLESS_WAIT,
			&(struct transfer){
				.d = *d, .by = c->maintenance.now });
	for (unsigned i = 0; chain && i < c->n_pending;) {
		struct transfer *t = &c->pending[i];

		if (t->chain != chain || t->number > d->number) {
			i++;
			continue;
		}
		dma_move(c, t);
		/* A transfer to the buffer uses bytes of local memory, which an
		 * earlier transfer of the chain may have fetched. A transfer
		 * from the buffer is remembered until its bytes are used. */
		if (t->d.to_buffer) {
			mark_used(c, t->d.local, t->d.bytes);
		} else if (c->maintenance.check) {
			if (c->n_recent == DMA_RECENT)
				c->n_recent--;
			c->recent[c->n_recent++] = *t;
		}
		retire(c, i);
	}
out:
	pthread_mutex_unlock(&c->dma_lock);
}

void coherence_dma_read(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes, void *local)
{
	struct coherence_dma d = {
		.buffer = b, .offset = offset, .local = local, .bytes = bytes
	};

	coherence_dma_start(c, &d);
	coherence_dma_wait(c, &d);
}

void coherence_dma_write(struct coherence_cache *c, struct coherence_buffer *b,
	uint64_t offset, size_t bytes, const void *local)
{
	struct coherence_dma d = { .buffer = b,
		.offset = offset,
		.local = (void *)(uintptr_t)local,
		.bytes = bytes,
		.to_buffer = true };

	coherence_dma_start(c, &d);
	coherence_dma_wait(c, &d);
}

void coherence_local(struct coherence_cache *c, const void *local, size_t bytes,
	enum coherence_access access)
{
	if (!c->maintenance.check)
		return;
	pthread_mutex_lock(&c->dma_lock);
	for (unsigned i = 0; i < c->n_pending; i++) {
		const struct transfer *t = &c->pending[i];

		if (!uses_local(&t->d, local, bytes))
			continue;
		if (access == COHERENCE_WRITE)
			report(c, VIOLATION_DMA_REUSED, t);
		else if (!t->d.to_buffer)
			report(c, VIOLATION_DMA_EARLY_READ, t);
	}
	mark_used(c, local, bytes);
	pthread_mutex_unlock(&c->dma_lock);
}

void dma_check_shared(struct coherence_cache *c,
	const struct coherence_buffer *b, struct range r, bool writes)
{
	pthread_mutex_lock(&c->dma_lock);
	for (unsigned i = 0; i < c->n_pending; i++)
		check_shared(c, &c->pending[i], b, r, writes);
	pthread_mutex_unlock(&c->dma_lock);
}

void dma_settle(struct coherence_cache *c)
{
	if (c->config.level == COHERENCE_OFF)
		return;
	pthread_mutex_lock(&c->dma_lock);
	for (; c->n_pending; retire(c, 0)) {
		dma_move(c, &c->pending[0]);
		if (c->maintenance.check)
			report(c, VIOLATION_DMA_UNENDED, &c->pending[0]);
	}
	for (unsigned i = 0; i < c->n_recent; i++)
		report(c, VIOLATION_UNUSED_WAIT, &c->recent[i]);
	c->n_recent = 0;
	pthread_mutex_unlock(&c->dma_lock);
}
