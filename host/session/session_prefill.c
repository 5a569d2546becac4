/* Prefill of a prompt, chunk by chunk. After a chunk the device can predict the
 * token that follows each token of the chunk (struct wire_output). */
#include "host/session/session_impl.h"

#include "base/err.h"
#include "host/session/switching.h"

#include <errno.h>

/* Called after a chunk with tokens [first, first + rows): if the reader wants
 * any predictions, let the device compute them, and pass them to the reader. */
static int predict(struct session *s, const struct session_reader *reader,
	size_t first, uint32_t rows, struct err *e)
{
	bool wanted[WIRE_MAX_ROWS], any = false;
	int ret;

	for (uint32_t i = 0; i < rows; i++) {
		wanted[i] = reader->wants(reader->arg, first + i);
		any |= wanted[i];
	}
	ret = any ? session_predict(s, e) : 0;
	for (uint32_t i = 0, n; i < rows && !ret; i++) {
		const struct wire_likely *likely;

		if (!wanted[i])
			continue;
		likely = session_predicted(s, i, &n);
		reader->likely(reader->arg, first + i, likely, n);
	}
	return ret;
}

int session_prefill(struct session *s, uint32_t sequence, const int32_t *token,
	size_t n, const struct session_reader *reader, uint32_t *last_row,
	struct err *e)
{
	uint32_t chunk = s->opts.prefill_chunk;
	uint64_t began = s->time->cpu_ps;
	bool by_cpu = s->pricing.by_cpu;
	int ret = 0;

	if (!n)
		return err_set(e, EINVAL, "no tokens to prefill were given");
	s->counts = &s->stats.prompt_rows;
	s->pricing.by_cpu = by_cpu && !s->prompts_by_npu;
	trace_begin(s->trace, TRACE_PROMPT, n, 0);
	/* With graph switching, the blocks' graphs are replaced while the
	 * chunks run. */
	if (s->switching)
		ret = switching_begin(s, session_length(s, sequence), n, e);
	for (size_t i = 0; i < n && !ret; i += chunk) {
		uint32_t rows = n - i < chunk ? (uint32_t)(n - i) : chunk;

		ret = session_continue(s, sequence, token + i, rows, e);
		if (!ret && reader && reader->chunk)
			reader->chunk(reader->arg, i, rows);
		if (!ret && reader && reader->wants)
			ret = predict(s, reader, i, rows, e);
		if (!ret)
			ret = session_accept(s, sequence, NULL, rows, e);
		*last_row = rows - 1;
	}
	if (s->switching)
		ret = switching_end(s, ret, e);
	s->counts = &s->stats.decode_rows;
	s->pricing.by_cpu = by_cpu;
	trace_end(s->trace, TRACE_PROMPT);
	s->stats.prompt_ps += s->time->cpu_ps - began;
	return ret;
}
