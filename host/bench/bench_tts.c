#include "host/bench/bench_tts.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_plot.h"
#include "host/bench/bench_tts_impl.h"
#include "host/bench/pass_at.h"
#include "host/bench/run_options.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_tasks.h"
#include "host/model/model.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tts_table_names[TTS_TABLES + 1] = { "accuracy", "pass",
	"speed", "phones", "kernels", "softmax", "attention", "batches",
	"prompts", "memory" };

/* The phones of section 7.2.1 of the npu-tts paper, and the paper's pairs of a
 * small and a large model. */
const char *const tts_phones[TTS_N_PHONES] = { "sd8gen2", "sd8gen3",
	"sd8elite" };
const char *const tts_pairs[TTS_PAIRS][TTS_MODELS] = {
	{ "qwen2.5-1.5b", "qwen2.5-3b" },
	{ "qwen2.5-3b", "qwen2.5-7b" },
	{ "llama3.2-1b", "llama3.2-3b" },
};

/* The purpose of a run, which determines how a finished item is processed. */
enum purpose {
	/* run a method that generates by itself, and score the sample that the
	 * method has chosen */
	BY_ITSELF,
	/* draw samples and keep them; then each method that only chooses at the
	 * end chooses one of these samples */
	DRAW,
	/* compute the phone cost of the kept tokens */
	COST,
	/* generate again to measure wall-clock time, and compare with the kept
	 * tokens */
	TIME,
};

/* A run of one model, one method and one number of samples over the items. */
struct run {
	struct tts *tts;
	unsigned model;
	enum purpose purpose;
	const struct tts_method *method;
	uint32_t n;
	double temperature;
	size_t items; /* number of items to run, from the first item on */
	/* phone and model shape for which costs are computed; NULL: as the
	 * options say */
	const char *phone, *shape;

	struct tandem *tandem;
	/* [items] the samples of each item: DRAW and greedy runs write them,
	 * COST and TIME runs read them */
	struct samples_script **kept;
	size_t at; /* index of the current item */
	/* [n_methods][n_samples] results of the methods, filled by a DRAW
	 * run */
	struct tts_point *choice;
	/* [n_methods] options of each method, for a DRAW run */
	struct opt_values *as;
	struct eval_tally tally;
	/* [items] whether each item is right; NULL if this is not recorded */
	bool *right;
	struct tts_cost cost;
};

/* ---- an item ------------------------------------------------------------- */

static int check_sample(const struct sample_report *s,
	const struct eval_item *item, struct err *e)
{
	if (s->is.state != TANDEM_SAMPLE_ENDED) {
		if (s->err)
			*e = *s->err;
		else
			err_set(e, EPROTO, "the sample has not ended");
		return err_in(
			e, "sample %u of item '%s'", s->is.index, item->id);
	}
	if (s->is.stop != TANDEM_STOP_CONTEXT)
		return 0;
	return err_set(e, ENOSPC,
		"the key-value cache has no room for sample %u of item '%s'; "
		"try a larger --slots or --ctx",
		s->is.index, item->id);
}

/* Count the result of item i in *t and, unless `of` is NULL, record it in of[i]
 * for a comparison item by item. */
static void count(struct eval_tally *t, bool *of, size_t i, bool right)
{
	t->total++;
	t->right += right;
	if (of)
		of[i] = right;
}

/* Return the array in which the next point (result of a method) stores whether
 * each item is right. */
static bool *next_right(struct tts *t)
{
	return t->right + t->n_right++ * t->items.n;
}

/* Count the results of the n drawn samples of an item; right[i] is whether
 * sample i is right. */
static int take_drawn(struct run *r, const struct eval_item *item,
	const bool *right, uint32_t n, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct sample_report s;
	uint32_t n_right = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		tandem_sample_report(r->tandem, i, &s);
		ret = check_sample(&s, item, e);
		n_right += right[i];
	}
	/* For each method and each number of samples n in args->samples, let
	 * the method choose among the first n samples. */
	for (unsigned m = 0; m < a->n_methods && !ret; m++)
		for (unsigned k = 0; k < a->n_samples && !ret; k++) {
			struct tts_point *at = &r->choice[m * a->n_samples + k];
			uint32_t first = a->samples[k], chosen;

			if (!at->method)
				continue;
			if (r->tts->how[m].plain) {
				count(&at->tally, at->right, r->at,
					memchr(right, true, first) != NULL);
				continue;
			}
			ret = tandem_choose(
				r->tandem, &r->as[m], first, &chosen, e);
			if (!ret)
				count(&at->tally, at->right, r->at,
					right[chosen]);
		}
	for (unsigned k = 0; k < a->n_samples && !ret; k++)
		r->tts->pass[r->model][k] += pass_at(n, n_right, a->samples[k]);
	return ret;
}

static int begin_item(void *arg, const struct eval_item *item, struct err *e)
{
	const struct run *r = arg;

	tandem_replay(r->tandem, r->purpose == COST ? r->kept[r->at] : NULL);
	return 0;
}

static int see_item(void *arg, const struct eval_item *item, bool right,
	const struct strbuf *output, struct err *e)
{
	struct run *r = arg;
	const struct tts_args *a = r->tts->args;
	bool each[SAMPLES_MOST];
	struct tandem_report report;
	uint32_t n, same = UINT32_MAX;
	int ret = 0;

	tandem_report(r->tandem, &report);
	n = report.n_samples;
	if (report.keeps_all || r->purpose == DRAW) {
		struct sample_report s;

		/* There are exactly as many samples as requested, because the
		 * methods for which this branch runs never fork a sample. */
		assert(n <= SAMPLES_MOST);
		for (uint32_t i = 0; i < n && !ret; i++) {
			tandem_sample_report(r->tandem, i, &s);
			each[i] = false;
			if (s.is.text_bytes)
				ret = eval_check(item, s.is.text,
					s.is.text_bytes, &each[i], e);
		}
	}
	if (ret)
		return ret;
	/* A method that keeps all samples is scored as if a perfect reward
	 * model chose among them: the item is right if any sample is right. */
	if (report.keeps_all)
		right = memchr(each, true, n) != NULL;
	r->cost.tokens += report.samples.tokens;
	count(&r->tally, r->right, r->at, right);
	if (r->kept && (r->purpose == DRAW || r->purpose == BY_ITSELF)) {
		r->kept[r->at] = tandem_record(r->tandem);
		if (!r->kept[r->at])
			return err_set(e, ENOMEM, "no memory for samples");
	}
	if (r->purpose == DRAW)
		ret = take_drawn(r, item, each, n, e);
	else if (r->purpose == TIME)
		same = tandem_compare(r->tandem, r->kept[r->at]);
	if (same < n)
		ret = err_set(e, EPROTO,
			"sample %u of item '%s' differs between a run of %u "
			"samples and a run of %u samples",
			same, item->id, n, a->samples[a->n_samples - 1]);
	r->at++;
	return ret;
}

/* ---- a run --------------------------------------------------------------- */

static int measure(struct run *r, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct session_opts *pair = tandem_pair(r->tandem);
	struct eval_items items = r->tts->items;
	struct eval_opts o = { .n_predict = a->n_predict,
		.sampling = sampler_defaults,
		.begin = begin_item,
		.each = see_item,
		.arg = r,
		.progress = a->progress };
	struct eval_result got = { .task = a->task, .path = a->task };
	struct tts_cost *c = &r->cost;
	struct tandem_report report;
	uint32_t longest;
	int ret;

	if (tandem_read_model(r->tandem, a->model[r->model]))
		return tandem_failure(r->tandem, e);
	tandem_report(r->tandem, &report);
	/* Size the context for the longest of all items, so that every run has
	 * the same context size. */
	ret = eval_longest(
		r->tandem, &r->tts->items, report.model->n_ctx, &longest, e);
	if (ret)
		return ret;
	pair->cancel = a->cancel;
	pair->idle = r->purpose == COST;
	if (tandem_start_for(r->tandem, longest, a->n_predict))
		return tandem_failure(r->tandem, e);

	if (items.n > r->items)
		items.n = r->items;
	o.sampling.temperature = r->temperature;
	o.sampling.seed = a->seed;
	ret = eval_run(r->tandem, &items, &o, &got, e);
	c->items = got.all.total;
	c->seconds = (double)got.ns * 1e-9;
	c->phone_ps = got.phone_ps;
	c->phone_seconds = (double)got.phone_ps * 1e-12;
	c->cpu_seconds = (double)got.phone_cpu_ps * 1e-12;
	c->joules = (double)got.phone_pj * 1e-12;
	if (pair->soc)
		c->joules += pair->soc->base_w * c->phone_seconds;
	return ret;
}

struct preset {
	const char *name, *value;
};

/* Set the n options p[] to the given values, except those that the user has
 * set. */
static int preset(
	struct opt_values *v, const struct preset *p, size_t n, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		if (!run_option_is_set(v, p[i].name))
			ret = opt_set(
				decoder_tables, v, p[i].name, p[i].value, e);
	return ret;
}

/*
 * Set all options of a run: the method, its aggregate (how it combines the
 * scores of a sample's steps), the number of samples and the shape. If `shape`
 * is given, costs are computed for a model of this shape with Q4_0 weights, as
 * in the npu-tts paper. The device's address window then holds the weights of
 * the reward model, if there is one. Those layers of the generating model that
 * do not fit into the rest of the window are copied into it in every pass.
 */
static int ask(const struct tts_args *a, const char *shape,
	const struct tts_method *m, uint32_t n, struct opt_values *out,
	struct err *e)
{
	const struct preset presets[] = { { "as-type", "q4_0" },
		{ "placement", "swap" }, { "va-slots", "64" } };
	char number[16];
	int ret;

	snprintf(number, sizeof(number), "%u", n);
	*out = *a->options;
	ret = opt_set(decoder_tables, out, "method", m->method, e);
	if (!ret)
		ret = opt_set(decoder_tables, out, "samples", number, e);
	if (!ret && m->aggregate)
		ret = opt_set(
			decoder_tables, out, "aggregate", m->aggregate, e);
	if (!ret && shape)
		ret = opt_set(decoder_tables, out, "as", shape, e);
	if (!ret && shape)
		ret = preset(out, presets, ARRAY_LEN(presets), e);
	if (!ret)
		tandem_drop_needless(out);
	return ret;
}

static int run(struct run *r, struct err *e)
{
	/* On a phone, costs are computed for the kernels of the npu-tts
	 * paper. */
	const struct preset kernels[] = { { "layout", "super" },
		{ "precision", "npu" } };
	char clock[TTS_NAME];
	struct opt_values values;
	struct err closing = { 0 };
	const struct tts_args *a = r->tts->args;
	int ret = ask(a, r->shape ? r->shape : a->shape[r->model], r->method,
		r->n, &values, e);
	int closed;

	/* All samples must be generated to their ends, because their tokens are
	 * kept and their costs computed. */
	if (!ret && r->purpose != BY_ITSELF)
		ret = opt_set(
			decoder_tables, &values, "stop-decided", "false", e);
	if (r->phone) {
		snprintf(clock, sizeof(clock), "soc:%s", r->phone);
		if (!ret)
			ret = opt_set(
				decoder_tables, &values, "clock", clock, e);
		if (!ret)
			ret = preset(&values, kernels, ARRAY_LEN(kernels), e);
	}
	if (!ret)
		ret = tandem_create(&r->tandem, NULL, &values, e);
	if (ret)
		return ret;
	tandem_pair(r->tandem)->trace =
		bench_trace_next(&r->tts->trace, tandem_pair(r->tandem)->trace);
	ret = measure(r, e);
	closed = tandem_end(r->tandem, &closing);
	r->tandem = NULL;
	if (!ret && closed)
		*e = closing;
	return ret ? ret : closed;
}

/* ---- a method that generates in runs of its own -------------------------- */

static int run_by_itself(struct tts *t, unsigned model,
	const struct tts_method *m, const char *name, uint32_t n,
	double temperature, struct samples_script **kept, struct err *e)
{
	struct run r = { .tts = t,
		.model = model,
		.purpose = BY_ITSELF,
		.method = m,
		.n = n,
		.temperature = temperature,
		.items = t->items.n,
		.kept = kept,
		.right = next_right(t) };
	int ret = run(&r, e);

	if (!ret)
		t->point[t->n++] = (struct tts_point){ .model = model,
			.method = name,
			.n = n,
			.tally = r.tally,
			.right = r.right,
			.cost = r.cost };
	return ret;
}

/* ---- costs of the drawn samples ------------------------------------------ */

struct drawing {
	/* kept: [items] samples drawn for each item; greedy: [items] output of
	 * greedy decoding */
	struct samples_script **kept, **greedy;
	struct tts_point choice[TTS_METHODS * TTS_NUMBERS];
	struct opt_values as[TTS_METHODS];
	/* [k][0]: cost of samples[k] samples without a reward model; [k][1]:
	 * with a reward model */
	struct tts_cost cost[TTS_NUMBERS][2];
};

static const struct tts_method plain = { "sample", "sample", NULL };
static const struct tts_method best_of_n = { "best-of-n", "best-of-n", NULL };

/* Measure the wall-clock time of generating samples[k] samples of the first
 * args->timed items, scored by a reward model if `reward`. If a phone is
 * simulated, compute the phone cost of samples[k] samples of all items. The
 * timed run must generate the kept tokens. Its phone time must equal the phone
 * time computed from the kept tokens of the same items. */
static int cost_and_time(struct tts *t, unsigned model, struct drawing *d,
	unsigned k, bool reward, struct err *e)
{
	const struct tts_args *a = t->args;
	struct run r = { .tts = t,
		.model = model,
		.purpose = COST,
		.method = reward ? &best_of_n : &plain,
		.n = a->samples[k],
		.temperature = a->temperature,
		.items = t->items.n,
		.kept = d->kept };
	struct run timed = r, first = r;
	struct tts_cost *cost = &d->cost[k][reward];
	int ret = 0;

	timed.purpose = TIME;
	timed.items = first.items = a->timed;
	if (a->timed)
		ret = run(&timed, e);
	if (!ret && t->on_phone && a->timed)
		ret = run(&first, e);
	if (!ret && t->on_phone && first.cost.phone_ps != timed.cost.phone_ps)
		return err_set(e, EPROTO,
			"%u samples take the phone %llu ps when they are "
			"generated, but %llu ps when their cost is computed "
			"from the recorded tokens",
			r.n, (unsigned long long)timed.cost.phone_ps,
			(unsigned long long)first.cost.phone_ps);
	if (!ret && t->on_phone)
		ret = run(&r, e);
	*cost = t->on_phone ? r.cost : timed.cost;
	if (!reward)
		t->speed[model][k] = (struct tts_speed){ .phone = r.cost,
			.wall = timed.cost };
	return ret;
}

/* Compute the costs for the table of phones. */
static int cost_on_phones(
	struct tts *t, unsigned model, const struct drawing *d, struct err *e)
{
	const struct tts_args *a = t->args;
	int ret = 0;

	for (unsigned i = 0; i < TTS_N_PHONES * TTS_PAIRS && !ret; i++) {
		unsigned phone = i / TTS_PAIRS, pair = i % TTS_PAIRS;
		struct run r = { .tts = t,
			.model = model,
			.purpose = COST,
			.method = model ? &plain : &best_of_n,
			.items = t->items.n,
			.phone = tts_phones[phone],
			.shape = tts_pairs[pair][model],
			.temperature = model ? 0 : a->temperature,
			.kept = model ? d->greedy : d->kept };

		if (model) {
			r.n = 1;
			ret = run(&r, e);
			t->greedy[phone][pair] = r.cost;
		}
		for (unsigned k = 0; !model && k < a->n_samples && !ret; k++) {
			struct run one = r;

			one.n = a->samples[k];
			ret = run(&one, e);
			t->best[phone][pair][k] = one.cost;
		}
	}
	return ret;
}

/* ---- a model ------------------------------------------------------------- */

static int run_model(struct tts *t, unsigned model, struct err *e)
{
	const struct tts_args *a = t->args;
	struct drawing *d = calloc(1, sizeof(*d));
	struct samples_script **kept =
		calloc(2 * t->items.n, sizeof(struct samples_script *));
	/* Samples must also be drawn if the table of phones, which shows their
	 * costs, was requested. */
	bool any = a->table[TTS_PHONES], reward = false;
	int ret;

	if (!d || !kept) {
		ret = err_set(e, ENOMEM, "no memory for samples");
		goto out;
	}
	d->kept = kept;
	d->greedy = kept + t->items.n;
	for (unsigned m = 0; m < a->n_methods; m++) {
		any |= t->how[m].follows;
		reward |= t->how[m].follows && t->how[m].reward;
	}
	ret = run_by_itself(t, model, &plain, TTS_GREEDY, 1, 0, d->greedy, e);
	if (!ret && any) {
		/* Draw the largest number of samples, then find the cost of
		 * each number of samples. */
		struct run r = { .tts = t,
			.model = model,
			.purpose = DRAW,
			.method = reward ? &best_of_n : &plain,
			.n = a->samples[a->n_samples - 1],
			.temperature = a->temperature,
			.items = t->items.n,
			.kept = d->kept,
			.choice = d->choice,
			.as = d->as };

		for (unsigned m = 0; m < a->n_methods && !ret; m++) {
			bool is = t->how[m].follows;

			ret = ask(a, a->shape[model], &a->method[m], r.n,
				&d->as[m], e);
			for (unsigned k = 0; k < a->n_samples; k++)
				d->choice[m * a->n_samples + k] =
					(struct tts_point){ .model = model,
						.method = is ? a->method[m].name
							     : NULL,
						.n = a->samples[k],
						.right = is ? next_right(t)
							    : NULL };
		}
		ret = ret ? ret : run(&r, e);

		for (unsigned k = 0; k < a->n_samples && !ret; k++) {
			ret = cost_and_time(t, model, d, k, false, e);
			if (!ret && reward)
				ret = cost_and_time(t, model, d, k, true, e);
		}
		t->drew[model] = !ret;
	}
	/* Add a point (result) of each method and number of samples. The result
	 * comes from the drawn samples if the method only chooses among
	 * samples; otherwise from a run of its own. */
	for (unsigned i = 0; i < a->n_methods * a->n_samples && !ret; i++) {
		unsigned m = i / a->n_samples, k = i % a->n_samples;
		const struct tts_how *how = &t->how[m];
		uint32_t n = a->samples[k];

		if (how->follows) {
			t->point[t->n] = d->choice[i];
			t->point[t->n++].cost = d->cost[k][how->reward];
		} else if (n == 1 || n % how->group == 0) {
			ret = run_by_itself(t, model, &a->method[m],
				a->method[m].name, n, a->temperature, NULL, e);
		}
	}
	if (!ret && t->args->table[TTS_PHONES])
		ret = cost_on_phones(t, model, d, e);
out:
	for (size_t i = 0; kept && i < 2 * t->items.n; i++)
		free(kept[i]);
	free(kept);
	free(d);
	return ret;
}

int bench_tts(const struct tts_args *a, struct err *e)
{
	const char *clock = run_options_clock(a->options);
	struct tts *t = calloc(1, sizeof(*t));
	struct eval_tasks tasks = { 0 };
	bool decodes = false;
	int ret;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	t->args = a;
	t->on_phone = clock != NULL;
	for (unsigned i = 0; i < TTS_PAPER; i++)
		decodes |= a->table[i];
	ret = t->on_phone ? soc_file_load(&t->soc, clock + strlen("soc:"), e)
			  : 0;
	if (!ret && a->plot)
		ret = bench_plot_ready(a->plot, e);
	if (!ret && decodes)
		ret = eval_tasks_read(&tasks, a->task, EVAL_NEED_ANSWERS, e);
	if (!ret && decodes)
		t->items = eval_task_first(&tasks.task[0], a->items);
	t->right = calloc(TTS_POINTS, t->items.n + 1);
	if (!ret && !t->right)
		ret = err_set(e, ENOMEM, "no memory for a benchmark");
	/* Query the properties of each method, then decode with all models. */
	for (unsigned m = 0; decodes && m < a->n_methods && !ret; m++) {
		struct opt_values values;
		struct tandem_report r;
		struct tandem *of;

		ret = ask(a, a->shape[0], &a->method[m],
			a->samples[a->n_samples - 1], &values, e);
		if (!ret)
			ret = tandem_create(&of, NULL, &values, e);
		if (ret)
			break;
		tandem_report(of, &r);
		t->how[m] = (struct tts_how){ .plain = r.keeps_all,
			.follows = !run_options_draft(a->options) &&
				(r.keeps_all || r.chooses_last),
			.reward = r.needs_reward,
			.group = r.group };
		tandem_end(of, NULL);
	}
	for (unsigned m = 0; decodes && m < a->n_models && !ret; m++)
		ret = run_model(t, m, e);
	if (!ret)
		ret = tts_report(t, e);
	eval_tasks_release(&tasks);
	free(t->right);
	free(t);
	return ret;
}
