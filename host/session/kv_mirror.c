#include "host/session/kv_mirror.h"

#include "base/err.h"
#include "base/hugemem.h"

#include <errno.h>
#include <stdlib.h>

#define LEAST_SLOTS 64

static uint8_t *place(const struct kv_mirror *m, uint32_t layer,
	enum kv_half half, uint32_t at)
{
	return m->data +
		((2 * (size_t)layer + half) * m->slots + at) * m->stride;
}

void kv_mirror_release(struct kv_mirror *m)
{
	free(m->data);
	free(m->as_of);
	m->data = NULL;
	m->as_of = NULL;
	m->slots = 0;
}

/* Replace the mirror's memory by larger memory, in which all positions count as
 * never copied. The sizes cannot overflow: the whole cache fits into a shared
 * buffer, and the mirror is less than twice as large as one sequence of the
 * cache. */
static int replace(struct kv_mirror *m, uint32_t length, struct err *e)
{
	uint32_t slots = m->slots ? m->slots : LEAST_SLOTS;
	size_t bytes;

	while (slots < length)
		slots *= 2;
	kv_mirror_release(m);
	bytes = 2 * (size_t)m->layers * slots * m->stride;
	m->data = hugemem_alloc(bytes);
	m->as_of = calloc(slots, sizeof(*m->as_of));
	if (!m->data || !m->as_of) {
		kv_mirror_release(m);
		return err_set(e, ENOMEM,
			"no memory for the host's copy of the cache: %zu MiB",
			bytes >> 20);
	}
	m->slots = slots;
	return 0;
}

/* Number of consecutive positions from `at` on, before `end`, whose copies in
 * the mirror are all up to date (if `same` is true) or all out of date (if
 * `same` is false). */
static uint32_t alike(const struct kv_mirror *m, uint32_t sequence, uint32_t at,
	uint32_t end, bool same)
{
	uint32_t n = 0;

	while (at + n < end &&
		(m->as_of[at + n] ==
			sequence_written(m->from, sequence, at + n)) == same)
		n++;
	return n;
}

void kv_mirror_merged(
	struct kv_mirror *m, uint32_t sequence, uint32_t at, uint32_t n)
{
	for (; n; n--, at++)
		m->as_of[at] = sequence_written(m->from, sequence, at);
}

int kv_mirror_follow(
	struct kv_mirror *m, uint32_t sequence, uint32_t *copied, struct err *e)
{
	uint32_t length = sequence_length(m->from, sequence), n;
	int ret = length > m->slots ? replace(m, length, e) : 0;

	*copied = 0;
	for (uint32_t at = 0; at < length && !ret; at += n) {
		at += alike(m, sequence, at, length, true);
		n = alike(m, sequence, at, length, false);
		for (uint32_t half = 0; n && half < 2 * m->layers && !ret;
			half++)
			ret = sequence_read(m->from, sequence, half / 2,
				half % 2, at, n,
				place(m, half / 2, half % 2, at), e);
		if (!ret)
			kv_mirror_merged(m, sequence, at, n);
		*copied += n;
	}
	return ret;
}

int kv_mirror_merge(struct kv_mirror *m, uint32_t sequence, uint32_t layer,
	uint32_t at, uint32_t n, struct err *e)
{
	int ret = sequence_write(m->from, sequence, layer, KV_KEYS, at, n,
		place(m, layer, KV_KEYS, at), e);

	return ret ? ret
		   : sequence_write(m->from, sequence, layer, KV_VALUES, at, n,
			     place(m, layer, KV_VALUES, at), e);
}
