/* Opens a request, and computes its result. */
#include "base/clock.h"
#include "base/err.h"
#include "host/api/embedding.h"
#include "host/api/prompt.h"
#include "host/api/tandem_impl.h"
#include "host/api/request_impl.h"
#include "host/scheduler/samples.h"
#include "host/model/model.h"
#include "host/text/generation.h"
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
			n = i;
	/* If a stop string could not be copied, x->stop[n] is NULL. Then n is
	 * smaller than the number of strings in `from`, and from[n] is not
	 * NULL. */
	if (!x->stop || (from && from[n]))
		return err_set(e, ENOMEM, "no memory for the stop strings");
	x->request.stop = (const char *const *)x->stop;
	return 0;
}

/* Open the grammar of the request. The trie of the vocabulary is built once and
 * stored in the handle, for later requests. */
static int open_form(struct tandem_submitted *x, struct err *e)
{
	const struct tokenizer *tok = x->tandem->decoder.tokenizer;
	struct call_reader *reader = &x->reader;
	struct tandem *t = x->tandem;
	struct json_nodes *nodes;
	int ret = 0;

	if (!x->request.json_schema && !x->tools)
		return 0;
	if (!t->trie)
		ret = token_trie_open(&t->trie, tok, e);
	if (ret)
		return ret;
	if (!x->tools)
		return json_form_open(
			&x->form, x->request.json_schema, t->trie, e);
	nodes = x->tools->nodes;
	x->tools->nodes = NULL;
	reader->style = x->tools->style;
	call_style_tags(reader->style, tok, &reader->tags);
	reader->must = x->request.tool || x->request.flags & TANDEM_MUST_CALL;
	return json_form_open_nodes(&x->form, nodes, &reader->tags, t->trie, e);
}

static int open_generation(struct tandem_submitted *x, struct err *e)
{
	const struct tandem_request *q = &x->request;
	const struct decoder *d = &x->tandem->decoder;
	struct generation_opts o = {
		.tokenizer = d->tokenizer,
		.n_vocab = d->model->n_vocab,
		.n_predict = q->flags & TANDEM_EMBED ? 0
			: (uint64_t)q->max_tokens < UINT32_MAX
			? (uint32_t)q->max_tokens
			: UINT32_MAX,
		.context = session_context(d->session),
		.ignore_eos = q->flags & TANDEM_IGNORE_EOS,
		.special = q->flags & TANDEM_SPECIAL,
		.stop = q->stop,
		.form = x->form,
		.sink = request_deliver,
		.arg = x,
		.step = q->step ? request_report_step : NULL,
		.step_arg = x,
		.draft = q->draft ? request_report_draft : NULL,
		.draft_arg = x,
		.token = q->token ? request_report_token : NULL,
		.token_arg = x,
	};
	struct token_bias bias[TANDEM_BIASES];
	const struct sampler_opts drawing = {
		.temperature = decoder_temperature(d, q->temperature),
		.top_k = q->top_k,
		.top_p = q->top_p,
		.min_p = q->min_p,
		.repeat_penalty = q->repeat_penalty,
		.repeat_last = q->repeat_last,
		.seed = q->seed,
		.stream = q->stream,
		.presence_penalty = q->presence_penalty,
		.frequency_penalty = q->frequency_penalty,
		.bias = bias,
		.n_bias = (uint32_t)q->n_bias,
	};
	int ret;

	while (q->stop && q->stop[o.n_stop])
		o.n_stop++;
	if (!x->prompt.n)
		return err_set(e, EINVAL,
			"the prompt has no token, so there is nothing to "
			"continue; give a prompt");
	for (size_t i = 0; i < q->n_bias; i++)
		bias[i] = (struct token_bias){ q->bias[i].id, q->bias[i].bias };
	ret = prompt_check_room(d, x->prompt.n, o.n_predict, o.context, e);
	if (!ret && q->flags & TANDEM_EMBED)
		ret = embedding_open(
			&x->embedding, d, q->pooling, x->prompt.n, e);
	else if (!ret)
		ret = sampler_open(&x->sampler, &drawing, d->model->n_vocab, e);
	o.sampler = x->sampler;
	return ret ? ret
		   : generation_open(
			     &x->generation, &o, x->prompt.id, x->prompt.n, e);
}

int request_open(struct tandem_submitted **out, struct tandem *t,
	const struct tandem_request *theirs, bool copy)
{
	struct tandem_submitted *x = calloc(1, sizeof(*x));
	const struct tandem_request *q = &x->request;
	int ret, status;

	*out = NULL;
	if (!x)
		return tandem_status_of(
			err_set(&t->err, ENOMEM, "no memory for a request"));
	x->tandem = t;
	x->state = REQUEST_UNFINISHED;
	x->submitted_ns = clock_ns();
	ret = request_take(&x->request, theirs, &t->err);
	if (!ret)
		ret = request_tools(t, q, &x->tools, &t->err);
	if (!ret)
		ret = request_prompt(t, q, x->tools, &x->prompt, &t->err);
	if (!ret && copy)
		ret = copy_stops(x, &t->err);
	if (!ret)
		ret = open_form(x, &t->err);
	if (!ret && q->token && q->logprobs) {
		x->top = calloc(q->logprobs, sizeof(*x->top));
		if (!x->top)
			ret = err_set(
				&t->err, ENOMEM, "no memory for logprobs");
	}
	status = tandem_status_of(ret);
	if (!status && !t->decoder.session)
		status = tandem_start(t, 0);
	if (!status) {
		ret = open_generation(x, &t->err);
		status = copy && ret == -EFBIG ? TANDEM_MISUSE
					       : tandem_status_of(ret);
	}
	if (status)
		request_close(x);
	else
		*out = x;
	return status;
}

void request_close(struct tandem_submitted *x)
{
	if (!x)
		return;
	samples_close(x->samples);
	embedding_close(x->embedding);
	generation_close(x->generation);
	json_form_close(x->form);
	chat_tools_close(x->tools);
	strbuf_release(&x->prose);
	sampler_close(x->sampler);
	for (size_t i = 0; x->stop && x->stop[i]; i++)
		free(x->stop[i]);
	free(x->stop);
	free(x->prompt.id);
	free(x->tokens);
	free(x->at);
	free(x->top);
	strbuf_release(&x->scratch);
	free(x);
}

/* ---- start and end of a request ------------------------------------------ */

void request_begin(struct tandem_submitted *x)
{
	session_stats(x->tandem->decoder.session, &x->before);
	x->drafts_before = x->tandem->decoder.env.stats;
	x->began_ns = clock_ns();
}

/*
 * Compute the statistics of the request's work. If requests may share passes
 * (x->shared), a pass counts for each request that has rows in it, and the
 * phone time of a request is the simulated time from its start to its end. If
 * requests run one after another, the statistics are the increase of the
 * session's counters since the request began.
 */
static void count_work(struct tandem_submitted *x)
{
	const struct decoder *d = &x->tandem->decoder;
	uint64_t now = session_phone_ps(d->session);

	if (!x->shared) {
		session_stats(d->session, &x->work);
		session_stats_since(&x->work, &x->before);
		x->drafts =
			method_stats_since(&d->env.stats, &x->drafts_before);
		return;
	}
	x->work = (struct session_stats){ .passes = x->passes };
	x->work.price.total_ps = now - x->began_ps;
	x->drafts = (struct method_stats){ .drafted = x->lane.drafted,
		.accepted = x->lane.accepted };
	if (x->samples)
		samples_count_drafts(
			x->samples, &x->drafts.drafted, &x->drafts.accepted);
}

void request_end(struct tandem_submitted *x, int ret)
{
	gen_flush(x->generation);
	request_deliver_rest(x);
	x->ended_ns = clock_ns();
	request_trace_ended(x);
	if (x->began_ns)
		count_work(x);
	if (!ret && x->canceled)
		ret = err_set(&x->err, ECANCELED, "the request was canceled");
	if (!ret && gen_stop_reason(x->generation) == GEN_STOP_ERROR &&
		!x->stopped)
		ret = err_set(&x->err, ENOMEM, "no memory for the text");
	x->state = tandem_status_of(ret);
}

/* ---- the result ---------------------------------------------------------- */

enum tandem_stop tandem_stop_of(enum gen_stop stop)
{
	static const enum tandem_stop as[] = {
		[GEN_RUNNING] = TANDEM_STOP_NONE,
		[GEN_STOP_EOS] = TANDEM_STOP_EOS,
		[GEN_STOP_STRING] = TANDEM_STOP_STRING,
		[GEN_STOP_LENGTH] = TANDEM_STOP_LENGTH,
		[GEN_STOP_CONTEXT] = TANDEM_STOP_CONTEXT,
		[GEN_STOP_ERROR] = TANDEM_STOP_SINK,
	};

	return as[stop];
}

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) * 1e-9 : 0;
}

void request_result(const struct tandem_submitted *x, struct tandem_result *out)
{
	struct tandem_result r = { .size = out->size };
	struct tandem_submitted running;

	if (x && x->began_ns && !x->ended_ns) {
		running = *x;
		count_work(&running);
		x = &running;
	}
	if (x) {
		const struct generation *g = x->generation;
		const struct soc *soc = x->tandem->decoder.session_opts.soc;
		uint64_t pj =
			x->shared ? x->energy_pj : x->work.price.energy_pj;
		uint64_t first = gen_first_ns(g), now = clock_ns();
		uint64_t began = x->began_ns ? x->began_ns : now;
		uint64_t ended = x->ended_ns ? x->ended_ns : now;

		r.stop = x->state ? TANDEM_STOP_NONE
				  : tandem_stop_of(gen_stop_reason(g));
		r.prompt_tokens = gen_prompt_length(g);
		r.tokens = gen_generated(g);
		r.cached_tokens = x->cached;
		r.seconds_waiting = seconds(x->submitted_ns, began);
		if (x->began_ns) {
			r.seconds = seconds(began, ended);
			r.seconds_to_first =
				seconds(began, first ? first : ended);
			r.seconds_prompt = x->read_ns
				? seconds(began, x->read_ns)
				: r.seconds_to_first;
		}
		r.passes = x->work.passes;
		r.drafted = x->drafts.drafted;
		r.accepted = x->drafts.accepted;
		r.phone_seconds = (double)x->work.price.total_ps * 1e-12;
		if (soc)
			r.phone_joules = (double)pj * 1e-12 +
				soc->base_w * r.phone_seconds;
	}
	memset(out, 0, r.size);
	memcpy(out, &r, r.size < sizeof(r) ? r.size : sizeof(r));
}
