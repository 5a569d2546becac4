#include "host/bench/bench_tts.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/api/text_impl.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_tts_impl.h"
#include "host/bench/pass_at.h"
#include "host/bench/run_options.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_tasks.h"
#include "host/method/beams.h"
#include "host/method/choosing.h"
#include "host/method/early_stop.h"
#include "host/method/method.h"
#include "host/method/samples.h"
#include "host/model/model.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The samples of an item, kept. */
struct kept {
	uint32_t n;
	struct sample_tokens *sample; /* [n] */
	int32_t *tokens;              /* theirs, behind each other */
};

/* What a run does with an item that is written. */
enum purpose {
	BY_ITSELF, /* what the method chose counts */
	DRAW,      /* samples are kept, and chosen from by all methods */
	PRICE,     /* kept ones are gone through again */
	TIME,      /* drawn again, and compared with the kept ones */
};

/* A run under way: a model, a method and a number, over items. */
struct run {
	struct tts *tts;
	unsigned model;
	enum purpose purpose;
	const struct tts_method *method;
	uint32_t n;
	double temperature;
	size_t items; /* the first so many */

	struct tandem *tandem;
	struct kept *kept; /* [items] of the model; of DRAW filled */
	size_t at;         /* the item */
	struct samples_script script;
	struct tts_point *choice; /* [n_methods][n_samples], of DRAW */
	struct opt_values *as;    /* [n_methods] likewise */
	struct eval_tally tally;
	struct tts_cost cost;
};

/* ---- an item ------------------------------------------------------------- */

static bool is_right(const struct sample *s, const struct eval_item *item)
{
	return s->text.len && eval_right(item, s->text.data, s->text.len);
}

/* Those behind the prompt. */
static const int32_t *tokens_of(const struct sample *s)
{
	size_t n;

	return gen_tokens(s->gen, &n) + gen_prompt_length(s->gen);
}

static int refuse_sample(
	const struct sample *s, const struct eval_item *item, struct err *e)
{
	if (s->lane.state != LANE_ENDED) {
		*e = s->err;
		return err_in(e, "sample %u of item '%s'", s->index, item->id);
	}
	return err_set(e, ENOSPC,
		"sample %u of item '%s' found no room in the cache; try a "
		"larger --slots or --ctx",
		s->index, item->id);
}

static int keep_samples(struct run *r, const struct samples *p,
	const struct eval_item *item, struct err *e)
{
	struct kept *k = &r->kept[r->at];
	uint32_t n = samples_count(p);
	size_t all = 1;
	int32_t *to;

	for (uint32_t i = 0; i < n; i++) {
		const struct sample *s = samples_at(p, i);

		if (s->lane.state != LANE_ENDED || s->stop == GEN_STOP_CONTEXT)
			return refuse_sample(s, item, e);
		all += s->n;
	}
	k->sample = calloc(n, sizeof(*k->sample));
	k->tokens = to = calloc(all, sizeof(*to));
	if (!k->sample || !to)
		return err_set(e, ENOMEM, "no memory for samples");
	k->n = n;
	for (uint32_t i = 0; i < n; to += k->sample[i++].n) {
		k->sample[i] =
			(struct sample_tokens){ to, samples_at(p, i)->n };
		memcpy(to, tokens_of(samples_at(p, i)),
			k->sample[i].n * sizeof(*to));
	}
	return 0;
}

/* Whether one of the first n is right, as a perfect judge would choose. */
static bool any_right(
	const struct samples *p, uint32_t n, const struct eval_item *item)
{
	for (uint32_t i = 0; i < n; i++)
		if (is_right(samples_at(p, i), item))
			return true;
	return false;
}

static bool is_plain(const struct tts_method *m)
{
	return m->method == &method_sample;
}

/* What each method and number makes of what was drawn. */
static int choose_all(struct run *r, struct samples *p,
	const struct eval_item *item, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	int ret = 0;

	for (unsigned m = 0; m < a->n_methods && !ret; m++) {
		struct method_env as = { .method = a->method[m].method,
			.options = &r->as[m] };

		for (unsigned k = 0; k < a->n_samples && !ret; k++) {
			struct tts_point *at = &r->choice[m * a->n_samples + k];
			uint32_t n = a->samples[k], chosen;

			if (!at->method)
				continue;
			at->tally.total++;
			if (is_plain(&a->method[m])) {
				at->tally.right += any_right(p, n, item);
				continue;
			}
			ret = choosing_among(&as, p, n, &chosen, e);
			if (!ret)
				at->tally.right +=
					is_right(samples_at(p, chosen), item);
		}
	}
	return ret;
}

static void estimate(
	struct run *r, const struct samples *p, const struct eval_item *item)
{
	const struct tts_args *a = r->tts->args;
	uint32_t n = samples_count(p), right = 0;

	for (uint32_t i = 0; i < n; i++)
		right += is_right(samples_at(p, i), item);
	for (unsigned k = 0; k < a->n_samples; k++)
		r->tts->pass[r->model][k] += pass_at(n, right, a->samples[k]);
}

/* -EPROTO: another text than among the largest number. */
static int compare(const struct run *r, const struct samples *p,
	const struct eval_item *item, struct err *e)
{
	const struct kept *k = &r->kept[r->at];

	for (uint32_t i = 0; i < samples_count(p); i++) {
		const struct sample *s = samples_at(p, i);

		if (s->n != k->sample[i].n ||
			memcmp(tokens_of(s), k->sample[i].token,
				s->n * sizeof(int32_t)) != 0)
			return err_set(e, EPROTO,
				"sample %u of item '%s' is another text among "
				"%u than among %u",
				i, item->id, samples_count(p), k->n);
	}
	return 0;
}

static int begin_item(void *arg, const struct eval_item *item, struct err *e)
{
	struct run *r = arg;
	const struct kept *k = r->kept ? &r->kept[r->at] : NULL;

	r->tandem->decoder.env.script = NULL;
	if (r->purpose == PRICE) {
		r->script = (struct samples_script){ k->n, k->sample };
		r->tandem->decoder.env.script = &r->script;
	}
	return 0;
}

static int see_item(void *arg, const struct eval_item *item, bool right,
	const struct strbuf *output, struct err *e)
{
	struct run *r = arg;
	struct samples *p = r->tandem->last->samples;
	struct samples_stats st;
	int ret = 0;

	samples_stats(p, &st);
	r->cost.tokens += st.tokens;
	r->tally.total++;
	r->tally.right += is_plain(r->method)
		? any_right(p, samples_count(p), item)
		: right;
	if (r->purpose == DRAW) {
		ret = keep_samples(r, p, item, e);
		if (!ret)
			ret = choose_all(r, p, item, e);
		if (!ret)
			estimate(r, p, item);
	} else if (r->purpose == TIME) {
		ret = compare(r, p, item, e);
	}
	r->at++;
	return ret;
}

/* ---- a run --------------------------------------------------------------- */

static int from_handle(const struct tandem *t, int ret, struct err *e)
{
	if (ret)
		*e = t->err;
	return ret ? e->code : 0;
}

static int start(struct run *r, const struct eval_items *items, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct decoder *d = &r->tandem->decoder;
	uint32_t longest;
	int ret = from_handle(
		r->tandem, tandem_read_model(r->tandem, a->model[r->model]), e);

	/* Of all items, so that each run has the same context. */
	if (!ret)
		ret = eval_longest(r->tandem, &r->tts->items, d->model->n_ctx,
			&longest, e);
	if (ret)
		return ret;
	r->tts->priced = d->session_opts.soc;
	if (r->tts->priced)
		r->tts->soc = *d->session_opts.soc;
	d->session_opts.cancel = a->cancel;
	d->session_opts.idle = r->purpose == PRICE;
	d->tail = a->n_predict;
	return from_handle(r->tandem,
		tandem_start(r->tandem, longest + (uint64_t)a->n_predict), e);
}

static void take_cost(struct run *r, const struct eval_result *got)
{
	const struct soc *soc = r->tandem->decoder.session_opts.soc;
	struct tts_cost *c = &r->cost;

	c->items = got->all.total;
	c->seconds = (double)got->ns * 1e-9;
	c->phone_ps = got->phone_ps;
	c->phone_seconds = (double)got->phone_ps * 1e-12;
	c->cpu_seconds = (double)got->phone_cpu_ps * 1e-12;
	c->joules = (double)got->phone_pj * 1e-12 +
		(soc ? soc->base_w * c->phone_seconds : 0);
}

static int measure(struct run *r, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct eval_items items = r->tts->items;
	struct eval_opts o = { .n_predict = a->n_predict,
		.sampling = sampler_defaults,
		.begin = begin_item,
		.each = see_item,
		.arg = r,
		.progress = a->progress };
	struct eval_result got = { .task = a->task, .path = a->task };
	int ret;

	if (items.n > r->items)
		items.n = r->items;
	ret = start(r, &items, e);
	if (ret)
		return ret;
	o.sampling.temperature = r->temperature;
	o.sampling.seed = a->seed;
	ret = eval_run(r->tandem, &items, &o, &got, e);
	take_cost(r, &got);
	return ret;
}

/* What is asked, but for the method, the aggregate, the number, the shape. */
static int ask(const struct run *r, const struct tts_method *m, uint32_t n,
	struct opt_values *out, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	char number[16];
	int ret;

	snprintf(number, sizeof(number), "%u", n);
	*out = *a->options;
	ret = opt_set(decoder_tables, out, "method", m->method->name, e);
	if (!ret)
		ret = opt_set(decoder_tables, out, "samples", number, e);
	if (!ret && m->aggregate)
		ret = opt_set(
			decoder_tables, out, "aggregate", m->aggregate, e);
	if (!ret && a->shape[r->model])
		ret = opt_set(decoder_tables, out, "as", a->shape[r->model], e);
	if (!ret)
		decoder_drop_needless(out, m->method);
	return ret;
}

static int run(struct run *r, struct err *e)
{
	struct opt_values asked;
	struct tandem_options o;
	struct err closing = { 0 };
	int ret = ask(r, r->method, r->n, &asked, e), closed;
	struct pair_options *pair = opt_values_at(&asked, &pair_table);

	pair->session.trace =
		bench_trace_next(&r->tts->trace, pair->session.trace);
	tandem_options_init(&o, sizeof(o));
	if (!ret)
		ret = tandem_create(&r->tandem, &o, &asked, e);
	if (ret)
		return ret;
	ret = measure(r, e);
	closed = tandem_end(r->tandem, &closing);
	r->tandem = NULL;
	if (!ret && closed)
		*e = closing;
	return ret ? ret : closed;
}

/* ---- a method that runs by itself ---------------------------------------- */

static struct tts_point *add_point(
	struct tts *t, unsigned model, const char *method, uint32_t n)
{
	struct tts_point *p = &t->point[t->n++];

	*p = (struct tts_point){ .model = model, .method = method, .n = n };
	return p;
}

static int run_by_itself(struct tts *t, unsigned model,
	const struct tts_method *m, const char *name, uint32_t n,
	double temperature, struct err *e)
{
	struct run r = { .tts = t,
		.model = model,
		.purpose = BY_ITSELF,
		.method = m,
		.n = n,
		.temperature = temperature,
		.items = t->items.n };
	struct tts_point *p;
	int ret = run(&r, e);

	if (ret)
		return ret;
	p = add_point(t, model, name, n);
	p->tally = r.tally;
	p->cost = r.cost;
	return 0;
}

/* Beams are kept in groups. */
static bool may_have(
	const struct tts *t, const struct tts_method *m, uint32_t n)
{
	const struct beam_options *o;

	if (!method_uses(m->method, &beam_table) || n == 1)
		return true;
	o = opt_values_of(t->args->options, &beam_table);
	return n % o->width == 0;
}

/* Whether what it chooses is a choice among the first samples, and the samples
 * are told by their tokens. */
static bool follows(const struct tts *t, const struct tts_method *m)
{
	const struct early_stop_options *early =
		opt_values_of(t->args->options, &early_stop_table);

	return !asked_draft(t->args->options) &&
		(is_plain(m) ||
			(m->method->chooser &&
				!(early->on &&
					method_uses(m->method,
						&early_stop_table))));
}

/* ---- what follows from one drawing --------------------------------------- */

struct drawing {
	struct kept *kept;
	struct tts_point choice[TTS_METHODS * TTS_NUMBERS];
	struct opt_values as[TTS_METHODS];
	struct tts_cost cost[TTS_NUMBERS][2]; /* without, with a reward */
};

static void release_drawing(struct drawing *d, size_t items)
{
	for (size_t i = 0; d && d->kept && i < items; i++) {
		free(d->kept[i].sample);
		free(d->kept[i].tokens);
	}
	if (d)
		free(d->kept);
	free(d);
}

static const struct tts_method plain = { "sample", &method_sample, NULL };
static const struct tts_method judged = { "best-of-n", &method_best_of_n,
	NULL };

static int draw(struct tts *t, unsigned model, struct drawing *d, bool reward,
	struct err *e)
{
	const struct tts_args *a = t->args;
	struct run r = { .tts = t,
		.model = model,
		.purpose = DRAW,
		.method = reward ? &judged : &plain,
		.n = a->samples[a->n_samples - 1],
		.temperature = a->temperature,
		.items = t->items.n,
		.kept = d->kept,
		.choice = d->choice,
		.as = d->as };
	int ret = 0;

	for (unsigned m = 0; m < a->n_methods && !ret; m++) {
		bool is = follows(t, &a->method[m]);

		ret = ask(&r, &a->method[m], r.n, &d->as[m], e);
		for (unsigned k = 0; k < a->n_samples; k++)
			d->choice[m * a->n_samples + k] =
				(struct tts_point){ .model = model,
					.method = is ? a->method[m].name : NULL,
					.n = a->samples[k] };
	}
	return ret ? ret : run(&r, e);
}

/* Over all items on the phone and over the first by the wall's clock, which
 * must be the same on the phone as well. */
static int price_and_time(struct tts *t, unsigned model, struct drawing *d,
	unsigned k, bool reward, struct err *e)
{
	const struct tts_args *a = t->args;
	struct run r = { .tts = t,
		.model = model,
		.purpose = PRICE,
		.method = reward ? &judged : &plain,
		.n = a->samples[k],
		.temperature = a->temperature,
		.items = t->items.n,
		.kept = d->kept };
	struct run timed = r, first = r;
	struct tts_cost *cost = &d->cost[k][reward];
	int ret = 0;

	timed.purpose = TIME;
	timed.items = first.items = a->timed;
	ret = a->timed ? run(&timed, e) : 0;
	if (ret || !t->priced) {
		*cost = timed.cost;
		if (!reward)
			t->speed[model][k].wall = timed.cost;
		return ret;
	}
	if (a->timed)
		ret = run(&first, e);
	if (!ret && first.cost.phone_ps != timed.cost.phone_ps)
		return err_set(e, EPROTO,
			"%u samples take the phone %llu ps when they are drawn "
			"and %llu ps when they are gone through again",
			r.n, (unsigned long long)timed.cost.phone_ps,
			(unsigned long long)first.cost.phone_ps);
	if (!ret)
		ret = run(&r, e);
	*cost = r.cost;
	if (!reward) {
		t->speed[model][k].phone = r.cost;
		t->speed[model][k].wall = timed.cost;
	}
	return ret;
}

static int follow(struct tts *t, unsigned model, struct drawing *d, bool reward,
	struct err *e)
{
	const struct tts_args *a = t->args;
	int ret = draw(t, model, d, reward, e);

	for (unsigned k = 0; k < a->n_samples && !ret; k++) {
		ret = price_and_time(t, model, d, k, false, e);
		if (!ret && reward)
			ret = price_and_time(t, model, d, k, true, e);
	}
	t->drew[model] = !ret;
	return ret;
}

static void add_choices(
	struct tts *t, unsigned model, const struct drawing *d, unsigned m)
{
	const struct tts_args *a = t->args;
	bool reward = a->method[m].method->needs_reward;

	for (unsigned k = 0; k < a->n_samples; k++) {
		struct tts_point *p = &t->point[t->n++];

		*p = d->choice[m * a->n_samples + k];
		p->cost = d->cost[k][reward];
	}
}

/* ---- a model ------------------------------------------------------------- */

static int run_methods(
	struct tts *t, unsigned model, const struct drawing *d, struct err *e)
{
	const struct tts_args *a = t->args;
	int ret = 0;

	for (unsigned m = 0; m < a->n_methods && !ret; m++) {
		const struct tts_method *is = &a->method[m];

		if (follows(t, is)) {
			add_choices(t, model, d, m);
			continue;
		}
		for (unsigned k = 0; k < a->n_samples && !ret; k++)
			if (may_have(t, is, a->samples[k]))
				ret = run_by_itself(t, model, is, is->name,
					a->samples[k], a->temperature, e);
	}
	return ret;
}

static int run_model(struct tts *t, unsigned model, struct err *e)
{
	const struct tts_args *a = t->args;
	struct drawing *d = calloc(1, sizeof(*d));
	bool any = false, reward = false;
	int ret = 0;

	if (d)
		d->kept = calloc(t->items.n, sizeof(*d->kept));
	if (!d || !d->kept)
		ret = err_set(e, ENOMEM, "no memory for samples");
	for (unsigned m = 0; m < a->n_methods; m++) {
		bool is = follows(t, &a->method[m]);

		any |= is;
		reward |= is && a->method[m].method->needs_reward;
	}
	if (!ret)
		ret = run_by_itself(t, model, &plain, TTS_GREEDY, 1, 0, e);
	if (!ret && any)
		ret = follow(t, model, d, reward, e);
	if (!ret)
		ret = run_methods(t, model, d, e);
	release_drawing(d, t->items.n);
	return ret;
}

int bench_tts(const struct tts_args *a, struct err *e)
{
	struct tts *t = calloc(1, sizeof(*t));
	struct eval_tasks tasks = { 0 };
	int ret;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	t->args = a;
	ret = a->plot ? bench_plot_ready(a->plot, e) : 0;
	if (!ret)
		ret = eval_tasks_read(&tasks, a->task, EVAL_NEED_ANSWERS, e);
	if (!ret)
		t->items = eval_task_first(&tasks.task[0], a->items);
	for (unsigned m = 0; m < a->n_models && !ret; m++)
		ret = run_model(t, m, e);
	if (!ret)
		ret = tts_tell(t, e);
	eval_tasks_release(&tasks);
	free(t);
	return ret;
}
