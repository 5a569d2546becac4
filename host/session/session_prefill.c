/*
 * Prefill of a prompt, chunk by chunk, with logits at some of its tokens. The
 * states of these tokens are saved after each chunk, and the host computes
 * their logits while the device computes the next chunk.
 */
#include "host/session/session_impl.h"

#include "base/err.h"
#include "host/model/model.h"
#include "host/session/logits.h"
#include "host/session/switching.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct session *s;
	const struct session_reader *reader;
	size_t *at;    /* [n] indices of the tokens whose states are saved */
	float *hidden; /* [n][n_embd] the saved states */
	/* [LOGITS_ROWS][n_vocab] logits that are passed to the reader */
	float *logits;
	uint32_t n, done;
};

/* After a chunk with tokens [first, first + rows): pass the states after
 * opts.tap_layers layers to the reader, and save the last states of the tokens
 * whose logits are needed. */
static int save_states(
	struct reading *r, size_t first, uint32_t rows, struct err *e)
{
	const struct session_reader *reader = r->reader;
	size_t width = r->s->model->n_embd;

	for (uint32_t i = 0; reader && reader->tapped && i < rows; i++)
		reader->tapped(reader->arg, first + i, session_tapped(r->s, i));
	for (uint32_t i = 0; reader && reader->wants && i < rows; i++) {
		const float *state;
		int ret;

		if (!reader->wants(reader->arg, first + i))
			continue;
		state = session_hidden(r->s, i);
		ret = logits_check(state, (uint32_t)width, i, e);
		if (ret)
			return ret;
		memcpy(r->hidden + r->n * width, state, width * sizeof(float));
		r->at[r->n++] = first + i;
	}
	return 0;
}

/* Compute the logits of the next n saved states, or of all that are left. */
static int compute(struct reading *r, uint32_t n, struct err *e)
{
	const struct model *m = r->s->model;
	const float *hidden[LOGITS_ROWS];
	float *out[LOGITS_ROWS];
	uint32_t end = r->n - r->done < n ? r->n : r->done + n;

	for (uint32_t some; r->done < end; r->done += some) {
		int ret;

		some = end - r->done < LOGITS_ROWS ? end - r->done
						   : LOGITS_ROWS;
		for (uint32_t j = 0; j < some; j++) {
			hidden[j] =
				r->hidden + (size_t)(r->done + j) * m->n_embd;
			out[j] = r->logits + (size_t)j * m->n_vocab;
		}
		ret = session_logits_of(r->s, hidden, out, some, e);
		if (ret)
			return ret;
		for (uint32_t j = 0; j < some; j++)
			r->reader->read(
				r->reader->arg, r->at[r->done + j], out[j]);
	}
	return 0;
}

/* Called once per block: compute an equal share of the logits, so that the
 * device does not wait long for its next request. */
static int meanwhile(void *arg, struct err *e)
{
	struct reading *r = arg;
	uint32_t blocks = r->s->n_blocks;

	return compute(r, (r->n + blocks - 1) / blocks, e);
}

static int chunks(struct reading *r, uint32_t sequence, const int32_t *token,
	size_t n, uint32_t *last_row, struct err *e)
{
	const struct session_hooks hooks = { .meanwhile = meanwhile, .arg = r };
	uint32_t chunk = r->s->opts.prefill_chunk;
	int ret = 0;

	for (size_t i = 0; i < n && !ret; i += chunk) {
		uint32_t rows = n - i < chunk ? (uint32_t)(n - i) : chunk;

		ret = session_continue(r->s, sequence, token + i, rows,
			r->n ? &hooks : NULL, e);
		r->n = r->done = 0;
		if (!ret)
			ret = save_states(r, i, rows, e);
		/* The staging slots hold layers during a pass, so logits from a
		 * streamed output matrix are computed between passes. */
		if (!ret && r->s->plan.output_streamed) {
			ret = compute(r, r->n, e);
			r->n = r->done = 0;
		}
		if (!ret)
			ret = session_accept(r->s, sequence, NULL, rows, e);
		*last_row = rows - 1;
	}
	return ret ? ret : compute(r, r->n, e);
}

int session_prefill(struct session *s, uint32_t sequence, const int32_t *token,
	size_t n, const struct session_reader *reader, uint32_t *last_row,
	struct err *e)
{
	struct reading r = { .s = s, .reader = reader };
	size_t chunk = s->opts.prefill_chunk;
	uint64_t began = s->time->cpu_ps;
	int ret = 0;

	if (!n)
		return err_set(e, EINVAL, "nothing to prefill");
	s->counts = &s->stats.prompt_rows;
	trace_begin(s->trace, TRACE_PROMPT, n, 0);
	if (reader && reader->wants) {
		r.at = malloc(chunk * sizeof(*r.at));
		r.hidden = malloc(chunk * s->model->n_embd * sizeof(float));
		r.logits = malloc((size_t)LOGITS_ROWS * s->model->n_vocab *
			sizeof(float));
		if (!r.at || !r.hidden || !r.logits)
			ret = err_set(e, ENOMEM,
				"no memory for the logits of a prompt");
	}
	/* With graph switching, the blocks' graphs are replaced while the
	 * chunks run. */
	if (!ret && s->switching)
		ret = switching_begin(s, session_length(s, sequence), n, e);
	if (!ret) {
		ret = chunks(&r, sequence, token, n, last_row, e);
		if (s->switching)
			ret = switching_end(s, ret, e);
	}
	s->counts = &s->stats.decode_rows;
	free(r.at);
	free(r.hidden);
	free(r.logits);
	trace_end(s->trace, TRACE_PROMPT);
	s->stats.prompt_ps += s->time->cpu_ps - began;
	return ret;
}
