#include "host/npu/npu_impl.h"

#include "base/clock.h"
#include "host/npu/completion.h"
#include "host/npu/npu_ops.h"
#include "host/trace/trace.h"
#include "ipc/channel.h"
#include "ipc/brackets.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_MS 1 /* ms between calls of npu_drain's argument `busy` */

/* ---- opening and closing a device ---------------------------------------- */

static int npu_failure(const struct npu *n, struct err *e)
{
	if (n->failed.code && e)
		*e = n->failed;
	return n->failed.code;
}

/* Record an error after which no more requests are sent: the device could not
 * be reached, or its answer was invalid. */
int npu_broken(struct npu *n, const struct err *why, struct err *e)
{
	n->broken = true;
	n->failed = *why;
	return npu_failure(n, e);
}

static int reach(struct npu *n, struct err *e)
{
	struct err why;

	n->opened_ns = clock_ns();
	n->generation++;
	n->opts.launch.life = n->generation;
	if (n->ops->open(n->ops->arg, &n->opts, &n->device, &n->welcome, &why))
		return npu_broken(n, &why, e);
	if (n->opts.brackets && n->ops->brackets)
		brackets_connect(n->opts.brackets, n->ops->brackets(n->device));
	return npu_trace_reached(n, e);
}

static void leave(struct npu *n)
{
	if (!n->device)
		return;
	n->stats.sleeps += n->ops->sleeps(n->device);
	if (n->opts.brackets)
		brackets_connect(n->opts.brackets, NULL);
	npu_trace_left(n);
	npu_trace_closed(n);
	n->ops->close(n->device);
	n->device = NULL;
}

int npu_open(struct npu **out, const struct npu_opts *opts, struct err *e)
{
	struct npu_opts own = *opts;
	const char **const string[NPU_STRINGS] = { &own.socket,
		&own.launch.program, &own.launch.coherence_report,
		&own.launch.coherence_suppress, &own.launch.fault };
	struct npu *n = calloc(1, sizeof(*n));
	int ret = 0;

	if (!n)
		return err_set(e, ENOMEM, "no memory for a device handle");
	/* Copy the strings: npu_reopen uses them, possibly long after the
	 * caller has freed the originals. */
	for (unsigned i = 0; i < NPU_STRINGS && !ret; i++) {
		if (!*string[i])
			continue;
		*string[i] = n->copy[i] = strdup(*string[i]);
		if (!n->copy[i])
			ret = err_set(
				e, ENOMEM, "no memory for a device handle");
	}
	n->opts = own;
	n->ops = opts->ops ? opts->ops : &npu_process;
	if (!ret)
		ret = reach(n, e);
	if (ret) {
		npu_close(n);
		return ret;
	}
	*out = n;
	return 0;
}

void npu_close(struct npu *n)
{
	if (!n)
		return;
	leave(n);
	for (unsigned i = 0; i < NPU_STRINGS; i++)
		free(n->copy[i]);
	free(n);
}

int npu_reopen(struct npu *n, struct err *e)
{
	npu_trace_lost(n);
	leave(n);
	n->log = (struct npu_log){ 0 };
	n->in_flight = 0;
	n->n_shared = 0;
	n->stats.extended_bytes = n->stats.extended_buffers = 0;
	n->priced = n->broken = false;
	n->failed = (struct err){ 0 };
	return reach(n, e);
}

unsigned npu_generation(const struct npu *n)
{
	return n->generation;
}

bool npu_may_reopen(struct npu *n, int code, struct err *e)
{
	uint64_t now = clock_ns(), *oldest;
	unsigned limit = n->opts.restarts;
	struct err was = *e;

	if (code != -ERR_DEVICE_LOST && !n->broken)
		return false;
	if (!limit) {
		err_set(e, ERR_DEVICE_LOST, "%s", was.text);
		return false;
	}
	oldest = &n->restart_at[n->n_restarts % limit];
	if (n->n_restarts >= limit &&
		now - *oldest < RESTART_SECONDS * 1000000000ull) {
		err_set(e, ERR_DEVICE_LOST,
			"%s; --restarts allows no more than %u losses within "
			"%d s",
			was.text, limit, RESTART_SECONDS);
		return false;
	}
	if (n->lost_in_pass >= limit) {
		err_set(e, ERR_DEVICE_LOST,
			"%s; %u earlier devices were lost in the same pass, "
			"and --restarts allows no more",
			was.text, limit);
		return false;
	}
	*oldest = now;
	n->n_restarts++;
	n->lost_in_pass++;
	return true;
}

void npu_went_on(struct npu *n)
{
	n->lost_in_pass = 0;
}

void npu_restarted(struct npu *n, uint64_t ns)
{
	n->stats.restarts++;
	n->stats.restart_ns += ns;
}

pid_t npu_pid(const struct npu *n)
{
	return (pid_t)n->welcome.device_pid;
}

const struct wire_welcome *npu_welcome(const struct npu *n)
{
	return &n->welcome;
}

/* ---- completions --------------------------------------------------------- */

_Static_assert(sizeof(struct price) == WIRE_PRICE_BYTES,
	"a completion has room for the whole price");

static void count(struct npu *n, uint32_t seq, const struct wire_done *done)
{
	const struct wire_counters *more = &done->counters;
	struct npu_stats *sum = &n->stats;
	struct price price;

	memcpy(&price, done->price, sizeof(price));
	if (n->done)
		n->done(n->done_arg, seq, &price, more->busy_ns);
	WIRE_COUNTERS(COUNTER_ADD)
	sum->round_trips++;

	if (!done->status &&
		(done->op == WIRE_GRAPH_LOAD || done->op == WIRE_GRAPH_DROP)) {
		sum->graphs = done->arg[WIRE_GRAPHS_HELD];
		sum->most_graphs = done->arg[WIRE_GRAPHS_MOST];
		sum->most_graphs_kib = done->arg[WIRE_GRAPHS_MOST_KIB];
	}
	if (!done->status && done->op == WIRE_GRAPH_RUN) {
		sum->kv_read_bytes += completion_u64(done, WIRE_RUN_KV_READ);
		sum->kv_apart_bytes += completion_u64(done, WIRE_RUN_KV_APART);
		sum->extended_read += completion_u64(done, WIRE_RUN_EXTENDED);
	}
	if (more->violations && !sum->violation[0])
		snprintf(sum->violation, sizeof(sum->violation), "%s",
			done->text);
}

/* Receive a completion, and pass on the device's trace events while waiting for
 * it. */
static int receive_traced(
	struct npu *n, struct packet *p, int timeout_ms, struct err *e)
{
	int ret = n->ops->recv(n->device, p, 0, e);
	uint64_t from = clock_ns();

	if (ret != -EAGAIN)
		return ret;
	do {
		if (!npu_trace_take(n)) {
			trace_flush(n->opts.trace, TRACE_FLUSH_WAITING);
			ret = n->ops->recv(n->device, p, timeout_ms, e);
			break;
		}
		ret = n->ops->recv(n->device, p, 0, e);
	} while (ret == -EAGAIN);
	npu_trace_waited(n, from);
	return ret;
}

/* Collect one completion. A timeout of -1 means no limit. Returns -EAGAIN, with
 * *e unchanged, if no completion arrived in time. */
static int npu_collect(struct npu *n, int timeout_ms, uint32_t *seq,
	struct wire_done *done, struct err *e)
{
	const struct npu_request *r;
	struct packet p;
	struct err why;
	int ret = n->opts.trace && timeout_ms
		? receive_traced(n, &p, timeout_ms, &why)
		: n->ops->recv(n->device, &p, timeout_ms, &why);

	/* A malformed packet counts as an invalid answer too. */
	if (ret == -EPROTO || ret == -EBADMSG) {
		why.code = -EPROTO;
		return npu_broken(n, &why, e);
	}
	if (ret && ret != -EAGAIN && e)
		*e = why;
	if (ret)
		return ret;
	r = npu_log_find(&n->log, p.seq);
	if (completion_take(&p, r, n->priced, n->opened_ns, done, &why))
		return npu_broken(n, &why, e);
	*seq = r->seq;
	npu_trace_done(n, r, done);
	npu_log_done(&n->log, r);
	n->in_flight--;
	count(n, *seq, done);
	return 0;
}

static void remember_failure(
	struct npu *n, uint32_t seq, const struct wire_done *done)
{
	/* The status comes from the device, and could be a code to which
	 * callers react, such as -ENOSPC. So replace every status other than
	 * -ENOMEM by -EIO. */
	int code = done->status == -ENOMEM ? ENOMEM : EIO;

	if (!done->status || n->failed.code)
		return;
	if (done->text[0])
		err_set(&n->failed, code, "the device refused a request: %s",
			done->text);
	else
		err_set(&n->failed, code,
			"the device refused request %u (%s): status %d, %s; "
			"the text of its answer should have the reason but is "
			"empty (docs/wire.md)",
			seq, completion_op(done->op), done->status,
			strerror(-done->status));
}

/* Collect one completion, and remember the failure if the device refused the
 * request. */
static int collect_next(struct npu *n, int timeout_ms, struct err *e)
{
	struct wire_done done;
	uint32_t seq;
	int ret = npu_collect(n, timeout_ms, &seq, &done, e);

	if (!ret)
		remember_failure(n, seq, &done);
	return ret;
}

static void sleep_past(struct npu *n, unsigned completions)
{
	if (n->ops->sleep_past)
		n->ops->sleep_past(n->device, completions);
}

int npu_drain(struct npu *n, unsigned few, void (*busy)(void *arg), void *arg,
	struct err *e)
{
	while (n->in_flight > few && !n->broken) {
		int ret = collect_next(n, busy ? BUSY_MS : -1, e);

		if (ret == -EAGAIN)
			busy(arg);
		else if (ret)
			return ret;
	}
	return npu_failure(n, e);
}

/* With a trace, completions are collected one by one, because the trace records
 * the time of each completion. */
int npu_drain_together(struct npu *n, struct err *e)
{
	int ret = 0;

	while (n->in_flight && !n->broken && !ret) {
		if (!n->opts.trace)
			sleep_past(n, n->in_flight);
		ret = collect_next(n, -1, e);
	}
	sleep_past(n, 1);
	return ret ? ret : npu_failure(n, e);
}

int npu_poll(struct npu *n, struct err *e)
{
	int ret = 0;

	while (n->in_flight && !n->broken && !ret)
		ret = collect_next(n, 0, e);
	return ret && ret != -EAGAIN ? ret : npu_failure(n, e);
}

/* ---- requests ------------------------------------------------------------ */

/*
 * The number of requests in flight is limited, to avoid a deadlock: the device
 * waits while the completion ring is full, and the host waits while the request
 * ring is full. A limit far below the sizes of the two rings keeps the rings
 * from being full at the same time.
 */
int npu_send(struct npu *n, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *e)
{
	struct npu_request r = { .seq = n->next_seq };
	int ret = npu_drain(n, NPU_IN_FLIGHT_MAX - 1, NULL, NULL, e);
	uint64_t from = n->opts.trace ? clock_ns() : 0;

	if (!ret)
		ret = n->ops->send(
			n->device, refs, n_refs, msg, len, &r.wired, e);
	if (ret)
		return ret;
	memcpy(&r.op, msg, sizeof(r.op));
	npu_log_put(&n->log, &r);
	n->in_flight++;
	npu_trace_sent(n, r.seq, from);
	n->next_seq++;
	if (seq)
		*seq = r.seq;
	return 0;
}

int npu_call(struct npu *n, const void *msg, size_t len, struct wire_done *done,
	struct err *e)
{
	uint32_t want, seq;
	int ret = npu_send(n, NULL, 0, msg, len, &want, e);

	while (!ret) {
		ret = npu_collect(n, -1, &seq, done, e);
		if (!ret && seq == want)
			return npu_failure(n, e);
		if (!ret)
			remember_failure(n, seq, done);
		/* continue after a cancellation, because the effect of the
		 * request on the device must be known */
		if (ret == -ECANCELED)
			ret = 0;
	}
	return ret;
}

int npu_wait(struct npu *n, uint32_t seq, struct err *e)
{
	int ret = 0;

	while (!ret && !n->broken && npu_log_of(&n->log, seq))
		ret = collect_next(n, -1, e);
	return ret ? ret : npu_failure(n, e);
}

/* ---- the simulated phone, counters --------------------------------------- */

int npu_price_for(struct npu *n, const struct soc *soc, struct err *e)
{
	struct {
		struct wire_soc head;
		struct soc soc;
	} msg = { { WIRE_SOC, SOC_COUNT }, *soc };
	struct wire_done done;
	int ret;

	/* set before the call: the completion of this request may already have
	 * a price */
	n->priced = true;
	ret = npu_call(n, &msg, sizeof(msg), &done, e);
	if (!ret && done.status)
		ret = err_set(e, EIO,
			"the device refused the cost model of the "
			"phone: %s",
			done.text);
	return ret;
}

void npu_watch(struct npu *n,
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns),
	void *arg)
{
	n->done = done;
	n->done_arg = arg;
}

void npu_stats(const struct npu *n, struct npu_stats *out)
{
	*out = n->stats;
	if (n->device)
		out->sleeps += n->ops->sleeps(n->device);
}

void npu_stats_less(struct npu_stats *now, const struct npu_stats *before)
{
	WIRE_COUNTERS(COUNTER_SUBTRACT)
	now->round_trips -= before->round_trips;
	now->sleeps -= before->sleeps;
}
