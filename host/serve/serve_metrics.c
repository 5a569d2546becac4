/* Metrics of the server, for Prometheus (/metrics) and for the server's own web
 * page (/state). */
#include "base/checked.h"
#include "base/clock.h"
#include "host/serve/server_impl.h"

#include <inttypes.h>
#include <stddef.h>

enum metric_type { COUNTER, COUNTER_REAL, GAUGE, GAUGE_REAL };

/* A copy of the engine's state and values derived from it, so that the engine's
 * lock is not held while the metrics are formatted. */
struct shown {
	struct engine_state now;
	uint64_t waiting, running, lost;
	double prompt_rate, decode_rate, uptime;
};

struct metric {
	const char *name, *help;
	enum metric_type type;
	size_t at; /* offset in struct shown */
};

#define AT(field) offsetof(struct shown, field)

/* clang-format off */
static const struct metric metrics[] = {
	{ "answers_total", "requests for texts that were accepted",
		COUNTER, AT(now.answers) },
	{ "texts_canceled_total", "texts canceled because the client has gone",
		COUNTER, AT(now.canceled) },
	{ "answers_failed_total", "requests for texts that failed",
		COUNTER, AT(now.failed) },
	{ "texts_waiting", "texts in the queue", GAUGE, AT(waiting) },
	{ "texts_under_way", "texts that run", GAUGE, AT(running) },
	{ "prompt_tokens_total", "tokens of prompts",
		COUNTER, AT(now.prompt_tokens) },
	{ "prompt_cached_tokens_total",
		"tokens of prompts taken from the cache",
		COUNTER, AT(now.cached_tokens) },
	{ "prompt_seconds_total", "time of reading prompts",
		COUNTER_REAL, AT(now.prompt_seconds) },
	{ "tokens_total", "tokens written", COUNTER, AT(now.tokens) },
	{ "decode_seconds_total", "time of generating texts",
		COUNTER_REAL, AT(now.decode_seconds) },
	{ "waiting_seconds_total", "time that texts spent in the queue",
		COUNTER_REAL, AT(now.waiting_seconds) },
	{ "prompt_tokens_per_second", "tokens/s of prompts, while one was read",
		GAUGE_REAL, AT(prompt_rate) },
	{ "tokens_per_second", "tokens/s of one text, while it was generated",
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
	{ "window_bytes", "the device's address window", GAUGE,
		AT(now.stats.window_bytes) },
	{ "window_mapped_bytes", "mapped in it", GAUGE,
		AT(now.stats.mapped_bytes) },
	{ "remaps_total", "buffers mapped while a pass waited for them",
		COUNTER, AT(now.stats.remaps) },
	{ "remap_bytes_total", "of these buffers", COUNTER,
		AT(now.stats.remap_bytes) },
	{ "flash_bytes_total", "read from flash", COUNTER,
		AT(now.stats.flash_bytes) },
	{ "device_restarts_total", "restarts of the device process",
		COUNTER, AT(now.stats.restarts) },
	{ "device_lost", "1: for good", GAUGE, AT(lost) },
	{ "phone_seconds_total", "time computed for the phone",
		COUNTER_REAL, AT(now.stats.phone_seconds) },
	{ "phone_joules_total", "and spent", COUNTER_REAL,
		AT(now.stats.phone_joules) },
	{ "context_tokens", "context of a text, in tokens", GAUGE,
		AT(now.stats.context) },
	{ "uptime_seconds", "since the server started", GAUGE_REAL, AT(uptime) },
};

/* Counters with a value for each position of a drafted token: its distance from
 * the last known token. */
static const struct metric by_position[] = {
	{ "drafted_tokens_total", "tokens drafted, by the distance from the text",
		COUNTER, AT(now.stats.drafted_at) },
	{ "accepted_tokens_total", "of them accepted", COUNTER,
		AT(now.stats.accepted_at) },
};
/* clang-format on */

static double rate(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static struct shown look(struct server *s)
{
	struct shown v;

	pthread_mutex_lock(&s->lock);
	v.now = s->engine->state;
	pthread_mutex_unlock(&s->lock);
	v.running =
		v.now.texts < s->options.texts ? v.now.texts : s->options.texts;
	v.waiting = v.now.texts - v.running;
	v.lost = v.now.lost;
	v.prompt_rate = rate(v.now.prompt_tokens - v.now.cached_tokens,
		v.now.prompt_seconds);
	v.decode_rate = rate(v.now.tokens, v.now.decode_seconds);
	v.uptime = (double)(clock_ns() - s->began_ns) * 1e-9;
	return v;
}

static bool is_real(const struct metric *m)
{
	return m->type == COUNTER_REAL || m->type == GAUGE_REAL;
}

static const void *value(const struct metric *m, const struct shown *v)
{
	return (const char *)v + m->at;
}

/* ---- Prometheus ---------------------------------------------------------- */

static void print_head(const struct metric *m, struct strbuf *out)
{
	bool counts = m->type == COUNTER || m->type == COUNTER_REAL;

	strbuf_addf(out, "# HELP tandem_%s %s\n# TYPE tandem_%s %s\n", m->name,
		m->help, m->name, counts ? "counter" : "gauge");
}

/* Number of positions to show: up to the last position with a drafted token,
 * but at least 1, so that the metric exists before any token is drafted. */
static size_t positions(const struct shown *v)
{
	size_t n = TANDEM_POSITIONS;

	while (n > 1 && !v->now.stats.drafted_at[n - 1])
		n--;
	return n;
}

void metrics_answer(struct exchange *x)
{
	const struct server *s = x->server;
	struct shown v = look(x->server);
	struct strbuf *out = &x->out;

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
	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		const struct metric *m = &metrics[i];

		print_head(m, out);
		if (is_real(m))
			strbuf_addf(out, "tandem_%s %.9g\n", m->name,
				*(const double *)value(m, &v));
		else
			strbuf_addf(out, "tandem_%s %" PRIu64 "\n", m->name,
				*(const uint64_t *)value(m, &v));
	}
	for (size_t i = 0; i < ARRAY_LEN(by_position); i++) {
		const struct metric *m = &by_position[i];
		const uint64_t *n = value(m, &v);

		print_head(m, out);
		for (size_t k = 0; k < positions(&v); k++)
			strbuf_addf(out,
				"tandem_%s{position=\"%zu%s\"} %" PRIu64 "\n",
				m->name, k + 1,
				k + 1 < TANDEM_POSITIONS ? "" : "+", n[k]);
	}
}

/* ---- the page ------------------------------------------------------------ */

void state_answer(struct exchange *x)
{
	struct shown v = look(x->server);
	json_t *object = json_object();

	for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
		const struct metric *m = &metrics[i];

		json_object_set_new(object, m->name,
			is_real(m) ? json_real(*(const double *)value(m, &v))
				   : json_integer((json_int_t) *
					     (const uint64_t *)value(m, &v)));
	}
	for (size_t i = 0; i < ARRAY_LEN(by_position); i++) {
		const uint64_t *n = value(&by_position[i], &v);
		json_t *list = json_array();

		for (size_t k = 0; k < positions(&v); k++)
			json_array_append_new(
				list, json_integer((json_int_t)n[k]));
		json_object_set_new(object, by_position[i].name, list);
	}
	reply_json(object, &x->out);
}

/* ---- counting ------------------------------------------------------------ */

/* The element after those of the routes counts requests without a route. If
 * there are more status codes than STATUSES, the last element has the rest. */
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
