/*
 * tandem bench texts: measures many concurrent requests, each with its own
 * prompt, through the library's API. Reports the time until all prompts are
 * processed, and the tokens/s of all requests together after that. Every round
 * measures each number of requests in turn, with one library handle, so that
 * other load on the machine affects all measurements alike.
 */
#include "host/bench/bench.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/median.h"
#include "base/rng.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/bench/bench_lists.h"
#include "host/bench/bench_machine.h"
#include "host/bench/bench_table.h"
#include "host/bench/print_json.h"
#include "host/bench/setting.h"
#include "host/eval/eval_tasks.h"
#include "host/model/model.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of tokens that each request generates, with random prompts */
#define TOKENS 24

/*
 * With the prompts of a task, ITEMS requests are measured. A request ends at
 * its EOS token or after ITEM_TOKENS tokens; the next request then starts, as
 * in a server.
 */
#define ITEMS       32
#define ITEM_TOKENS 64

/*
 * Seconds of the phase until all prompts are processed (read) and of the phase
 * after it (write), by the wall clock and by the phone's clock; and the number
 * of tokens emitted in the second phase. With the prompts of a task, the whole
 * run counts as the second phase.
 */
struct cost {
	double read_s, write_s, phone_read_s, phone_write_s, tokens;
};

struct bench_texts {
	const struct bench_args *args;
	unsigned rounds, n_counts;
	uint32_t count[BENCH_COUNTS], most;
	const char *clock;
	struct tandem *handle;
	uint32_t n_vocab;
	struct tandem_submitted *text[SAMPLES_PARALLEL];
	int32_t *token; /* [prompt] tokens of a random prompt */
	/* tasks that provide the prompts; tasks.n is 0 for random prompts */
	struct eval_tasks tasks;
	struct cost cost[BENCH_COUNTS][BENCH_ROUNDS_MAX];
	struct bench_table table;
};

/* ---- the handle ---------------------------------------------------------- */

static int failed(const struct bench_texts *b, struct err *e)
{
	if (b->handle)
		return tandem_failure(b->handle, e);
	return err_set(e, EIO, "%s", tandem_error(NULL));
}

static const char *method_of(const struct bench_texts *b)
{
	return b->args->method ? b->args->method : "autoregressive";
}

static int open_handle(struct bench_texts *b, struct err *e)
{
	const struct bench_args *a = b->args;
	char texts[16], threads[16];
	const struct {
		const char *name, *value;
	} options[] = {
		{ "texts", texts },
		{ "threads", threads },
		{ "clock", b->clock },
		{ "method", method_of(b) },
		{ "samples", a->samples },
		{ "draft", a->draft },
		{ "trace", a->trace },
	};
	struct setting s = { 0 };
	struct tandem_options o;
	struct tandem_report r;
	int ret = 0;

	snprintf(texts, sizeof(texts), "%u", b->most);
	snprintf(threads, sizeof(threads), "%u", a->threads);
	for (size_t i = 0; i < ARRAY_LEN(options) && !ret; i++)
		if (options[i].value)
			ret = setting_set(
				&s, options[i].name, options[i].value, e);
	tandem_options_init(&o, sizeof(o));
	o.model = a->model;
	o.set = (const char *const *)s.change;
	o.progress = a->progress.report;
	o.progress_arg = a->progress.arg;
	if (!ret &&
		(tandem_open(&b->handle, &o) ||
			tandem_start(b->handle, a->prompt + TOKENS)))
		ret = failed(b, e);
	setting_release(&s);
	if (ret)
		return ret;
	tandem_report(b->handle, &r);
	b->n_vocab = r.model->n_vocab;
	if (!r.shares)
		return err_set(e, EINVAL,
			"with this model, --method and --draft, requests "
			"cannot share passes; try another --method or --draft");
	b->token = malloc(a->prompt * sizeof(*b->token));
	if (!b->token)
		return err_set(e, ENOMEM, "no memory for a prompt");
	return a->task
		? eval_tasks_read(&b->tasks, a->task, EVAL_NEED_PROMPTS, e)
		: 0;
}

/* Submit the prompt of an item or, without a task, a prompt of random tokens;
 * no two random prompts share a prefix. */
static int submit(
	struct bench_texts *b, uint32_t item, uint32_t slot, struct err *e)
{
	const struct eval_items *items;
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	if (b->tasks.n) {
		items = &b->tasks.task[0].items;
		r.prompt = items->item[item % items->n].prompt;
		r.max_tokens = ITEM_TOKENS;
	} else {
		for (uint32_t k = 0; k < b->args->prompt; k++)
			b->token[k] =
				(int32_t)(rng_uniform(1, item, k) * b->n_vocab);
		r.tokens = b->token;
		r.n_tokens = b->args->prompt;
		r.max_tokens = TOKENS;
		r.flags = TANDEM_IGNORE_EOS;
	}
	return tandem_submit(b->handle, &r, &b->text[slot]) ? failed(b, e) : 0;
}

static void close_text(struct bench_texts *b, uint32_t slot)
{
	tandem_request_close(b->text[slot]);
	b->text[slot] = NULL;
}

/* ---- measuring ----------------------------------------------------------- */

static double phone_s(const struct bench_texts *b)
{
	struct tandem_report r;

	tandem_report(b->handle, &r);
	return (double)r.total.price.total_ps / 1e12;
}

static double wall_s(void)
{
	return (double)clock_ns() / 1e9;
}

/* Run ITEMS requests, n of them at a time. */
static int time_items(
	struct bench_texts *b, uint32_t n, struct cost *c, struct err *e)
{
	double wall = wall_s(), phone = phone_s(b);
	struct tandem_result r = { .size = sizeof(r) };
	uint32_t begun = 0, ended = 0;
	int ret = 0;

	*c = (struct cost){ 0 };
	while (ended < ITEMS && !ret) {
		for (uint32_t i = 0; i < n && begun < ITEMS && !ret; i++)
			if (!b->text[i])
				ret = submit(b, begun++, i, e);
		if (!ret && tandem_advance(b->handle, NULL))
			ret = failed(b, e);
		for (uint32_t i = 0; i < n && !ret; i++) {
			int state = b->text[i]
				? tandem_request_state(b->text[i], &r)
				: 1;

			if (state == 1)
				continue;
			if (state)
				ret = err_set(e, EIO, "%s",
					tandem_request_error(b->text[i]));
			c->tokens += (double)r.tokens;
			close_text(b, i);
			ended++;
		}
	}
	c->write_s = wall_s() - wall;
	c->phone_write_s = phone_s(b) - phone;
	for (uint32_t i = 0; i < n; i++)
		close_text(b, i);
	return ret;
}

/* Run n requests at a time. With random prompts, all requests start together;
 * measure the time until all prompts are processed, and the time from then
 * until all requests have ended. */
static int time_texts(
	struct bench_texts *b, uint32_t n, struct cost *c, struct err *e)
{
	struct tandem_result r = { .size = sizeof(r) };
	double wall, phone, first = 0;
	bool read = false;
	unsigned left = n;
	int ret = 0;

	if (b->tasks.n)
		return time_items(b, n, c, e);
	*c = (struct cost){ 0 };
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = submit(b, i, i, e);
	wall = wall_s();
	phone = phone_s(b);
	while (left && !ret) {
		/* number of tokens that all requests together have emitted */
		double sum = 0;
		bool all = true; /* whether each request has emitted a token */

		if (tandem_advance(b->handle, &left))
			ret = failed(b, e);
		for (uint32_t i = 0; i < n; i++) {
			tandem_request_state(b->text[i], &r);
			sum += (double)r.tokens;
			all &= r.tokens > 0;
		}
		c->tokens = sum - first;
		if (read || !all)
			continue;
		read = true;
		first = c->tokens;
		c->read_s = wall_s() - wall;
		c->phone_read_s = phone_s(b) - phone;
	}
	c->write_s = wall_s() - wall - c->read_s;
	c->phone_write_s = phone_s(b) - phone - c->phone_read_s;
	/* A request that fails does not stop the other requests, so check each
	 * request for an error. */
	for (uint32_t i = 0; i < n && !ret; i++)
		if (tandem_request_state(b->text[i], NULL))
			ret = err_set(
				e, EIO, "%s", tandem_request_error(b->text[i]));
	for (uint32_t i = 0; i < n; i++)
		close_text(b, i);
	return ret;
}

/* ---- report -------------------------------------------------------------- */

#define FIGURE(name, value)                                              \
	static double name(                                              \
		const struct bench_texts *b, unsigned i, unsigned round) \
	{                                                                \
		const struct cost *c = &b->cost[i][round];               \
                                                                         \
		return (void)c, (value);                                 \
	}

FIGURE(rate, c->tokens / c->write_s)
FIGURE(phone_rate, c->tokens / c->phone_write_s)
FIGURE(growth, rate(b, i, round) / rate(b, 0, round))
FIGURE(phone_growth, phone_rate(b, i, round) / phone_rate(b, 0, round))
FIGURE(read_time, c->read_s)
FIGURE(phone_read_time, c->phone_read_s)

struct figure {
	const char *key, *head;
	int decimals;
	double (*of)(const struct bench_texts *, unsigned i, unsigned round);
};

static const struct figure figures[] = {
	{ "prompts_s", "prompts s", 2, read_time },
	{ "tokens_per_s", "tokens/s", 1, rate },
	{ "growth", "grown", 2, growth },
	{ "phone_prompts_s", "phone: prompts s", 3, phone_read_time },
	{ "phone_tokens_per_s", "tokens/s", 1, phone_rate },
	{ "phone_growth", "grown", 2, phone_growth },
};

static const struct figure figures_of_items[] = {
	{ "tokens_per_s", "tokens/s", 1, rate },
	{ "growth", "grown", 2, growth },
	{ "phone_tokens_per_s", "phone: tokens/s", 1, phone_rate },
	{ "phone_growth", "grown", 2, phone_growth },
};

static int report(struct bench_texts *b, struct err *e)
{
	const struct figure *fs = b->tasks.n ? figures_of_items : figures;
	unsigned n =
		b->tasks.n ? ARRAY_LEN(figures_of_items) : ARRAY_LEN(figures);
	struct bench_table *t = &b->table;
	double all[BENCH_ROUNDS_MAX];

	*t = (struct bench_table){ .name = "texts",
		.title = "Several requests at a time",
		.note = b->tasks.n
			? "tokens/s: sum over all requests; the time includes "
			  "that of the prompts"
			: "prompts: time until all prompts are read. tokens/s: "
			  "after that, sum over all\nrequests.",
		.name_key = { "texts" } };
	for (unsigned f = 0; f < n; f++)
		table_add_column(t, fs[f].key, fs[f].head, fs[f].decimals, 1);
	for (unsigned i = 0; i < b->n_counts; i++) {
		char name[16];
		struct table_row *row;

		snprintf(name, sizeof(name), "%u", b->count[i]);
		row = table_add_row(t, name, NULL);
		for (unsigned f = 0; f < n; f++) {
			for (unsigned r = 0; r < b->rounds; r++)
				all[r] = fs[f].of(b, i, r);
			row->value[f] = median(all, b->rounds);
		}
	}
	if (b->args->json)
		return print_json(
			json_pack("{s:i, s:s, s:s, s:s, s:s?, s:i, s:i, s:i, "
				  "s:i, s:o}",
				"version", BENCH_JSON_VERSION, "bench", "texts",
				"clock", b->clock, "method", method_of(b),
				"task", b->args->task, "rounds", (int)b->rounds,
				"threads", (int)b->args->threads, "prompt",
				b->tasks.n ? 0 : (int)b->args->prompt, "tokens",
				b->tasks.n ? ITEM_TOKENS : TOKENS, "texts",
				table_json(t)),
			6, e);
	if (b->args->task)
		printf("%d prompts of %s, up to %d generated tokens", ITEMS,
			b->args->task, ITEM_TOKENS);
	else
		printf("Prompts of %u tokens, %d generated tokens",
			b->args->prompt, TOKENS);
	printf(", %s, %u threads, %s, medians of %u rounds\n", method_of(b),
		b->args->threads, b->clock + 4, b->rounds);
	table_print(t, stdout);
	return 0;
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_texts_main(const struct bench_args *args, struct err *e)
{
	struct bench_texts *b = calloc(1, sizeof(*b));
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	b->clock = args->clock ? args->clock : "soc:sd8gen3";
	b->rounds = args->rounds < BENCH_ROUNDS_MAX ? args->rounds
						    : BENCH_ROUNDS_MAX;
	ret = bench_counts("texts", args->texts ? args->texts : "1,4,16,32",
		"1,4,16,32", b->count, &b->n_counts, &b->most, e);
	if (!ret)
		ret = open_handle(b, e);
	if (!ret) {
		const struct progress_sink *p = &b->args->progress;
		struct cost first;

		ret = time_texts(b, 1, &first, e);
		progress_report(p, "measuring", 0, b->rounds);
		for (unsigned r = 0; r < b->rounds && !ret; r++) {
			for (unsigned i = 0; i < b->n_counts && !ret; i++)
				ret = time_texts(
					b, b->count[i], &b->cost[i][r], e);
			progress_report(p, "measuring", r + 1, b->rounds);
		}
		progress_report(p, NULL, 0, 0);
	}
	if (tandem_close(b->handle) && !ret)
		ret = err_set(e, EIO, "%s", tandem_error(NULL));
	free(b->token);
	if (!ret)
		ret = report(b, e);
	eval_tasks_release(&b->tasks);
	free(b);
	return ret;
}
