#include "host/api/tandem_impl.h"
#include "tensor/soc/soc.h"

#include <string.h>

_Static_assert(TANDEM_POSITIONS == DRAFT_POSITIONS,
	"the arrays have the same "
	"number of elements");

void tandem_stats(const struct tandem *t, struct tandem_stats *out)
{
	const struct decoder *d = &t->decoder;
	const struct soc *soc = d->session_opts.soc;
	struct session_stats all;
	struct tandem_stats s = {
		.size = out->size,
		.model = d->model_path,
		.drafted = d->env.stats.drafted,
		.accepted = d->env.stats.accepted,
	};

	memcpy(s.drafted_at, d->env.positions.drafted, sizeof(s.drafted_at));
	memcpy(s.accepted_at, d->env.positions.accepted, sizeof(s.accepted_at));
	if (d->session) {
		session_stats(d->session, &all);
		session_stats_since(&all, &d->probed);
		s.context = session_context(d->session);
		s.passes = all.passes;
		s.rows = all.rows;
		s.prompt_rows = all.prompt_rows.rows;
		s.padded_rows = all.padded_rows;
		s.window_bytes = d->session_opts.va_window;
		s.mapped_bytes = all.bytes_mapped;
		s.remaps = all.remaps;
		s.remap_bytes = all.remap_bytes;
		s.flash_bytes =
			all.staging.stream.bytes + all.experts.stream.bytes;
		s.restarts = all.restarts;
	}
	if (d->session && soc) {
		s.phone_seconds = (double)all.price.total_ps * 1e-12;
		s.phone_joules = (double)all.price.energy_pj * 1e-12 +
			soc->base_w * s.phone_seconds;
	}
	memset(out, 0, s.size);
	memcpy(out, &s, s.size < sizeof(s) ? s.size : sizeof(s));
}
