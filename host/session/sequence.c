#include "host/session/sequence.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/memory/kv_pool.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sequence {
	bool open;
	uint32_t length;
	uint32_t claimed;
	/* 0 if the sequence is not spare (see sequence_spare); else the number
	 * of the latest call that marked it as spare */
	uint64_t spare;
	uint32_t n_runs, room;
	/* [room] runs (blocks of KV_RUN cache slots) that hold the sequence's
	 * tokens, in order */
	uint32_t *run;
	/* [room * KV_RUN] for each position, the value that the counter `now`
	 * had at the latest claim or write of the position */
	uint64_t *written;
};

struct sequences {
	struct kv_memory kv;
	struct kv_pool *pool;
	/* [slots][width] states of the slots' tokens; NULL without
	 * sequences_keep_states */
	float *state;
	uint32_t width;
	/* [runs] scratch memory: free runs that the current claim has just
	 * taken */
	uint32_t *fresh;
	/* [runs] scratch memory, all 0 between calls: for each run, the number
	 * of claims that will replace the run by a copy */
	uint32_t *left;
	uint64_t copied, now, spares;
	uint32_t most;
	struct sequence seq[];
};

static uint32_t runs_for(uint32_t length)
{
	return length / KV_RUN + (length % KV_RUN > 0);
}

/* ---- opening and closing ------------------------------------------------- */

int sequences_open(struct sequences **out, const struct kv_memory *kv,
	uint32_t most, struct err *e)
{
	struct sequences *s = calloc(1, sizeof(*s) + most * sizeof(*s->seq));
	int ret;

	assert(most == 1 || kv->slots % KV_RUN == 0);
	if (!s)
		return err_set(e, ENOMEM, "no memory for %u sequences", most);
	s->kv = *kv;
	s->most = most;
	ret = kv_pool_open(&s->pool, kv->slots, e);
	if (ret) {
		free(s);
		return ret;
	}
	s->fresh = calloc(kv_pool_runs(s->pool), sizeof(*s->fresh));
	s->left = calloc(kv_pool_runs(s->pool), sizeof(*s->left));
	if (!s->fresh || !s->left) {
		sequences_close(s);
		return err_set(e, ENOMEM,
			"no memory for a list of the %u groups of slots in "
			"the KV cache",
			runs_for(kv->slots));
	}
	*out = s;
	return 0;
}

static void free_tables(struct sequence *q)
{
	free(q->run);
	free(q->written);
}

void sequences_close(struct sequences *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->most; i++)
		free_tables(&s->seq[i]);
	kv_pool_close(s->pool);
	free(s->state);
	free(s->fresh);
	free(s->left);
	free(s);
}

int sequences_keep_states(struct sequences *s, uint32_t width, struct err *e)
{
	if (s->state)
		return 0;
	s->width = width;
	s->state = calloc(s->kv.slots, width * sizeof(*s->state));
	return s->state ? 0
			: err_set(e, ENOMEM,
				  "no memory for the hidden states of %u "
				  "tokens; try a smaller --ctx",
				  s->kv.slots);
}

bool sequence_is_open(const struct sequences *s, uint32_t id)
{
	return id < s->most && s->seq[id].open;
}

uint32_t sequence_length(const struct sequences *s, uint32_t id)
{
	assert(sequence_is_open(s, id));
	return s->seq[id].length;
}

static void trim(struct sequences *s, struct sequence *q)
{
	uint32_t runs = runs_for(q->length);

	while (q->n_runs > runs)
		kv_pool_unref(s->pool, q->run[--q->n_runs]);
	q->claimed = 0;
}

void sequence_close(struct sequences *s, uint32_t id)
{
	struct sequence *q = &s->seq[id];

	assert(sequence_is_open(s, id));
	q->length = 0;
	trim(s, q);
	free_tables(q);
	*q = (struct sequence){ .open = false };
}

/* ---- spare sequences ----------------------------------------------------- */

uint64_t sequence_spare(struct sequences *s, uint32_t id)
{
	assert(sequence_is_open(s, id));
	return s->seq[id].spare = ++s->spares;
}

uint64_t sequence_spared(const struct sequences *s, uint32_t id)
{
	return id < s->most ? s->seq[id].spare : 0;
}

/* Close the sequence that has been spare for the longest time (see
 * sequence_spare). Returns false if no sequence is spare. */
static bool drop_spare(struct sequences *s)
{
	uint32_t oldest = s->most;

	for (uint32_t i = 0; i < s->most; i++)
		if (s->seq[i].spare &&
			(oldest == s->most ||
				s->seq[i].spare < s->seq[oldest].spare))
			oldest = i;
	if (oldest < s->most)
		sequence_close(s, oldest);
	return oldest < s->most;
}

/* ---- opening a sequence -------------------------------------------------- */

static bool open_free(struct sequences *s, uint32_t *id)
{
	for (uint32_t i = 0; i < s->most; i++) {
		if (s->seq[i].open)
			continue;
		s->seq[i].open = true;
		*id = i;
		return true;
	}
	return false;
}

int sequence_open(struct sequences *s, uint32_t *id, struct err *e)
{
	if (open_free(s, id) || (drop_spare(s) && open_free(s, id)))
		return 0;
	return err_set(e, ENOSPC,
		"all %u sequences of the session are open; close one, or open "
		"the session with more",
		s->most);
}

/* Ensure that the sequence's table can hold `runs` runs. */
static int reserve(struct sequence *q, uint32_t runs, struct err *e)
{
	uint32_t room = q->room ? q->room : 8;
	uint64_t *written;
	uint32_t *run;

	if (runs <= q->room)
		return 0;
	while (room < runs)
		room *= 2;
	run = reallocarray(q->run, room, sizeof(*run));
	if (run)
		q->run = run;
	written = reallocarray(q->written, room, KV_RUN * sizeof(*q->written));
	if (written)
		q->written = written;
	if (!run || !written)
		return err_set(e, ENOMEM,
			"no memory for the %u groups of cache slots of a "
			"sequence",
			runs);
	q->room = room;
	return 0;
}

int sequence_fork(
	struct sequences *s, uint32_t parent, uint32_t *id, struct err *e)
{
	struct sequence *from = &s->seq[parent], *to;
	uint32_t runs = runs_for(from->length);
	uint64_t spare = from->spare;
	int ret;

	assert(sequence_is_open(s, parent));
	/* unmark the parent during this call: sequence_open may close a spare
	 * sequence */
	from->spare = 0;
	ret = sequence_open(s, id, e);
	from->spare = spare;
	if (ret)
		return ret;
	to = &s->seq[*id];
	ret = reserve(to, runs, e);
	if (ret) {
		to->open = false;
		return ret;
	}
	for (uint32_t i = 0; i < runs; i++) {
		to->run[i] = from->run[i];
		kv_pool_ref(s->pool, to->run[i]);
	}
	to->n_runs = runs;
	to->length = from->length;
	if (to->length)
		memcpy(to->written, from->written,
			to->length * sizeof(*to->written));
	return 0;
}

/* ---- length -------------------------------------------------------------- */

void sequence_truncate(struct sequences *s, uint32_t id, uint32_t length)
{
	struct sequence *q = &s->seq[id];

	assert(sequence_is_open(s, id));
	if (length < q->length)
		q->length = length;
	trim(s, q);
}

uint32_t sequence_claimed(const struct sequences *s, uint32_t id)
{
	return sequence_is_open(s, id) ? s->seq[id].claimed : 0;
}

void sequence_settle(struct sequences *s, uint32_t id)
{
	if (sequence_is_open(s, id))
		trim(s, &s->seq[id]);
}

void sequence_grow(struct sequences *s, uint32_t id, uint32_t length)
{
	struct sequence *q = &s->seq[id];

	assert(sequence_is_open(s, id) && runs_for(length) <= q->n_runs);
	if (length > q->length)
		q->length = length;
	trim(s, q);
}

/* ---- slots of positions -------------------------------------------------- */

uint32_t sequence_slot(const struct sequences *s, uint32_t id, uint32_t at)
{
	assert(at / KV_RUN < s->seq[id].n_runs);
	return s->seq[id].run[at / KV_RUN] * KV_RUN + at % KV_RUN;
}

float *sequence_state(const struct sequences *s, uint32_t id, uint32_t at)
{
	return s->state ? s->state + (size_t)sequence_slot(s, id, at) * s->width
			: NULL;
}

uint64_t sequence_written(const struct sequences *s, uint32_t id, uint32_t at)
{
	assert(at < s->seq[id].length);
	return s->seq[id].written[at];
}

/* Number of consecutive positions from `at` on, before `end`, whose cache slots
 * are adjacent. */
static uint32_t piece(const struct sequence *q, uint32_t at, uint32_t end)
{
	uint32_t r = at / KV_RUN, to;

	for (to = (r + 1) * KV_RUN; to < end; to += KV_RUN, r++)
		if (q->run[r + 1] != q->run[r] + 1)
			break;
	return (to < end ? to : end) - at;
}

uint32_t sequence_spans(const struct sequences *s, uint32_t id, uint32_t end,
	struct wire_span *span, uint32_t room)
{
	uint32_t n = 0, count;

	for (uint32_t at = 0; at < end; at += count, n++) {
		count = piece(&s->seq[id], at, end);
		if (n < room)
			span[n] = (struct wire_span){
				.slot = sequence_slot(s, id, at),
				.count = count,
			};
	}
	return n;
}

static size_t byte_of(const struct kv_memory *kv, uint32_t half, uint32_t slot)
{
	return ((size_t)half * kv->slots + slot) * kv->stride;
}

/* ---- claims -------------------------------------------------------------- */

/* Whether the claim needs a new run (KV_RUN cache slots) in place of the
 * sequence's run number i: because the sequence has no run i yet, or because
 * other sequences share run i. */
static bool lacks(
	const struct sequences *s, const struct sequence *q, uint32_t i)
{
	return i >= q->n_runs ||
		kv_pool_refs(s->pool, q->run[i]) - s->left[q->run[i]] > 1;
}

/* Replace run number i of the sequence by the run `fresh`. Copies the cached
 * tokens of the old run, unless the claim will overwrite all of them. */
static void leave_run(
	struct sequences *s, const struct claim *c, uint32_t i, uint32_t fresh)
{
	const struct kv_memory *kv = &s->kv;
	struct sequence *q = &s->seq[c->sequence];
	uint32_t begin = i * KV_RUN, end = begin + KV_RUN, run = q->run[i];
	size_t bytes, src, dst;

	end = end < q->length ? end : q->length;
	if (begin < end && !(c->whole && c->from <= begin && end <= c->to)) {
		bytes = (size_t)(end - begin) * kv->stride;
		for (uint32_t half = 0; half < 2 * kv->layers; half++) {
			src = byte_of(kv, half, run * KV_RUN);
			dst = byte_of(kv, half, fresh * KV_RUN);
			memcpy(buffer_begin(
				       kv->buffer, dst, bytes, BUFFER_WRITE),
				buffer_begin(
					kv->buffer, src, bytes, BUFFER_READ),
				bytes);
			buffer_end(kv->buffer, src, bytes, BUFFER_READ);
			buffer_end(kv->buffer, dst, bytes, BUFFER_WRITE);
		}
		if (s->state)
			memcpy(s->state + (size_t)fresh * KV_RUN * s->width,
				s->state + (size_t)run * KV_RUN * s->width,
				(end - begin) * s->width * sizeof(*s->state));
		s->copied++;
	}
	kv_pool_unref(s->pool, run);
}

static void meet(struct sequences *s, const struct claim *c)
{
	struct sequence *q = &s->seq[c->sequence];
	uint32_t end = runs_for(c->to), n;

	for (uint32_t i = c->from / KV_RUN; i < end; i += n ? n : 1) {
		for (n = 0; i + n < end && lacks(s, q, i + n);)
			n++;
		kv_pool_take(
			s->pool, i ? q->run[i - 1] : KV_NOWHERE, n, s->fresh);
		for (uint32_t j = 0; j < n; j++) {
			if (i + j < q->n_runs)
				leave_run(s, c, i + j, s->fresh[j]);
			q->run[i + j] = s->fresh[j];
		}
	}
	if (q->n_runs < end)
		q->n_runs = end;
}

static uint32_t holders(const struct sequences *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->most; i++)
		n += s->seq[i].n_runs > 0;
	return n;
}

/* Total number of free runs that the claims need. */
static uint32_t count_all(
	struct sequences *s, const struct claim *c, uint32_t n)
{
	uint32_t need = 0;

	/* Count each claim as if the earlier claims had already been carried
	 * out: s->left counts the references to a run that earlier claims will
	 * have dropped. */
	for (uint32_t k = 0; k < n; k++) {
		const struct sequence *q = &s->seq[c[k].sequence];

		for (uint32_t i = c[k].from / KV_RUN; i < runs_for(c[k].to);
			i++) {
			if (!lacks(s, q, i))
				continue;
			if (i < q->n_runs)
				s->left[q->run[i]]++;
			need++;
		}
	}
	for (uint32_t k = 0; k < n; k++) {
		const struct sequence *q = &s->seq[c[k].sequence];

		for (uint32_t i = c[k].from / KV_RUN; i < q->n_runs; i++)
			s->left[q->run[i]] = 0;
	}
	return need;
}

bool sequences_have_room(struct sequences *s, const struct claim *c, uint32_t n)
{
	while (count_all(s, c, n) > kv_pool_free(s->pool))
		if (!drop_spare(s))
			return false;
	return true;
}

/* Ensure that the claimed slots are used by no other sequence. */
static int own(
	struct sequences *s, const struct claim *c, uint32_t n, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		assert(sequence_is_open(s, c[i].sequence));
		assert(c[i].from <= s->seq[c[i].sequence].length);
		ret = reserve(&s->seq[c[i].sequence], runs_for(c[i].to), e);
	}
	if (ret)
		return ret;
	if (!sequences_have_room(s, c, n))
		return err_set(e, ENOSPC,
			"the cache of %u tokens is full: room for %u tokens "
			"was requested, there is room for %u, and %u "
			"sequence%s all other tokens; close or truncate "
			"sequences, or try a larger --ctx",
			s->kv.slots, count_all(s, c, n) * KV_RUN,
			sequences_free(s), holders(s),
			holders(s) == 1 ? " holds" : "s hold");
	for (uint32_t i = 0; i < n; i++) {
		meet(s, &c[i]);
		s->now++;
		for (uint32_t at = c[i].from; at < c[i].to; at++)
			s->seq[c[i].sequence].written[at] = s->now;
	}
	return 0;
}

int sequences_claim(
	struct sequences *s, const struct claim *c, uint32_t n, struct err *e)
{
	int ret = own(s, c, n, e);

	for (uint32_t i = 0; i < n && !ret; i++)
		s->seq[c[i].sequence].claimed = c[i].to;
	return ret;
}

/* ---- moving, reading and writing keys and values ------------------------- */

/*
 * Move the keys or values of one layer. Each token keeps its position or moves
 * to a lower position, so in ascending order no token is overwritten before it
 * has been moved.
 */
static void move_half(struct sequences *s, uint32_t id, uint32_t half,
	const uint32_t *from, uint32_t n, uint32_t first)
{
	const struct kv_memory *kv = &s->kv;
	const struct sequence *q = &s->seq[id];
	uint32_t many;

	for (uint32_t k = first; k < n; k += many) {
		uint32_t at = q->length + k;
		size_t to = byte_of(kv, half, sequence_slot(s, id, at)), bytes;
		uint8_t *dst;

		many = piece(q, at, q->length + n);
		bytes = (size_t)many * kv->stride;
		dst = buffer_begin(kv->buffer, to, bytes, BUFFER_WRITE);
		for (uint32_t j = 0; j < many; j++, dst += kv->stride) {
			size_t src = byte_of(
				kv, half, sequence_slot(s, id, from[k + j]));

			memmove(dst,
				buffer_begin(kv->buffer, src, kv->stride,
					BUFFER_READ),
				kv->stride);
			buffer_end(kv->buffer, src, kv->stride, BUFFER_READ);
		}
		buffer_end(kv->buffer, to, bytes, BUFFER_WRITE);
	}
}

uint32_t sequence_move(struct sequences *s, uint32_t id, const uint32_t *from,
	uint32_t n, uint32_t begin, uint32_t end)
{
	uint32_t length = sequence_length(s, id), first = 0;

	while (first < n && from[first] == length + first)
		first++;
	for (uint32_t half = 2 * begin; first < n && half < 2 * end; half++)
		move_half(s, id, half, from, n, first);
	return n - first;
}

static int check_range(const struct sequences *s, uint32_t id, uint32_t layer,
	uint32_t at, uint32_t n, struct err *e)
{
	uint32_t length = sequence_length(s, id);

	if (layer >= s->kv.layers || !range_within(at, n, length))
		return err_set(e, EINVAL,
			"keys and values were requested for layer %u, "
			"positions %u to %u of sequence %u, which has only "
			"%u layers and %u tokens",
			layer, at, at + n, id, s->kv.layers, length);
	return 0;
}

int sequence_read(struct sequences *s, uint32_t id, uint32_t layer,
	enum kv_half which, uint32_t at, uint32_t n, void *to, struct err *e)
{
	const struct kv_memory *kv = &s->kv;
	uint32_t end = at + n, many;
	uint8_t *dst = to;
	int ret = check_range(s, id, layer, at, n, e);

	for (; !ret && at < end; at += many) {
		size_t src = byte_of(
			kv, 2 * layer + which, sequence_slot(s, id, at));
		size_t bytes;

		many = piece(&s->seq[id], at, end);
		bytes = (size_t)many * kv->stride;
		memcpy(dst, buffer_begin(kv->buffer, src, bytes, BUFFER_READ),
			bytes);
		buffer_end(kv->buffer, src, bytes, BUFFER_READ);
		dst += bytes;
	}
	return ret;
}

int sequence_write(struct sequences *s, uint32_t id, uint32_t layer,
	enum kv_half which, uint32_t at, uint32_t n, const void *from,
	struct err *e)
{
	const struct kv_memory *kv = &s->kv;
	const struct claim c = { id, at, at + n, false };
	uint32_t end = at + n, many;
	const uint8_t *src = from;
	int ret = check_range(s, id, layer, at, n, e);

	if (!ret && n)
		ret = own(s, &c, 1, e);
	for (; !ret && at < end; at += many) {
		size_t dst = byte_of(
			kv, 2 * layer + which, sequence_slot(s, id, at));
		size_t bytes;

		many = piece(&s->seq[id], at, end);
		bytes = (size_t)many * kv->stride;
		memcpy(buffer_begin(kv->buffer, dst, bytes, BUFFER_WRITE), src,
			bytes);
		buffer_end(kv->buffer, dst, bytes, BUFFER_WRITE);
		src += bytes;
	}
	return ret;
}

/* ---- counters ------------------------------------------------------------ */

uint64_t sequences_copied(const struct sequences *s)
{
	return s->copied;
}

uint32_t sequences_free(const struct sequences *s)
{
	uint32_t runs = kv_pool_free(s->pool);

	/* The last run of the pool may have fewer than KV_RUN slots, but only
	 * in a table of a single sequence (sequences_open). This sequence takes
	 * the short run last, so if any run is free, the short run is free. */
	return runs && s->kv.slots % KV_RUN
		? runs * KV_RUN - (KV_RUN - s->kv.slots % KV_RUN)
		: runs * KV_RUN;
}
