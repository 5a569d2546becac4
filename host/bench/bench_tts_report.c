/* The report of `tandem bench tts`: tables, pictures, and the smallest number
 * of samples with which the first model is significantly more accurate than
 * greedy decoding of the second (larger) model. */
#include "base/err.h"
#include "host/bench/bench_table.h"
#include "host/bench/bench_tts_impl.h"
#include "host/bench/run_options.h"
#include "host/bench/print_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(1 + TTS_METHODS * TTS_NUMBERS <= TABLE_ROWS &&
		TTS_MODELS * TTS_NUMBERS <= TABLE_ROWS,
	"a model's runs are rows of a table");

/* maximum number of methods of each model that a picture shows as lines; greedy
 * decoding is a point and does not count */
#define LINES 3
/* number of tables: one table of accuracy for each model, and one table of
 * every other kind */
#define TABLES (TTS_MODELS - 1 + TTS_TABLES)

/* A difference is reported as significant if its p-value is below this. */
#define P_MOST 0.05

static bool is_greedy(const struct tts_point *p)
{
	return !strcmp(p->method, TTS_GREEDY);
}

/* Whether the point (the result of one model, one method and one number of
 * samples) is pass@k: an item counts as right if any of its samples is right,
 * and no sample is chosen. */
static bool is_any(const struct tts_point *p)
{
	return !strcmp(p->method, TTS_SAMPLE);
}

static double ratio(double a, double b)
{
	return b > 0 ? a / b : NAN;
}

/* The point of greedy decoding with the second model, or NULL. */
static const struct tts_point *greedy_second(const struct tts *t)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == 1 && is_greedy(&t->point[i]))
			return &t->point[i];
	return NULL;
}

/* The p-value of the difference in accuracy between two points (McNemar's
 * test). */
static double p_value(const struct tts *t, const struct tts_point *p,
	const struct tts_point *other)
{
	uint64_t only[2] = { 0, 0 };

	for (size_t i = 0; i < t->items.n; i++)
		if (p->right[i] != other->right[i])
			only[other->right[i]]++;
	return eval_mcnemar(only[0], only[1]);
}

/* The first model's point of best-of-n with n samples, or NULL. */
static const struct tts_point *best_of(const struct tts *t, uint32_t n)
{
	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == 0 && t->point[i].n == n &&
			!strcmp(t->point[i].method, "best-of-n"))
			return &t->point[i];
	return NULL;
}

/* ---- tables -------------------------------------------------------------- */

static void add_columns(struct bench_table *t, bool on_phone, bool tested)
{
	table_add_column(t, "right", "right %", 1, 1);
	table_add_column(t, "low", "from", 1, 1);
	table_add_column(t, "high", "to", 1, 1);
	table_add_column(t, "tokens", "tokens", 0, 1);
	if (on_phone) {
		table_add_column(t, "phone_tokens_per_s", "phone t/s", 0, 1);
		table_add_column(t, "phone_s", "phone ms", 2, 1e3);
		table_add_column(t, "phone_j", "phone mJ", 2, 1e3);
	} else {
		table_add_column(t, "tokens_per_s", "tokens/s", 0, 1);
		table_add_column(t, "seconds", "ms", 1, 1e3);
	}
	if (tested)
		table_add_column(t, "p_value", "p", 5, 1);
}

/* Whether each point of a model gets the p-value of its difference to greedy
 * decoding with the second model. */
static bool is_tested(const struct tts *t, unsigned model)
{
	return model == 0 && t->args->n_models > 1;
}

static void add_point(
	const struct tts *t, struct bench_table *out, const struct tts_point *p)
{
	const struct tts_cost *c = &p->cost;
	double low, high, items = (double)c->items;
	double tokens = (double)c->tokens;
	double seconds = t->on_phone ? c->phone_seconds : c->seconds;
	char name[TABLE_NAME], number[16];
	double *v;

	snprintf(name, sizeof(name), "%s, %s", t->args->model[p->model],
		p->method);
	snprintf(number, sizeof(number), "%u", p->n);
	v = table_add_row(out, name, number)->value;
	eval_interval(&p->tally, &low, &high);
	v[0] = 100 * eval_accuracy(&p->tally);
	v[1] = 100 * low;
	v[2] = 100 * high;
	v[3] = ratio(tokens, items);
	v[4] = ratio(tokens, seconds);
	v[5] = ratio(seconds, items);
	if (t->on_phone)
		v[6] = ratio(c->joules, items);
	if (is_tested(t, p->model))
		v[t->on_phone ? 7 : 6] = p_value(t, p, greedy_second(t));
}

#define ABOUT_ACCURACY(times)                                                  \
	"from, to: 95 % interval. sample: share of items with at least one "   \
	"right sample (a perfect reward model would choose it). Times: " times \
	". p: p-value of the difference from greedy decoding with "            \
	"the second model (McNemar's test)"

static void make_accuracy(
	const struct tts *t, unsigned model, struct bench_table *out)
{
	*out = (struct bench_table){ .name = model ? "accuracy_2" : "accuracy",
		.title = "Share of right answers, and the cost of an item",
		.note = t->on_phone
			? ABOUT_ACCURACY(
				  "per item, including prompt and scoring")
			: ABOUT_ACCURACY(
				  "of the timed items, including prompts"),
		.name_key = { "how", "samples" } };
	add_columns(out, t->on_phone, is_tested(t, model));
	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == model)
			add_point(t, out, &t->point[i]);
}

static double per_s(const struct tts_cost *c, bool phone)
{
	return ratio((double)c->tokens, phone ? c->phone_seconds : c->seconds);
}

/* Returns a figure of a model for args->samples[k] samples. */
typedef double number_of(const struct tts *, unsigned model, unsigned k);

static double pass_percent(const struct tts *t, unsigned m, unsigned k)
{
	return 100 * t->pass[m][k] / (double)t->items.n;
}

static double rate(const struct tts *t, unsigned m, unsigned k)
{
	const struct tts_speed *s = &t->speed[m][k];

	return per_s(t->on_phone ? &s->phone : &s->wall, t->on_phone);
}

/* Add a table with a column for each number of samples, and a row for each
 * model that drew samples. */
static void add_numbers(const struct tts *t, struct bench_table *out,
	const char *key, number_of *value)
{
	for (unsigned k = 0; k < t->args->n_samples; k++) {
		char name[TABLE_TEXT], head[TABLE_TEXT];

		snprintf(name, sizeof(name), "%s_%u", key, t->args->samples[k]);
		snprintf(head, sizeof(head), "%u", t->args->samples[k]);
		table_add_column(out, name, head, 1, 1);
		out->column[k].panel = 1;
	}
	for (unsigned m = 0; m < t->args->n_models; m++) {
		struct table_row *row;

		if (!t->drew[m])
			continue;
		row = table_add_row(out, t->args->model[m], NULL);
		for (unsigned k = 0; k < t->args->n_samples; k++)
			row->value[k] = value(t, m, k);
	}
}

static void make_speed(const struct tts *t, struct bench_table *out)
{
	*out = (struct bench_table){ .name = "speed",
		.title = "Tokens a second, by samples in a pass",
		.note = "Times include prompts. grown: tokens/s divided by "
			"that of the first row. CPU: share of the phone's time "
			"for logits and sampling. Times of this machine are "
			"those of the timed items",
		.name_key = { "model", "samples" } };
	if (t->on_phone) {
		table_add_column(out, "phone_tokens_per_s", "phone t/s", 0, 1);
		table_add_column(out, "phone_growth", "grown", 2, 1);
		table_add_column(out, "phone_cpu_share", "CPU", 2, 1);
		table_add_column(out, "phone_w", "W", 2, 1);
		table_add_column(out, "phone_j_per_token", "mJ/token", 3, 1e3);
	}
	table_add_column(out, "tokens_per_s", "tokens/s", 0, 1);
	table_add_column(out, "growth", "grown", 2, 1);
	for (unsigned m = 0; m < t->args->n_models; m++)
		for (unsigned k = 0; t->drew[m] && k < t->args->n_samples;
			k++) {
			const struct tts_speed *s = &t->speed[m][k];
			const struct tts_speed *one = &t->speed[m][0];
			const struct tts_cost *c = &s->phone;
			double rate = per_s(c, true), here;
			char number[16];
			double *v;

			snprintf(number, sizeof(number), "%u",
				t->args->samples[k]);
			v = table_add_row(out, t->args->model[m], number)
				    ->value;
			if (t->on_phone) {
				*v++ = rate;
				*v++ = ratio(rate, per_s(&one->phone, true));
				*v++ = ratio(c->cpu_seconds, c->phone_seconds);
				*v++ = ratio(c->joules, c->phone_seconds);
				*v++ = ratio(c->joules, (double)c->tokens);
			}
			here = per_s(&s->wall, false);
			*v++ = here;
			*v = ratio(here, per_s(&one->wall, false));
		}
}

/*
 * Fill the table that compares two costs, for several phones and pairs of
 * shapes: the cost of best-of-n with the first model, and the cost of greedy
 * decoding with the second model.
 */
static void make_phones(const struct tts *t, struct bench_table *out)
{
	const struct tts_args *a = t->args;

	*out = (struct bench_table){ .name = "phones",
		.title = "Best-of-n of the first model compared with greedy "
			 "decoding of the second",
		.note = "Costs per item, including the reward model, computed "
			"for these pairs of models in the paper's formats. "
			"time, energy: of the first model, divided by those of "
			"the second. right, p: as in the table of accuracy; "
			"they do not depend on phone and pair. paper: figure "
			"10 of npu-tts, which has no numbers",
		.name_key = { "phone and models", "samples" } };
	table_add_column(out, "phone_s", "ms", 1, 1e3);
	table_add_column(out, "phone_j", "mJ", 0, 1e3);
	table_add_column(out, "second_s", "second ms", 1, 1e3);
	table_add_column(out, "second_j", "second mJ", 0, 1e3);
	table_add_column(out, "time", "time", 2, 1);
	table_add_column(out, "energy", "energy", 2, 1);
	table_add_column(out, "right", "right %", 1, 1);
	table_add_column(out, "p_value", "p", 5, 1);
	for (unsigned i = 0; i < TTS_N_PHONES * TTS_PAIRS; i++)
		for (unsigned k = 0; k < a->n_samples; k++) {
			unsigned phone = i / TTS_PAIRS, pair = i % TTS_PAIRS;
			const struct tts_cost *c = &t->best[phone][pair][k];
			const struct tts_cost *other = &t->greedy[phone][pair];
			const struct tts_point *p = best_of(t, a->samples[k]);
			const double items = (double)t->items.n;
			char name[TABLE_NAME], number[16];
			double *v;

			snprintf(name, sizeof(name), "%s, %s, %s",
				tts_phones[phone], tts_pairs[pair][0],
				tts_pairs[pair][1]);
			snprintf(number, sizeof(number), "%u", a->samples[k]);
			v = table_add_row(out, name, number)->value;
			v[0] = c->phone_seconds / items;
			v[1] = c->joules / items;
			v[2] = other->phone_seconds / items;
			v[3] = other->joules / items;
			v[4] = ratio(c->phone_seconds, other->phone_seconds);
			v[5] = ratio(c->joules, other->joules);
			if (!p)
				continue;
			v[6] = 100 * eval_accuracy(&p->tally);
			v[7] = p_value(t, p, greedy_second(t));
		}
}

/* ---- pictures ------------------------------------------------------------ */

/* Return the share of right answers of a method with the largest number of
 * samples for which the method has a point. */
static double last_right(
	const struct tts *t, unsigned model, const char *method)
{
	double right = 0;

	for (unsigned i = 0; i < t->n; i++)
		if (t->point[i].model == model &&
			!strcmp(t->point[i].method, method))
			right = eval_accuracy(&t->point[i].tally);
	return right;
}

/*
 * Whether pictures show this point. Greedy decoding is shown, pass@k is not. Of
 * all other methods, those LINES methods are shown that are most accurate with
 * this point's model and the largest number of samples.
 */
static bool is_drawn(const struct tts *t, const struct tts_point *p)
{
	double right = last_right(t, p->model, p->method);
	unsigned better = 0;
	bool before = true;

	if (is_greedy(p) || is_any(p))
		return is_greedy(p);
	for (unsigned m = 0; m < t->args->n_methods; m++) {
		const char *name = t->args->method[m].name;
		double other = last_right(t, p->model, name);

		if (!strcmp(name, TTS_SAMPLE))
			continue;
		if (!strcmp(name, p->method))
			before = false;
		else
			better += other > right || (before && other >= right);
	}
	return better < LINES;
}

static void make_tradeoff(const struct tts *t, const char *name,
	unsigned column, const char *x, struct bench_table *out)
{
	*out = (struct bench_table){ .name = name,
		.title = "Share of right answers, by the cost of an item",
		.name_key = { "how", "samples" },
		.plot = { .y = { "right, %" }, .points = true, .x = x } };
	add_columns(out, t->on_phone, is_tested(t, 0));
	out->column[0].panel = 1;
	out->column[column].panel = 2;
	for (unsigned i = 0; i < t->n; i++)
		if (is_drawn(t, &t->point[i]))
			add_point(t, out, &t->point[i]);
}

static int draw_all(const struct tts *t, const struct bench_table *tables,
	unsigned n, const char *caption, struct err *e)
{
	struct bench_table *more = calloc(3, sizeof(*more));
	unsigned n_more = 0;
	int ret = report_plots(tables, n, caption, t->args->plot, e);

	if (ret || !t->n) {
		free(more);
		return ret;
	}
	if (!more)
		return err_set(e, ENOMEM, "no memory for pictures");
	make_tradeoff(t, "time", 5,
		t->on_phone ? "phone milliseconds an item"
			    : "milliseconds an item",
		&more[n_more++]);
	if (t->on_phone)
		make_tradeoff(t, "energy", 6, "phone millijoules an item",
			&more[n_more++]);
	more[n_more] = (struct bench_table){ .name = "throughput",
		.title = "Tokens a second, by samples in a pass",
		.name_key = { "model" },
		.plot = { .y = { "tokens a second" },
			.lines = true,
			.x = "samples" } };
	add_numbers(t, &more[n_more++], "tokens_per_s", rate);
	ret = report_plots(more, n_more, caption, t->args->plot, e);
	free(more);
	return ret;
}

/* ---- overtaking a larger model ------------------------------------------- */

/* Cost of a method with the first model, divided by the cost of greedy decoding
 * with the second model. */
struct beside {
	/* ratios of time (phone time or, without a phone, wall time) and of
	 * energy; energy is NAN without a phone */
	double time, energy;
};

static struct beside beside(const struct tts *t, const struct tts_point *p,
	const struct tts_point *other)
{
	const struct tts_cost *a = &p->cost, *b = &other->cost;

	if (!t->on_phone)
		return (struct beside){
			ratio(ratio(a->seconds, (double)a->items),
				ratio(b->seconds, (double)b->items)),
			NAN
		};
	return (struct beside){ ratio(a->phone_seconds, b->phone_seconds),
		ratio(a->joules, b->joules) };
}

/* Return the first point at which a method of the first model is significantly
 * better than the second model's greedy decoding: the method is right more
 * often, with a p-value below P_MOST. The points of a method are in the order
 * of the number of samples. Returns NULL if no point meets the condition. */
static const struct tts_point *overtaking(
	const struct tts *t, const char *method, const struct tts_point *other)
{
	for (unsigned i = 0; i < t->n; i++) {
		const struct tts_point *p = &t->point[i];

		if (p->model == 0 && !strcmp(p->method, method) &&
			p->tally.right > other->tally.right &&
			p_value(t, p, other) < P_MOST)
			return p;
	}
	return NULL;
}

static void print_comparison(const struct tts *t, const struct tts_point *p,
	const struct tts_point *other, const char *how)
{
	struct beside b = beside(t, p, other);

	printf("%s with %u sample%s by %s is %s %s with greedy decoding (%.1f %% and "
	       "%.1f %%, p = %.2g), in %.2f of its %s",
		t->args->model[0], p->n, p->n == 1 ? "" : "s", p->method, how,
		t->args->model[other->model], 100 * eval_accuracy(&p->tally),
		100 * eval_accuracy(&other->tally), p_value(t, p, other),
		b.time, t->on_phone ? "time on the phone" : "time");
	if (t->on_phone)
		printf(" and %.2f of its energy", b.energy);
	putchar('\n');
}

/* For each method of the first model that chooses a sample, print the number of
 * samples with which the method overtakes greedy decoding of the second model.
 * If no method overtakes it, compare the most accurate result of the first
 * model with it. */
static void print_overtaking(const struct tts *t)
{
	const struct tts_point *other = greedy_second(t), *best = NULL;
	bool any = false;

	for (unsigned m = 0; m < t->args->n_methods; m++) {
		const char *name = t->args->method[m].name;
		const struct tts_point *p;

		if (!strcmp(name, TTS_SAMPLE) ||
			!(p = overtaking(t, name, other)))
			continue;
		print_comparison(t, p, other, "more often right than");
		any = true;
	}
	for (unsigned i = 0; i < t->n; i++) {
		const struct tts_point *p = &t->point[i];

		if (p->model == 0 && !is_greedy(p) && !is_any(p) &&
			(!best || p->tally.right > best->tally.right))
			best = p;
	}
	if (!any && best)
		print_comparison(t, best, other,
			"not shown to be more often right than");
}

/* ---- report -------------------------------------------------------------- */

static void make_pass(const struct tts *t, struct bench_table *out)
{
	*out = (struct bench_table){ .name = "pass",
		.title = "pass@k: at least one of k samples is right, %",
		.note = "Unbiased estimate from the largest number",
		.name_key = { "model" },
		.plot = { .y = { "one is right, %" },
			.lines = true,
			.x = "samples" } };
	add_numbers(t, out, "pass_at", pass_percent);
}

static json_t *overtaking_json(const struct tts *t)
{
	const struct tts_args *a = t->args;
	const struct tts_point *other =
		a->n_models > 1 ? greedy_second(t) : NULL;
	json_t *list = json_array();

	for (unsigned m = 0; other && m < a->n_methods; m++) {
		const struct tts_method *is = &a->method[m];
		const struct tts_point *p = overtaking(t, is->name, other);
		struct beside b;

		if (!strcmp(is->name, TTS_SAMPLE) || !p)
			continue;
		b = beside(t, p, other);
		json_array_append_new(list,
			json_pack("{ss sI sf so}", "method", is->name,
				"samples", (json_int_t)p->n, "time_of_other",
				b.time, "energy_of_other",
				number_json(b.energy)));
	}
	return list;
}

int tts_report(const struct tts *t, struct err *e)
{
	static void (*const make[TTS_TABLES])(
		const struct tts *, struct bench_table *) = {
		[TTS_PASS] = make_pass,
		[TTS_SPEED] = make_speed,
		[TTS_PHONES] = make_phones,
		[TTS_KERNELS] = tts_kernels,
		[TTS_SOFTMAX] = tts_softmax,
		[TTS_ATTENTION] = tts_attention,
		[TTS_BATCHES] = tts_batches,
		[TTS_PROMPTS] = tts_prompts,
		[TTS_MEMORY] = tts_memory,
	};
	const struct tts_args *a = t->args;
	const char *clock = run_options_clock(a->options);
	struct bench_table *table = calloc(TABLES, sizeof(*table));
	char caption[BENCH_CAPTION];
	unsigned n = 0; /* number of requested tables */
	int ret = 0;

	if (!table)
		return err_set(e, ENOMEM, "no memory for tables");
	clock = clock ? clock : "wall";
	for (; a->table[TTS_ACCURACY] && n < a->n_models; n++)
		make_accuracy(t, n, &table[n]);
	for (unsigned i = 0; i < TTS_TABLES; i++)
		if (a->table[i] && make[i] && (i < TTS_PAPER || t->on_phone))
			make[i](t, &table[n++]);
	if (t->n)
		snprintf(caption, sizeof(caption),
			"%zu items of %s, %u timed, temperature %g, clock %s",
			t->items.n, a->task, a->timed, a->temperature, clock);
	else
		snprintf(caption, sizeof(caption),
			"computed from shapes, clock %s", clock);
	if (a->form == BENCH_JSON) {
		ret = print_json(
			json_pack("{si ss ss ss sI sI sf so so}", "version", 1,
				"command", "bench tts", "clock", clock, "task",
				a->task, "items", (json_int_t)t->items.n,
				"timed", (json_int_t)a->timed, "temperature",
				a->temperature, "overtaking",
				overtaking_json(t), "tables",
				report_tables_json(table, n)),
			9, e);
	} else if (a->form == BENCH_CSV) {
		puts("table,name,of,figure,value");
		for (unsigned i = 0; i < n; i++)
			table_print_csv(&table[i], stdout);
	} else {
		printf("Test-time scaling: %s\n", caption);
		for (unsigned m = 0; t->n && m < a->n_models; m++)
			if (a->shape[m])
				printf("%s is priced as %s\n", a->model[m],
					a->shape[m]);
		for (unsigned i = 0; i < n; i++)
			table_print(&table[i], stdout);
		putchar('\n');
		if (t->n && a->n_models > 1)
			print_overtaking(t);
	}
	if (!ret && a->plot)
		ret = draw_all(t, table, n, caption, e);
	free(table);
	return ret;
}
