#include "host/cmd/report_parts.h"

#include "host/api/report.h"
#include "host/cmd/json_text.h"

void priced_text(const struct tandem_report *r, FILE *f)
{
	if (*r->priced_as)
		fprintf(f, "priced as %s\n", r->priced_as);
}

void put_priced(json_t *o, const struct tandem_report *r)
{
	if (*r->priced_as)
		put_str(o, "priced_as", r->priced_as);
}

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
	put_u64(o, "draft_cycles", m->cycles);
	put_u64(o, "drafted_tokens", m->drafted);
	put_u64(o, "accepted_tokens", m->accepted);
	put_real(o, "acceptance_rate", method_acceptance(m));
	put_real(o, "mean_accepted_length", method_accepted_length(m));
}
