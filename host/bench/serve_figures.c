#include "host/bench/serve_figures.h"

#include "base/checked.h"
#include "host/bench/print_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- series -------------------------------------------------------------- */

void series_add(struct series *s, double value)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		double *v = reallocarray(s->value, cap, sizeof(*v));

		if (!v) {
			s->failed = true;
			return;
		}
		s->value = v;
		s->cap = cap;
	}
	s->value[s->n++] = value;
}

void series_release(struct series *s)
{
	free(s->value);
	*s = (struct series){ 0 };
}

static void series_join(struct series *all, const struct series *s)
{
	for (size_t i = 0; i < s->n; i++)
		series_add(all, s->value[i]);
	all->failed |= s->failed;
}

double series_mean(const struct series *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->value[i];
	return s->n ? sum / (double)s->n : (double)NAN;
}

double series_deviation(const struct series *s)
{
	double mean = series_mean(s), sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += (s->value[i] - mean) * (s->value[i] - mean);
	return s->n ? sqrt(sum / (double)s->n) : (double)NAN;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double series_percentile(struct series *s, double p)
{
	double at = p / 100 * (double)(s->n ? s->n - 1 : 0);
	size_t below = (size_t)at;

	if (!s->n)
		return (double)NAN;
	qsort(s->value, s->n, sizeof(*s->value), by_value);
	if (below + 1 >= s->n)
		return s->value[s->n - 1];
	return s->value[below] +
		(at - (double)below) * (s->value[below + 1] - s->value[below]);
}

/* ---- times --------------------------------------------------------------- */

static double ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return (double)(to_ns - from_ns) * 1e-6;
}

void serve_times_add(struct serve_times *t, const struct serve_answer *a)
{
	if (!a->pieces)
		return;
	series_add(&t->first, ms_between(a->sent_ns, a->first_ns));
	series_add(&t->whole, ms_between(a->sent_ns, a->last_ns));
	if (a->tokens > 1)
		series_add(&t->per_token,
			ms_between(a->first_ns, a->last_ns) /
				(double)(a->tokens - 1));
}

void serve_times_release(struct serve_times *t)
{
	series_release(&t->first);
	series_release(&t->per_token);
	series_release(&t->gap);
	series_release(&t->whole);
}

static void put(json_t *object, const char *which, const char *of, double value)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s_ms", which, of);
	json_object_set_new(object, name, number_json(value));
}

void serve_times_json(struct serve_times *t, json_t *object)
{
	const struct {
		const char *name;
		struct series *s;
	} all[] = {
		{ "ttft", &t->first },
		{ "tpot", &t->per_token },
		{ "itl", &t->gap },
		{ "e2el", &t->whole },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct series *s = all[i].s;

		put(object, "mean", all[i].name, series_mean(s));
		put(object, "median", all[i].name, series_percentile(s, 50));
		put(object, "std", all[i].name, series_deviation(s));
		put(object, "p90", all[i].name, series_percentile(s, 90));
		put(object, "p99", all[i].name, series_percentile(s, 99));
	}
}

/* ---- categories ---------------------------------------------------------- */

void serve_category_join(
	struct serve_category *all, const struct serve_category *c)
{
	all->prompts += c->prompts;
	all->failed += c->failed;
	all->turns += c->turns;
	all->drafted += c->drafted;
	all->accepted += c->accepted;
	series_join(&all->prompt_per_s, &c->prompt_per_s);
	series_join(&all->predicted_per_s, &c->predicted_per_s);
	series_join(&all->latency_s, &c->latency_s);
}

void serve_category_release(struct serve_category *c)
{
	series_release(&c->prompt_per_s);
	series_release(&c->predicted_per_s);
	series_release(&c->latency_s);
}

json_t *serve_category_json(const struct serve_category *c)
{
	double accept = c->drafted ? (double)c->accepted / (double)c->drafted
				   : (double)NAN;

	return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:I, s:I, s:o}",
		"category", c->name, "requests", (int)c->prompts, "turns",
		(int)c->turns, "failed", (int)c->failed, "avg_prompt_t_s",
		number_json(series_mean(&c->prompt_per_s)), "avg_pred_t_s",
		number_json(series_mean(&c->predicted_per_s)), "avg_latency",
		number_json(series_mean(&c->latency_s)), "draft_n",
		(json_int_t)c->drafted, "accepted", (json_int_t)c->accepted,
		"accept_rate", number_json(accept));
}
