#include "device/fault.h"

#include "base/strbuf.h"
#include "ipc/wire.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(WIRE_NOP == 1 && WIRE_MAP == 2 && WIRE_UNMAP == 3 &&
		WIRE_GRAPH_LOAD == 4 && WIRE_GRAPH_DROP == 5 &&
		WIRE_GRAPH_RUN == 6 && WIRE_SOC == 7,
	"kinds of requests have the wire's numbers");

int fault_parse(struct fault *f, const char *text, struct err *e)
{
	memset(f, 0, sizeof(*f));
	f->life = 1;
	return fault_plan_parse_device(&f->plan, text, e);
}

static void stop(void)
{
	for (;;)
		pause();
}

void fault_start(struct fault *f)
{
	for (unsigned i = 0; i < f->plan.n; i++) {
		const struct fault_event *ev = &f->plan.event[i];
		const struct timespec late = { ev->ms / 1000,
			ev->ms % 1000 * 1000000l };

		if (ev->kind != FAULT_START || !fault_event_hits(ev, f->life))
			continue;
		f->fired[i] = true;
		if (ev->verb == FAULT_DIE)
			raise(SIGKILL);
		if (ev->verb == FAULT_HANG)
			stop();
		nanosleep(&late, NULL);
	}
}

void fault_start_next(struct fault *f)
{
	f->continues = true;
	f->life++;
	/* forget faults of completions that the previous device never sent */
	f->n_pending = 0;
	atomic_store(&f->inside, 0);
	fault_start(f);
}

/* Whether only the plan's events start#N (faults at the N-th start of a device)
 * apply, because this device replaces a lost one. A replacement counts requests
 * and calls from 0, so without this rule all other events would be triggered
 * again. */
static bool only_starts(const struct fault *f)
{
	return f->life > 1 && !f->continues;
}

static const enum fault_verb drop[] = {
	[COHERENCE_CALL_INVALIDATE] = FAULT_DROP_INVALIDATE,
	[COHERENCE_CALL_CLEAN] = FAULT_DROP_CLEAN,
	[COHERENCE_CALL_WORD] = FAULT_DROP_WORD,
	[COHERENCE_CALL_CLEAN_ALL] = FAULT_DROP_CLEAN_ALL,
	[COHERENCE_CALL_FLUSH_ALL] = FAULT_DROP_FLUSH_ALL,
	[COHERENCE_CALL_WAIT] = FAULT_DROP_WAIT,
};

bool fault_drops(struct fault *f, enum coherence_call call, const char *buffer)
{
	bool drops = false;

	for (unsigned i = 0; i < f->plan.n; i++) {
		const struct fault_event *ev = &f->plan.event[i];
		unsigned b = 0;

		if (ev->verb != drop[call] || only_starts(f))
			continue;
		if (*ev->buffer && strcmp(ev->buffer, buffer)) {
			/* remember the name of the buffer: if no call occurs
			 * for the buffer of an event, the message lists the
			 * buffers that had calls */
			while (b < f->n_buffers &&
				(f->buffer[b].call != call ||
					strcmp(f->buffer[b].name, buffer)))
				b++;
			if (b < f->n_buffers || b == FAULT_BUFFERS)
				continue;
			f->buffer[b].call = call;
			snprintf(f->buffer[b].name, sizeof(f->buffer[b].name),
				"%s", buffer);
			f->n_buffers++;
			continue;
		}
		f->calls[i]++;
		if (fault_event_hits(ev, f->calls[i]))
			drops = f->fired[i] = true;
	}
	return drops;
}

bool fault_request(struct fault *f, uint32_t op, uint32_t seq)
{
	struct fault_answer a = { 0 };
	/* true: a fault is to be injected when the completion is sent */
	bool answers = false;

	if (!f->plan.n || only_starts(f))
		return false;
	f->requests[FAULT_ANY]++;
	if (op > FAULT_ANY && op < FAULT_START)
		f->requests[op]++;
	f->enomem = false;
	atomic_store(&f->inside, 0);
	for (unsigned i = 0; i < f->plan.n; i++) {
		const struct fault_event *ev = &f->plan.event[i];

		if (ev->kind == FAULT_START ||
			ev->verb >= FAULT_DROP_INVALIDATE ||
			(ev->kind != FAULT_ANY && ev->kind != op) ||
			!fault_event_hits(ev, f->requests[ev->kind]))
			continue;
		f->fired[i] = true;
		switch (ev->verb) {
		case FAULT_DIE:
			raise(SIGKILL);
			break;
		case FAULT_HANG:
			stop();
			break;
		case FAULT_DIE_INSIDE:
		case FAULT_HANG_INSIDE:
			atomic_store(&f->inside, (int)ev->verb + 1);
			break;
		case FAULT_ENOMEM:
			f->enomem = true;
			break;
		default:
			answers = true;
			if (ev->verb == FAULT_LATE)
				a.late_ms = ev->ms;
			if (ev->verb == FAULT_FULL)
				a.spoil.full_ms = ev->ms;
			a.die |= ev->verb == FAULT_DIE_ANSWERED;
			a.hang |= ev->verb == FAULT_HANG_ANSWERED;
			a.spoil.bell_drop |= ev->verb == FAULT_BELL_DROP;
			a.spoil.bell_repeat |= ev->verb == FAULT_BELL_REPEAT;
			a.spoil.bell_merge |= ev->verb == FAULT_BELL_MERGE;
			a.spoil.tear |= ev->verb == FAULT_TEAR;
			a.wrong_seq |= ev->verb == FAULT_SEQ;
		}
	}
	if (answers && f->n_pending < FAULT_PENDING) {
		a.seq = seq;
		f->pending[f->n_pending++] = a;
	}
	return f->enomem;
}

void fault_inside(struct fault *f)
{
	int what = atomic_load_explicit(&f->inside, memory_order_relaxed);

	if (what == FAULT_DIE_INSIDE + 1)
		raise(SIGKILL);
	if (what == FAULT_HANG_INSIDE + 1)
		stop();
}

bool fault_takes_answer(struct fault *f, uint32_t seq, struct fault_answer *out)
{
	for (unsigned i = 0; i < f->n_pending; i++)
		if (f->pending[i].seq == seq) {
			*out = f->pending[i];
			f->pending[i] = f->pending[--f->n_pending];
			return true;
		}
	return false;
}

void fault_answered(const struct fault_answer *a)
{
	if (a->die)
		raise(SIGKILL);
	if (a->hang)
		stop();
}

/* ---- reports on the fault plan ------------------------------------------- */

static bool is_drop(const struct fault_event *ev)
{
	return ev->verb >= FAULT_DROP_INVALIDATE && ev->verb <= FAULT_DROP_WAIT;
}

/* On a replacement device, report only those events start#N whose start has not
 * come yet. */
bool fault_unfired(
	const struct fault *f, char *buf, size_t size, struct strbuf *why)
{
	const char *between = "; buffers with such calls:";
	const struct fault_event *ev = NULL;
	unsigned i;
	uint64_t n;

	for (i = 0; i < f->plan.n; i++) {
		ev = &f->plan.event[i];
		if (!f->fired[i] &&
			(!only_starts(f) ||
				(ev->kind == FAULT_START && ev->at > f->life)))
			break;
	}
	if (i == f->plan.n)
		return false;
	fault_event_print(ev, buf, size);
	if (!why)
		return true;
	if (ev->kind == FAULT_START) {
		strbuf_addf(why, "the device was started only %u time%s",
			f->life, f->life == 1 ? "" : "s");
		return true;
	}
	n = is_drop(ev) ? f->calls[i] : f->requests[ev->kind];
	if (n)
		strbuf_addf(why, "the number of such %s was only %" PRIu64,
			is_drop(ev) ? "calls" : "requests", n);
	else
		strbuf_addf(why, "there was no such %s",
			is_drop(ev) ? "call" : "request");
	for (unsigned b = 0; is_drop(ev) && !n && b < f->n_buffers; b++) {
		if (drop[f->buffer[b].call] != ev->verb)
			continue;
		strbuf_addf(why, "%s %s", between, f->buffer[b].name);
		between = ",";
	}
	return true;
}

bool fault_plans_drop(const struct fault *f, char *event, size_t size)
{
	for (unsigned i = 0; i < f->plan.n; i++)
		if (is_drop(&f->plan.event[i]) && !only_starts(f)) {
			fault_event_print(&f->plan.event[i], event, size);
			return true;
		}
	return false;
}
