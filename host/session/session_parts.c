/*
 * A pass whose rows are more than some blocks' graphs have: these run once for
 * each part of them, where every row finds those of the parts before it in the
 * cache. A row's bytes are the same either way, since the order of what it sees
 * is.
 */
#include "host/session/session_impl.h"
#include "host/session/switching.h"

#include "base/err.h"
#include "host/session/batch.h"
#include "host/session/sequence.h"
#include "shm/buffer.h"

#include <errno.h>

/* Whether a block has, or may come to have while the pass runs, the smaller
 * graph. */
static bool is_mixed(const struct session *s)
{
	const struct switching *sw = s->switching;

	for (uint32_t b = 0; b < s->n_blocks && !sw->running; b++)
		if (sw->kind[b] == GRAPH_DECODE)
			return true;
	return sw->running;
}

static int write_part(struct session *s, uint8_t *to, uint32_t i, struct err *e)
{
	struct switching *sw = s->switching;
	uint32_t rows = s->plan.graph_rows[GRAPH_DECODE], first = i * rows;
	uint32_t left = s->batch->rows.n - first;
	struct part *part = &sw->part[i];
	int ret;

	*part = (struct part){ .first = first,
		.off = s->plan.parts_off + i * s->plan.part_bytes,
		.run = { .op = WIRE_GRAPH_RUN, .flags = session_flags(s) } };
	batch_part_of(s->batch, first, left < rows ? left : rows, sw->row,
		&sw->batch);
	ret = batch_fill(to + i * s->plan.part_bytes, &sw->batch, s->sequences,
		s->at + first, s->plan.span_room, &part->run, e);
	part->places = batch_bytes(part->run.rows, part->run.n_spans);
	if (!ret && s->opts.as)
		part->longest =
			batch_longest(to + i * s->plan.part_bytes, &part->run);
	return ret;
}

int switching_cut(struct session *s, bool some, struct err *e)
{
	uint32_t n = s->batch->rows.n;
	uint32_t rows = s->plan.graph_rows[GRAPH_DECODE];
	struct switching *sw = s->switching;
	size_t bytes;
	uint8_t *to;
	int ret = 0;

	sw->n_parts = 0;
	if (n <= rows || !is_mixed(s))
		return 0;
	if (some || !batch_is_chain(s->batch))
		return err_set(e, EINVAL,
			"%u rows that are no chain, but blocks have graphs of "
			"%u rows now and no others",
			n, rows);
	sw->n_parts = (n + rows - 1) / rows;
	bytes = sw->n_parts * s->plan.part_bytes;
	to = buffer_begin(s->io.buffer, s->plan.parts_off, bytes, BUFFER_WRITE);
	for (uint32_t i = 0; i < sw->n_parts && !ret; i++)
		ret = write_part(s, to, i, e);
	buffer_end(s->io.buffer, s->plan.parts_off, bytes, BUFFER_WRITE);
	return ret;
}
