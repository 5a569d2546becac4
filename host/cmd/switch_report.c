#include "host/cmd/switch_report.h"

#include "host/api/report.h"

#include <inttypes.h>

static double seconds(const struct session_opts *o, uint64_t time)
{
	return (double)time * (o->soc ? 1e-12 : 1e-9);
}

void switch_text(
	const struct switch_stats *s, const struct session_opts *o, FILE *f)
{
	if (!s->blocks)
		return;
	fprintf(f,
		"graphs       switched by %s: %u blocks, %u rows then %u; "
		"%" PRIu64 " loads %.3f s, of which %.3f s waited for; "
		"%" PRIu64 " loads back %.3f s; prompts %.3f s, %.3f s "
		"expected; at most %u held, %.1f MiB (%s clock)\n",
		graph_switch_names[o->graph_switch], s->blocks, s->prefill_rows,
		s->decode_rows, s->loads, seconds(o, s->load_time),
		seconds(o, s->wait_time), s->reloads,
		seconds(o, s->reload_time), seconds(o, s->prompt_time),
		seconds(o, s->planned_time), s->most_graphs,
		s->most_graphs_kib / 1024.0, o->soc ? "phone" : "wall");
}

void switch_json(json_t *o, const struct switch_stats *s,
	const struct session_opts *opts)
{
	if (!s->blocks)
		return;
	json_object_set_new(o, "graph_switch",
		json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:f, s:I, s:f, "
			  "s:f, s:f, s:f, s:i, s:i}",
			"plan", graph_switch_names[opts->graph_switch], "clock",
			opts->soc ? opts->clock : "wall", "blocks",
			(int)s->blocks, "prefill_rows", (int)s->prefill_rows,
			"decode_rows", (int)s->decode_rows, "prompts",
			(json_int_t)s->prompts, "loads", (json_int_t)s->loads,
			"load_s", seconds(opts, s->load_time), "loads_back",
			(json_int_t)s->reloads, "load_back_s",
			seconds(opts, s->reload_time), "wait_s",
			seconds(opts, s->wait_time), "prompt_s",
			seconds(opts, s->prompt_time), "expected_s",
			seconds(opts, s->planned_time), "most_graphs",
			(int)s->most_graphs, "most_graphs_kib",
			(int)s->most_graphs_kib));
}
