#include "host/cmd/eval_report.h"

#include "host/api/options.h"
#include "host/cmd/eval_sums.h"
#include "host/cmd/json_text.h"
#include "host/cmd/rows_json.h"
#include "host/model/model.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define JSON_VERSION 1

static double tokens_per_s(const struct eval_result *r)
{
	return r->ns ? (double)r->tokens * 1e9 / (double)r->ns : 0;
}

/* The same on the phone that --clock names. */
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

/* Every task counts the same, whatever its number of items. */
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

/* ---- for people ---------------------------------------------------------- */

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
		fputs("prompts alone, without answers: nothing to be right "
		      "about\n",
			f);
	if (rep->complete && rep->n > 1)
		fprintf(f, "mean of %-4zu %13s %7.1f %%\n", rep->n, "",
			100 * mean_accuracy(rep));
}

/* ---- for programs ---------------------------------------------------------
 */

/* Prompts alone have the same members, and null where none can be told. */
static void put_tally(json_t *o, const struct eval_tally *t, bool marked)
{
	double low, high;

	eval_interval(t, &low, &high);
	json_object_set_new(o, "items", json_integer((json_int_t)t->total));
	json_object_set_new(o, "right",
		marked ? json_integer((json_int_t)t->right) : json_null());
	json_object_set_new(o, "accuracy",
		marked ? json_real(eval_accuracy(t)) : json_null());
	json_object_set_new(o, "interval_95",
		marked ? json_pack("[ff]", low, high) : json_null());
}

static json_t *levels_json(const struct eval_result *r)
{
	json_t *list = json_array();

	for (unsigned i = 1; i < EVAL_LEVELS; i++) {
		json_t *level;

		if (!r->level[i].total)
			continue;
		level = json_pack("{si}", "level", (int)i);
		put_tally(level, &r->level[i], true);
		json_array_append_new(list, level);
	}
	return list;
}

static void put_phone(
	json_t *o, const struct eval_subject *of, const struct eval_result *r)
{
	struct phone p = phone_of(of, r);
	json_t *phone = json_object();

	json_object_set_new(phone, "clock", json_string(of->clock));
	json_object_set_new(phone, "total_s", json_real(p.total_s));
	json_object_set_new(phone, "tokens_per_s", json_real(p.tokens_per_s));
	json_object_set_new(phone, "energy_j", json_real(p.energy_j));
	json_object_set_new(
		phone, "energy_per_token_j", json_real(p.energy_per_token_j));
	json_object_set_new(
		phone, "total_ps", json_integer((json_int_t)r->phone_ps));
	json_object_set_new(o, "phone", phone);
}

static json_t *task_json(
	const struct eval_report *rep, const struct eval_result *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "task", json_ctext(r->task));
	json_object_set_new(o, "file", json_ctext(r->path));
	if (!r->marked)
		json_object_set_new(o, "marked", json_false());
	put_tally(o, &r->all, r->marked);
	json_object_set_new(o, "levels", levels_json(r));
	json_object_set_new(
		o, "generated_tokens", json_integer((json_int_t)r->tokens));
	if (r->sampled)
		json_object_set_new(o, "sampled_tokens",
			json_integer((json_int_t)r->sampled));
	json_object_set_new(o, "passes", json_integer((json_int_t)r->passes));
	json_object_set_new(o, "decode_rows", rows_json(&r->decode_rows));
	json_object_set_new(o, "total_s", json_real((double)r->ns * 1e-9));
	json_object_set_new(o, "tokens_per_s", json_real(tokens_per_s(r)));
	if (rep->subject.clock)
		put_phone(o, &rep->subject, r);
	if (rep->subject.drafter) {
		put_drafts(o, &r->drafts);
		json_object_set_new(o, "draft_time_share",
			json_real(r->ns ? (double)r->drafts.draft_ns /
						(double)r->ns
					: 0));
	}
	if (rep->shard)
		json_object_set_new(o, "sums", eval_sums_json(r));
	return o;
}

static void put_subject(json_t *o, const struct eval_subject *of)
{
	json_object_set_new(o, "model", json_ctext(of->model));
	json_object_set_new(o, "arch", json_string(of->arch));
	json_object_set_new(o, "method", json_string(of->method));
	if (of->drafter) {
		json_object_set_new(
			o, "draft_model", json_ctext(of->draft_model));
		json_object_set_new(o, "drafter", json_ctext(of->drafter));
	}
	json_object_set_new(o, "precision", json_string(of->precision));
	json_object_set_new(o, "predict", json_integer(of->n_predict));
	json_object_set_new(o, "temperature", json_real(of->temperature));
	json_object_set_new(o, "seed", json_integer((json_int_t)of->seed));
}

/* Two runs that must be the same have the same. */
static void put_hash(json_t *o, const struct eval_report *rep)
{
	uint64_t sum = 0;
	char hash[17];

	for (size_t i = 0; i < rep->n; i++)
		sum += rep->result[i].logits_hash;
	snprintf(hash, sizeof(hash), "%016" PRIx64, sum);
	json_object_set_new(o, "logits_hash", json_string(hash));
}

static void put_shard(json_t *o, const struct eval_report *rep)
{
	json_object_set(o, "shard", rep->shard);
	json_object_set_new(o, "phone_base_w", json_real(rep->subject.base_w));
}

int eval_json(const struct eval_report *rep, FILE *f)
{
	json_t *o = json_object(), *tasks = json_array();
	int ret;

	if (rep->subject.priced_as[0])
		json_object_set_new(
			o, "priced_as", json_ctext(rep->subject.priced_as));
	json_object_set_new(o, "version", json_integer(JSON_VERSION));
	json_object_set_new(o, "command", json_string("eval"));
	put_subject(o, &rep->subject);
	if (rep->shard)
		put_shard(o, rep);
	for (size_t i = 0; i < rep->n; i++)
		json_array_append_new(tasks, task_json(rep, &rep->result[i]));
	json_object_set_new(o, "tasks", tasks);
	put_hash(o, rep);
	json_object_set_new(o, "mean_accuracy",
		rep->complete && rep->result[0].marked
			? json_real(mean_accuracy(rep))
			: json_null());
	json_object_set_new(o, "complete", json_boolean(rep->complete));
	json_object_set_new(
		o, "error", rep->error ? json_ctext(rep->error) : json_null());
	ret = o ? json_dumpf(o, f,
			  JSON_COMPACT |
				  JSON_REAL_PRECISION(rep->shard ? 17 : 9))
		: -1;
	json_decref(o);
	if (ret || fputc('\n', f) == EOF)
		return o ? -EIO : -ENOMEM;
	return 0;
}
