#include "host/trace/trace_sum.h"

#include "base/err.h"
#include "host/trace/spans.h"

#include <errno.h>
#include <string.h>

struct summing {
	const struct timeline *t;
	struct trace_sum *s;
	/* the time during which requests generate text; without requests, the
	 * time of the whole trace */
	struct spans texts;
	/* Parts of the time in `texts`. requests: requests to the device were
	 * in flight; device, flash, working: the device, flash or the host's
	 * CPU was busy; idle: the device was idle; waiting: the host waited. */
	struct spans requests, device, flash, working, idle, waiting;
	/* ranges of the indices of the slices that belong to the generation of
	 * text */
	struct spans text_slices;
};

static enum timeline_role role_of(
	const struct summing *m, const struct timeline_slice *s)
{
	return m->t->track[s->track].role;
}

static const char *name_of(
	const struct summing *m, const struct timeline_slice *s)
{
	return m->t->text[s->name];
}

static bool holds(const struct spans *s, uint64_t at)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->span[mid].to <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->n && s->span[low].from <= at;
}

/* Whether slice i lies within the time of a text (the generation of a request).
 * Slices of host and phone are in the order of time, so their indices can be
 * compared. Slices of the device are recorded when the host reads them, so
 * their times must be compared. */
static bool in_texts(const struct summing *m, size_t i)
{
	const struct timeline_slice *s = &m->t->slice[i];

	return timeline_is_device(role_of(m, s)) ? holds(&m->texts, s->begin)
						 : holds(&m->text_slices, i);
}

static uint64_t length(const struct timeline_slice *s)
{
	return s->end - s->begin;
}

/* ---- host and requests --------------------------------------------------- */

static int sum_request(struct summing *m, size_t i)
{
	const struct timeline_slice *s = &m->t->slice[i];
	struct trace_sum *sum = m->s;
	unsigned at = sum->n_longest;

	if (s->unfinished || timeline_arg(m->t, s, "status") == ERR_DEVICE_LOST)
		sum->unanswered++;
	else
		sum->round_trips++;
	sum->round_trip_ns += length(s);
#define DONE(type, name) sum->name += timeline_arg(m->t, s, #name);
	TRACE_DONE(DONE)
#undef DONE
	while (at && length(s) > length(&m->t->slice[sum->longest[at - 1]]))
		at--;
	if (at < TRACE_LONGEST) {
		if (sum->n_longest < TRACE_LONGEST)
			sum->n_longest++;
		memmove(&sum->longest[at + 1], &sum->longest[at],
			(sum->n_longest - at - 1) * sizeof(sum->longest[0]));
		sum->longest[at] = i;
	}
	return spans_add(&m->requests, s->begin, s->end);
}

/* ---- operators ----------------------------------------------------------- */

static void sum_operator(struct summing *m, const struct timeline_slice *s)
{
	struct trace_operator *o = m->s->operator;
	unsigned i = 0;

	while (i < m->s->n_operators && strcmp(o[i].name, name_of(m, s)))
		i++;
	if (i == TRACE_OPERATORS)
		return;
	if (i == m->s->n_operators)
		o[m->s->n_operators++].name = name_of(m, s);
	o[i].n++;
	o[i].ns += length(s);
	o[i].dma_bytes += timeline_arg(m->t, s, "dma_bytes");
}

/* ---- the phone ----------------------------------------------------------- */

static void sum_phone(struct summing *m, const struct timeline_slice *s)
{
	struct trace_phone *p = &m->s->phone;
	uint64_t took = timeline_arg(m->t, s, "took_ps");
	uint64_t *busy[TIMELINE_ROLES] = {
		[TIMELINE_PHONE_NPU] = &p->npu_ps,
		[TIMELINE_PHONE_LOADER] = &p->loader_ps,
		[TIMELINE_PHONE_FLASH] = &p->read_ps,
		[TIMELINE_PHONE_COPY] = &p->copy_ps,
	};
	enum timeline_role role = role_of(m, s);

	p->there = true;
#define PRICED(type, name) p->price.name += timeline_arg(m->t, s, #name);
	PRICE_TIMES(PRICED)
#undef PRICED
	if (role != TIMELINE_PHONE_CPU) {
		*busy[role] += took;
		return;
	}
	p->total_ps += took;
	p->kind_ps[s->kind] += took;
	if (s->kind == TRACE_KIND_WAIT)
		p->wait_ps += took;
	else
		p->cpu_ps += took;
}

/* ---- summary ------------------------------------------------------------- */

static int sum_slice(struct summing *m, size_t i)
{
	const struct timeline_slice *s = &m->t->slice[i];
	struct trace_work *w;

	if (role_of(m, s) == TIMELINE_TEXTS && s->kind == TRACE_KIND_WAIT) {
		m->s->queued++;
		m->s->queued_ns += length(s);
	}
	if (s->instant && !strcmp(name_of(m, s), "rotated"))
		m->s->rotated = timeline_arg(m->t, s, "packets");
	if (!in_texts(m, i))
		return 0;
	if (timeline_is_phone(role_of(m, s))) {
		sum_phone(m, s);
		return 0;
	}

	/* The time of a slice counts only for the slice's own kind, so subtract
	 * this time from the total of the enclosing slice's kind. */
	w = m->s->work[role_of(m, s)];
	w[s->kind].n++;
	w[s->kind].ns += length(s);
	if (s->below && in_texts(m, s->below - 1))
		w[m->t->slice[s->below - 1].kind].ns -= length(s);

	switch (role_of(m, s)) {
	case TIMELINE_THREAD:

		if (s->kind == TRACE_KIND_PASS && !s->instant) {
			m->s->rows += timeline_arg(m->t, s, "rows");
			m->s->padded_rows += timeline_arg(m->t, s, "padded");
			/* A pass that failed is recorded with 0 rows. */
			m->s->passes += timeline_arg(m->t, s, "rows") > 0;
		}
		m->s->lost +=
			s->instant && !strcmp(name_of(m, s), "device lost");
		if (s->instant &&
			!strcmp(name_of(m, s), "events of the device lost"))
			m->s->events_lost += timeline_arg(m->t, s, "events");
		m->s->restarts += !strcmp(name_of(m, s), "restart");
		if (s->kind == TRACE_KIND_WAIT)
			return spans_add(&m->waiting, s->begin, s->end);
		return s->instant ? 0
				  : spans_add(&m->working, s->begin, s->end);

	case TIMELINE_REQUESTS:
		return sum_request(m, i);
	case TIMELINE_FLASH:
		m->s->flash_reads++;
		m->s->flash_bytes += timeline_arg(m->t, s, "bytes");
		return spans_add(&m->flash, s->begin, s->end);
	case TIMELINE_DEVICE:
		m->s->device_seen = true;
		if (s->kind == TRACE_KIND_REQUEST)
			return spans_add(&m->device, s->begin, s->end);
		if (s->kind == TRACE_KIND_COMPUTE &&
			!strcmp(m->t->track[s->track].name, "run loop"))
			sum_operator(m, s);
		return 0;
	default:
		return 0;
	}
}

static int sum_overlaps(struct summing *m)
{
	struct trace_sum *s = m->s;
	struct spans overlap = { 0 }, *busy;
	int ret;

	spans_join(&m->requests);
	spans_join(&m->flash);
	spans_join(&m->working);
	spans_join(&m->waiting);
	spans_join(&m->device);
	busy = s->device_seen ? &m->device : &m->requests;
	ret = spans_without(&m->idle, &m->texts, busy);
	if (!ret)
		ret = spans_without(&overlap, &m->working, &m->waiting);
	s->bubbles = m->idle.n;
	s->bubble_ns = spans_length(&m->idle);
	for (size_t i = 0; i < m->idle.n; i++)
		if (m->idle.span[i].to - m->idle.span[i].from >
			s->longest_bubble_ns)
			s->longest_bubble_ns =
				m->idle.span[i].to - m->idle.span[i].from;
	s->flash_ns = spans_length(&m->flash);
	s->flash_beside_ns = spans_common(&m->flash, busy);
	s->device_ns = spans_length(busy);
	s->host_beside_ns = spans_common(&overlap, busy);
	spans_release(&overlap);
	return ret;
}

int trace_sum(struct trace_sum *out, const struct timeline *t, struct err *e)
{
	struct summing m = { .t = t, .s = out };
	int ret = 0;

	*out = (struct trace_sum){ 0 };
	for (size_t i = 0; i < t->n_slice && !ret; i++) {
		const struct timeline_slice *s = &t->slice[i];

		if (s->kind != TRACE_KIND_TEXT)
			continue;
		m.s->texts++;
		m.s->prompt_tokens += timeline_arg(t, s, "prompt_tokens");
		ret = spans_add(&m.texts, s->begin, s->end);
		if (!ret)
			ret = spans_add(&m.text_slices, i, s->until);
	}
	if (!ret && !m.s->texts)
		ret = spans_add(&m.texts, t->begin, t->end);
	if (!ret && !m.s->texts)
		ret = spans_add(&m.text_slices, 0, t->n_slice);
	spans_join(&m.texts);
	spans_join(&m.text_slices);
	m.s->texts_ns = spans_length(&m.texts);

	for (size_t i = 0; i < t->n_slice && !ret; i++)
		ret = sum_slice(&m, i);
	if (!ret)
		ret = sum_overlaps(&m);
	spans_release(&m.texts);
	spans_release(&m.text_slices);
	spans_release(&m.requests);
	spans_release(&m.device);
	spans_release(&m.flash);
	spans_release(&m.working);
	spans_release(&m.waiting);
	spans_release(&m.idle);
	return ret ? err_set(e, ENOMEM, "no memory to sum up the trace") : 0;
}
