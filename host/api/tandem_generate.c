/* One request after another: tandem_generate. */
#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/prompt.h"
#include "host/api/tandem_impl.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"
#include "host/text/tokenizer.h"
#include "host/text/utf8.h"
#include "tensor/soc.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct tandem_request request_defaults = {
	.size = sizeof(request_defaults),
	.max_tokens = 256,
	.temperature = NAN,
	.top_p = 1,
	.repeat_penalty = 1,
	.repeat_last = 64,
	.seed = 1,
};

void tandem_request_init(struct tandem_request *r, size_t size)
{
	memset(r, 0, size);
	memcpy(r, &request_defaults,
		size < sizeof(*r) ? size : sizeof(request_defaults));
	memcpy(r, &size, sizeof(size));
}

/* ---- what is asked ------------------------------------------------------- */

static int check_sampling(const struct tandem_request *r, struct err *e)
{
	const struct {
		const char *name;
		double value, least, most;
	} in[] = {
		{ "temperature", isnan(r->temperature) ? 0 : r->temperature, 0,
			1000 },
		{ "top_p", r->top_p, 0, 1 },
		{ "min_p", r->min_p, 0, 1 },
		{ "repeat_penalty", r->repeat_penalty, 0.01, 100 },
	};

	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
		if (!(in[i].value >= in[i].least && in[i].value <= in[i].most))
			return err_set(e, EINVAL,
				"%s is %g; from %g to %g is possible",
				in[i].name, in[i].value, in[i].least,
				in[i].most);
	return r->top_p > 0
		? 0
		: err_set(e, EINVAL, "top_p is 0; it must be more than that");
}

static int check_stops(const struct tandem_request *r, struct err *e)
{
	for (size_t i = 0; r->stop && r->stop[i]; i++)
		if (!utf8_is_valid(r->stop[i], strlen(r->stop[i])))
			return err_set(e, EINVAL,
				"the stop string '%s' is not valid UTF-8",
				r->stop[i]);
	return 0;
}

static int take_request(struct tandem_request *q,
	const struct tandem_request *theirs, struct err *e)
{
	const size_t sizes[] = { sizeof(*q),
		offsetof(struct tandem_request, sample),
		offsetof(struct tandem_request, step), 0 };
	int ret;

	*q = request_defaults;
	if (!theirs || !tandem_adopt(q, sizes, theirs))
		return err_set(e, EINVAL,
			"the request is no struct tandem_request of this "
			"library (%s); tandem_request_init sets its size",
			tandem_version());
	if (!q->prompt && !q->tokens)
		return err_set(e, EINVAL, "the request has no prompt");
	if (q->max_tokens < -1)
		return err_set(e, EINVAL,
			"max_tokens is %lld; it is a number of tokens, or -1",
			(long long)q->max_tokens);
	ret = check_sampling(q, e);
	return ret ? ret : check_stops(q, e);
}

static int read_prompt(struct tandem *t, const struct tandem_request *q,
	struct token_list *out)
{
	struct prompt p = {
		.text = q->prompt,
		.len = q->prompt_bytes,
		.system = q->system,
		.chat = q->flags & TANDEM_CHAT,
		.special = q->flags & TANDEM_SPECIAL,
		.no_bos = q->flags & TANDEM_NO_BOS,
	};

	if (!p.len && p.text)
		p.len = strlen(p.text);
	if (!q->tokens)
		return prompt_read(&t->decoder, &p, out, &t->err);
	for (size_t i = 0; i < q->n_tokens; i++)
		if (token_list_add(out, q->tokens[i]))
			return err_set(&t->err, ENOMEM,
				"no memory for %zu tokens", q->n_tokens);
	return 0;
}

int tandem_read_prompt(struct tandem *t, const struct tandem_request *theirs,
	struct token_list *out)
{
	struct tandem_request q;
	int ret = take_request(&q, theirs, &t->err);

	return tandem_status_of(ret ? ret : read_prompt(t, &q, out));
}

/* ---- the text ------------------------------------------------------------ */

/* Who is told of a text, and whether it ended because they wanted no more. */
struct reader {
	const struct tandem_request *request;
	struct tandem *tandem;
	bool stopped;
	/* Of the last step. */
	uint32_t room;
	int32_t *tokens; /* [room] */
	size_t *at;      /* [room + 1] */
	struct strbuf text;
};

static void reader_release(struct reader *r)
{
	free(r->tokens);
	free(r->at);
	strbuf_release(&r->text);
}

static int tell(void *arg, int32_t id, const char *text, size_t len)
{
	struct reader *r = arg;

	if (r->request->sink)
		r->stopped =
			r->request->sink(r->request->sink_arg, id, text, len);
	return r->stopped;
}

static int make_room(struct reader *r, uint32_t n)
{
	if (n <= r->room && r->at)
		return 0;
	free(r->tokens);
	free(r->at);
	r->room = 0;
	r->tokens = malloc(((size_t)n + 1) * sizeof(*r->tokens));
	r->at = malloc(((size_t)n + 1) * sizeof(*r->at));
	if (!r->tokens || !r->at)
		return -ENOMEM;
	r->room = n;
	return 0;
}

_Static_assert((int)TANDEM_MASK == (int)GEN_MASK &&
		(int)TANDEM_VISIBLE == (int)GEN_VISIBLE &&
		(int)TANDEM_STABLE == (int)GEN_STABLE &&
		(int)TANDEM_DRAFT == (int)GEN_DRAFT,
	"marks are handed on as they are");

static int tell_step(void *arg, const struct gen_step *s)
{
	struct reader *r = arg;
	struct tandem_step step = {
		.size = sizeof(step),
		.pass = s->pass,
		.first = s->first,
		.n = s->n,
		.marks = s->mark,
	};
	int ret = make_room(r, s->n);

	strbuf_reset(&r->text);
	if (!ret)
		ret = gen_step_text(r->tandem->generation, s, &r->text, r->at);
	if (ret)
		return ret;
	for (uint32_t i = 0; i < s->n; i++)
		r->tokens[i] = s->mark[i] == GEN_MASK ? -1 : s->token[i];
	step.tokens = r->tokens;
	step.at = r->at;
	step.text = r->text.data ? r->text.data : "";
	r->stopped = r->request->step(r->request->step_arg, &step);
	return r->stopped;
}

static int open_sampler(
	struct tandem *t, const struct tandem_request *q, struct err *e)
{
	const struct sampler_opts o = {
		.temperature = decoder_temperature(&t->decoder, q->temperature),
		.top_k = q->top_k,
		.top_p = q->top_p,
		.min_p = q->min_p,
		.repeat_penalty = q->repeat_penalty,
		.repeat_last = q->repeat_last,
		.seed = q->seed,
		.stream = q->stream,
	};

	return sampler_open(&t->sampler, &o, t->decoder.model->n_vocab, e);
}

static int open_generation(struct tandem *t, const struct tandem_request *q,
	struct reader *reader, const struct token_list *prompt)
{
	const struct decoder *d = &t->decoder;
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
		.sink = tell,
		.arg = reader,
		.step = q->step ? tell_step : NULL,
		.step_arg = reader,
	};
	int ret;

	while (q->stop && q->stop[o.n_stop])
		o.n_stop++;
	if (!prompt->n)
		return err_set(&t->err, EINVAL,
			"the prompt has no token, so there is nothing to "
			"continue");
	ret = prompt_check_room(d, prompt->n, o.n_predict, o.context, &t->err);
	if (!ret)
		ret = open_sampler(t, q, &t->err);
	o.sampler = t->sampler;
	return ret ? ret
		   : generation_open(&t->generation, &o, prompt->id, prompt->n,
			     &t->err);
}

static int write_text(struct tandem *t, const struct reader *reader)
{
	struct decoder *d = &t->decoder;
	struct generation *g = t->generation;
	int ret = decoder_rehearse(d, g, &t->before, &t->err);

	t->began_ns = clock_ns();
	if (!ret)
		ret = decoder_run(d, g, &t->err);
	gen_flush(g);
	t->ended_ns = clock_ns();
	if (!ret && gen_stop_reason(g) == GEN_STOP_ERROR && !reader->stopped)
		ret = err_set(&t->err, ENOMEM, "no memory for the text");
	return ret ? ret : decoder_keep(d, g, &t->err);
}

/* ---- what came of it ----------------------------------------------------- */

void tandem_work(const struct tandem *t, struct session_stats *out)
{
	session_stats(t->decoder.session, out);
	session_stats_since(out, &t->before);
}

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

static void count_work(const struct tandem *t,
	const struct method_stats *before, struct tandem_result *r)
{
	const struct decoder *d = &t->decoder;
	struct session_stats s;

	tandem_work(t, &s);
	r->passes = s.passes;
	r->drafted = d->env.stats.drafted - before->drafted;
	r->accepted = d->env.stats.accepted - before->accepted;
	r->phone_seconds = (double)s.price.total_ps * 1e-12;
	if (d->session_opts.soc)
		r->phone_joules = (double)s.price.energy_pj * 1e-12 +
			d->session_opts.soc->base_w * r->phone_seconds;
}

static void tell_result(const struct tandem *t, int ret,
	const struct method_stats *before, struct tandem_result *out)
{
	const struct generation *g = t->generation;
	struct tandem_result r = { .size = out->size };

	if (g) {
		uint64_t first = gen_first_ns(g);

		r.stop = ret ? TANDEM_STOP_NONE
			     : tandem_stop_of(gen_stop_reason(g));
		r.prompt_tokens = gen_prompt_length(g);
		r.tokens = gen_generated(g);
		r.seconds_to_first =
			seconds(t->began_ns, first ? first : t->ended_ns);
		r.seconds = seconds(t->began_ns, t->ended_ns);
		count_work(t, before, &r);
	}
	memset(out, 0, r.size);
	memcpy(out, &r, r.size < sizeof(r) ? r.size : sizeof(r));
}

static int generate(struct tandem *t, const struct tandem_request *theirs,
	struct tandem_request *q)
{
	struct reader reader = { .request = q, .tandem = t };
	struct token_list prompt = { 0 };
	int ret = take_request(q, theirs, &t->err);

	if (!ret)
		ret = read_prompt(t, q, &prompt);
	if (!ret && !t->decoder.session) {
		ret = tandem_start(t, 0);
		if (ret)
			goto out;
	}
	if (!ret)
		ret = open_generation(t, q, &reader, &prompt);
	if (!ret) {
		ret = write_text(t, &reader);
		tandem_tell_samples(t, q);
	}
	if (ret == -ECANCELED)
		__atomic_store_n(&t->canceled, 0, __ATOMIC_RELAXED);
	ret = tandem_status_of(ret);
	if (ret == TANDEM_LOST)
		t->dead = ret;
out:
	free(prompt.id);
	reader_release(&reader);
	return ret;
}

int tandem_generate(struct tandem *t, const struct tandem_request *request,
	struct tandem_result *result)
{
	struct method_stats before = t->decoder.env.stats;
	struct tandem_request q;
	int ret;

	generation_close(t->generation);
	sampler_close(t->sampler);
	t->generation = NULL;
	t->sampler = NULL;
	ret = t->dead ? t->dead : generate(t, request, &q);
	if (result)
		tell_result(t, ret, &before, result);
	return ret;
}
