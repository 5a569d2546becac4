/* Metrics of the server, for Prometheus (/metrics) and for the server's own web
 * page (/state). */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/server_impl.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum metric_type { COUNTER, COUNTER_REAL, GAUGE, GAUGE_REAL, HISTOGRAM };

/* A copy of the state of an engine, or the sum of the states of several
 * engines, with values derived from the state. Metrics are formatted from the
 * copy, so that the lock is not held meanwhile. */
struct shown {
	struct engine_state now;
	uint64_t waiting, clients_waiting, running, lost, memory;
	double prompt_rate, decode_rate;
	char model[128];
	const char *method;
	json_t *options; /* options that requests chose; owned */
	enum engine_phase phase;
};

struct metric {
	const char *name, *help;
	enum metric_type type;
	size_t at; /* offset in struct shown */
	/* The metric has TANDEM_POSITIONS values, one for each distance of a
	 * drafted token from the last token of the text before the draft. */
	bool by_position;
};

#define AT(field) offsetof(struct shown, field)

/* clang-format off */
static const struct metric metrics[] = {
	{ "answers_total", "accepted requests for generated text",
		COUNTER, AT(now.answers) },
	{ "texts_canceled_total", "texts canceled because the client has "
		"disconnected",
		COUNTER, AT(now.canceled) },
	{ "answers_failed_total", "failed requests for generated text",
		COUNTER, AT(now.failed) },
	{ "deadlines_missed_total", "requests that were not complete within "
		"their timeout", COUNTER, AT(now.late) },
	{ "texts_waiting", "texts in the queue", GAUGE, AT(waiting) },
	{ "clients_waiting", "clients that have texts in the queue", GAUGE,
		AT(clients_waiting) },
	{ "texts_under_way", "texts that are being generated", GAUGE,
		AT(running) },
	{ "prompt_tokens_total", "prompt tokens, cached ones included",
		COUNTER, AT(now.prompt_tokens) },
	{ "prompt_cached_tokens_total",
		"prompt tokens whose keys and values were in the cache",
		COUNTER, AT(now.cached_tokens) },
	{ "prompt_seconds_total", "time of prefill",
		COUNTER_REAL, AT(now.prompt_seconds) },
	{ "tokens_total", "generated tokens", COUNTER, AT(now.tokens) },
	{ "decode_seconds_total", "time of decoding",
		COUNTER_REAL, AT(now.decode_seconds) },
	{ "waiting_seconds_total", "time that texts spent in the queue",
		COUNTER_REAL, AT(now.waiting_seconds) },
	{ "prompt_tokens_per_second", "computed prompt tokens per second of "
		"prefill",
		GAUGE_REAL, AT(prompt_rate) },
	{ "tokens_per_second", "generated tokens of one text per second of "
		"decoding",
		GAUGE_REAL, AT(decode_rate) },
	{ "passes_total", "passes of the model", COUNTER,
		AT(now.stats.passes) },
	{ "rows_used_total", "rows computed by passes of the model", COUNTER,
		AT(now.stats.rows) },
	{ "rows_prompt_total", "rows of prompts computed by passes of the "
		"model", COUNTER,
		AT(now.stats.prompt_rows) },
	{ "rows_padded_total", "padding rows of static graphs",
		COUNTER, AT(now.stats.padded_rows) },
	{ "window_bytes", "size of the device's address window", GAUGE,
		AT(now.stats.window_bytes) },
	{ "window_mapped_bytes", "bytes mapped in the device's address "
		"window", GAUGE,
		AT(now.stats.mapped_bytes) },
	{ "remaps_total", "buffers mapped while a pass waited for them",
		COUNTER, AT(now.stats.remaps) },
	{ "remap_bytes_total", "bytes of the buffers mapped while a pass "
		"waited for them", COUNTER,
		AT(now.stats.remap_bytes) },
	{ "flash_bytes_total", "bytes read from flash", COUNTER,
		AT(now.stats.flash_bytes) },
	{ "device_restarts_total", "restarts of the device process",
		COUNTER, AT(now.stats.restarts) },
	{ "device_lost", "1 if the device is lost and cannot be restarted",
		GAUGE, AT(lost) },
	{ "phone_seconds_total",
		"time that the simulated phone would have taken",
		COUNTER_REAL, AT(now.stats.phone_seconds) },
	{ "phone_joules_total",
		"energy that the simulated phone would have used", COUNTER_REAL,
		AT(now.stats.phone_joules) },
	{ "context_tokens", "context length, in tokens", GAUGE,
		AT(now.stats.context) },
	{ "memory_bytes", "estimated memory of the loaded model", GAUGE,
		AT(memory) },
	{ "drafted_tokens_total", "drafted tokens, by their distance from the "
		"last known token",
		COUNTER, AT(now.stats.drafted_at), true },
	{ "accepted_tokens_total", "accepted drafted tokens, by their distance "
		"from the last known token", COUNTER,
		AT(now.stats.accepted_at), true },
};

/* Numbers of refused requests, by reason. */
static const struct metric refused[] = {
	{ "queue_full", NULL, COUNTER, AT(now.refused_full) },
	{ "client_share", NULL, COUNTER, AT(now.refused_share) },
	{ "deadline_exceeded", NULL, COUNTER, AT(now.refused_late) },
};

static const struct metric refused_total = { "refused_total",
	"requests refused before a token was computed", COUNTER };

static const struct metric histograms[] = {
	{ "queue_seconds", "time that each text spent in the queue", HISTOGRAM,
		AT(now.queue_seconds) },
	{ "first_token_seconds", "time from a request's arrival to the first "
		"token of each of its texts", HISTOGRAM,
		AT(now.first_token_seconds) },
};
/* clang-format on */

static double rate(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static double uptime(const struct server *s)
{
	return (double)(clock_ns() - s->began_ns) * 1e-9;
}

static bool is_real(const struct metric *m)
{
	return m->type == COUNTER_REAL || m->type == GAUGE_REAL;
}

static bool counts(const struct metric *m)
{
	return m->type == COUNTER || m->type == COUNTER_REAL;
}

static const void *value(const struct metric *m, const void *v)
{
	return (const char *)v + m->at;
}

static void add_value(const struct metric *m, void *sum, const void *v)
{
	size_t n = m->by_position ? TANDEM_POSITIONS : 1;
	void *to = (char *)sum + m->at;
	const void *from = value(m, v);

	if (is_real(m))
		*(double *)to += *(const double *)from;
	else
		for (size_t i = 0; i < n; i++)
			((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
}

_Static_assert(!offsetof(struct shown, now), "offsets of both are the same");

void metrics_add(struct engine_state *sum, const struct engine_state *v)
{
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
		if (counts(&metrics[i]))
			add_value(&metrics[i], sum, v);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		add_value(&refused[i], sum, v);
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		const struct histogram *h = value(&histograms[i], v);
		struct histogram *to = (void *)((char *)sum + histograms[i].at);

		for (size_t k = 0; k <= HISTOGRAM_BOUNDS; k++)
			to->n[k] += h->n[k];
		to->sum += h->sum;
	}
}

static void add_rates(struct shown *v)
{
	v->prompt_rate = rate(v->now.prompt_tokens - v->now.cached_tokens,
		v->now.prompt_seconds);
	v->decode_rate = rate(v->now.tokens, v->now.decode_seconds);
}

/* Add the counters and gauges of an engine to a sum. But the context length of
 * the sum is the largest of all engines, and rates are computed again. */
static void add_shown(struct shown *sum, const struct shown *v)
{
	uint64_t context = v->now.stats.context;

	if (context < sum->now.stats.context)
		context = sum->now.stats.context;
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++)
		if (!counts(&metrics[i]))
			add_value(&metrics[i], sum, v);
	metrics_add(&sum->now, &v->now);
	sum->now.stats.context = context;
	add_rates(sum);
}

/* Copy the states of all engines to *out, which the caller frees. Returns the
 * number of engines; 0 if there is no memory. */
static size_t look(struct server *s, struct shown **out)
{
	size_t n = 0, i = 0;

	pthread_mutex_lock(&s->lock);
	for (const struct engine_entry *e = s->engines.first; e; e = e->next)
		n++;
	*out = calloc(n ? n : 1, sizeof(**out));
	for (const struct engine_entry *e = s->engines.first; e && *out;
		e = e->next, i++) {
		struct shown *v = &(*out)[i];

		snprintf(v->model, sizeof(v->model), "%s", e->offer.model);
		v->method = e->offer.method;
		v->options = engine_choice_json(e->choice, s->engines.own);
		v->phase = e->phase;
		if (e->engine) {
			v->now = e->engine->state;
			v->waiting = e->engine->queue.waiting;
			v->clients_waiting = e->engine->queue.clients_waiting;
			v->running = e->engine->queue.running;
			v->lost = v->now.lost;
			v->memory = e->need;
		}
		metrics_add(&v->now, &e->past);
		add_rates(v);
	}
	pthread_mutex_unlock(&s->lock);
	return i;
}

/* Sum the elements with the same model and method, because their labels would
 * be equal. The sums replace the first elements of the array. Returns the
 * number of sums. */
static size_t join(struct shown *v, size_t n)
{
	size_t sums = 0;

	for (size_t i = 0, k; i < n; i++) {
		for (k = 0; k < sums; k++)
			if (!strcmp(v[k].model, v[i].model) &&
				!strcmp(v[k].method, v[i].method))
				break;
		json_decref(v[i].options);
		v[i].options = NULL;
		if (k < sums)
			add_shown(&v[k], &v[i]);
		else
			v[sums++] = v[i];
	}
	return sums;
}

/* ---- Prometheus ---------------------------------------------------------- */

static void print_head(const struct metric *m, struct strbuf *out)
{
	const char *type = m->type == HISTOGRAM ? "histogram"
		: counts(m)                     ? "counter"
						: "gauge";

	strbuf_addf(out, "# HELP tandem_%s %s\n# TYPE tandem_%s %s\n", m->name,
		m->help, m->name, type);
}

/* Begin a line of the output (a Prometheus sample): print its name and labels.
 * The caller may add a label and closes the brace. `part`, such as "_sum" or
 * "", is appended to the name of the metric. */
static void print_labels(const struct metric *m, const char *part,
	const struct shown *v, struct strbuf *out)
{
	strbuf_addf(out, "tandem_%s%s{model=\"", m->name, part);
	for (const char *s = v->model; *s; s++)
		strbuf_addf(out, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
	strbuf_addf(out, "\",method=\"%s\"", v->method);
}

static void print_histogram(
	const struct metric *m, const struct shown *v, struct strbuf *out)
{
	const struct histogram *h = value(m, v);
	uint64_t n = 0;

	for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
		n += h->n[i];
		print_labels(m, "_bucket", v, out);
		if (i < HISTOGRAM_BOUNDS)
			strbuf_addf(out, ",le=\"%g\"} %" PRIu64 "\n",
				histogram_bounds[i], n);
		else
			strbuf_addf(out, ",le=\"+Inf\"} %" PRIu64 "\n", n);
	}
	print_labels(m, "_sum", v, out);
	strbuf_addf(out, "} %.9g\n", h->sum);
	print_labels(m, "_count", v, out);
	strbuf_addf(out, "} %" PRIu64 "\n", n);
}

/* Number of values to print. For a metric by position: up to the last position
 * at which a token was drafted; at least 1, so that the metric exists before
 * the first draft. */
static size_t values(const struct metric *m, const struct shown *v)
{
	size_t n = m->by_position ? TANDEM_POSITIONS : 1;

	while (n > 1 && !v->now.stats.drafted_at[n - 1])
		n--;
	return n;
}

void metrics_answer(struct exchange *x)
{
	struct server *s = x->server;
	struct strbuf *out = &x->out;
	struct shown *v;
	size_t all = look(x->server, &v), n = join(v, all);
	uint64_t dropped[2];

	pthread_mutex_lock(&s->lock);
	dropped[0] = s->dropped_unread;
	dropped[1] = s->dropped_incomplete;
	pthread_mutex_unlock(&s->lock);
	x->type = "text/plain; version=0.0.4; charset=utf-8";
	strbuf_addf(out,
		"# HELP tandem_http_requests_total answers sent\n# TYPE "
		"tandem_http_requests_total counter\n");
	for (size_t i = 0; i < ROUTES_MAX; i++) {
		const struct route *r = route_at(i);

		for (size_t k = 0; k < STATUSES; k++)
			if (s->answered[i][k])
				strbuf_addf(out,
					"tandem_http_requests_total{path=\"%s\""
					",code=\"%d\"} %" PRIu64 "\n",
					r ? r->path : "", s->status[k],
					s->answered[i][k]);
	}
	strbuf_addf(out,
		"# HELP tandem_uptime_seconds time since the server started\n"
		"# TYPE tandem_uptime_seconds gauge\n"
		"tandem_uptime_seconds %.9g\n",
		uptime(s));
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		const struct metric *m = &metrics[i];

		print_head(m, out);
		for (size_t k = 0; k < n; k++) {
			const void *at = value(m, &v[k]);

			for (size_t p = 0; p < values(m, &v[k]); p++) {
				print_labels(m, "", &v[k], out);
				if (m->by_position)
					strbuf_addf(out, ",position=\"%zu%s\"",
						p + 1,
						p + 1 < TANDEM_POSITIONS ? ""
									 : "+");
				if (is_real(m))
					strbuf_addf(out, "} %.9g\n",
						*(const double *)at);
				else
					strbuf_addf(out, "} %" PRIu64 "\n",
						((const uint64_t *)at)[p]);
			}
		}
	}
	print_head(&refused_total, out);
	for (size_t k = 0; k < n; k++)
		for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
			print_labels(&refused_total, "", &v[k], out);
			strbuf_addf(out, ",reason=\"%s\"} %" PRIu64 "\n",
				refused[i].name,
				*(const uint64_t *)value(&refused[i], &v[k]));
		}
	strbuf_addf(out,
		"# HELP tandem_clients_dropped_total connections that the "
		"server closed because the client read nothing, or did not "
		"complete its request, for too long\n"
		"# TYPE tandem_clients_dropped_total counter\n"
		"tandem_clients_dropped_total{reason=\"unread\"} %" PRIu64 "\n"
		"tandem_clients_dropped_total{reason=\"incomplete\"} %" PRIu64
		"\n",
		dropped[0], dropped[1]);
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		print_head(&histograms[i], out);
		for (size_t k = 0; k < n; k++)
			print_histogram(&histograms[i], &v[k], out);
	}
	free(v);
}

/* ---- JSON for the web page (/state) -------------------------------------- */

/* Returns a JSON object of all metrics. */
static json_t *object_of(const struct shown *v)
{
	json_t *object = json_object(), *reasons = json_object();

	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		const struct metric *m = &metrics[i];
		const uint64_t *n = value(m, v);
		json_t *list = m->by_position ? json_array() : NULL;

		for (size_t k = 0; list && k < values(m, v); k++)
			json_array_append_new(
				list, json_integer((json_int_t)n[k]));
		json_object_set_new(object, m->name,
			m->by_position ? list
				: is_real(m)
				? json_real(*(const double *)value(m, v))
				: json_integer((json_int_t)*n));
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		json_object_set_new(reasons, refused[i].name,
			json_integer((json_int_t) *
				(const uint64_t *)value(&refused[i], v)));
	json_object_set_new(object, "refused_total", reasons);
	for (size_t i = 0; i < ARRAY_LEN(histograms); i++) {
		const struct histogram *h = value(&histograms[i], v);
		json_t *le = json_array(), *n = json_array();

		for (size_t k = 0; k <= HISTOGRAM_BOUNDS; k++) {
			if (k < HISTOGRAM_BOUNDS)
				json_array_append_new(
					le, json_real(histogram_bounds[k]));
			json_array_append_new(
				n, json_integer((json_int_t)h->n[k]));
		}
		json_object_set_new(object, histograms[i].name,
			json_pack("{s:o, s:o, s:f}", "le", le, "n", n, "sum",
				h->sum));
	}
	return object;
}

/* Answer with the sums over all engines, and with the metrics of each engine.
 */
void state_answer(struct exchange *x)
{
	struct server *s = x->server;
	struct shown sum = { .method = "" }, *v;
	size_t n = look(s, &v);
	json_t *object, *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *one = object_of(&v[i]);

		json_object_set_new(one, "model", json_string(v[i].model));
		json_object_set_new(one, "method", json_string(v[i].method));
		json_object_set(one, "options", v[i].options);
		json_object_set_new(
			one, "state", json_string(engine_phases[v[i].phase]));
		json_array_append_new(list, one);
		add_shown(&sum, &v[i]);
	}
	object = object_of(&sum);
	json_object_set_new(object, "uptime_seconds", json_real(uptime(s)));
	json_object_set_new(object, "memory_limit_bytes",
		json_integer((json_int_t)s->options.memory));
	json_object_set_new(object, "engines", list);
	for (size_t i = 0; i < n; i++)
		json_decref(v[i].options);
	free(v);
	reply_json(object, &x->out);
}

/* ---- counting answers ---------------------------------------------------- */

/*
 * s->answered[i][k] counts the answers of route i that had the status code
 * s->status[k]; for requests without a route, i is the number of routes. If
 * more than STATUSES different codes occur, the last element (k = STATUSES - 1)
 * counts all further codes together.
 */
void metrics_count(struct server *s, const struct route *route, int status)
{
	size_t i = 0, k = 0;

	while (route_at(i) && route_at(i) != route)
		i++;
	while (k < STATUSES - 1 && s->status[k] && s->status[k] != status)
		k++;
	s->status[k] = status;
	s->answered[i][k]++;
}
