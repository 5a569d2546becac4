/* The device's cache for the rings of its channel. The code is in a separate
 * file, so that a host program does not link the coherence checker. */
#include "base/err.h"
#include "ipc/channel_impl.h"

#include <string.h>

int channel_cache_rings(
	struct channel *c, const struct coherence_config *config, struct err *e)
{
	int ret;

	if (config->level == COHERENCE_OFF)
		return 0;
	ret = ring_cache_open(
		&c->cache, config, "tandem:ctrl", c->control, c->control_bytes);
	if (ret)
		return err_set(e, -ret, "no memory for the rings' cache");
	c->tx.cache = c->rx.cache = &c->cache;
	return 0;
}

uint64_t channel_violations(const struct channel *c)
{
	return c->cache.close ? coherence_violations(c->cache.lines) : 0;
}

void channel_add_reports(struct channel *c, struct wire_done *done)
{
	_Static_assert(sizeof(done->text) == RING_REPORT_BYTES, "copied");
	if (!c->cache.reports)
		return;
	done->counters.violations += c->cache.reports;
	if (!done->text[0])
		memcpy(done->text, c->cache.first_report, sizeof(done->text));
	c->cache.reports = 0;
}
