#include "host/bench/bench_sdnpu_graphs.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/api/options.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_plot_lanes.h"
#include "host/bench/bench_run.h"
#include "host/bench/setting.h"
#include "host/model/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* number of rows of the paper's graph for prompts */
#define CHUNK "256"

static const uint32_t lengths[SDNPU_LENGTHS] = { 256, 512, 768, 1024 };

/* ---- measuring ----------------------------------------------------------- */

/* Return the time in seconds on the clock of the run. */
static double now(const struct bench_run *r, const struct tandem_report *report)
{
	return r->clock ? (double)report->total.price.total_ps * 1e-12
			: (double)clock_ns() * 1e-9;
}

/* Measure one plan of graph switching with one prompt length. The model is
 * opened anew for each prompt, so that the graphs are in their initial
 * state. */
static int measure_one(struct sdnpu_graphs *g, unsigned plan, unsigned length,
	struct bench_run *r, struct err *e)
{
	struct sdnpu_plan *p = &g->plan[plan];
	struct setting s = { 0 };
	struct opt_values values;
	struct tandem_report report;
	struct session_opts *pair;
	struct tandem *t = NULL;
	int32_t *token = NULL;
	double began;
	uint32_t n;
	int ret = setting_change(&s, "method=autoregressive", e);

	if (!ret)
		ret = setting_change(&s, "prefill-chunk=" CHUNK, e);
	if (!ret)
		ret = setting_set(
			&s, "graph-switch", graph_switch_names[plan], e);
	if (!ret)
		ret = pair_open_model(&r->pair, &s, &values, &t, e);
	if (ret)
		goto out;
	tandem_report(t, &report);
	/* When the model is opened for the first time, its context size decides
	 * which prompt lengths are measured. */
	for (unsigned i = 0, first = !g->n; first && i < SDNPU_LENGTHS; i++)
		if (lengths[i] <= report.model->n_ctx)
			g->length[g->n++] = lengths[i];
	pair_note(&r->pair, t);
	if (length >= g->n)
		goto out;
	pair = tandem_pair(t);
	pair->trace = bench_trace_next(&r->pair.trace, pair->trace);
	if (tandem_start(t, 0)) {
		ret = tandem_failure(t, e);
		goto out;
	}
	n = g->length[length];
	token = malloc(n * sizeof(*token));
	if (!token) {
		ret = err_set(e, ENOMEM, "no memory for %u tokens", n);
		goto out;
	}
	for (uint32_t i = 0; i < n; i++)
		token[i] =
			(int32_t)(rng_uniform(1, 0, i) * report.model->n_vocab);
	tandem_report(t, &report);
	began = now(r, &report);
	ret = tandem_prefill(t, token, n, 1, NULL, e);
	tandem_report(t, &report);
	p->prompt_s[length] = now(r, &report) - began;
	p->wait_s = (double)report.total.graphs.wait_time * g->unit;
	p->most_graphs = report.total.graphs.most_graphs;
	if (ret)
		goto out;
	free(p->event);
	p->n_events = report.n_graphs;
	p->event = calloc(p->n_events + 1, sizeof(*p->event));
	if (!p->event)
		ret = err_set(e, ENOMEM, "no memory for a chart");
	for (size_t i = 0; p->event && i < p->n_events; i++)
		p->event[i] = report.graphs[i];
out:
	free(token);
	if (t)
		tandem_end(t, NULL);
	setting_release(&s);
	return ret;
}

int sdnpu_graphs_measure(
	struct sdnpu_graphs *g, struct bench_run *r, struct err *e)
{
	int ret = 0;

	g->unit = r->clock ? 1e-12 : 1e-9;
	for (unsigned plan = 0; plan < SWITCH_COUNT && !ret; plan++)
		for (unsigned i = 0;
			(!plan || i < g->n) && i < SDNPU_LENGTHS && !ret; i++)
			ret = measure_one(g, plan, i, r, e);
	return ret;
}

void sdnpu_graphs_release(struct sdnpu_graphs *g)
{
	for (unsigned plan = 0; plan < SWITCH_COUNT; plan++)
		free(g->plan[plan].event);
}

/* ---- report -------------------------------------------------------------- */

void sdnpu_graphs_fill(const struct sdnpu_graphs *g, struct bench_table *t)
{
	char key[TABLE_TEXT], head[TABLE_TEXT];

	*t = (struct bench_table){ .name = "graphs",
		.title = "Prompts by plans of graph switching",
		.note = "ms: time until a prompt is computed and the decode "
			"graphs are loaded. off: both\nkinds of graph are "
			"always loaded. For the longest prompt: waited: time "
			"that the\nNPU waits for loads; held: largest number "
			"of graphs that are loaded at a time.",
		.name_key = { "plan" },
		.plot = { .y = { "ms a prompt" } } };
	for (unsigned i = 0; i < g->n; i++) {
		snprintf(key, sizeof(key), "tokens_%u_s", g->length[i]);
		snprintf(head, sizeof(head), "%u tokens", g->length[i]);
		table_add_column(t, key, head, 2, 1e3);
		t->column[t->n_columns - 1].panel = 1;
	}
	table_add_column(t, "waited_s", "waited", 2, 1e3);
	table_add_column(t, "graphs_held", "held", 0, 1);
	for (unsigned plan = 0; plan < SWITCH_COUNT && g->n; plan++) {
		const struct sdnpu_plan *p = &g->plan[plan];
		double *v =
			table_add_row(t, graph_switch_names[plan], NULL)->value;

		memcpy(v, p->prompt_s, g->n * sizeof(*v));
		if (plan == SWITCH_OFF)
			continue;
		v[g->n] = p->wait_s;
		v[g->n + 1] = p->most_graphs;
	}
}

/* two lanes of the chart, NPU and graph loader, for each plan that switches
 * graphs */
#define LANES (2 * (SWITCH_COUNT - 1))

int sdnpu_graphs_plot(const struct sdnpu_graphs *g, const char *caption,
	const char *folder, struct err *e)
{
	char name[LANES][32], title[64];
	const char *lane[LANES];
	struct lane_bar *bar;
	size_t n = 0;
	int ret;

	for (unsigned plan = SWITCH_OFF + 1; plan < SWITCH_COUNT; plan++)
		n += g->plan[plan].n_events;
	if (!n)
		return 0;
	bar = calloc(n, sizeof(*bar));
	if (!bar)
		return err_set(e, ENOMEM, "no memory for a chart");
	n = 0;
	for (unsigned plan = SWITCH_OFF + 1; plan < SWITCH_COUNT; plan++) {
		const struct sdnpu_plan *p = &g->plan[plan];
		uint32_t most = 0;

		for (size_t i = 0; i < p->n_events; i++)
			most = p->event[i].rows > most ? p->event[i].rows
						       : most;
		for (size_t i = 0; i < p->n_events; i++) {
			const struct graph_event *ev = &p->event[i];

			(bar + n)[i] = (struct lane_bar){
				.lane = 2 * (plan - 1) + ev->load,
				.kind = ev->load ? 2 : ev->rows < most,
				.from = (double)ev->begin * g->unit * 1e3,
				.to = (double)ev->end * g->unit * 1e3,
				.number = ev->block + 1
			};
		}
		n += p->n_events;
	}
	for (unsigned i = 0; i < LANES; i++) {
		snprintf(name[i], sizeof(name[i]), "%s, %s",
			graph_switch_names[i / 2 + 1],
			i % 2 ? "loader" : "NPU");
		lane[i] = name[i];
	}
	snprintf(title, sizeof(title), "A prompt of %u tokens, by blocks",
		g->length[g->n - 1]);
	ret = bench_plot_lanes(
		&(const struct plot_lanes){ .name = "graphs_chart",
			.title = title,
			.x = "ms",
			.lane = lane,
			.n_lanes = LANES,
			.kind = { "prefill graph", "decode graph",
				"load of a decode graph" },
			.bar = bar,
			.n = n },
		caption, folder, e);
	free(bar);
	return ret;
}
