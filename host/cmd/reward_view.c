#include "host/cmd/reward_view.h"

#include "host/api/decoder.h"
#include "host/cmd/json_text.h"
#include "host/head/reward.h"

#include <inttypes.h>

void reward_text_report(const struct decoder *d, FILE *f)
{
	struct reward_stats st;

	if (!d->reward)
		return;
	reward_stats(d->reward, &st);
	fprintf(f,
		"reward       %s: %" PRIu64 " steps of %" PRIu64
		" texts scored; %" PRIu64 " tokens, %" PRIu64
		" rows computed in %" PRIu64 " passes, %.3f s",
		reward_name(d->reward), st.steps, st.texts, st.tokens, st.rows,
		st.passes, (double)st.ns * 1e-9);
	if (d->session_opts.soc)
		fprintf(f, ", %.4f s of the phone", (double)st.ps * 1e-12);
	fputc('\n', f);
}

static void put_u64(json_t *o, const char *name, uint64_t v)
{
	json_object_set_new(o, name, json_integer((json_int_t)v));
}

void reward_json(json_t *out, const struct decoder *d)
{
	struct reward_stats st;
	json_t *o;

	if (!d->reward)
		return;
	reward_stats(d->reward, &st);
	o = json_object();
	json_object_set_new(o, "name", json_ctext(reward_name(d->reward)));
	put_u64(o, "texts", st.texts);
	put_u64(o, "steps", st.steps);
	put_u64(o, "tokens", st.tokens);
	put_u64(o, "rows", st.rows);
	put_u64(o, "passes", st.passes);
	json_object_set_new(o, "seconds", json_real((double)st.ns * 1e-9));
	if (d->session_opts.soc)
		put_u64(o, "phone_ps", st.ps);
	json_object_set_new(out, "reward", o);
}
