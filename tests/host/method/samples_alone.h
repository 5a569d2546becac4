/* Runs the samples of one request, as the library does for a request that runs
 * alone: the lane (running request) of the root first processes the prompt;
 * then passes of the model and steps of the method alternate. The root is the
 * sequence from which the samples are forked. */
#ifndef TESTS_HOST_METHOD_SAMPLES_ALONE_H
#define TESTS_HOST_METHOD_SAMPLES_ALONE_H

#include "host/method/choosing.h"
#include "host/scheduler/method.h"
#include "host/scheduler/samples.h"
#include "host/session/session.h"

#include <errno.h>
#include <stddef.h>

/* Called after each pass; may be NULL. */
struct samples_sink {
	void (*after_pass)(void *arg, const struct samples *);
	void *arg;
};

struct samples_alone {
	struct lane root;
	struct samples *samples;
};

static inline struct samples_alone *samples_alone_of(struct lane *x)
{
	return (struct samples_alone *)((char *)x -
		offsetof(struct samples_alone, root));
}

static inline int samples_alone_enter(struct lane *x, struct err *e)
{
	return 0; /* the root is the sequence SESSION_TEXT */
}

static inline void samples_alone_draw(struct lane *x, const float *logits)
{
	samples_read_all(
		samples_alone_of(x)->samples, logits, x->scheduler->n_vocab);
	x->state = LANE_KEPT;
	x->held = true;
}

static inline void samples_alone_computed(struct lane *x, uint32_t first,
	uint32_t rows, uint64_t began_ns, bool last)
{
	struct samples *p = samples_alone_of(x)->samples;
	struct session *s = x->scheduler->session;

	if (!samples_are_read(p))
		samples_read(p, s, session_length(s, x->sequence), first, rows);
}

/* The sequence SESSION_TEXT may hold the first tokens of the prompt, unless the
 * session keeps hidden states. After the call the sequence holds the whole
 * prompt, or nothing. */
static inline int samples_run_alone(struct samples *samples,
	struct method_env *env, struct generation *gen, struct session *s,
	const struct samples_sink *sink, struct err *e)
{
	static const struct lane_ops ops = {
		.enter = samples_alone_enter,
		.draw = samples_alone_draw,
		.computed = samples_alone_computed,
	};
	const struct samples_options *o = method_options(env, &samples_table);
	uint32_t rows = samples_tree_rows(env);
	struct samples_alone a = { { .ops = &ops, .gen = gen }, samples };
	struct scheduler l = {
		.session = s, .env = env, .tree_rows = rows, .lane_rows = rows
	};
	int ret = scheduler_open(&l, o->parallel, e);

	if (!ret)
		ret = scheduler_add(&l, &a.root, e);
	a.root.sequence = SESSION_TEXT;
	while (!ret) {
		uint64_t passes = l.stats.passes;

		ret = scheduler_step(&l, e);
		if (!ret && sink && sink->after_pass && l.stats.passes > passes)
			sink->after_pass(sink->arg, samples);
		if (!ret && !samples_have_begun(samples))
			ret = samples_begin(samples, &l, &a.root, e);
		if (!ret)
			ret = samples_next(samples, e);
		while (ret == MANY_SCORE) {
			uint32_t n;
			struct sample *const *list =
				samples_to_score(samples, &n);

			ret = choosing_score(env, list, n, e);
			if (!ret)
				samples_scored(samples);
			if (!ret)
				ret = samples_next(samples, e);
		}
	}
	if (ret == -ECANCELED)
		samples_stop(samples);
	samples_detach(samples);
	/* the cache of the root's sequence may have been dropped */
	if (a.root.sequence == LANE_NO_SEQUENCE)
		session_add(s, &a.root.sequence, NULL);
	scheduler_close(&l);
	return ret == MANY_DONE ? 0 : ret;
}

#endif
