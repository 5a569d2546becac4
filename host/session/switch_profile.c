/*
 * Times of runs and loads of each block. The times are measured once, when the
 * session opens, with a few dummy rows, in simulated phone time or, without a
 * simulated phone, in wall time. Attention takes longer if more tokens are
 * cached. So each graph is measured at two lengths (numbers of tokens that the
 * last row attends to), and times for other lengths are interpolated linearly.
 */
#include "host/session/session_impl.h"
#include "host/session/switching.h"

#include "base/err.h"
#include "host/session/sequence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- measuring ----------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Measure a pass that fills the graph, after the tokens that are cached now,
 * and store the times as sample number `i`. If `keep` is set, accept the
 * rows. */
static int sample(struct session *s, enum graph_kind kind, unsigned i,
	const int32_t *token, bool keep, struct err *e)
{
	struct switch_samples *to = &s->switching->run[kind];
	uint32_t cached = session_length(s, SESSION_TEXT);
	uint32_t most = least(s->plan.context, s->plan.slots);
	uint32_t rows = least(s->plan.graph_rows[kind], most - cached);
	int ret;

	s->switching->sample = to->time[i];
	to->length[i] = cached + rows;
	ret = session_continue(s, SESSION_TEXT, token, rows, e);
	if (!ret && keep)
		ret = session_accept(s, SESSION_TEXT, NULL, rows, e);
	return ret;
}

/* Load all graphs of one kind, to measure the load times. switching_answered
 * stores the times. */
static int load_all(struct session *s, enum graph_kind kind, struct err *e)
{
	int ret = 0;

	for (uint32_t b = 0; b < s->n_blocks && !ret; b++)
		ret = switching_load(s, b, kind, e);
	return ret ? ret : switching_wait(s, e);
}

static int measure(struct session *s, struct err *e)
{
	struct switch_samples *prefill = &s->switching->run[GRAPH_PREFILL];
	const uint32_t *rows = s->plan.graph_rows, *length = prefill->length;
	uint32_t most = least(s->plan.context, s->plan.slots);
	int32_t *token = calloc(s->plan.max_rows, sizeof(*token));
	int ret;

	if (!token)
		return err_set(e, ENOMEM,
			"no memory to measure passes for graph switching");
	/* Measure the prefill graph at two lengths. If the context has no room
	 * for a second sample, use the first sample twice. */
	ret = sample(s, GRAPH_PREFILL, 0, token, true, e);
	if (!ret && most / 2 >= rows[GRAPH_PREFILL]) {
		ret = sample(s, GRAPH_PREFILL, 1, token, true, e);
	} else if (!ret) {
		memcpy(prefill->time[1], prefill->time[0],
			sizeof(prefill->time[0]));
		prefill->length[1] = prefill->length[0];
	}
	if (!ret)
		ret = load_all(s, GRAPH_DECODE, e);
	/* Measure the decode graph at the same two lengths: the time of
	 * attention may grow in steps of whole tiles, so times at different
	 * lengths could not be compared. */
	for (unsigned i = 2; i-- && !ret;) {
		session_truncate(s, SESSION_TEXT,
			length[i] - least(length[i], rows[GRAPH_DECODE]));
		ret = sample(s, GRAPH_DECODE, i, token, false, e);
	}
	if (!ret)
		ret = load_all(s, GRAPH_PREFILL, e);
	session_truncate(s, SESSION_TEXT, 0);
	s->switching->sample = NULL;
	for (uint32_t b = 0; b < s->n_blocks; b++)
		/* after a failure, a new device must load the prefill graphs */
		s->switching->kind[b] = GRAPH_PREFILL;
	free(token);
	return ret;
}

int switching_measure(struct session *s, struct err *e)
{
	struct session_stats stats = s->stats;
	struct phone_time time = *s->time;
	struct npu_stats npu;
	int ret;

	npu_stats(s->npu, &npu);
	s->time->trace = NULL; /* do not trace the measurement */
	ret = measure(s, e);
	npu_stats(s->npu, &s->switching->warm_up);
	npu_stats_less(&s->switching->warm_up, &npu);
	/* Let switching_stats subtract no violations, so that the session
	 * reports the coherence violations of the measurement, too. */
	s->switching->warm_up.violations = 0;
	stats.bytes_mapped = s->stats.bytes_mapped;
	s->stats = stats;
	*s->time = time;
	s->switching->end = 0;
	s->switching->measured = !ret;
	return ret;
}

/* ---- expecting ----------------------------------------------------------- */

/* Expected time of a run whose last row attends to `length` tokens, by linear
 * interpolation of the two samples. The time never decreases with the length,
 * even if the wall clock measured a decrease. */
static uint64_t expect_run(
	const struct switch_samples *of, uint32_t block, uint32_t length)
{
	uint64_t t0 = of->time[0][block], t1 = of->time[1][block];
	double slope;

	if (t1 <= t0 || of->length[1] <= of->length[0])
		return t1 < t0 ? t1 : t0;
	slope = (double)(t1 - t0) / (of->length[1] - of->length[0]);
	slope *= (double)length - of->length[0];
	return slope < -(double)t0 ? 0 : (uint64_t)((double)t0 + slope);
}

uint64_t switching_expect(const struct session *s, enum graph_kind kind,
	uint32_t block, uint32_t cached, uint32_t rows)
{
	uint32_t most = s->plan.graph_rows[kind];
	uint64_t sum = 0;

	for (uint32_t done = 0, some; done < rows; done += some) {
		some = least(most, rows - done);
		sum += expect_run(
			&s->switching->run[kind], block, cached + done + some);
	}
	return sum;
}
