/*
 * Timeline of a simulated phone while a model runs. The phone has five engines:
 * CPU, NPU, the loader of NPU graphs, flash, and a copying engine. The engines
 * work in parallel, each on one piece of work at a time. An engine waits when
 * its work needs the result of another engine. Times are picoseconds since the
 * start of the timeline. tensor/soc/price.h computes the duration of a piece of
 * work, so the same work takes the same time on every machine and in every run.
 *
 * The time of the CPU is the current time of the host thread: it advances when
 * the host works and when the host waits.
 */
#ifndef HOST_NPU_PHONE_H
#define HOST_NPU_PHONE_H

#include "host/trace/trace.h"
#include "tensor/soc/price.h"

#define PHONE_FLASH_QUEUE 64 /* maximum of soc.flash_queue */

struct phone_time {
	uint64_t cpu_ps;    /* current time of the host */
	uint64_t npu_ps;    /* time at which all work sent to the NPU ends */
	uint64_t flash_ps;  /* time at which all reads from flash end */
	uint64_t loader_ps; /* time at which all graph loads end */
	/* duration of deferred CPU work (see phone_beside) */
	uint64_t beside_ps;
	uint64_t copy_ps; /* time at which all copies end */
	/* Sum of the prices of all work. The member total_ps is the sum of the
	 * durations, not the time at which the work ends. */
	struct price price;
	/* End times of the latest PHONE_FLASH_QUEUE reads: that of read i (from
	 * 0) is at index i % PHONE_FLASH_QUEUE. */
	uint64_t flash_end_ps[PHONE_FLASH_QUEUE];
	uint64_t flash_reads;
	/* receives the events of all engines; may be NULL */
	struct trace *trace;
};

static inline uint64_t phone_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Record in the trace one piece of an engine's work, which begins at time `at`
 * and takes the time `took`. `p` is the price of the work; NULL for waiting,
 * and for work whose price was reported before. */
static inline void phone_report(const struct phone_time *t,
	enum trace_track track, enum trace_name name, uint64_t at,
	uint64_t took, const struct price *p)
{
	const struct price none = { 0 };
	struct trace_event v = { TRACE_BEGIN, name, track, 0, at, 0, 2 };

	if (!t->trace || (!took && !p))
		return;
	p = p ? p : &none;
	v.arg[0] = at;
	v.arg[1] = took;
#define PHONE_PUT(type, name) v.arg[v.n++] = p->name;
	PRICE_TIMES(PHONE_PUT)
#undef PHONE_PUT
	trace_emit(t->trace, &v);
	trace_emit(t->trace,
		&(const struct trace_event){ .type = TRACE_END,
			.name = name,
			.track = track,
			.at = at + took });
}

/* Add work that the host does now to the timeline. */
static inline void phone_cpu(
	struct phone_time *t, enum trace_name what, const struct price *p)
{
	price_add(&t->price, p);
	phone_report(t, TRACE_ON_PHONE_CPU, what, t->cpu_ps, p->total_ps, p);
	t->cpu_ps += p->total_ps;
}

/* Add deferred work, which the host does only while it is idle, to the
 * timeline. If the result is needed earlier, phone_catch_up does the remaining
 * work at once. */
static inline void phone_beside(struct phone_time *t, const struct price *p)
{
	price_add(&t->price, p);
	t->beside_ps += p->total_ps;
	phone_report(
		t, TRACE_ON_PHONE_CPU, TRACE_PHONE_REFRESH, t->cpu_ps, 0, p);
}

static inline void phone_catch_up(struct phone_time *t)
{
	phone_report(t, TRACE_ON_PHONE_CPU, TRACE_PHONE_BESIDE, t->cpu_ps,
		t->beside_ps, NULL);
	t->cpu_ps += t->beside_ps;
	t->beside_ps = 0;
}

/* The host sends work to the NPU at `sent_ps`. Returns the time when the work
 * ends. */
static inline uint64_t phone_npu(
	struct phone_time *t, uint64_t sent_ps, const struct price *p)
{
	uint64_t from = phone_later(t->npu_ps, sent_ps);

	price_add(&t->price, p);
	phone_report(
		t, TRACE_ON_PHONE_NPU, TRACE_PHONE_RUN, from, p->total_ps, p);
	return t->npu_ps = from + p->total_ps;
}

/* The loader loads an NPU graph, at `from_ps` at the earliest. Returns the time
 * when the load ends. */
static inline uint64_t phone_loader(
	struct phone_time *t, uint64_t from_ps, const struct price *p)
{
	uint64_t from = phone_later(t->loader_ps, from_ps);

	price_add(&t->price, p);
	phone_report(t, TRACE_ON_PHONE_LOADER, TRACE_PHONE_LOAD, from,
		p->total_ps, p);
	return t->loader_ps = from + p->total_ps;
}

/*
 * Flash reads a piece of data, at `from_ps` at the earliest. Returns the time
 * when the read ends. Flash works on up to `queue` reads at a time (1 to
 * PHONE_FLASH_QUEUE). The latency of a read (begin_ps, part of its price)
 * overlaps the transfers of earlier reads; the transfers are sequential.
 */
static inline uint64_t phone_flash(struct phone_time *t, uint64_t from_ps,
	unsigned queue, uint64_t begin_ps, const struct price *p)
{
	uint64_t before = t->flash_reads + PHONE_FLASH_QUEUE - queue;
	uint64_t issued = phone_later(
		from_ps, t->flash_end_ps[before % PHONE_FLASH_QUEUE]);
	uint64_t first_byte = phone_later(t->flash_ps, issued + begin_ps);

	price_add(&t->price, p);
	phone_report(t, TRACE_ON_PHONE_FLASH, TRACE_PHONE_READ, first_byte,
		p->total_ps - begin_ps, p);
	t->flash_ps = first_byte + (p->total_ps - begin_ps);
	t->flash_end_ps[t->flash_reads++ % PHONE_FLASH_QUEUE] = t->flash_ps;
	return t->flash_ps;
}

/* The copying engine copies data, at `from_ps` at the earliest. Returns the
 * time when the copy ends. */
static inline uint64_t phone_copy(
	struct phone_time *t, uint64_t from_ps, const struct price *p)
{
	uint64_t from = phone_later(t->copy_ps, from_ps);

	price_add(&t->price, p);
	phone_report(
		t, TRACE_ON_PHONE_COPY, TRACE_PHONE_COPY, from, p->total_ps, p);
	return t->copy_ps = from + p->total_ps;
}

/* The host waits until `until_ps`, and does deferred work meanwhile. */
static inline void phone_wait(struct phone_time *t, uint64_t until_ps)
{
	uint64_t idle = phone_later(t->cpu_ps, until_ps) - t->cpu_ps;
	uint64_t used = idle < t->beside_ps ? idle : t->beside_ps;

	phone_report(t, TRACE_ON_PHONE_CPU, TRACE_PHONE_BESIDE, t->cpu_ps, used,
		NULL);
	phone_report(t, TRACE_ON_PHONE_CPU, TRACE_PHONE_WAIT, t->cpu_ps + used,
		idle - used, NULL);
	t->beside_ps -= used;
	t->cpu_ps += idle;
}

#endif
