/*
 * Runs requests: tandem_generate, tandem_submit, tandem_advance and the calls
 * about a single request. Each request is a lane of the handle's scheduler
 * (request_lane.c).
 */
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/method/choosing.h"
#include "host/scheduler/scheduler.h"
#include "host/scheduler/samples.h"
#include "host/npu/npu.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned requests_unfinished(const struct tandem *t)
{
	unsigned n = 0;

	for (const struct tandem_submitted *x = t->first_request; x;
		x = x->next)
		n += x->state == REQUEST_UNFINISHED;
	return n;
}

static struct tandem_submitted **place_of(
	struct tandem *t, const struct tandem_submitted *x)
{
	struct tandem_submitted **at = &t->first_request;

	while (*at != x)
		at = &(*at)->next;
	return at;
}

/* ---- submitting ---------------------------------------------------------- */

void requests_close(struct tandem *t)
{
	if (t->scheduler)
		scheduler_close(t->scheduler);
	free(t->scheduler);
	t->scheduler = NULL;
}

static int open_scheduler(struct tandem *t, struct err *e)
{
	struct decoder *d = &t->decoder;
	const struct samples_options *o =
		opt_values_of(&d->options, &samples_table);
	uint32_t rows = d->session_opts.decode_rows, width = decoder_lanes(d);
	bool mixed = !requests_run_in_turn(t);
	int ret;

	if (!mixed && d->method->many) {
		rows = samples_tree_rows(&d->env);
		width = o->parallel;
	} else if (!mixed) {
		rows = d->method->decode_rows(&d->env);
	}
	t->scheduler = calloc(1, sizeof(*t->scheduler));
	if (!t->scheduler)
		return err_set(e, ENOMEM, "no memory for requests");
	*t->scheduler = (struct scheduler){ .session = d->session,
		.env = &d->env,
		.mixed_prefill = mixed,
		.tree_rows = mixed ? WIRE_MAX_ROWS : rows,
		.lane_rows = rows };
	ret = scheduler_open(t->scheduler, width, e);
	if (ret)
		requests_close(t);
	return ret;
}

/*
 * Append a request to the list of the handle. If requests share passes, a
 * request without samples is also added to the scheduler, where its lane (its
 * decoded sequence) waits for passes; `admit` adds all other requests to the
 * scheduler later. A request for an embedding needs the hidden state of its
 * last token but draws no token, so `closing` is set in its lane: the pass that
 * computes this state is the lane's last.
 */
static int queue(struct tandem_submitted *x, struct err *e)
{
	struct tandem *t = x->tandem;
	struct decoder *d = &t->decoder;
	bool in_turn = requests_run_in_turn(t);
	int ret = t->scheduler ? 0 : open_scheduler(t, e);

	x->lane = (struct lane){ .ops = &request_lane_ops,
		.gen = x->generation,
		.sequence = LANE_NO_SEQUENCE,
		.closing = x->embedding };
	if (!ret && !x->embedding &&
		(in_turn ? d->method->many != NULL : decoder_has_samples(d)))
		ret = samples_open(&x->samples, &d->env, x->generation, e);
	if (!ret && !in_turn && !x->samples)
		ret = scheduler_add(t->scheduler, &x->lane, e);
	if (ret)
		return ret;
	*place_of(t, NULL) = x;
	/* A request that generates no token ends at once, without reading its
	 * prompt, if requests share passes or if the method is a diffusion
	 * method. */
	if (gen_done(x->generation) && !x->embedding && !x->samples &&
		(!in_turn || d->method->denoise))
		request_lane_end(x, 0);
	return 0;
}

int tandem_submit(struct tandem *t, const struct tandem_request *request,
	struct tandem_submitted **out)
{
	struct tandem_submitted *x = NULL;
	int ret = t->dead;

	*out = NULL;
	if (!ret)
		ret = tandem_settle(t, request_open(&x, t, request, true));
	if (!ret)
		ret = tandem_status_of(queue(x, &t->err));
	if (ret) {
		request_close(x);
		return ret;
	}
	request_trace_submitted(x);
	*out = x;
	return 0;
}

/* ---- one pass for all requests ------------------------------------------- */

/* Energy in picojoules that the simulated phone has used since the session was
 * opened; 0 if no phone is simulated. */
static uint64_t energy_pj(const struct decoder *d)
{
	struct session_stats s = { 0 };

	if (d->session_opts.soc)
		session_stats(d->session, &s);
	return s.price.energy_pj;
}

/* Whether an error concerns all requests, not only the request that the library
 * was working on when the error occurred. */
static bool concerns_all(const struct tandem *t, int ret)
{
	return ret == -ERR_DEVICE_LOST ||
		(ret == -ECANCELED &&
			__atomic_load_n(&t->canceled, __ATOMIC_RELAXED));
}

/*
 * For a request that has samples and whose prompt was read: between two passes,
 * let the method add, fork, cut or choose samples (samples_next). Returns only
 * errors that concern all requests.
 */
static int step_samples(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	int ret = 0;

	if (!samples_have_begun(x->samples))
		ret = samples_begin(
			x->samples, t->scheduler, &x->lane, &x->err);
	if (!ret && !x->canceled)
		ret = samples_next(x->samples, &x->err);
	if (concerns_all(t, ret)) {
		t->err = x->err;
		return ret;
	}
	if (x->canceled || (ret && ret != MANY_SCORE))
		request_lane_end(x, ret == MANY_DONE ? 0 : ret);
	return 0;
}

/*
 * Before a pass: add requests to the scheduler in the order of submission. If
 * requests run in turn, one request runs at a time. Otherwise up to N requests
 * with samples run at the same time (texts=N); `queue` has already added the
 * requests without samples. Also releases the lanes that find_cached has held
 * (excluded from passes). The lanes' callback `enter` calls find_cached again,
 * which may hold these lanes again.
 */
static int admit(struct tandem *t, struct err *e)
{
	struct decoder *d = &t->decoder;
	const struct texts_options *o =
		opt_values_of(&d->options, &texts_table);
	bool in_turn = requests_run_in_turn(t);
	uint32_t turns = in_turn ? 1 : o->texts;
	int ret = 0;

	for (struct tandem_submitted *x = t->first_request; x && !ret;
		x = x->next) {
		x->pass_rows = 0;
		if (x->lane.state == LANE_WAITING)
			x->lane.held = false;
		if (x->state != REQUEST_UNFINISHED || !turns ||
			(!in_turn && !x->samples))
			continue;
		turns--;
		if (x->lane.scheduler)
			continue;
		if (!x->measured && !x->embedding)
			ret = decoder_prepare_oracle(d, x->generation, e);
		if (!ret)
			ret = scheduler_add(t->scheduler, &x->lane, e);
		if (!ret && in_turn)
			x->lane.sequence = SESSION_TEXT;
	}
	return ret;
}

/*
 * A pass ended with the error `ret`. If the pass was canceled, no request
 * fails. Otherwise all unfinished requests fail. But if requests run in turn
 * and the device was not lost, only the first unfinished request fails. Returns
 * the status of tandem_advance.
 */
static int fail_pass(struct tandem *t, int ret)
{
	bool one = requests_run_in_turn(t) && ret != -ERR_DEVICE_LOST;

	if (ret == -ECANCELED)
		return TANDEM_CANCELED;
	for (struct tandem_submitted *x = t->first_request; x; x = x->next) {
		if (x->state != REQUEST_UNFINISHED)
			continue;
		x->err = t->err;
		request_lane_end(x, ret);
		if (one)
			return TANDEM_OK;
	}
	return tandem_status_of(ret);
}

/* Number of samples that must be scored before the method's next step for the
 * request. */
static uint32_t unscored(const struct tandem_submitted *x)
{
	uint32_t n = 0;

	if (x->state == REQUEST_UNFINISHED && x->samples)
		samples_to_score(x->samples, &n);
	return n;
}

/* Score the samples of the requests from `first` up to, but not including,
 * `end`, in shared passes. Each request is charged the energy of these passes
 * in proportion to the number of its samples that were scored. */
static int score_samples(struct tandem *t, struct tandem_submitted *first,
	const struct tandem_submitted *end, struct err *e)
{
	uint64_t before = energy_pj(&t->decoder);
	struct tandem_submitted *x;
	struct sample **list;
	uint32_t all = 0, n = 0, some;
	double each;
	int ret;

	for (x = first; x != end; x = x->next)
		all += unscored(x);
	list = calloc(all, sizeof(struct sample *));
	if (!list)
		return err_set(e, ENOMEM, "no memory to score %u samples", all);
	for (x = first; x != end; x = x->next) {
		if (!unscored(x))
			continue;
		memcpy(list + n, samples_to_score(x->samples, &some),
			unscored(x) * sizeof(struct sample *));
		n += some;
	}
	ret = choosing_score(&t->decoder.env, list, n, e);
	each = (double)(energy_pj(&t->decoder) - before) / n;
	for (x = first; x != end && !ret; x = x->next) {
		x->energy_pj += (uint64_t)(each * unscored(x));
		if (unscored(x))
			samples_scored(x->samples);
	}
	free(list);
	return ret;
}

/*
 * Score the samples of all requests in shared passes. If this fails, score the
 * samples of each request alone, so that only a request whose texts cannot be
 * scored fails. Returns only errors that concern all requests.
 */
static int score(struct tandem *t)
{
	int ret = score_samples(t, t->first_request, NULL, &t->err);

	if (!ret || concerns_all(t, ret))
		return ret;
	for (struct tandem_submitted *x = t->first_request; x; x = x->next) {
		if (!unscored(x))
			continue;
		ret = score_samples(t, x, x->next, &x->err);
		if (concerns_all(t, ret)) {
			t->err = x->err;
			return ret;
		}
		if (ret)
			request_lane_end(x, ret);
	}
	return 0;
}

/* Between two passes, call step_samples for all requests with samples. For a
 * request whose samples had to be scored, step_samples is called again after
 * the scoring. */
static int step_all_samples(struct tandem *t)
{
	bool again = false, any;
	int ret = 0;

	do {
		any = false;
		for (struct tandem_submitted *x = t->first_request; x && !ret;
			x = x->next) {
			uint64_t before = energy_pj(&t->decoder);

			if (x->state != REQUEST_UNFINISHED || !x->samples ||
				!samples_are_read(x->samples) ||
				(again && !unscored(x)))
				continue;
			if (!again && x->pass_rows &&
				samples_have_begun(x->samples))
				request_report_progress(x);
			ret = step_samples(x);
			x->energy_pj += energy_pj(&t->decoder) - before;
			any |= unscored(x) > 0;
		}
		if (any && !ret)
			ret = score(t);
		again = true;
	} while (any && !ret);
	return ret;
}

int tandem_advance(struct tandem *t, unsigned *requests)
{
	struct decoder *d = &t->decoder;
	struct tandem_submitted *x;
	int ret = t->dead;

	if (t->advancing)
		return tandem_status_of(err_set(&t->err, EINVAL,
			"tandem_advance must not be called from a callback"));
	t->advancing = true;
	for (x = t->first_request; x; x = x->next)
		if (x->canceled && x->state == REQUEST_UNFINISHED)
			request_lane_end(x, 0);
	if (!ret && requests_unfinished(t)) {
		uint64_t before = energy_pj(d);

		ret = admit(t, &t->err);
		if (!ret)
			ret = scheduler_step(t->scheduler, &t->err);
		if (!ret) {
			double pj = (double)(energy_pj(d) - before);

			/* Charge the energy of the pass to its requests, in
			 * proportion to their rows. */
			for (x = t->first_request; x; x = x->next)
				if (x->pass_rows && x->shared)
					x->energy_pj +=
						(uint64_t)(pj * x->pass_rows /
							t->scheduler->n_rows);
			ret = step_all_samples(t);
		}
		ret = tandem_settle(t, ret ? fail_pass(t, ret) : TANDEM_OK);
	}
	t->advancing = false;
	/* If no request is unfinished, write the trace to its file now, because
	 * an idle process may be killed at any time. */
	if (d->session && !requests_unfinished(t))
		npu_flush_trace(session_npu(d->session));
	if (requests)
		*requests = requests_unfinished(t);
	return ret;
}

int tandem_wait(struct tandem *t, const struct tandem_submitted *x)
{
	int ret = 0;

	while (!ret && x->state == REQUEST_UNFINISHED)
		ret = tandem_advance(t, NULL);
	return x->state == REQUEST_UNFINISHED ? ret : x->state;
}

/* Remove a request from the handle's list and from the scheduler. */
static void leave(struct tandem_submitted *x)
{
	if (x->lane.scheduler)
		scheduler_drop(&x->lane);
	x->lane.scheduler = NULL;
	*place_of(x->tandem, x) = x->next;
	x->next = NULL;
}

int request_run(struct tandem_submitted *x)
{
	struct tandem *t = x->tandem;
	int ret = tandem_settle(t, tandem_status_of(queue(x, &t->err)));

	if (ret)
		return ret;
	ret = tandem_wait(t, x);
	if (x->state == REQUEST_UNFINISHED) { /* the call was canceled */
		x->err = t->err;
		request_lane_end(x, -ECANCELED);
	}
	leave(x);
	if (ret)
		t->err = x->err;
	/* tandem_wait has already reset a cancelation. Reset it again, because
	 * callbacks of request_lane_end may have called tandem_cancel. */
	return tandem_settle(t, ret);
}

int tandem_generate(struct tandem *t, const struct tandem_request *request,
	struct tandem_result *result)
{
	int ret = t->dead;

	request_close(t->last);
	t->last = NULL;
	if (!ret && requests_unfinished(t))
		ret = tandem_status_of(err_set(&t->err, EINVAL,
			"submitted requests are still running; finish them "
			"with tandem_advance, or add this one with "
			"tandem_submit"));
	if (!ret)
		ret = tandem_settle(
			t, request_open(&t->last, t, request, false));
	if (!ret)
		ret = request_run(t->last);
	if (result)
		request_result(t->last, result);
	return ret;
}

/* ---- calls about a single request ---------------------------------------- */

int tandem_request_state(
	const struct tandem_submitted *x, struct tandem_result *result)
{
	if (result)
		request_result(x, result);
	return x->state;
}

const char *tandem_request_error(const struct tandem_submitted *x)
{
	return x->err.text;
}

void tandem_request_cancel(struct tandem_submitted *x)
{
	x->canceled = true;
}

void tandem_request_close(struct tandem_submitted *x)
{
	if (!x)
		return;
	if (x->state == REQUEST_UNFINISHED) {
		x->canceled = true;
		request_lane_end(x, 0);
	}
	leave(x);
	request_close(x);
}
