/* One item of a run: what its decode phase took, and whether all is as it must
 * be. */
#include "host/bench/bench_lever.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/api/decoder.h"
#include "host/model/model.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The counters at the first token. */
struct mark {
	const struct decoder *d;
	bool taken;
	struct session_stats stats;
	struct method_stats drafts;
	uint64_t ns, ps;
};

static void take(struct mark *m)
{
	session_stats(m->d->session, &m->stats);
	m->drafts = m->d->env.stats;
	m->ps = session_phone_ps(m->d->session);
	m->ns = clock_ns();
	m->taken = true;
}

static int at_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct mark *m = arg;

	if (!m->taken)
		take(m);
	return 0;
}

/* ---- counting ------------------------------------------------------------ */

static struct lever_figures figures_since(
	const struct mark *m, const struct mark *end, size_t tokens)
{
	struct session_stats s = end->stats;

	session_stats_since(&s, &m->stats);
	return (struct lever_figures){
		.tokens = tokens,
		.ns = end->ns - m->ns,
		.ps = end->ps - m->ps,
		.passes = s.passes,
		.rows = s.rows,
		.upper_rows = s.upper_rows,
		.logits_rows = s.logits_rows,
		.bytes = s.staging.bytes_used,
		.device_ns = s.device_ns,
		.engine_ps = { s.price.matrix_ps, s.price.vector_ps,
			s.price.dma_ps + s.price.read_ps },
		.energy_pj = s.price.energy_pj,
		.drafts = method_stats_since(&end->drafts, &m->drafts),
	};
}

static void add_figures(
	struct lever_figures *sum, const struct lever_figures *f)
{
	sum->tokens += f->tokens;
	sum->ns += f->ns;
	sum->ps += f->ps;
	sum->passes += f->passes;
	sum->rows += f->rows;
	sum->upper_rows += f->upper_rows;
	sum->logits_rows += f->logits_rows;
	sum->bytes += f->bytes;
	sum->plain_ns += f->plain_ns;
	sum->device_ns += f->device_ns;
	for (int i = 0; i < 3; i++)
		sum->engine_ps[i] += f->engine_ps[i];
	sum->energy_pj += f->energy_pj;
	method_stats_add(&sum->drafts, &f->drafts);
}

struct lever_figures lever_total(const struct lever_run *r, unsigned n_tasks)
{
	struct lever_figures sum = { 0 };

	for (unsigned t = 0; t < n_tasks; t++)
		add_figures(&sum, &r->task[t]);
	return sum;
}

/* ---- what must hold ------------------------------------------------------ */

/* How many tokens a run writes that may write n, after one that wrote `had`
 * and might have written `might`; at least, if that was fewer. */
static bool length_fits(size_t got, uint32_t n, size_t had, uint32_t might)
{
	if (n <= might)
		return got == (had < n ? had : n);
	return had < might ? got == had : got >= had;
}

static int keep_text(struct lever_item *item, const struct lever_run *run,
	const int32_t *text, size_t n, struct err *e)
{
	int32_t *copy = malloc(n * sizeof(*copy));

	if (!copy)
		return err_set(e, ENOMEM, "no memory for a text");
	memcpy(copy, text, n * sizeof(*copy));
	free(item->text);
	item->text = copy;
	item->n_text = n;
	item->n_predict = run->set.n_predict;
	item->by = run->set.method;
	return 0;
}

/* Lossless: every method writes what the first one wrote. */
static int check_text(struct bench_lever *b, struct lever_item *item,
	const struct lever_run *run, const struct generation *g, struct err *e)
{
	size_t prompt = item->prompt.n, n, same = 0;
	const int32_t *text = gen_tokens(g, &n);

	if (!item->text)
		return keep_text(item, run, text, n, e);
	while (same < n && same < item->n_text &&
		text[same] == item->text[same])
		same++;
	if ((same < n && same < item->n_text) ||
		!length_fits(n - prompt, run->set.n_predict,
			item->n_text - prompt, item->n_predict))
		return err_set(e, EPROTO,
			"method %s with a budget of %u %% writes something "
			"else than method %s did: an item of %s, %zu tokens "
			"behind the prompt",
			run->set.method->name, run->set.budget, item->by->name,
			b->task[item->task], same - prompt);
	b->same_texts++;
	return n > item->n_text ? keep_text(item, run, text, n, e) : 0;
}

static int check_figures(struct bench_lever *b, const struct lever_run *run,
	const struct lever_figures *f, uint64_t streamed, struct err *e)
{
	const struct method_stats *d = &f->drafts;
	uint64_t emitted = d->cycles ? d->accepted + d->cycles : f->tokens;

	if (f->bytes != f->passes * streamed)
		return err_set(e, EPROTO,
			"method %s with a budget of %u %% read %llu bytes in "
			"%llu passes, which is not %llu each",
			run->set.method->name, run->set.budget,
			(unsigned long long)f->bytes,
			(unsigned long long)f->passes,
			(unsigned long long)streamed);
	b->exact_reads += f->passes;
	if (f->logits_rows != emitted || emitted != f->tokens)
		return err_set(e, EPROTO,
			"method %s computed %llu rows of logits for %llu "
			"tokens in accepted lengths of %llu",
			run->set.method->name,
			(unsigned long long)f->logits_rows,
			(unsigned long long)f->tokens,
			(unsigned long long)emitted);
	b->exact_logits += f->tokens;
	return 0;
}

/* ---- running ------------------------------------------------------------- */

static int decode(struct bench_lever *b, struct decoder *d,
	struct lever_run *run, struct lever_item *item, struct generation *g,
	struct mark *first, uint64_t streamed, struct err *e)
{
	struct mark end = { .d = d };
	struct lever_figures f;
	int ret = 0;

	if (d->method->needs_draft && d->drafting.oracle > 0)
		ret = drafting_tell(&d->drafting, item->text, item->n_text, e);
	if (!ret)
		ret = decoder_run(d, g, e);
	if (ret)
		return ret;
	take(&end);
	f = figures_since(first, &end, gen_generated(g) - 1);
	ret = check_text(b, item, run, g, e);
	if (!ret)
		ret = check_figures(b, run, &f, streamed, e);
	add_figures(&run->task[item->task], &f);
	return ret;
}

int lever_run_item(struct bench_lever *b, struct decoder *d,
	struct lever_run *run, struct lever_item *item, uint64_t streamed,
	struct err *e)
{
	struct sampler_opts sampling = sampler_defaults;
	struct mark first = { .d = d };
	struct generation_opts o = {
		.tokenizer = d->tokenizer,
		.n_vocab = d->model->n_vocab,
		.n_predict = run->set.n_predict,
		.context = session_context(d->session),
		.ignore_eos = !b->args->n_tasks,
		.sink = at_token,
		.arg = &first,
	};
	struct generation *g;
	int ret;

	sampling.temperature = 0;
	ret = sampler_open(&o.sampler, &sampling, d->model->n_vocab, e);
	if (ret)
		return ret;
	ret = generation_open(&g, &o, item->prompt.id, item->prompt.n, e);
	if (!ret) {
		ret = decode(b, d, run, item, g, &first, streamed, e);
		generation_close(g);
	}
	sampler_close(o.sampler);
	return ret;
}
