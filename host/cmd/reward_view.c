#include "host/cmd/reward_view.h"

#include "host/api/report.h"
#include "host/cmd/json_text.h"

#include <inttypes.h>

void reward_text_report(const struct tandem_report *r, FILE *f)
{
	const struct reward_stats *st = &r->scored;

	if (!r->reward)
		return;
	fprintf(f,
		"reward       %s: %" PRIu64 " steps of %" PRIu64
		" texts scored; %" PRIu64 " tokens, %" PRIu64
		" rows computed in %" PRIu64 " passes, %.3f s",
		r->reward, st->steps, st->texts, st->tokens, st->rows,
		st->passes, (double)st->ns * 1e-9);
	if (r->pair->soc)
		fprintf(f, ", %.4f s of the phone", (double)st->ps * 1e-12);
	fputc('\n', f);
}

static void put_u64(json_t *o, const char *name, uint64_t v)
{
	json_object_set_new(o, name, json_integer((json_int_t)v));
}

void reward_json(json_t *out, const struct tandem_report *r)
{
	const struct reward_stats *st = &r->scored;
	json_t *o;

	if (!r->reward)
		return;
	o = json_object();
	json_object_set_new(o, "name", json_ctext(r->reward));
	put_u64(o, "texts", st->texts);
	put_u64(o, "steps", st->steps);
	put_u64(o, "tokens", st->tokens);
	put_u64(o, "rows", st->rows);
	put_u64(o, "passes", st->passes);
	json_object_set_new(o, "seconds", json_real((double)st->ns * 1e-9));
	if (r->pair->soc)
		put_u64(o, "phone_ps", st->ps);
	json_object_set_new(out, "reward", o);
}
