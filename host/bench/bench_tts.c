#include "host/bench/bench_tts.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/tandem_impl.h"
#include "host/bench/bench_table.h"
#include "host/bench/pass_at.h"
#include "host/bench/run_options.h"
#include "host/eval/eval.h"
#include "host/eval/eval_check.h"
#include "host/eval/eval_tasks.h"
#include "host/method/samples.h"
#include "host/model/model.h"
#include "tensor/soc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One model, one method, one number of samples. */
struct point {
	const char *model, *method;
	uint32_t n;
	struct eval_tally tally;
	uint64_t tokens; /* of all samples */
	double seconds, phone_seconds, joules;
};

#define GREEDY "greedy"

_Static_assert(1 + TTS_METHODS * TTS_NUMBERS <= TABLE_ROWS,
	"a model's runs are rows of a table");

/* Those of a model, its greedy text first. */
struct tts {
	const struct tts_args *args;
	struct eval_items items;
	bool priced;
	struct point point[TTS_MODELS * (1 + TTS_METHODS * TTS_NUMBERS)];
	unsigned n;
	/* [model][number]: sums over items of the estimates. */
	double pass[TTS_MODELS][TTS_NUMBERS];
};

/* A run under way. */
struct run {
	struct tts *tts;
	struct tandem *tandem;
	struct point *point;
	double *pass; /* NULL: not estimated by this one */
	bool any;     /* an item is right where one of its samples is */
};

/* ---- one run ------------------------------------------------------------- */

static uint32_t count_right(
	const struct samples *p, const struct eval_item *item, uint64_t *tokens)
{
	struct samples_stats st;
	uint32_t right = 0;

	for (uint32_t i = 0; i < samples_count(p); i++) {
		const struct sample *s = samples_at(p, i);

		right += s->text.len &&
			eval_right(item, s->text.data, s->text.len);
	}
	samples_stats(p, &st);
	*tokens += st.tokens;
	return right;
}

static int see_item(void *arg, const struct eval_item *item, bool right,
	const struct strbuf *output, struct err *e)
{
	struct run *r = arg;
	const struct tts_args *a = r->tts->args;
	const struct samples *p = r->tandem->decoder.env.samples;
	uint32_t n = samples_count(p);
	uint32_t c = count_right(p, item, &r->point->tokens);

	r->point->tally.total++;
	r->point->tally.right += r->any ? c > 0 : right;
	for (unsigned k = 0; r->pass && k < a->n_samples; k++)
		r->pass[k] += pass_at(n, c, a->samples[k]);
	return 0;
}

static int set_number(
	struct opt_values *v, const char *name, uint32_t n, struct err *e)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	return opt_set(decoder_tables, v, name, text, e);
}

static int from_handle(const struct tandem *t, int ret, struct err *e)
{
	if (ret)
		*e = t->err;
	return ret ? e->code : 0;
}

static int start(struct run *r, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct decoder *d = &r->tandem->decoder;
	uint32_t longest;
	int ret = from_handle(
		r->tandem, tandem_read_model(r->tandem, r->point->model), e);

	if (!ret)
		ret = eval_longest(
			d, &r->tts->items, d->model->n_ctx, &longest, e);
	if (ret)
		return ret;
	r->tts->priced = d->session_opts.soc;
	d->session_opts.cancel = a->cancel;
	d->tail = a->n_predict;
	return from_handle(r->tandem,
		tandem_start(r->tandem, longest + (uint64_t)a->n_predict), e);
}

static int measure(struct run *r, double temperature, struct err *e)
{
	const struct tts_args *a = r->tts->args;
	struct eval_opts o = { .n_predict = a->n_predict,
		.sampling = sampler_defaults,
		.each = see_item,
		.arg = r,
		.progress = a->progress };
	struct eval_result got = { .task = a->task, .path = a->task };
	const struct soc *soc;
	int ret = start(r, e);

	if (ret)
		return ret;
	o.sampling.temperature = temperature;
	o.sampling.seed = a->seed;
	ret = eval_run(r->tandem, &r->tts->items, &o, &got, e);
	soc = r->tandem->decoder.session_opts.soc;
	r->point->seconds = (double)got.ns * 1e-9;
	r->point->phone_seconds = (double)got.phone_ps * 1e-12;
	r->point->joules = (double)got.phone_pj * 1e-12 +
		(soc ? soc->base_w * r->point->phone_seconds : 0);
	return ret;
}

static int run_point(struct tts *t, const struct point *what,
	const char *method, double *pass, double temperature, struct err *e)
{
	struct point *point = &t->point[t->n];
	struct run r = { .tts = t,
		.point = point,
		.pass = pass,
		.any = !strcmp(method, method_sample.name) };
	struct opt_values asked = *t->args->options;
	struct tandem_options o;
	struct err closing = { 0 };
	int ret, closed;

	*point = *what;
	tandem_options_init(&o, sizeof(o));
	ret = opt_set(decoder_tables, &asked, "method", method, e);
	if (!ret)
		ret = set_number(&asked, "samples", what->n, e);
	if (!ret)
		ret = tandem_create(&r.tandem, &o, &asked, e);
	if (ret)
		return ret;
	ret = measure(&r, temperature, e);
	closed = tandem_end(r.tandem, &closing);
	t->n += !ret;
	if (!ret && closed)
		*e = closing;
	return ret ? ret : closed;
}

/* ---- all runs ------------------------------------------------------------ */

/* With one sample all methods are plain decoding: that is run once. */
static int run_method(struct tts *t, unsigned model, const struct method *m,
	const struct point *alone, struct err *e)
{
	const struct tts_args *a = t->args;
	bool sample = m == &method_sample;
	int ret = 0;

	for (unsigned k = 0; k < a->n_samples && !ret; k++) {
		uint32_t n = a->samples[k];
		bool last = k + 1 == a->n_samples;
		struct point what = {
			.model = a->model[model], .method = m->name, .n = n
		};

		if (n == 1 && alone && !(sample && last)) {
			t->point[t->n] = *alone;
			t->point[t->n++].method = m->name;
			continue;
		}
		ret = run_point(t, &what, m->name,
			sample && last ? t->pass[model] : NULL, a->temperature,
			e);
	}
	return ret;
}

static int run_model(struct tts *t, unsigned model, struct err *e)
{
	const struct tts_args *a = t->args;
	struct point greedy = { a->model[model], GREEDY, 1, { 0 }, 0, 0, 0, 0 };
	const struct point *alone = NULL;
	int ret = run_point(t, &greedy, method_sample.name, NULL, 0, e);

	for (unsigned i = 0; i < a->n_methods && !ret; i++) {
		unsigned first = t->n;

		ret = run_method(t, model, a->method[i], alone, e);
		if (a->samples[0] == 1)
			alone = &t->point[first];
	}
	return ret;
}

/* ---- tables -------------------------------------------------------------- */

static double percent(const struct eval_tally *t)
{
	return 100 * eval_accuracy(t);
}

static void add_columns(struct bench_table *t, bool priced)
{
	table_add_column(t, "right", "right %", 1, 1);
	table_add_column(t, "low", "from", 1, 1);
	table_add_column(t, "high", "to", 1, 1);
	table_add_column(t, "tokens", "tokens", 0, 1);
	table_add_column(t, "tokens_per_s", "tokens/s", 0, 1);
	table_add_column(t, "seconds", "ms", 1, 1e3);
	if (priced) {
		table_add_column(t, "phone_tokens_per_s", "phone t/s", 0, 1);
		table_add_column(t, "phone_s", "phone ms", 2, 1e3);
		table_add_column(t, "phone_j", "phone mJ", 2, 1e3);
	}
	t->column[0].panel = 1;
	t->column[priced ? 7 : 5].panel = 2;
}

static void add_point(struct bench_table *t, const struct point *p, bool priced)
{
	char name[TABLE_NAME], number[16];
	double low, high, items = (double)p->tally.total;
	struct table_row *row;

	snprintf(name, sizeof(name), "%s, %s", p->model, p->method);
	snprintf(number, sizeof(number), "%u", p->n);
	row = table_add_row(t, name, number);
	eval_interval(&p->tally, &low, &high);
	row->value[0] = percent(&p->tally);
	row->value[1] = 100 * low;
	row->value[2] = 100 * high;
	row->value[3] = (double)p->tokens / items;
	row->value[4] = (double)p->tokens / p->seconds;
	row->value[5] = p->seconds / items;
	if (!priced)
		return;
	row->value[6] = (double)p->tokens / p->phone_seconds;
	row->value[7] = p->phone_seconds / items;
	row->value[8] = p->joules / items;
}

static void make_accuracy(
	const struct tts *t, unsigned model, struct bench_table *out)
{
	const struct tts_args *a = t->args;

	*out = (struct bench_table){
		.name = model ? "accuracy_2" : "accuracy",
		.title = "Items that are right, and what one takes",
		.note = "from, to: the 95 % interval. sample: one of them is "
			"right, as a perfect judge would choose. Times are of "
			"a whole item, its prompt included",
		.name_key = { "how", "samples" },
		.n_names = 2,
		.plot = { .y = { "right, %" },
			.points = true,
			.x = t->priced ? "milliseconds of the phone an item"
				       : "milliseconds an item" },
	};
	add_columns(out, t->priced);
	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == a->model[model])
			add_point(out, &t->point[i], t->priced);
}

static void make_pass(const struct tts *t, struct bench_table *out)
{
	const struct tts_args *a = t->args;
	char key[TABLE_TEXT], head[TABLE_TEXT];

	*out = (struct bench_table){ .name = "pass",
		.title = "pass@k: one of k samples is right, %",
		.note = "by the unbiased estimate from the largest number",
		.name_key = { "model" },
		.n_names = 1 };
	for (unsigned k = 0; k < a->n_samples; k++) {
		snprintf(key, sizeof(key), "pass_at_%u", a->samples[k]);
		snprintf(head, sizeof(head), "@%u", a->samples[k]);
		table_add_column(out, key, head, 1, 1);
	}
	for (unsigned m = 0; m < a->n_models; m++) {
		struct table_row *row = table_add_row(out, a->model[m], NULL);

		for (unsigned k = 0; k < a->n_samples; k++)
			row->value[k] =
				100 * t->pass[m][k] / (double)t->items.n;
	}
}

/* ---- what is told -------------------------------------------------------- */

static const struct point *greedy_of(const struct tts *t, unsigned model)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == t->args->model[model] &&
			!strcmp(t->point[i].method, GREEDY))
			return &t->point[i];
	return NULL;
}

static bool overtakes(
	const struct tts *t, const struct point *p, const struct point *other)
{
	return p->model == t->args->model[0] && strcmp(p->method, GREEDY) &&
		strcmp(p->method, method_sample.name) &&
		eval_accuracy(&p->tally) >= eval_accuracy(&other->tally);
}

/* From how many samples on the first model is as often right as the second
 * without, method by method, and for how much of its cost. */
static void say_overtaking(const struct tts *t)
{
	const struct point *other = greedy_of(t, 1);
	const char *said = "";

	for (unsigned i = 0; i < t->n; i++) {
		const struct point *p = &t->point[i];

		if (!strcmp(said, p->method) || !overtakes(t, p, other))
			continue;
		said = p->method;
		printf("%s with %u sample%s by %s is at least as often right "
		       "as %s greedily, in %.2f of its %s",
			p->model, p->n, p->n == 1 ? "" : "s", p->method,
			other->model,
			t->priced ? p->phone_seconds / other->phone_seconds
				  : p->seconds / other->seconds,
			t->priced ? "time on the phone" : "time");
		if (t->priced)
			printf(" and %.2f of its energy",
				p->joules / other->joules);
		putchar('\n');
	}
}

static json_t *as_json(
	const struct tts *t, const struct bench_table *tables, unsigned n)
{
	const char *clock = asked_clock(t->args->options);

	return json_pack("{si ss ss ss sI sf so}", "version", 1, "command",
		"bench tts", "clock", clock ? clock : "wall", "task",
		t->args->task, "items", (json_int_t)t->items.n, "temperature",
		t->args->temperature, "tables", report_tables_json(tables, n));
}

static int tell(const struct tts *t, struct err *e)
{
	struct bench_table table[TTS_MODELS + 1];
	const struct tts_args *a = t->args;
	const char *clock = asked_clock(a->options);
	unsigned n = 0;
	char caption[BENCH_CAPTION];

	while (n < a->n_models) {
		make_accuracy(t, n, &table[n]);
		n++;
	}
	make_pass(t, &table[n++]);
	snprintf(caption, sizeof(caption),
		"%zu items of %s, temperature %g, clock %s", t->items.n,
		a->task, a->temperature, clock ? clock : "wall");
	if (a->form == BENCH_JSON) {
		int ret = report_print_json(as_json(t, table, n), e);

		if (ret)
			return ret;
	} else if (a->form == BENCH_CSV) {
		puts("table,name,of,figure,value");
		for (unsigned i = 0; i < n; i++)
			table_print_csv(&table[i], stdout);
	} else {
		printf("Test-time scaling: %s\n", caption);
		for (unsigned i = 0; i < n; i++)
			table_print(&table[i], stdout);
		putchar('\n');
		if (a->n_models > 1)
			say_overtaking(t);
	}
	return report_plots(table, n, caption, a->plot, e);
}

int bench_tts(const struct tts_args *a, struct err *e)
{
	struct tts *t = calloc(1, sizeof(*t));
	struct eval_tasks tasks = { 0 };
	int ret;

	if (!t)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	t->args = a;
	ret = eval_tasks_read(&tasks, a->task, EVAL_NEED_ANSWERS, e);
	if (!ret)
		t->items = eval_task_first(&tasks.task[0], a->items);
	for (unsigned m = 0; m < a->n_models && !ret; m++)
		ret = run_model(t, m, e);
	if (!ret)
		ret = tell(t, e);
	eval_tasks_release(&tasks);
	free(t);
	return ret;
}
