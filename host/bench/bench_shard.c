#include "host/bench/bench_shard.h"

#include "base/err.h"
#include "host/bench/bench_run.h"
#include "host/bench/print_json.h"
#include "host/eval/shard.h"
#include "host/eval/sums.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* number of engines of a phone's NPU: matrix, vector and memory engine */
#define ENGINES 3

/* ---- writing ------------------------------------------------------------- */

static json_t *figures_json(const struct figures *from)
{
	json_t *o = json_object(), *engines = json_array();

	FIGURES(SUMS_PUT)
	for (int i = 0; i < ENGINES; i++)
		json_array_append_new(
			engines, sums_integer(from->engine_ps[i]));
	json_object_set_new(o, "engine_ps", engines);
	json_object_set_new(o, "decode_rows", sums_of_rows(&from->decode_rows));
	json_object_set_new(o, "drafts", sums_of_drafts(&from->drafts));
	return o;
}

static json_t *run_json(const struct experiment *x, const struct run *r)
{
	json_t *run = json_object(), *changes = json_array(),
	       *tasks = json_array(), *items = json_array();

	for (unsigned i = 0; i < r->set.n; i++)
		json_array_append_new(changes, json_string(r->set.change[i]));
	for (unsigned t = 0; t < x->n_tasks; t++) {
		json_t *task = figures_json(&r->task[t]);
		json_t *rounds = json_array();

		for (unsigned i = 0; i < x->rounds; i++) {
			const struct round_sums *from = &r->round[t][i];
			json_t *o = json_object();

			ROUND_SUMS(SUMS_PUT)
			json_array_append_new(rounds, o);
		}
		json_object_set_new(task, "rounds", rounds);
		json_array_append_new(tasks, task);
	}
	for (size_t i = 0; i < x->n_items; i++) {
		const struct item_sums *from = &r->item[i];
		json_t *o = json_object();

		ITEM_SUMS(SUMS_PUT)
		json_array_append_new(items, o);
	}
	json_object_set_new(run, "items", items);
	json_object_set_new(run, "setting", changes);
	json_object_set_new(run, "phone_base_w", json_real(r->base_w));
	json_object_set_new(run, "tasks", tasks);
	return run;
}

int bench_shard_print(const struct bench_run *r, json_t *o, struct err *e)
{
	const struct experiment *x = &r->x;
	json_t *runs = json_array();

	for (unsigned i = 0; i < x->n_runs; i++)
		json_array_append_new(runs, run_json(x, x->run[i]));
	json_object_set_new(o, "runs", runs);
	json_object_set_new(o, "draft_file", json_string(r->pair.draft));
	json_object_set_new(
		o, "shard", shard_json(&r->opts->shard, r->opts->arguments));
	return print_json(o, 17, e);
}

/* ---- merging ------------------------------------------------------------- */

/* Add the figures in the JSON object `o` to *sum. Returns false if a member is
 * missing or has the wrong type. */
static bool add_figures(const json_t *o, struct figures *sum)
{
	const json_t *engines = json_object_get(o, "engine_ps");
	struct figures f = { 0 }, *to = &f;
	bool good = json_array_size(engines) == ENGINES &&
		sums_to_rows(
			json_object_get(o, "decode_rows"), &f.decode_rows) &&
		sums_to_drafts(json_object_get(o, "drafts"), &f.drafts);

	FIGURES(SUMS_GET)
	for (size_t i = 0; good && i < ENGINES; i++)
		f.engine_ps[i] = (uint64_t)json_integer_value(
			json_array_get(engines, i));
	figures_add(sum, &f);
	return good;
}

static bool add_rounds(const json_t *list, struct round_sums *sum, unsigned n)
{
	bool good = json_array_size(list) == n;

	for (size_t i = 0; good && i < n; i++, sum++) {
		const json_t *o = json_array_get(list, i);
		struct round_sums s = { 0 }, *to = &s, *more = &s;

		ROUND_SUMS(SUMS_GET)
		ROUND_SUMS(COUNTER_ADD)
	}
	return good;
}

static bool add_items(const json_t *list, struct item_sums *sum, size_t n)
{
	bool good = json_array_size(list) == n;

	for (size_t i = 0; good && i < n; i++, sum++) {
		const json_t *o = json_array_get(list, i);
		struct item_sums s = { 0 }, *to = &s, *more = &s;

		ITEM_SUMS(SUMS_GET)
		ITEM_SUMS(COUNTER_ADD)
	}
	return good;
}

/* Whether the JSON array `changes` has the same changes as setting *s. */
static bool same_setting(const json_t *changes, const struct setting *s)
{
	bool same = json_array_size(changes) == s->n;

	for (unsigned i = 0; same && i < s->n; i++) {
		const char *text =
			json_string_value(json_array_get(changes, i));

		same = text && !strcmp(text, s->change[i]);
	}
	return same;
}

static void copy_text(
	char *to, size_t size, const json_t *one, const char *member)
{
	const char *text = json_string_value(json_object_get(one, member));

	snprintf(to, size, "%s", text ? text : "");
}

int bench_shards_take(
	struct bench_run *r, const struct shards *all, struct err *e)
{
	struct pair_runner *pair = &r->pair;
	struct experiment *x = &r->x;
	int ret = experiment_room(x, e);

	if (ret)
		return ret;
	for (unsigned i = 0; i < all->n; i++) {
		const json_t *runs = json_object_get(all->one[i], "runs"),
			     *checks = json_object_get(all->one[i], "checks");
		uint64_t same_texts = 0, exact_reads = 0, exact_logits = 0;
		bool good = json_array_size(runs) == x->n_runs &&
			sums_number(checks, "same_texts", &same_texts) &&
			sums_number(checks, "exact_reads", &exact_reads) &&
			sums_number(checks, "exact_logits", &exact_logits);

		for (size_t k = 0; good && k < x->n_runs; k++) {
			const json_t *run = json_array_get(runs, k);
			const json_t *tasks = json_object_get(run, "tasks"),
				     *base_w = json_object_get(
					     run, "phone_base_w");

			good = json_array_size(tasks) == x->n_tasks &&
				json_is_number(base_w) &&
				same_setting(json_object_get(run, "setting"),
					&x->run[k]->set) &&
				add_items(json_object_get(run, "items"),
					x->run[k]->item, x->n_items);
			for (size_t t = 0; good && t < x->n_tasks; t++) {
				const json_t *task = json_array_get(tasks, t);

				good = add_figures(task, &x->run[k]->task[t]) &&
					add_rounds(
						json_object_get(task, "rounds"),
						x->run[k]->round[t], x->rounds);
			}
			/* Use the largest base power (base_w, the constant
			 * power that the phone draws) of the shards. The base
			 * power is 0 in a shard without items, which has not
			 * opened a model. */
			if (json_number_value(base_w) > x->run[k]->base_w)
				x->run[k]->base_w = json_number_value(base_w);
		}
		if (!good)
			return err_set(e, EINVAL,
				"'%s' does not contain the runs of this "
				"command line; make all shards with the same "
				"program version, command line and models",
				all->path[i]);
		x->same_texts += same_texts;
		x->exact_reads += exact_reads;
		x->exact_logits += exact_logits;
	}
	copy_text(pair->model, sizeof(pair->model), all->one[0], "model");
	copy_text(pair->draft, sizeof(pair->draft), all->one[0], "draft_file");
	copy_text(pair->priced, sizeof(pair->priced), all->one[0], "priced_as");
	return 0;
}
