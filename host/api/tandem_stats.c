#include "host/api/tandem_impl.h"
#include "tensor/soc/soc.h"

#include <string.h>

_Static_assert(TANDEM_POSITIONS == DRAFT_POSITIONS, "one for each");

static void count_session(const struct decoder *d, struct tandem_stats *out)
{
	const struct soc *soc = d->session_opts.soc;
	struct session_stats s;

	session_stats(d->session, &s);
	session_stats_since(&s, &d->probed);
	out->context = session_context(d->session);
	out->passes = s.passes;
	out->rows = s.rows;
	out->prompt_rows = s.prompt_rows.rows;
	out->padded_rows = s.padded_rows;
	out->window_bytes = d->session_opts.va_window;
	out->mapped_bytes = s.bytes_mapped;
	out->remaps = s.remaps;
	out->remap_bytes = s.remap_bytes;
	out->flash_bytes = s.staging.stream.bytes + s.experts.stream.bytes;
	out->restarts = s.restarts;
	if (!soc)
		return;
	out->phone_seconds = (double)s.price.total_ps * 1e-12;
	out->phone_joules = (double)s.price.energy_pj * 1e-12 +
		soc->base_w * out->phone_seconds;
}

void tandem_stats(const struct tandem *t, struct tandem_stats *out)
{
	const struct decoder *d = &t->decoder;
	struct tandem_stats s = {
		.size = out->size,
		.model = d->model_path,
		.drafted = d->env.stats.drafted,
		.accepted = d->env.stats.accepted,
	};

	memcpy(s.drafted_at, d->env.positions.drafted, sizeof(s.drafted_at));
	memcpy(s.accepted_at, d->env.positions.accepted, sizeof(s.accepted_at));
	if (d->session)
		count_session(d, &s);
	memset(out, 0, s.size);
	memcpy(out, &s, s.size < sizeof(s) ? s.size : sizeof(s));
}
