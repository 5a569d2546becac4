/* Requests in flight: handling their answers, both in the session and on the
 * timeline of the simulated phone, and waiting for them. */
#include "host/memory/staging.h"
#include "host/session/session_impl.h"
#include "host/session/switching.h"

#include "base/err.h"
#include "host/memory/swap.h"
#include "host/npu/npu.h"
#include "ipc/channel.h"
#include "tensor/soc/soc.h"

#include <stddef.h>

static struct inflight *inflight_at(struct session *s, unsigned i)
{
	return &s->inflight[(s->oldest + i) % MAX_INFLIGHT];
}

void inflight_add(struct session *s, const struct inflight *f)
{
	*inflight_at(s, s->n_inflight++) = *f;
}

const struct inflight *inflight_oldest(struct session *s)
{
	for (unsigned i = 0; i < s->n_inflight; i++)
		if (!inflight_at(s, i)->done)
			return inflight_at(s, i);
	return NULL;
}

uint64_t session_ring_bytes(
	const struct session *s, unsigned n_refs, size_t len)
{
	if (!s->opts.coherence_ctrl || !s->opts.soc)
		return 0;
	if (s->opts.contract == COHERENCE_TWO_LEVELS)
		return PACKET_WHOLE_CALLS * (uint64_t)s->opts.soc->l2_bytes;
	return COHERENCE_LINE *
		(packet_invalidated_lines(n_refs, len) +
			packet_cleaned_lines(offsetof(struct wire_done, text)));
}

void inflight_release_swap(struct session *s, struct inflight *f, uint64_t ps)
{
	if (f->swap >= 0)
		swap_done(s->swapping.swap, (unsigned)f->swap, ps);
	f->swap = -1;
}

/* Record that a run has ended. `p` is the price reported by the device. */
static void run_ends(
	struct session *s, struct inflight *f, const struct price *p)
{
	struct price as, maintenance;
	uint64_t bytes = p->counts.maintenance_bytes, rings = f->ring_bytes;

	if ((s->opts.as || s->pricing.by_cpu) && s->opts.soc) {
		rings = rings < bytes ? rings : bytes;
		pricing_run(&s->pricing, &f->run, &as);
		pricing_maintenance(&s->pricing, f->run.block, bytes - rings,
			rings, &maintenance);
		price_add(&as, &maintenance);
		p = &as;
	}
	f->done = true;
	f->took_ps = p->total_ps;
	s->stats.stall_ps += phone_later(s->time->npu_ps, f->sent_ps) -
		phone_later(s->time->npu_ps, f->asked_ps);
	f->end_ps = phone_npu(s->time, f->sent_ps, p);
	/* Release the swap slot (a buffer for copied weights) at once, so that
	 * the next copy into the slot overlaps the remaining runs. */
	inflight_release_swap(s, f, f->end_ps);
}

/*
 * Handler of completions. The runs of a pass complete in order. The sender of
 * any other request waits for that request. The session of a draft model may
 * send requests while a pass of the target model runs. `arg` is then the draft
 * session, so the handler looks for the request in both sessions.
 */
void session_request_done(
	void *arg, uint32_t seq, const struct price *p, uint64_t busy_ns)
{
	struct session *s = arg;
	struct price request, rings;

	for (struct session *of = s; of; of = of->opts.beside) {
		struct inflight *f = NULL;

		for (unsigned i = 0; i < of->n_inflight && !f; i++)
			if (inflight_at(of, i)->seq == seq)
				f = inflight_at(of, i);
		if (of->switching && switching_answered(of, seq, p))
			return;
		if (!f)
			continue;
		run_ends(of, f, p);
		if (of->switching)
			switching_ran(of, f, busy_ns);
		return;
	}
	/* `instead` replaces the price of a request that did real work. Keep
	 * the reported price if the request was refused, or was sent before the
	 * device had a cost model: such a price is at most the price of an
	 * empty request. */
	if (s->instead) {
		price_request(s->opts.soc, &request);
		price_maintenance(s->opts.soc, s->instead_rings, &rings);
		price_add(&request, &rings);
		p = p->total_ps > request.total_ps ? s->instead : p;
	}
	phone_wait(s->time, phone_npu(s->time, s->time->cpu_ps, p));
}

/* Remove the answered runs from the list of requests in flight, and free the
 * staging slots that they read. */
int inflight_retire(struct session *s, struct err *e)
{
	int ret = 0;

	while (s->n_inflight && inflight_at(s, 0)->done && !ret) {
		struct inflight f = *inflight_at(s, 0);

		s->oldest = (s->oldest + 1) % MAX_INFLIGHT;
		s->n_inflight--;
		if (f.slot >= 0)
			ret = staging_refill(
				s->staging, (unsigned)f.slot, f.end_ps, e);
	}
	return ret;
}

int session_drop_inflight(struct session *s, struct err *e)
{
	for (unsigned i = 0; i < s->n_inflight; i++) {
		inflight_at(s, i)->done = true;
		inflight_at(s, i)->end_ps = s->time->cpu_ps;
		inflight_release_swap(s, inflight_at(s, i), s->time->cpu_ps);
	}
	return inflight_retire(s, e);
}

int inflight_answered(struct session *s, struct err *e)
{
	return s->n_inflight
		? npu_wait(s->npu, inflight_at(s, s->n_inflight - 1)->seq, e)
		: 0;
}

int inflight_wait(struct session *s, struct err *e)
{
	int ret;

	/* With graph switching, wait only for the newest run, because a graph
	 * load that runs in parallel may end later. With staging or swapping,
	 * wait for each answer in turn, because each answer frees a slot. */
	if (s->switching)
		ret = inflight_answered(s, e);
	else if (s->staging || s->swapping.swap)
		ret = npu_drain(s->npu, 0, NULL, NULL, e);
	else
		ret = npu_drain_together(s->npu, e);
	if (!ret)
		phone_wait(s->time, s->time->npu_ps);
	return ret ? ret : inflight_retire(s, e);
}
