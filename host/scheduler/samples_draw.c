/*
 * Draws the tokens of samples, and implements the callbacks of a sample's lane
 * (struct lane_ops of scheduler.h). A lane is a sequence that is being decoded.
 * A lane that is held takes part in no pass. A closing lane takes part in one
 * more pass, but only for the hidden state of its last token.
 */
#include "host/scheduler/samples_impl.h"

#include "base/clock.h"
#include "host/scheduler/method.h"
#include "host/session/session.h"
#include "host/text/certainty.h"
#include "host/text/sampler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- drawing tokens ------------------------------------------------------ */

/* Fail the sample for lack of memory; no_memory then ends the whole run. */
static void fail_memory(struct samples *p, struct sample *s)
{
	p->no_memory = true;
	s->lane.state = LANE_FAILED;
	err_set(&s->err, ENOMEM, "no memory for sample %u", s->index);
}

void sample_end(struct samples *p, struct sample *s, enum lane_state state)
{
	s->lane.closing = false;
	lane_end(&s->lane, state);
	s->ended_ns = clock_ns();
	s->ended_ps = session_phone_ps(p->scheduler->session);
	gen_flush(s->gen);
	if (s->text.failed ||
		(state == LANE_ENDED && sample_is_begun(s) &&
			sample_end_step(s)))
		fail_memory(p, s);
}

/* Get the sample's next token: draw it, or take it from the script (struct
 * samples_script) if there is one. */
static int32_t next_token(
	const struct samples *p, const struct sample *s, const float *logits)
{
	const struct samples_script *script = p->env->script;
	int32_t id;

	if (!script)
		return method_next(p->scheduler->session, s->gen, logits);
	session_add_draw(
		p->scheduler->session, gen_sampling(s->gen)->temperature == 0);
	assert(s->index < script->n && s->n < script->sample[s->index].n);
	id = script->sample[s->index].token[s->n];
	gen_append(s->gen, id);
	return id;
}

void sample_begin(const struct samples *p, struct sample *s)
{
	s->began_ns = clock_ns();
	s->began_ps = session_phone_ps(p->scheduler->session);
}

static void notify(struct samples *p, struct sample *s)
{
	if (p->many->drew)
		p->many->drew(p, s);
}

bool sample_is_whole(const struct sample *s)
{
	return s->lane.closing && gen_done(s->gen);
}

/* Draw the next token of a sample from a row of logits, and record it. May end
 * the sample. */
static void draw(struct samples *p, struct sample *s, const float *logits)
{
	struct certainty c = { 0 };
	int32_t id;
	bool step;
	int ret;

	if (!s->n)
		sample_begin(p, s);
	id = next_token(p, s, logits);
	ret = sample_grow_tokens(s);
	if (!ret) {
		/* Record the statistics of the token. Add to the simulated
		 * phone's time two sweeps over the logits: one finds the
		 * largest logits, the other adds the values for the softmax. */
		session_add_tops(p->scheduler->session, 1, SAMPLES_CONFIDENCE);
		session_add_sum(p->scheduler->session);
		if (!p->env->script)
			certainty_of(&c, logits, p->scheduler->n_vocab, id,
				SAMPLES_CONFIDENCE);
		s->logprob += c.logprob;
		s->certainty += c.self;
		s->confidence[s->n++] = (float)c.confidence;
		p->tokens++;
	}
	step = !ret && sample_step_ends(s, &p->opts);
	s->stop = gen_stop_reason(s->gen);
	if (step)
		ret = sample_end_step(s);
	if (ret || s->stop == GEN_STOP_ERROR) {
		sample_end(p, s, LANE_FAILED);
		fail_memory(p, s);
	} else if (!gen_done(s->gen)) {
		s->lane.closing = step && p->by_step;
	} else if (p->prompt.n && s->stop != GEN_STOP_EOS) {
		s->lane.closing = true;
	} else {
		sample_end(p, s, LANE_ENDED);
	}
	if (!sample_is_whole(s))
		notify(p, s);
}

void sample_draw_ahead(struct samples *p, struct sample *s)
{
	float *logits = s->ahead;

	s->ahead = NULL;
	if (logits && !lane_is_over(&s->lane))
		draw(p, s, logits);
	free(logits);
}

/* ---- callbacks of a sample's lane ---------------------------------------- */

static struct sample *sample_of(struct lane *x)
{
	return (struct sample *)x;
}
_Static_assert(offsetof(struct sample, lane) == 0,
	"a pointer to the lane also "
	"points to its sample");

/*
 * Callback `enter` of a sample's lane. A new sample draws its first token from
 * the logits of the prompt's last row, and forks the sequence of the root (the
 * request's lane). If the root's cache was dropped, the sample forks the
 * prompt's tokens from the sequence of another sample, or gets an empty
 * sequence.
 */
static int enter(struct lane *x, struct err *e)
{
	struct samples *p = sample_of(x)->pool;
	struct session *session = p->scheduler->session;
	uint32_t prompt = (uint32_t)gen_prompt_length(p->gen);

	if (!sample_of(x)->n)
		draw(p, sample_of(x), p->prompt_logits);
	if (!lane_is_active(x) || x->sequence != LANE_NO_SEQUENCE)
		return 0;
	if (x->root->sequence != LANE_NO_SEQUENCE)
		return session_fork(
			session, x->root->sequence, &x->sequence, e);
	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t from = p->sample[i]->lane.sequence;
		int ret;

		if (from == LANE_NO_SEQUENCE ||
			session_length(session, from) < prompt)
			continue;
		ret = session_fork(session, from, &x->sequence, e);
		if (!ret)
			session_truncate(session, x->sequence, prompt);
		return ret;
	}
	return session_add(session, &x->sequence, e);
}

static void keep_state(struct lane *x, uint32_t row)
{
	struct sample *s = sample_of(x);
	struct samples *p = s->pool;
	size_t n;

	gen_tokens(s->gen, &n);
	if (tapped_keep(&s->tapped, p->scheduler->session,
		    n - 1 - gen_prompt_length(s->gen), row)) {
		sample_end(p, s, LANE_FAILED);
		fail_memory(p, s);
	}
}

/*
 * Callback `draw` of a sample's lane. If the lane is closing, the pass computed
 * the row only for its hidden state, and no token is drawn now. If the text is
 * finished, the sample ends. If a step has ended, the sample is held until the
 * other samples have ended their steps.
 */
static void draw_lane(struct lane *x, const float *logits)
{
	struct sample *s = sample_of(x);
	struct samples *p = s->pool;
	size_t bytes = p->scheduler->n_vocab * sizeof(*logits);

	if (sample_is_whole(s)) {
		sample_end(p, s, LANE_ENDED);
		notify(p, s);
		return;
	}
	/* Draw a token now, unless the sample must wait at the end of its step.
	 * A closing lane need not wait if samples_wait_at_steps(p, false) was
	 * called after the step had ended. */
	if (!x->closing || !p->by_step) {
		x->closing = false;
		draw(p, s, logits);
		return;
	}
	x->closing = false;
	x->held = true;
	s->ahead = malloc(bytes);
	if (s->ahead)
		memcpy(s->ahead, logits, bytes);
	else
		fail_memory(p, s);
}

static void end_without_room(struct lane *x)
{
	struct sample *s = sample_of(x);

	s->no_slot = true;
	gen_no_room(s->gen);
	s->stop = gen_stop_reason(s->gen);
	sample_end(s->pool, s, LANE_ENDED);
}

static void end_failed(struct lane *x, const struct err *e)
{
	struct sample *s = sample_of(x);

	s->err = *e;
	sample_end(s->pool, s, LANE_FAILED);
}

static void computed(struct lane *x, uint32_t first, uint32_t rows,
	uint64_t began_ns, bool last)
{
	const struct lane_ops *root = x->root->ops;

	if (root)
		root->computed(x->root, first, rows, began_ns, last);
}

const struct lane_ops samples_lane_ops = {
	.enter = enter,
	.row_done = keep_state,
	.draw = draw_lane,
	.computed = computed,
	.no_room = end_without_room,
	.fail = end_failed,
};
