#include "host/cmd/eval_report.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/cmd/json_text.h"
#include "host/cmd/report_parts.h"
#include "host/eval/eval_tasks.h"
#include "host/eval/shard.h"
#include "host/eval/sums.h"
#include "host/model/model.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JSON_VERSION 1

static double tokens_per_s(const struct eval_result *r)
{
	return r->ns ? (double)r->tokens * 1e9 / (double)r->ns : 0;
}

/* Times and energy on the phone that --clock names. */
struct phone {
	double total_s, tokens_per_s, energy_j, energy_per_token_j;
};

static struct phone phone_of(
	const struct eval_subject *of, const struct eval_result *r)
{
	double s = (double)r->phone_ps * 1e-12, n = (double)r->tokens;
	double joules = (double)r->phone_pj * 1e-12 + of->base_w * s;

	return (struct phone){ s, s > 0 ? n / s : 0, joules,
		n > 0 ? joules / n : 0 };
}

/* Return the mean accuracy over the tasks. Each task has the same weight,
 * regardless of its number of items. */
static double mean_accuracy(const struct eval_report *rep)
{
	double sum = 0;

	for (size_t i = 0; i < rep->n; i++)
		sum += eval_accuracy(&rep->result[i].all);
	return rep->n ? sum / (double)rep->n : 0;
}

struct eval_subject eval_subject_of(
	const struct tandem_report *r, const struct eval_opts *o)
{
	const struct soc *soc = r->pair->soc;
	struct eval_subject of = { .model = r->model_path,
		.arch = r->model->arch,
		.method = r->method,
		.precision = precision_names[r->pair->precision],
		.draft_model = r->needs_draft ? r->drafter_path : NULL,
		.drafter = r->needs_draft ? r->drafter : NULL,
		.clock = soc ? r->pair->clock : NULL,
		.base_w = soc ? soc->base_w : 0,
		.temperature = o->sampling.temperature,
		.seed = o->sampling.seed,
		.n_predict = o->n_predict };

	memcpy(of.priced_as, r->priced_as, sizeof(of.priced_as));
	return of;
}

/* ---- text ---------------------------------------------------------------- */

void eval_head_text(const struct eval_subject *of, bool marked, FILE *f)
{
	if (of->priced_as[0])
		fprintf(f, "priced as %s\n", of->priced_as);
	if (marked)
		fprintf(f, "%-12s %13s %9s  %-16s", "task", "right", "accuracy",
			"95 % interval");
	else
		fprintf(f, "%-12s %9s", "file", "prompts");
	fprintf(f, " %8s %9s%s%s\n", "tokens", "tokens/s",
		of->clock ? "  phone tokens/s  mJ/token" : "",
		of->drafter ? "  accepted length" : "");
}

static void print_tally(const char *name, const struct eval_tally *t, FILE *f)
{
	double low, high;

	eval_interval(t, &low, &high);
	fprintf(f,
		"%-12s %5" PRIu64 " / %5" PRIu64 " %7.1f %%  "
		"%5.1f to %5.1f %%",
		name, t->right, t->total, 100 * eval_accuracy(t), 100 * low,
		100 * high);
}

void eval_row_text(
	const struct eval_subject *of, const struct eval_result *r, FILE *f)
{
	if (r->marked)
		print_tally(r->task, &r->all, f);
	else
		fprintf(f, "%-12s %9" PRIu64, r->task, r->all.total);
	fprintf(f, " %8" PRIu64 " %9.1f", r->tokens, tokens_per_s(r));
	if (of->clock) {
		struct phone p = phone_of(of, r);

		fprintf(f, "  %14.2f  %8.2f", p.tokens_per_s,
			1e3 * p.energy_per_token_j);
	}
	if (of->drafter)
		fprintf(f, " %16.2f", method_accepted_length(&r->drafts));
	fputc('\n', f);
	for (unsigned i = 1; i < EVAL_LEVELS; i++) {
		char name[16];

		if (!r->level[i].total)
			continue;
		snprintf(name, sizeof(name), "  level %u", i);
		print_tally(name, &r->level[i], f);
		fputc('\n', f);
	}
}

void eval_mean_text(const struct eval_report *rep, FILE *f)
{
	if (rep->n && !rep->result[0].marked)
		fputs("these prompts have no expected answers, so nothing is "
		      "marked right or wrong\n",
			f);
	if (rep->complete && rep->n > 1)
		fprintf(f, "mean of %-4zu %13s %7.1f %%\n", rep->n, "",
			100 * mean_accuracy(rep));
}

/* ---- JSON ---------------------------------------------------------------- */

/* Add the tally to an object. If the items have no expected answers (`marked`
 * is false), members that need expected answers are null. */
static void put_tally(json_t *o, const struct eval_tally *t, bool marked)
{
	double low, high;

	eval_interval(t, &low, &high);
	put_u64(o, "items", t->total);
	json_object_set_new(o, "right",
		marked ? json_integer((json_int_t)t->right) : json_null());
	json_object_set_new(o, "accuracy",
		marked ? json_real(eval_accuracy(t)) : json_null());
	json_object_set_new(o, "interval_95",
		marked ? json_pack("[ff]", low, high) : json_null());
}

/* Return the counters of a result as a JSON object for the report of a shard,
 * or NULL if out of memory. */
static json_t *sums_json(const struct eval_result *from)
{
	json_t *o = json_object();
	json_t *tallies = json_pack("[[I, I]]", (json_int_t)from->all.right,
		(json_int_t)from->all.total);

	for (unsigned i = 0; i < EVAL_LEVELS; i++)
		json_array_append_new(tallies,
			json_pack("[I, I]", (json_int_t)from->level[i].right,
				(json_int_t)from->level[i].total));
	json_object_set_new(o, "marked", json_boolean(from->marked));
	json_object_set_new(o, "tallies", tallies);
	EVAL_SUMS(SUMS_PUT)
	/* Store the hash as two numbers of 32 bits, because a JSON integer in
	 * Jansson has only 63 bits plus sign. */
	json_object_set_new(o, "logits_hash",
		json_pack("[I, I]", (json_int_t)(from->logits_hash >> 32),
			(json_int_t)(from->logits_hash & UINT32_MAX)));
	json_object_set_new(o, "decode_rows", sums_of_rows(&from->decode_rows));
	json_object_set_new(o, "drafts", sums_of_drafts(&from->drafts));
	return o;
}

static json_t *task_json(
	const struct eval_report *rep, const struct eval_result *r)
{
	json_t *o = json_object(), *levels = json_array();

	put_str(o, "task", r->task);
	put_str(o, "file", r->path);
	if (!r->marked)
		json_object_set_new(o, "marked", json_false());
	put_tally(o, &r->all, r->marked);
	for (unsigned i = 1; i < EVAL_LEVELS; i++) {
		json_t *level;

		if (!r->level[i].total)
			continue;
		level = json_pack("{si}", "level", (int)i);
		put_tally(level, &r->level[i], true);
		json_array_append_new(levels, level);
	}
	json_object_set_new(o, "levels", levels);
	put_u64(o, "generated_tokens", r->tokens);
	if (r->sampled)
		put_u64(o, "sampled_tokens", r->sampled);
	put_u64(o, "passes", r->passes);
	json_object_set_new(o, "decode_rows", rows_json(&r->decode_rows));
	put_real(o, "total_s", (double)r->ns * 1e-9);
	put_real(o, "tokens_per_s", tokens_per_s(r));
	if (rep->subject.clock) {
		struct phone p = phone_of(&rep->subject, r);
		json_t *phone = json_object();

		put_str(phone, "clock", rep->subject.clock);
		put_real(phone, "total_s", p.total_s);
		put_real(phone, "tokens_per_s", p.tokens_per_s);
		put_real(phone, "energy_j", p.energy_j);
		put_real(phone, "energy_per_token_j", p.energy_per_token_j);
		put_u64(phone, "total_ps", r->phone_ps);
		json_object_set_new(o, "phone", phone);
	}
	if (rep->subject.drafter) {
		put_drafts(o, &r->drafts);
		put_real(o, "draft_time_share",
			r->ns ? (double)r->drafts.draft_ns / (double)r->ns : 0);
	}
	if (rep->shard)
		json_object_set_new(o, "sums", sums_json(r));
	return o;
}

int eval_json(const struct eval_report *rep, FILE *f)
{
	const struct eval_subject *of = &rep->subject;
	json_t *o = json_object(), *tasks = json_array();
	uint64_t sum = 0;
	char hash[17];

	if (of->priced_as[0])
		put_str(o, "priced_as", of->priced_as);
	put_u64(o, "version", JSON_VERSION);
	put_str(o, "command", "eval");
	put_str(o, "model", of->model);
	put_str(o, "arch", of->arch);
	put_str(o, "method", of->method);
	if (of->drafter) {
		put_str(o, "draft_model", of->draft_model);
		put_str(o, "drafter", of->drafter);
	}
	put_str(o, "precision", of->precision);
	put_u64(o, "predict", of->n_predict);
	put_real(o, "temperature", of->temperature);
	put_u64(o, "seed", of->seed);
	if (rep->shard) {
		json_object_set(o, "shard", rep->shard);
		put_real(o, "phone_base_w", of->base_w);
	}
	for (size_t i = 0; i < rep->n; i++) {
		json_array_append_new(tasks, task_json(rep, &rep->result[i]));
		sum += rep->result[i].logits_hash;
	}
	json_object_set_new(o, "tasks", tasks);
	/* `sum` is the sum of the tasks' hashes. Runs with equal logits have
	 * equal hashes. */
	snprintf(hash, sizeof(hash), "%016" PRIx64, sum);
	put_str(o, "logits_hash", hash);
	json_object_set_new(o, "mean_accuracy",
		rep->complete && rep->result[0].marked
			? json_real(mean_accuracy(rep))
			: json_null());
	json_object_set_new(o, "complete", json_boolean(rep->complete));
	put_str(o, "error", rep->error);
	return json_print(o, rep->shard ? 17 : 9, f);
}

/* ---- shards -------------------------------------------------------------- */

/* Read an array of two numbers. Returns false if the value is not such an
 * array. */
static bool read_pair(const json_t *pair, uint64_t *a, uint64_t *b)
{
	json_int_t first, second;

	if (json_unpack((json_t *)(uintptr_t)pair, "[II!]", &first, &second) ||
		first < 0 || second < 0)
		return false;
	*a = (uint64_t)first;
	*b = (uint64_t)second;
	return true;
}

/* Read into *to the counters that sums_json() has written. Does not change
 * to->task and to->path. Returns false if a member is missing or invalid. */
static bool read_sums(const json_t *o, struct eval_result *to)
{
	const json_t *marked = json_object_get(o, "marked"),
		     *tallies = json_object_get(o, "tallies");
	uint64_t high, low;
	bool good = json_is_boolean(marked) &&
		json_array_size(tallies) == EVAL_LEVELS + 1;

	for (unsigned i = 0; good && i <= EVAL_LEVELS; i++) {
		struct eval_tally *t = i ? &to->level[i - 1] : &to->all;

		good = read_pair(json_array_get(tallies, i), &t->right,
			       &t->total) &&
			t->right <= t->total;
	}
	if (!good ||
		!read_pair(json_object_get(o, "logits_hash"), &high, &low) ||
		!sums_to_rows(
			json_object_get(o, "decode_rows"), &to->decode_rows) ||
		!sums_to_drafts(json_object_get(o, "drafts"), &to->drafts))
		return false;
	to->marked = json_is_true(marked);
	to->logits_hash = high << 32 | low;
	EVAL_SUMS(SUMS_GET)
	return good;
}

static int damaged(const struct shards *all, unsigned i, struct err *e)
{
	return err_set(e, EINVAL,
		"'%s' is a damaged shard; run its command "
		"again",
		all->path[i]);
}

static int number(const struct shards *all, const char *member, double *out,
	struct err *e)
{
	const json_t *v;
	int ret = shards_common(all, member, &v, e);

	*out = json_number_value(v);
	return ret || json_is_number(v) ? ret : damaged(all, 0, e);
}

static int take_subject(
	struct eval_subject *of, const struct shards *all, struct err *e)
{
	const json_t *first = all->one[0], *task;
	const char *priced = NULL;
	double seed, predict;
	const struct {
		const char *member, **to;
		bool must, is_file;
	} texts[] = { { "model", &of->model, true, true },
		{ "arch", &of->arch, true, false },
		{ "method", &of->method, true, false },
		{ "precision", &of->precision, true, false },
		{ "draft_model", &of->draft_model, false, true },
		{ "drafter", &of->drafter, false, true },
		{ "priced_as", &priced, false, true } };
	int ret;

	if ((ret = number(all, "phone_base_w", &of->base_w, e)) ||
		(ret = number(all, "temperature", &of->temperature, e)) ||
		(ret = number(all, "seed", &seed, e)) ||
		(ret = number(all, "predict", &predict, e)))
		return ret;
	if (!(seed >= 0 && seed <= 1ll << 53) ||
		!(predict >= 0 && predict <= INT32_MAX))
		return damaged(all, 0, e);
	of->seed = (uint64_t)seed;
	of->n_predict = (uint32_t)predict;
	/* The paths of files may differ between machines, so report the paths
	 * of the first shard. All other strings must be equal in all shards. */
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const json_t *v = json_object_get(first, texts[i].member);

		ret = texts[i].is_file
			? 0
			: shards_common(all, texts[i].member, &v, e);
		if (ret)
			return ret;
		*texts[i].to = json_string_value(v);
		if (!*texts[i].to && (v || texts[i].must))
			return damaged(all, 0, e);
	}
	if (priced && strlen(priced) < sizeof(of->priced_as))
		memcpy(of->priced_as, priced, strlen(priced) + 1);
	task = json_array_get(json_object_get(first, "tasks"), 0);
	of->clock = json_string_value(
		json_object_get(json_object_get(task, "phone"), "clock"));
	return 0;
}

int eval_report_merge(
	struct eval_report *rep, const struct shards *all, struct err *e)
{
	size_t n = json_array_size(json_object_get(all->one[0], "tasks"));
	int ret;

	*rep = (struct eval_report){ .complete = true };
	if (!n || n > EVAL_TASKS)
		return damaged(all, 0, e);
	ret = take_subject(&rep->subject, all, e);
	if (ret)
		return ret;
	rep->result = calloc(n, sizeof(*rep->result));
	if (!rep->result)
		return err_set(e, ENOMEM, "no memory for %zu tasks", n);
	rep->n = n;
	for (unsigned i = 0; i < all->n; i++) {
		const json_t *tasks = json_object_get(all->one[i], "tasks");

		if (json_array_size(tasks) != n)
			return damaged(all, i, e);
		for (size_t k = 0; k < n; k++) {
			const json_t *task = json_array_get(tasks, k);
			const json_t *sums = json_object_get(task, "sums");
			struct eval_result *sum = &rep->result[k];
			struct eval_result more = { 0 };

			more.task = json_string_value(
				json_object_get(task, "task"));
			more.path = json_string_value(
				json_object_get(task, "file"));
			if (!more.task || !more.path ||
				!read_sums(sums, &more) ||
				(sum->task && strcmp(sum->task, more.task)))
				return damaged(all, i, e);
			if (!sum->task) {
				sum->task = more.task;
				sum->path = more.path;
			}
			eval_result_add(sum, &more);
		}
	}
	return 0;
}
