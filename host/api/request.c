/* The life of a text: from its request to what came of it. */
#include "base/clock.h"
#include "base/err.h"
#include "host/api/prompt.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/method/samples.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/history.h"
#include "host/text/json_form.h"
#include "host/text/sampler.h"
#include "host/text/token_trie.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ------------------------------------------------------------- */

static int copy_stops(struct tandem_submitted *x, struct err *e)
{
	const char *const *from = x->request.stop;
	size_t n = 0;

	while (from && from[n])
		n++;
	x->stop = calloc(n + 1, sizeof(*x->stop));
	for (size_t i = 0; x->stop && i < n; i++)
		if (!(x->stop[i] = strdup(from[i])))
			n = i; /* a NULL ends them, and it is none of theirs */
	if (!x->stop || (from && from[n]))
		return err_set(e, ENOMEM, "no memory for the stop strings");
	x->request.stop = (const char *const *)x->stop;
	return 0;
}

static int open_sampler(struct tandem_submitted *x, struct err *e)
{
	const struct tandem_request *q = &x->request;
	const struct decoder *d = &x->tandem->decoder;
	const struct sampler_opts o = {
		.temperature = decoder_temperature(d, q->temperature),
		.top_k = q->top_k,
		.top_p = q->top_p,
		.min_p = q->min_p,
		.repeat_penalty = q->repeat_penalty,
		.repeat_last = q->repeat_last,
		.seed = q->seed,
		.stream = q->stream,
	};

	return sampler_open(&x->sampler, &o, d->model->n_vocab, e);
}

/* The vocabulary is gone through once a handle. */
static int open_form(struct tandem_submitted *x, struct err *e)
{
	struct tandem *t = x->tandem;
	const struct method *m = t->decoder.method;
	int ret = 0;

	if (!x->request.json_schema)
		return 0;
	if (m->diffusion)
		return err_set(e, EINVAL,
			"json_schema cannot be used with method %s, which "
			"fills masks in any order; choose a method that writes "
			"from left to right",
			m->name);
	if (!t->trie)
		ret = token_trie_open(&t->trie, t->decoder.tokenizer, e);
	return ret
		? ret
		: json_form_open(&x->form, x->request.json_schema, t->trie, e);
}

static int open_generation(struct tandem_submitted *x, struct err *e)
{
	const struct tandem_request *q = &x->request;
	const struct decoder *d = &x->tandem->decoder;
	struct generation_opts o = {
		.tokenizer = d->tokenizer,
		.n_vocab = d->model->n_vocab,
		.n_predict = (uint64_t)q->max_tokens < UINT32_MAX
			? (uint32_t)q->max_tokens
			: UINT32_MAX,
		.context = session_context(d->session),
		.ignore_eos = q->flags & TANDEM_IGNORE_EOS,
		.special = q->flags & TANDEM_SPECIAL,
		.stop = q->stop,
		.form = x->form,
		.sink = request_deliver,
		.arg = x,
		.step = q->step ? text_report_step : NULL,
		.step_arg = x,
		.token = q->token ? text_report_token : NULL,
		.token_arg = x,
	};
	int ret;

	while (q->stop && q->stop[o.n_stop])
		o.n_stop++;
	if (!x->prompt.n)
		return err_set(e, EINVAL,
			"the prompt has no token, so there is nothing to "
			"continue");
	ret = prompt_check_room(d, x->prompt.n, o.n_predict, o.context, e);
	if (!ret)
		ret = open_sampler(x, e);
	o.sampler = x->sampler;
	return ret ? ret
		   : generation_open(
			     &x->generation, &o, x->prompt.id, x->prompt.n, e);
}

static int open_top(struct tandem_submitted *x, struct err *e)
{
	const struct tandem_request *q = &x->request;

	if (!q->token || !q->logprobs)
		return 0;
	x->top = calloc(q->logprobs, sizeof(*x->top));
	return x->top ? 0 : err_set(e, ENOMEM, "no memory for logprobs");
}

static int read_request(struct tandem_submitted *x,
	const struct tandem_request *theirs, bool copy, struct err *e)
{
	int ret = request_take(&x->request, theirs, e);

	if (!ret)
		ret = request_prompt(x->tandem, &x->request, &x->prompt, e);
	if (!ret && copy)
		ret = copy_stops(x, e);
	if (!ret)
		ret = open_form(x, e);
	return ret ? ret : open_top(x, e);
}

int text_open(struct tandem_submitted **out, struct tandem *t,
	const struct tandem_request *theirs, bool copy)
{
	struct tandem_submitted *x = calloc(1, sizeof(*x));
	int ret, status;

	*out = NULL;
	if (!x)
		return tandem_status_of(
			err_set(&t->err, ENOMEM, "no memory for a text"));
	x->tandem = t;
	x->state = TEXT_UNDER_WAY;
	x->submitted_ns = clock_ns();
	ret = read_request(x, theirs, copy, &t->err);
	status = tandem_status_of(ret);
	if (!status && !t->decoder.session)
		status = tandem_start(t, 0);
	if (!status) {
		ret = open_generation(x, &t->err);
		status = copy && ret == -EFBIG ? TANDEM_MISUSE
					       : tandem_status_of(ret);
	}
	if (status)
		text_close(x);
	else
		*out = x;
	return status;
}

void text_close(struct tandem_submitted *x)
{
	if (!x)
		return;
	samples_close(x->samples);
	generation_close(x->generation);
	json_form_close(x->form);
	sampler_close(x->sampler);
	for (size_t i = 0; x->stop && x->stop[i]; i++)
		free(x->stop[i]);
	free(x->stop);
	free(x->prompt.id);
	free(x->tokens);
	free(x->at);
	free(x->top);
	strbuf_release(&x->said);
	free(x);
}

/* ---- writing ------------------------------------------------------------- */

void text_begin(struct tandem_submitted *x)
{
	session_stats(x->tandem->decoder.session, &x->before);
	x->drafts_before = x->tandem->decoder.env.stats;
	x->began_ns = clock_ns();
	if (!x->lane.lanes)
		request_trace_begun(x);
}

static void count_share(struct tandem_submitted *x)
{
	uint64_t now = session_phone_ps(x->tandem->decoder.session);

	x->work = (struct session_stats){ .passes = x->passes };
	x->work.price.total_ps = now - x->began_ps;
	x->drafts = (struct method_stats){ .drafted = x->lane.drafted,
		.accepted = x->lane.accepted };
	if (x->samples)
		samples_count_drafts(
			x->samples, &x->drafts.drafted, &x->drafts.accepted);
}

/* Nothing where it was not begun. */
static void count_work(struct tandem_submitted *x)
{
	const struct decoder *d = &x->tandem->decoder;

	if (!x->began_ns)
		return;
	if (x->shared) {
		count_share(x);
		return;
	}
	session_stats(d->session, &x->work);
	session_stats_since(&x->work, &x->before);
	x->drafts = method_stats_since(&d->env.stats, &x->drafts_before);
}

void text_end(struct tandem_submitted *x, int ret)
{
	gen_flush(x->generation);
	x->ended_ns = clock_ns();
	request_trace_ended(x);
	count_work(x);
	if (!ret && x->canceled)
		ret = err_set(&x->err, ECANCELED, "the text was canceled");
	if (!ret && gen_stop_reason(x->generation) == GEN_STOP_ERROR &&
		!x->stopped)
		ret = err_set(&x->err, ENOMEM, "no memory for the text");
	x->state = tandem_status_of(ret);
}

/* The method on an empty cache or, where finished requests are kept, on what is
 * cached of the prompt, and with what the history holds by now. */
static int decode_alone(struct tandem_submitted *x, struct err *e)
{
	struct decoder *d = &x->tandem->decoder;
	int ret = d->history ? history_refresh(d->history, e) : 0;

	d->kept = false;
	if (!ret && d->method->many)
		ret = text_open_samples(x, e);
	if (ret)
		return ret;
	request_trace_alone(x, TRACE_BEGIN);
	ret = decoder_begin_text(d, x->generation, e);
	if (!ret)
		x->cached = session_length(d->session, SESSION_TEXT);
	if (!ret)
		ret = x->samples
			? samples_run_alone(x->samples, d->session, e)
			: method_run(d->session, x->generation, &d->env, e);
	if (!ret)
		decoder_keep_text(d, x->generation);
	request_trace_alone(x, TRACE_END);
	return ret;
}

void text_decode(struct tandem_submitted *x)
{
	text_begin(x);
	text_end(x, decode_alone(x, &x->err));
}

int text_run(struct tandem_submitted *x)
{
	struct decoder *d = &x->tandem->decoder;
	int ret = decoder_rehearse(d, x->generation, &x->err);

	if (ret)
		text_end(x, ret);
	else
		text_decode(x);
	if (!x->state)
		x->state = tandem_status_of(
			decoder_keep(d, x->generation, &x->err));
	text_report_samples(x);
	return x->state;
}

/* ---- what came of it ----------------------------------------------------- */

enum tandem_stop tandem_stop_of(enum gen_stop stop)
{
	switch (stop) {
	case GEN_STOP_EOS:
		return TANDEM_STOP_EOS;
	case GEN_STOP_STRING:
		return TANDEM_STOP_STRING;
	case GEN_STOP_LENGTH:
		return TANDEM_STOP_LENGTH;
	case GEN_STOP_CONTEXT:
		return TANDEM_STOP_CONTEXT;
	case GEN_STOP_ERROR:
		return TANDEM_STOP_SINK;
	default:
		return TANDEM_STOP_NONE;
	}
}

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) * 1e-9 : 0;
}

/* A moment that has not come is now. */
static uint64_t moment(uint64_t ns)
{
	return ns ? ns : clock_ns();
}

static void put_times(const struct tandem_submitted *x, struct tandem_result *r)
{
	uint64_t first = gen_first_ns(x->generation);

	r->seconds_waiting = seconds(x->submitted_ns, moment(x->began_ns));
	if (!x->began_ns)
		return;
	r->seconds = seconds(x->began_ns, moment(x->ended_ns));
	r->seconds_to_first = first ? seconds(x->began_ns, first) : r->seconds;
	r->seconds_prompt = x->read_ns ? seconds(x->began_ns, x->read_ns)
				       : r->seconds_to_first;
}

static void put_work(const struct tandem_submitted *x, struct tandem_result *r)
{
	const struct soc *soc = x->tandem->decoder.session_opts.soc;
	uint64_t pj = x->shared ? x->energy_pj : x->work.price.energy_pj;

	r->passes = x->work.passes;
	r->drafted = x->drafts.drafted;
	r->accepted = x->drafts.accepted;
	r->phone_seconds = (double)x->work.price.total_ps * 1e-12;
	if (soc)
		r->phone_joules =
			(double)pj * 1e-12 + soc->base_w * r->phone_seconds;
}

void text_result(const struct tandem_submitted *x, struct tandem_result *out)
{
	struct tandem_result r = { .size = out->size };

	if (x) {
		r.stop = x->state
			? TANDEM_STOP_NONE
			: tandem_stop_of(gen_stop_reason(x->generation));
		r.prompt_tokens = gen_prompt_length(x->generation);
		r.tokens = gen_generated(x->generation);
		r.cached_tokens = x->cached;
		put_times(x, &r);
		put_work(x, &r);
	}
	memset(out, 0, r.size);
	memcpy(out, &r, r.size < sizeof(r) ? r.size : sizeof(r));
}
