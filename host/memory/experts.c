#include "host/memory/experts_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/npu/phone.h"
#include "tensor/soc/soc.h"

#include <assert.h>
#include <errno.h>

/* USE: the value that one use adds to an expert's `uses`. HALVE_PASSES: the
 * number of passes after which all `uses` are halved. With these values, the
 * `uses` of an expert that is used in every pass are 8 to 16 times USE, on
 * average 12 times (USES_OF_ALL). */
#define USE          64u
#define HALVE_PASSES 8u
#define USES_OF_ALL  (12 * USE)

/*
 * The largest number of reads ahead in flight, as a multiple of the number of
 * experts that a token uses (n_used). Chosen by a simulation of passes with 4
 * rows, in which 80 % of the predictions were right. With the value 4, half as
 * many experts were still absent when their layer began as with the value 2,
 * and a quarter as many as with 1. A larger value was no better.
 */
#define AHEAD_MAX 4

/* ---- which expert is evicted ---- */

static void update_interval(struct experts *x, struct slot *s)
{
	s->interval = x->opts.model->n_layer * USES_OF_ALL /
		(x->expert[s->owner].uses + 1);
}

/*
 * Find the slot whose expert's next use is expected to be the farthest away.
 * Returns NULL if no slot can be emptied: each expert is in use, or will be
 * used by the current layer (`begun`). An expert that was read ahead is
 * expected to be used when its layer runs next. If the slot is for another read
 * ahead (`ahead`), an expert that was read ahead for a layer that has not begun
 * yet (`due`) is not evicted.
 */
static struct slot *victim(struct experts *x, bool ahead)
{
	const uint32_t n_layer = x->opts.model->n_layer;
	struct slot *best = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < x->slots; i++) {
		struct slot *s = &x->slot[i];
		uint32_t away = s->layer > x->layer
			? s->layer - x->layer
			: s->layer + n_layer - x->layer;

		if (s->state == SLOT_LOST || s->users || s->begun ||
			(s->due && ahead))
			continue;
		if (s->state == SLOT_EMPTY)
			return s;
		away += s->due ? 0 : s->interval;
		if (away > most) {
			most = away;
			best = s;
		}
	}
	return best;
}

/* ---- reading ---- */

/* Find the slot of an expert. Returns NULL if the expert is absent. */
static struct slot *slot_of(struct experts *x, uint32_t layer, uint32_t expert)
{
	uint32_t i = x->expert[layer * x->opts.model->n_expert + expert].slot;

	return i == EXPERT_ABSENT ? NULL : &x->slot[i];
}

static void empty(struct experts *x, struct slot *s)
{
	x->expert[s->owner].slot = EXPERT_ABSENT;
	s->state = SLOT_EMPTY;
	s->begun = s->ahead = s->due = false;
}

/* Wait for the read into a slot. If the read fails, the slot becomes empty. */
static int finish(struct experts *x, struct slot *s, struct err *e)
{
	uint64_t from;
	int ret;

	if (s->state != SLOT_READING)
		return 0;
	from = clock_ns();
	ret = stream_wait(x->stream, (unsigned)(s - x->slot), e);
	x->stats.wait_ns += clock_ns() - from;
	s->state = SLOT_READY;
	if (ret)
		empty(x, s);
	return ret;
}

/* Start to read an expert into a slot. Returns 0; -EAGAIN if no slot can be
 * emptied for the expert; or another negative errno. */
static int read_expert(struct experts *x, uint32_t layer, uint32_t expert,
	bool ahead, struct err *e)
{
	uint32_t owner = layer * x->opts.model->n_expert + expert;
	const struct image_extent *extent = extent_of(x, owner);
	const struct soc *soc = x->opts.soc;
	struct slot *s;
	struct price p;
	int ret;

	do {
		s = victim(x, ahead);
		if (!s)
			return -EAGAIN;
		if (s->ahead) {
			x->stats.unused++;
			x->stats.unused_bytes += extent_of(x, s->owner)->stored;
		}
		if (s->state != SLOT_EMPTY && !finish(x, s, NULL))
			empty(x, s);
		ret = stream_begin(
			x->stream, (unsigned)(s - x->slot), extent, e);
		if (ret == -EBUSY)
			s->state = SLOT_LOST;
	} while (ret == -EBUSY);
	if (ret)
		return ret;
	*s = (struct slot){ .state = SLOT_READING,
		.owner = owner,
		.layer = layer,
		.ahead = ahead,
		.due = ahead,
		.free_ps = s->free_ps };
	update_interval(x, s);
	x->expert[owner].slot = (uint32_t)(s - x->slot);
	x->stats.read++;
	x->stats.read_ahead += ahead;
	if (!soc)
		return 0;
	price_flash(soc,
		x->opts.priced_bytes ? x->opts.priced_bytes : extent->stored,
		&p);
	s->takes_ps = p.total_ps;
	s->ready_ps = phone_flash(x->opts.time,
		phone_later(x->opts.time->cpu_ps, s->free_ps),
		(unsigned)soc->flash_queue, price_ps(soc->flash_read_s), &p);
	return 0;
}

/* Start to read the absent experts among the experts of the last call of
 * experts_begin, as long as slots can be emptied for them. */
static int read_begun(struct experts *x, struct err *e)
{
	for (uint32_t i = 0; i < x->n_begun; i++) {
		const struct begun *b = &x->begun[i];
		int ret;

		if (b->taken || slot_of(x, x->layer, b->expert))
			continue;
		ret = read_expert(x, x->layer, b->expert, false, e);
		if (ret)
			return ret == -EAGAIN ? 0 : ret;
		slot_of(x, x->layer, b->expert)->begun = true;
	}
	return 0;
}

/*
 * ready_ps: the time at which the expert in a slot is ready. now_ps: the
 * present time. With a simulated phone, both are times on the phone's timeline
 * only, so that every run makes the same decisions. turn_ps is the time at
 * which the work before the expert's layer ends. The phone does only the
 * fraction soc.flash_ahead of a read ahead before turn_ps, and the rest of the
 * read after turn_ps. Without a phone, now_ps is always 0, and ready_ps is 0 if
 * the expert is ready, else 1.
 */
static uint64_t ready_ps(
	const struct experts *x, const struct slot *s, uint64_t turn_ps)
{
	double rest;

	if (!x->opts.soc)
		return s->state == SLOT_READING &&
			!stream_ended(x->stream, (unsigned)(s - x->slot));
	rest = 1 - x->opts.soc->flash_ahead;
	if (!s->ahead || rest == 0)
		return s->ready_ps;
	return phone_later(s->ready_ps,
		turn_ps + (uint64_t)(rest * (double)s->takes_ps + 0.5));
}

static uint64_t now_ps(const struct experts *x)
{
	return x->opts.soc ? x->opts.time->cpu_ps : 0;
}

/* ---- the experts of a layer ---- */

int experts_begin(struct experts *x, uint32_t layer, const uint32_t *expert,
	uint32_t n, struct err *e)
{
	const uint32_t n_expert = x->opts.model->n_expert;

	assert(n <= n_expert && n_expert <= WIRE_MAX_EXPERTS);
	for (uint32_t i = 0; i < n_expert; i++) {
		struct slot *s = slot_of(x, x->layer, i);

		if (s)
			s->begun = false;
		s = slot_of(x, layer, i);
		if (s)
			s->due = false;
	}
	if (layer < x->layer && ++x->passes % HALVE_PASSES == 0) {
		for (uint32_t i = 0; i < x->opts.model->n_layer * n_expert; i++)
			x->expert[i].uses /= 2;
		for (uint32_t i = 0; i < x->slots; i++)
			if (x->slot[i].state == SLOT_READING ||
				x->slot[i].state == SLOT_READY)
				update_interval(x, &x->slot[i]);
	}
	x->layer = layer;
	x->n_begun = n;
	for (uint32_t i = 0; i < n; i++) {
		struct slot *s = slot_of(x, layer, expert[i]);

		x->begun[i] = (struct begun){ .expert = expert[i] };
		x->expert[layer * n_expert + expert[i]].uses += USE;
		if (!s)
			continue;
		update_interval(x, s);
		s->begun = true;
		x->begun[i].found = ready_ps(x, s, 0) <= now_ps(x);
	}
	return read_begun(x, e);
}

void experts_read_on(struct experts *x)
{
	if (x->stream)
		stream_poll(x->stream);
}

/* Take the ready experts among the experts of the last call of experts_begin.
 * *next becomes the slot of the expert that will be ready next; NULL if no
 * expert of that call is still being read. */
static uint32_t take_ready(struct experts *x, uint64_t turn_ps,
	struct expert_place *place, uint32_t room, struct slot **next)
{
	uint32_t n = 0;

	*next = NULL;
	for (uint32_t i = 0; i < x->n_begun && n < room; i++) {
		struct begun *b = &x->begun[i];
		struct slot *s = slot_of(x, x->layer, b->expert);
		uint64_t ps = s ? ready_ps(x, s, turn_ps) : 0;
		uint32_t slot;
		size_t at;

		if (b->taken || !s)
			continue;
		if (ps > now_ps(x)) {
			if (!*next || ps < ready_ps(x, *next, turn_ps))
				*next = s;
			continue;
		}
		slot = (uint32_t)(s - x->slot);
		buffer_of(x, slot, &at);
		place[n++] = (struct expert_place){ b->expert,
			slot / x->per_buffer, slot, (uint32_t)at };
		x->stats.used++;
		x->stats.found += b->found;
		x->stats.found_ahead += s->ahead;
		s->ahead = s->begun = false;
		s->users++;
		x->in_use++;
		b->taken = true;
	}
	return n;
}

int experts_take(struct experts *x, uint64_t turn_ps,
	struct expert_place *place, uint32_t room, uint32_t *n, struct err *e)
{
	*n = 0;
	experts_read_on(x);
	for (;;) {
		int ret = read_begun(x, e);
		struct slot *next;
		bool left = false;
		uint64_t from;

		/* End the reads of the experts that are ready. If one of these
		 * reads failed, no expert is taken. */
		for (uint32_t i = 0; i < x->n_begun && !ret; i++) {
			const struct begun *b = &x->begun[i];
			struct slot *s = slot_of(x, x->layer, b->expert);

			left |= !b->taken;
			if (!b->taken && s &&
				ready_ps(x, s, turn_ps) <= now_ps(x))
				ret = finish(x, s, e);
		}
		if (ret)
			return ret;
		*n = take_ready(x, turn_ps, place, room, &next);
		if (*n || !left)
			return 0;
		if (!next && x->in_use)
			return -EAGAIN;
		if (!next)
			return err_set(e, EIO,
				"no room in memory for another expert: earlier "
				"reads from flash never ended");
		from = x->opts.soc ? now_ps(x) : clock_ns();
		if (x->opts.soc) {
			phone_wait(x->opts.time, ready_ps(x, next, turn_ps));
			x->stats.wait_ps += now_ps(x) - from;
		} else {
			stream_wait_some(x->stream, (unsigned)(next - x->slot));
			x->stats.wait_ns += clock_ns() - from;
		}
	}
}

void experts_done(struct experts *x, unsigned slot, uint64_t ps)
{
	struct slot *s = &x->slot[slot];

	assert(s->users);
	s->users--;
	x->in_use--;
	s->free_ps = phone_later(s->free_ps, ps);
}

void experts_ahead(
	struct experts *x, uint32_t layer, const uint32_t *expert, uint32_t n)
{
	uint32_t reading = 0;
	int ret = x->stream ? 0 : -EINVAL;

	for (uint32_t i = 0; i < x->n_begun; i++)
		if (!x->begun[i].taken &&
			!slot_of(x, x->layer, x->begun[i].expert))
			return;
	for (uint32_t i = 0; i < x->slots; i++)
		reading += x->slot[i].ahead &&
			ready_ps(x, &x->slot[i], 0) > now_ps(x);
	for (uint32_t i = 0; i < n && !ret; i++) {
		if (slot_of(x, layer, expert[i]))
			continue;
		ret = reading++ < AHEAD_MAX * x->opts.model->n_used
			? read_expert(x, layer, expert[i], true, NULL)
			: -EAGAIN;
	}
}

void experts_stats(const struct experts *x, struct experts_stats *out)
{
	*out = x->stats;
	if (x->stream)
		stream_stats(x->stream, &out->stream);
}

const char *experts_how(const struct experts *x)
{
	return x->stream ? stream_how(x->stream) : "";
}
