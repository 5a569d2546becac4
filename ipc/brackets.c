#include "ipc/brackets.h"

#include "base/checked.h"
#include "base/err.h"
#include "shm/buffer.h"

#include <stdio.h>
#include <string.h>

struct wire_brackets *brackets_at(void *control, size_t bytes, uint32_t offset)
{
	if (!offset || offset % _Alignof(struct wire_brackets) ||
		offset < sizeof(struct wire_control) ||
		!range_within(offset, sizeof(struct wire_brackets), bytes))
		return NULL;
	return (struct wire_brackets *)((char *)control + offset);
}

/* ---- the host ------------------------------------------------------------ */

void brackets_init(struct brackets *t)
{
	memset(t, 0, sizeof(*t));
	pthread_mutex_init(&t->lock, NULL);
}

void brackets_release(struct brackets *t)
{
	pthread_mutex_destroy(&t->lock);
}

static void write_name(struct brackets *t, unsigned i)
{
	if (t->to)
		snprintf(t->to->name[i], WIRE_NAME_BYTES, "%s", t->name[i]);
}

void brackets_connect(struct brackets *t, struct wire_brackets *to)
{
	pthread_mutex_lock(&t->lock);
	t->to = to;
	for (unsigned i = 0; i < t->names; i++)
		write_name(t, i);
	pthread_mutex_unlock(&t->lock);
}

static uint16_t number_of(struct brackets *t, const char *function)
{
	unsigned i = 0;

	while (i < t->names && strcmp(t->name[i], function))
		i++;
	if (i == WIRE_NAMES)
		return 0;
	if (i == t->names) {
		t->name[t->names++] = function;
		write_name(t, i);
	}
	return (uint16_t)(i + 1);
}

uint16_t brackets_name(struct brackets *t, const char *function)
{
	uint16_t n;

	pthread_mutex_lock(&t->lock);
	n = number_of(t, function);
	pthread_mutex_unlock(&t->lock);
	return n;
}

/*
 * Find the table's entry for this bracket. The entry is found by the bracket's
 * buffer, offset and kind of access (read or write), so it may belong to an
 * earlier bracket that failed and never ended. If the table has no entry and
 * `or_free` is set, find a free entry. Returns NULL if no entry is found; the
 * bracket is then not published.
 */
static struct wire_hold *find_hold(
	struct brackets *t, const struct buffer_bracket *b, bool or_free)
{
	struct wire_hold *empty = NULL;

	for (unsigned i = 0; i < WIRE_HOLDS; i++) {
		struct wire_hold *h = &t->to->hold[i];

		if (!h->generation)
			empty = h;
		else if (h->generation == b->generation && h->off == b->off &&
			h->access == b->access)
			return h;
	}
	return or_free ? empty : NULL;
}

static void begun(void *arg, const struct buffer_bracket *b)
{
	struct brackets *t = arg;
	struct wire_hold *h;

	pthread_mutex_lock(&t->lock);
	h = t->to ? find_hold(t, b, true) : NULL;
	if (h) {
		h->access = b->access;
		h->off = (uint32_t)b->off;
		h->len = (uint32_t)b->len;
		h->cpu_seq = b->seq;
		h->by = number_of(t, b->by);
		/* T1, a release store that pairs with T2 (brackets_find): all
		 * other members of the entry are written before the generation
		 */
		h->generation = b->generation;
	}
	pthread_mutex_unlock(&t->lock);
}

static void ended(void *arg, const struct buffer_bracket *b)
{
	struct brackets *t = arg;
	struct wire_hold *h;

	pthread_mutex_lock(&t->lock);
	h = t->to ? find_hold(t, b, false) : NULL;
	if (h)
		h->generation = 0;
	pthread_mutex_unlock(&t->lock);
}

void brackets_watch(struct brackets *t, struct buffer *b)
{
	const struct buffer_watch watch = { begun, ended, t };

	buffer_set_watch(b, &watch);
}

/* ---- the device ---------------------------------------------------------- */

void brackets_read_name(const struct wire_brackets *from, uint32_t by,
	char out[WIRE_NAME_BYTES])
{
	out[0] = '\0';
	if (!from || !by || by > WIRE_NAMES)
		return;
	memcpy(out, from->name[by - 1], WIRE_NAME_BYTES);
	out[WIRE_NAME_BYTES - 1] = '\0';
	err_plain(out);
}

bool brackets_find(const struct wire_brackets *from, uint32_t generation,
	uint64_t begin, uint64_t end, unsigned access, struct held *out)
{
	for (unsigned i = 0; from && i < WIRE_HOLDS; i++) {
		const struct wire_hold *h = &from->hold[i];

		if (h->generation != generation || !(h->access & access))
			/* T2: the load of the generation is an acquire load and
			 * pairs with T1 (begun). If the entry has this
			 * generation, all its other members have been written
			 */
			continue;
		*out = (struct held){ (h->access & BUFFER_WRITE) != 0, h->off,
			h->len, h->cpu_seq, h->by };
		if (begin < (uint64_t)out->off + out->len && end > out->off)
			return true;
	}
	return false;
}
