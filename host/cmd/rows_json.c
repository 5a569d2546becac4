#include "host/cmd/rows_json.h"

#include "host/api/report.h"

json_t *rows_json(const struct row_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "of_passes",
		(json_int_t)c->passes, "graph", (json_int_t)c->graph, "valid",
		(json_int_t)c->valid, "wasted",
		(json_int_t)row_counts_wasted(c), "underutilized",
		(json_int_t)row_counts_underutilized(c), "whole_tiles",
		(json_int_t)c->tile);
}

void put_drafts(json_t *o, const struct method_stats *m)
{
	json_object_set_new(
		o, "draft_cycles", json_integer((json_int_t)m->cycles));
	json_object_set_new(
		o, "drafted_tokens", json_integer((json_int_t)m->drafted));
	json_object_set_new(
		o, "accepted_tokens", json_integer((json_int_t)m->accepted));
	json_object_set_new(
		o, "acceptance_rate", json_real(method_acceptance(m)));
	json_object_set_new(o, "mean_accepted_length",
		json_real(method_accepted_length(m)));
}
