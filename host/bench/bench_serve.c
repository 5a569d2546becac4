#include "host/bench/bench_serve.h"

#include "base/err.h"
#include "host/bench/bench.h"
#include "host/bench/bench_table.h"
#include "host/bench/print_json.h"
#include "host/bench/serve_client.h"
#include "host/bench/serve_process.h"
#include "host/eval/eval_tasks.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Default and largest value of the option --texts of `tandem serve`. */
#define TEXTS_DEFAULT 16
#define TEXTS_MAX     64

/* Results of one server with one number of clients. */
struct cell {
	struct serve_result result;
	/* number of passes of the model, and seconds on a phone's clock; NAN if
	 * the server does not report them */
	double passes, phone_s;
};

struct row {
	char model[128]; /* name of the model, as the server reports it */
	struct cell cell[SERVE_AT_MAX];
};

struct bench_serve {
	const struct bench_serve_args *args;
	/* items of the tasks; the elements of `prompt` point to the texts of
	 * these items */
	struct eval_items items[FIGURES_TASKS];
	const char *category[FIGURES_TASKS];
	unsigned n_categories;
	struct serve_prompt *prompt;
	size_t n_prompts;
	struct row row[SERVE_ROWS_MAX];
	struct bench_table table;
};

/* ---- prompts ------------------------------------------------------------- */

static int add_prompt(struct bench_serve *b, const struct eval_item *item,
	const char *otherwise, struct err *e)
{
	const char *said =
		json_string_value(json_object_get(item->line, "category"));
	/* Use the member "turns" only if there is no member "prompt". */
	const json_t *turns = json_object_get(item->line, "prompt")
		? NULL
		: json_object_get(item->line, "turns");
	const json_t *turn;
	struct serve_prompt *p =
		reallocarray(b->prompt, b->n_prompts + 1, sizeof(*p));
	size_t n = json_array_size(turns), i;
	unsigned c = 0;

	if (p)
		b->prompt = p;
	n = n ? n : 1;
	p = p ? &p[b->n_prompts++] : NULL;
	if (p)
		*p = (struct serve_prompt){ .n_turns = (unsigned)n,
			.turn = calloc(n, sizeof(*p->turn)) };
	if (!p || !p->turn)
		return err_set(e, ENOMEM, "no memory for prompts");
	p->turn[0] = item->prompt;
	json_array_foreach(turns, i, turn) p->turn[i] = json_string_value(turn);
	if (!said)
		said = otherwise;
	while (c < b->n_categories && strcmp(b->category[c], said))
		c++;
	if (c == FIGURES_TASKS)
		return err_set(e, EINVAL,
			"the prompts have more than %d categories; use fewer "
			"categories",
			FIGURES_TASKS);
	if (c == b->n_categories)
		b->category[b->n_categories++] = said;
	p->category = c;
	return 0;
}

static int add_items(struct bench_serve *b, const struct eval_items *items,
	const char *category, struct err *e)
{
	size_t n = items->n;
	int ret = 0;

	if (b->args->items && b->args->items < n)
		n = b->args->items;
	for (size_t i = 0; i < n && !ret; i++)
		ret = add_prompt(b, &items->item[i], category, e);
	return ret;
}

static int read_prompts(struct bench_serve *b, struct err *e)
{
	const struct bench_serve_args *a = b->args;
	int ret = 0;

	if (a->prompts) {
		ret = eval_items_read(
			&b->items[0], a->prompts, EVAL_NEED_PROMPTS, e);
		return ret ? ret : add_items(b, &b->items[0], "prompts", e);
	}
	for (unsigned i = 0; i < a->n_tasks && !ret; i++) {
		struct eval_tasks t = { 0 };

		ret = eval_tasks_read(&t, a->task[i], EVAL_NEED_PROMPTS, e);
		if (!ret) {
			b->items[i] = t.task[0].items;
			t.task[0].items = (struct eval_items){ 0 };
			ret = add_items(b, &b->items[i], a->task[i], e);
		}
		eval_tasks_release(&t);
	}
	return ret;
}

/* ---- measuring ----------------------------------------------------------- */

/* Read the counters of a server. Sets the counters to NAN if the server is not
 * Tandem. */
static int read_counters(const struct serve_target *t, double *passes,
	double *phone_s, struct err *e)
{
	json_t *state;
	int ret = serve_client_get(t, "/state", &state, e);
	const json_t *n = json_object_get(state, "passes_total");
	const json_t *s = json_object_get(state, "phone_seconds_total");

	*passes = n ? json_number_value(n) : (double)NAN;
	*phone_s = s ? json_number_value(s) : (double)NAN;
	json_decref(state);
	return ret;
}

static int measure(struct bench_serve *b, const struct serve_target *t,
	struct serve_load load, struct row *row, unsigned at, struct err *e)
{
	struct cell *c = &row->cell[at];
	double passes, phone_s, passes_after, phone_s_after;
	int ret = read_counters(t, &passes, &phone_s, e);

	load.clients = b->args->at[at];
	if (!ret)
		ret = serve_client_run(t, &load, &c->result, e);
	if (!ret)
		ret = read_counters(t, &passes_after, &phone_s_after, e);
	if (ret)
		return ret;
	c->passes += passes_after - passes;
	c->phone_s += phone_s_after - phone_s;
	return 0;
}

/* Send one request that is not counted, because the first request of a server
 * starts threads and fills CPU caches. */
static int warm_up(
	const struct serve_target *t, struct serve_load load, struct err *e)
{
	struct serve_category ignored[FIGURES_TASKS] = { 0 };
	struct serve_result r = { .category = ignored };
	int ret;

	load.n_prompts = load.clients = 1;
	ret = serve_client_run(t, &load, &r, e);
	if (!ret && r.failed)
		ret = err_set(
			e, EIO, "the first request failed: %s", r.failure);
	serve_times_release(&r.times);
	for (unsigned i = 0; i < FIGURES_TASKS; i++)
		serve_category_release(&ignored[i]);
	return ret;
}

static int measure_row(struct bench_serve *b, unsigned i, struct err *e)
{
	const struct bench_serve_args *a = b->args;
	struct serve_process p = { 0 };
	struct serve_target t = { .url = a->row[i] };
	struct row *row = &b->row[i];
	struct serve_load load = { .prompt = b->prompt,
		.n_prompts = b->n_prompts,
		.n_predict = a->n_predict,
		.chat = a->chat,
		.cancel = a->cancel };
	const char **option = NULL;
	uint32_t texts = TEXTS_DEFAULT;
	char number[16];
	size_t n = 0;
	int ret = 0, closed;
	struct err closing = { 0 };

	if (i < a->n_methods) {
		/*
		 * Every round sends the same prompts, so the server must not
		 * keep the KV caches of finished requests; otherwise later
		 * rounds would not compute the prompts. The server must also be
		 * able to run as many requests at a time as there are clients.
		 * The user's options come last, so that they override these two
		 * options.
		 */
		for (unsigned k = 0; k < a->n_at; k++)
			texts = a->at[k] > texts ? a->at[k] : texts;
		snprintf(number, sizeof(number), "%u",
			texts < TEXTS_MAX ? texts : TEXTS_MAX);
		option = calloc(a->n_options + 8, sizeof(*option));
		if (!option)
			return err_set(e, ENOMEM, "no memory for options");
		option[n++] = "--method";
		option[n++] = a->row[i];
		option[n++] = "--keep";
		option[n++] = "0";
		option[n++] = "--texts";
		option[n++] = number;
		if (a->model) {
			option[n++] = "--model";
			option[n++] = a->model;
		}
		for (size_t k = 0; k < a->n_options; k++)
			option[n++] = a->option[k];
		ret = serve_process_open(
			&p, a->row[i], option, n, a->cancel, e);
		t.url = "http://localhost";
		t.socket = p.socket;
	}
	if (!ret) {
		json_t *models;
		const char *name;

		ret = serve_client_get(&t, "/v1/models", &models, e);
		name = json_string_value(json_object_get(
			json_array_get(json_object_get(models, "data"), 0),
			"id"));
		snprintf(
			row->model, sizeof(row->model), "%s", name ? name : "");
		json_decref(models);
		load.model = *row->model ? row->model : NULL;
	}
	if (!ret)
		ret = warm_up(&t, load, e);
	for (unsigned k = 0; k < a->n_at && !ret; k++)
		ret = measure(b, &t, load, row, k, e);
	closed = serve_process_close(&p, a->row[i], &closing);
	if (closed && ret != -ECANCELED) {
		/* If the server has exited with an error, this error explains
		 * why requests failed: report it. */
		*e = closing;
		ret = closed;
	}
	free(option);
	if (ret && ret != -ECANCELED && i >= a->n_methods)
		err_in(e, "%s", a->row[i]);
	return ret;
}

/* ---- report -------------------------------------------------------------- */

static double per(double a, double b)
{
	return b > 0 ? a / b : (double)NAN;
}

/* Return the sums over all categories. */
static struct serve_category overall(
	const struct bench_serve *b, const struct serve_result *r)
{
	struct serve_category all = { .name = "overall" };

	for (unsigned i = 0; i < b->n_categories; i++)
		serve_category_join(&all, &r->category[i]);
	return all;
}

/* Print the JSON object of one server with one number of clients. The object
 * has the members of a result of `vllm bench serve`, the member "summary" of a
 * SPEED-Bench report, and a few more. */
static int print_cell(
	struct bench_serve *b, unsigned row, unsigned at, struct err *e)
{
	const struct bench_serve_args *a = b->args;
	struct cell *c = &b->row[row].cell[at];
	struct serve_result *r = &c->result;
	struct serve_category all = overall(b, r);
	unsigned completed = r->requests - r->failed;
	json_t *summary = json_array(), *o;

	for (unsigned i = 0; i < b->n_categories; i++)
		json_array_append_new(
			summary, serve_category_json(&r->category[i]));
	json_array_append_new(summary, serve_category_json(&all));
	o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:i, s:f, s:I, "
		      "s:I, s:I, s:I, s:I}",
		"version", BENCH_JSON_VERSION, "bench", "serve", "backend",
		a->chat ? "openai-chat" : "openai", "label", a->row[row],
		"model_id", b->row[row].model, "num_prompts",
		(json_int_t)(b->n_prompts * a->rounds), "max_concurrency",
		(json_int_t)a->at[at], "request_rate", "inf", "rounds",
		(int)a->rounds, "duration", r->seconds, "completed",
		(json_int_t)completed, "failed", (json_int_t)r->failed,
		"total_input_tokens", (json_int_t)r->prompt_tokens,
		"total_cached_tokens", (json_int_t)r->cached_tokens,
		"total_output_tokens", (json_int_t)r->tokens);
	json_object_set_new(o, "request_throughput",
		number_json(per(completed, r->seconds)));
	json_object_set_new(o, "output_throughput",
		number_json(per((double)r->tokens, r->seconds)));
	json_object_set_new(o, "total_token_throughput",
		number_json(per(
			(double)(r->tokens + r->prompt_tokens), r->seconds)));
	serve_times_json(&r->times, o);
	if (all.drafted) {
		json_object_set_new(o, "spec_decode_acceptance_rate",
			number_json(100 *
				per((double)all.accepted,
					(double)all.drafted)));
		json_object_set_new(o, "spec_decode_draft_tokens",
			json_integer((json_int_t)all.drafted));
		json_object_set_new(o, "spec_decode_accepted_tokens",
			json_integer((json_int_t)all.accepted));
	}
	json_object_set_new(o, "tokens_per_pass",
		number_json(per((double)r->tokens, c->passes)));
	json_object_set_new(o, "phone_s_per_token",
		number_json(c->phone_s > 0 ? per(c->phone_s, (double)r->tokens)
					   : (double)NAN));
	json_object_set_new(o, "summary", summary);
	serve_category_release(&all);
	return print_json(o, 9, e);
}

static void print_table(struct bench_serve *b)
{
	const struct bench_serve_args *a = b->args;
	struct bench_table *t = &b->table;

	*t = (struct bench_table){ .name = "serve",
		.title = "Servers under load",
		.note = "times: tok/s divided by that of the first row with "
			"the same number of clients.\nfirst: ms until the "
			"first text. ms/tok: ms for each later token, median.\n"
			"accept%: share of the drafted tokens that are "
			"accepted. phone ms: simulated\nphone time per token, "
			"with --clock.",
		.name_key = { "server", "clients" } };
	table_add_column(t, "output_throughput", "tok/s", 1, 1);
	table_add_column(t, "times", "times", 2, 1);
	table_add_column(t, "request_throughput", "req/s", 2, 1);
	table_add_column(t, "p50_ttft_ms", "first p50", 1, 1);
	table_add_column(t, "p90_ttft_ms", "p90", 1, 1);
	table_add_column(t, "p99_ttft_ms", "p99", 1, 1);
	table_add_column(t, "median_tpot_ms", "ms/tok", 2, 1);
	table_add_column(t, "accept_rate", "accept%", 1, 100);
	table_add_column(t, "tokens_per_pass", "tok/pass", 2, 1);
	table_add_column(t, "phone_s_per_token", "phone ms", 3, 1e3);
	for (unsigned i = 0; i < a->n_rows; i++)
		for (unsigned k = 0; k < a->n_at; k++) {
			struct cell *c = &b->row[i].cell[k];
			const struct serve_result *first =
				&b->row[0].cell[k].result;
			struct serve_result *r = &c->result;
			struct serve_category all = overall(b, r);
			char clients[16];
			double *v;

			snprintf(clients, sizeof(clients), "%u", a->at[k]);
			v = table_add_row(t, a->row[i], clients)->value;
			*v++ = per((double)r->tokens, r->seconds);
			*v++ = per(per((double)r->tokens, r->seconds),
				per((double)first->tokens, first->seconds));
			*v++ = per(r->requests - r->failed, r->seconds);
			*v++ = series_percentile(&r->times.first, 50);
			*v++ = series_percentile(&r->times.first, 90);
			*v++ = series_percentile(&r->times.first, 99);
			*v++ = series_percentile(&r->times.per_token, 50);
			*v++ = all.drafted
				? per((double)all.accepted, (double)all.drafted)
				: (double)NAN;
			*v++ = per((double)r->tokens, c->passes);
			*v++ = c->phone_s > 0
				? per(c->phone_s, (double)r->tokens)
				: (double)NAN;
			serve_category_release(&all);
		}
	printf("%zu prompts of %u categor%s, at most %u tokens each, %u "
	       "round%s\n",
		b->n_prompts, b->n_categories,
		b->n_categories == 1 ? "y" : "ies", a->n_predict, a->rounds,
		a->rounds == 1 ? "" : "s");
	table_print(t, stdout);
}

/* ---- the benchmark ------------------------------------------------------- */

/* Return result i. The results are ordered by server; the results of one server
 * are ordered as the numbers of clients in args->at. */
static struct serve_result *result_at(struct bench_serve *b, unsigned i)
{
	return &b->row[i / b->args->n_at].cell[i % b->args->n_at].result;
}

int bench_serve(const struct bench_serve_args *args, struct err *e)
{
	struct bench_serve *b = calloc(1, sizeof(*b));
	uint64_t done = 0, all = (uint64_t)args->rounds * args->n_rows;
	unsigned n_cells = args->n_rows * args->n_at;
	int ret;

	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	ret = serve_client_load(e);
	if (!ret)
		ret = read_prompts(b, e);
	for (unsigned i = 0; i < n_cells && !ret; i++) {
		struct serve_result *r = result_at(b, i);

		r->category = calloc(b->n_categories, sizeof(*r->category));
		if (!r->category)
			ret = err_set(e, ENOMEM, "no memory for figures");
		for (unsigned c = 0; r->category && c < b->n_categories; c++)
			r->category[c].name = b->category[c];
	}
	for (unsigned k = 0; k < args->n_at && !ret; k++)
		if (args->at[k] > b->n_prompts)
			ret = err_set(e, EINVAL,
				"%u clients need at least as many prompts, but "
				"there are only %zu; try more prompts "
				"(--items) or fewer clients (--at)",
				args->at[k], b->n_prompts);
	for (unsigned r = 0; r < args->rounds && !ret; r++)
		for (unsigned i = 0; i < args->n_rows && !ret; i++) {
			progress_report(
				&args->progress, "measuring", done++, all);
			ret = measure_row(b, i, e);
		}
	progress_report(&args->progress, NULL, 0, 0);
	if (!ret && !args->json)
		print_table(b);
	for (unsigned i = 0; i < n_cells && args->json && !ret; i++)
		ret = print_cell(b, i / args->n_at, i % args->n_at, e);
	for (unsigned i = 0; i < n_cells && !ret; i++) {
		const struct serve_result *r = result_at(b, i);

		if (r->failed)
			ret = err_set(e, EIO,
				"%s with %u clients: %u of %u requests failed; "
				"the first error: %s",
				args->row[i / args->n_at],
				args->at[i % args->n_at], r->failed,
				r->requests, r->failure);
	}

	for (unsigned i = 0; i < n_cells; i++) {
		struct serve_result *r = result_at(b, i);

		for (unsigned c = 0; r->category && c < b->n_categories; c++)
			serve_category_release(&r->category[c]);
		free(r->category);
		serve_times_release(&r->times);
	}
	for (size_t i = 0; i < b->n_prompts; i++)
		free(b->prompt[i].turn);
	free(b->prompt);
	for (unsigned i = 0; i < FIGURES_TASKS; i++)
		eval_items_release(&b->items[i]);
	free(b);
	return ret;
}
