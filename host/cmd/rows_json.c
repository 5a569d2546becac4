#include "host/cmd/rows_json.h"

#include "host/session/row_counts.h"

json_t *rows_json(const struct row_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "of_passes",
		(json_int_t)c->passes, "graph", (json_int_t)c->graph, "valid",
		(json_int_t)c->valid, "wasted",
		(json_int_t)row_counts_wasted(c), "underutilized",
		(json_int_t)row_counts_underutilized(c), "whole_tiles",
		(json_int_t)c->tile);
}
