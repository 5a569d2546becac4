/*
 * Adds, forks, cuts and chooses the samples of a request, which all continue
 * the same prompt (samples.h). The pool is the struct samples, which owns all
 * samples of the request. A lane is a sequence that is being decoded; each
 * sample has a lane.
 */
#include "host/scheduler/samples_impl.h"

#include "base/checked.h"
#include "base/clock.h"
#include "host/scheduler/method.h"
#include "host/scheduler/tree_options.h"
#include "host/session/session.h"
#include "host/text/sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ------------------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(samples_options, field)
static const struct opt samples_rows_of[] = {
	{ OPT_UINT, 'N', "samples", IN(n), "N",
		"samples of one prompt ({}); each with its own random numbers; "
		"all are printed, unless the method chooses one",
		1, SAMPLES_MOST, .noun = "samples" },
	{ OPT_UINT, 0, "parallel", IN(parallel), "K",
		"number of samples that are decoded at the same time ({}); the "
		"other samples wait until one of the K samples ends",
		1, SAMPLES_PARALLEL, .noun = "samples" },
	{ OPT_UINT, 0, "slots", IN(slots), "N",
		"size of the key-value cache for all samples together, in "
		"tokens (0: as many as needed); samples wait while it is full",
		0, 1 << 26, .noun = "samples" },
	{ OPT_STRING, 0, "step-end", IN(step_end), "TEXT",
		"text that marks the end of a reasoning step (a line feed)",
		.noun = "samples" },
	{ OPT_UINT, 0, "step-tokens", IN(step_tokens), "K",
		"end a reasoning step after K tokens even without the text of "
		"--step-end (0: never)", 0, 1 << 20, .noun = "samples" },
};
#undef IN
/* clang-format on */

const struct opt_table samples_table = {
	.heading = "samples",
	.rows = samples_rows_of,
	.n = ARRAY_LEN(samples_rows_of),
	.defaults = &(const struct samples_options){ .n = 1, .parallel = 16 },
	.size = sizeof(struct samples_options),
};

uint32_t samples_rows(const struct method_env *env)
{
	const struct samples_options *o = method_options(env, &samples_table);

	return o->n < o->parallel ? o->n : o->parallel;
}

uint32_t samples_tree_rows(const struct method_env *env)
{
	const struct tree_options *o = method_options(env, &tree_table);
	const uint32_t rows = o->rows ? o->rows : TREE_ROWS;

	return rows > samples_rows(env) ? rows : samples_rows(env);
}

uint32_t samples_all(const struct method_env *env)
{
	const struct samples_options *o = method_options(env, &samples_table);

	return o->n;
}

double samples_temperature(const struct method_env *env)
{
	return samples_all(env) > 1 ? 0.8 : 0;
}

/* ---- one sample ---------------------------------------------------------- */

const char *sample_state_name(enum lane_state state)
{
	static const char *const name[] = {
		[LANE_WAITING] = "waiting",
		[LANE_RUNNING] = "running",
		[LANE_PAUSED] = "paused",
		[LANE_ENDED] = "ended",
		[LANE_CUT] = "cut",
		[LANE_FAILED] = "failed",
	};

	return (size_t)state < ARRAY_LEN(name) ? name[state] : "unknown";
}

/* ---- adding samples to the pool ------------------------------------------ */

int samples_open(struct samples **out, struct method_env *env,
	struct generation *g, struct err *e)
{
	const struct many_steps *many = env->method->many;
	struct samples *p = calloc(1, sizeof(*p));
	void *own = calloc(1, many->bytes + 1);

	*out = NULL;
	if (!p || !own) {
		free(p);
		free(own);
		return err_set(e, ENOMEM, "no memory for samples");
	}
	*p = (struct samples){ .gen = g,
		.env = env,
		.many = many,
		.own = own,
		.opts = *(const struct samples_options *)method_options(
			env, &samples_table),
		.stream = gen_sampling(g)->stream };
	if (!p->opts.step_end)
		p->opts.step_end = "\n";
	*out = p;
	return 0;
}

void samples_close(struct samples *p)
{
	if (!p)
		return;
	samples_detach(p);
	if (p->many->close)
		p->many->close(p->own);
	for (uint32_t i = 0; i < p->n; i++)
		sample_free(p->sample[i]);
	free(p->sample);
	free(p->to_score);
	free(p->own);
	free(p);
}

/* Add a sample that starts with the tokens of `g`. */
static int add(struct samples *p, const struct generation *g, uint64_t stream,
	struct sample **out, struct err *e)
{
	struct sample *s;
	int ret;

	if (p->n == p->room) {
		uint32_t room = p->room ? 2 * p->room : 16;
		struct sample **list =
			reallocarray(p->sample, room, sizeof(*list));
		struct sample **to_score =
			reallocarray(p->to_score, room, sizeof(*to_score));

		p->sample = list ? list : p->sample;
		p->to_score = to_score ? to_score : p->to_score;
		if (!list || !to_score)
			return err_set(
				e, ENOMEM, "no memory for %u samples", room);
		p->room = room;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ENOMEM, "no memory for a sample");
	*s = (struct sample){ .lane = { .ops = &samples_lane_ops,
				      .root = p->root },
		.pool = p,
		.index = p->n,
		.parent = -1,
		.stream = stream,
		.value = NAN,
		.weight = 1 };
	sample_begin(p, s);
	ret = generation_fork(&s->gen, g, stream, sample_keep_text, s, e);
	s->lane.gen = s->gen;
	if (!ret)
		ret = scheduler_add(p->scheduler, &s->lane, e);
	if (ret) {
		sample_free(s);
		return ret;
	}
	lane_move_after(&s->lane, p->n ? &p->sample[p->n - 1]->lane : p->root);
	p->sample[p->n++] = *out = s;
	return 0;
}

int samples_add(struct samples *p, uint32_t n, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < n && !ret; i++) {
		struct sample *s;

		ret = add(p, p->gen, p->stream + p->n, &s, e);
		if (!ret && gen_done(s->gen)) {
			s->stop = gen_stop_reason(s->gen);
			sample_end(p, s, LANE_ENDED);
		}
	}
	return ret;
}

int samples_fork(struct samples *p, struct sample *from, uint64_t stream,
	struct sample **out, struct err *e)
{
	struct sample *s;
	int ret;

	if (lane_is_over(&from->lane))
		return err_set(e, EINVAL,
			"sample %u has ended and cannot be continued",
			from->index);
	ret = add(p, from->gen, stream, &s, e);
	if (ret)
		return ret;
	if (sample_copy(p, s, from)) {
		scheduler_drop(&s->lane);
		sample_free(p->sample[--p->n]);
		return err_set(e, ENOMEM, "no memory for a sample");
	}
	if (from->lane.sequence != LANE_NO_SEQUENCE)
		ret = session_fork(p->scheduler->session, from->lane.sequence,
			&s->lane.sequence, e);
	/* if the fork failed, the sample has no sequence, and its tokens are
	 * computed again later */
	if (ret)
		s->lane.sequence = LANE_NO_SEQUENCE;
	*out = s;
	return 0;
}

/* ---- continuations that begin early -------------------------------------- */

int samples_fork_early(struct samples *p, struct sample *from, uint64_t stream,
	bool *began, struct err *e)
{
	struct sample *s;
	int ret = samples_fork(p, from, stream, &s, e);

	*began = !ret && s->lane.sequence != LANE_NO_SEQUENCE;
	if (ret)
		return ret;
	if (!*began) {
		scheduler_drop(&s->lane);
		sample_free(p->sample[--p->n]);
		return 0;
	}
	s->early = true;
	s->child = from->children++;
	s->lane.held = false;
	sample_draw_ahead(p, s);
	return 0;
}

static void drop_early(struct samples *p, struct sample *s)
{
	if (!lane_is_over(&s->lane))
		sample_end(p, s, LANE_CUT);
	else if (s->lane.state == LANE_ENDED)
		s->lane.state = LANE_CUT;
	s->early = false;
}

struct sample *samples_take_early(
	struct samples *p, struct sample *from, uint32_t child)
{
	struct sample *s = NULL;

	for (uint32_t i = 0; i < p->n && !s; i++)
		if (p->sample[i]->early && p->sample[i]->child == child &&
			p->sample[i]->parent == (int32_t)from->index)
			s = p->sample[i];
	if (!s)
		return NULL;
	s->early = false;
	s->ready = s->lane.held;
	memcpy(s->score, from->score, from->n_steps * sizeof(*s->score));
	if (!child) {
		/* continuation 0 replaces `from`, so the two samples exchange
		 * their indices */
		const uint32_t index = s->index;

		s->parent = from->parent;
		s->index = from->index;
		from->index = index;
		p->sample[s->index] = s;
		p->sample[from->index] = from;
		drop_early(p, from);
	}
	return s;
}

void samples_drop_early(struct samples *p, const struct sample *from)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->sample[i]->early &&
			(!from || p->sample[i]->parent == (int32_t)from->index))
			drop_early(p, p->sample[i]);
}

/* ---- ending a sample ----------------------------------------------------- */

void samples_cut(struct samples *p, struct sample *s)
{
	samples_drop_early(p, s);
	if (!lane_is_over(&s->lane) && !sample_is_whole(s))
		sample_end(p, s, LANE_CUT);
}

/* ---- running a request --------------------------------------------------- */

void samples_read(struct samples *p, struct session *session, size_t at,
	uint32_t row, uint32_t n)
{
	for (uint32_t i = 0; i < n && !p->no_memory; i++)
		if (tapped_keep(&p->prompt, session, at + i, row + i))
			p->no_memory = true;
}

void samples_read_all(struct samples *p, const float *logits, uint32_t n_vocab)
{
	size_t bytes = n_vocab * sizeof(*logits);

	p->is_read = true;
	if (!logits)
		return;
	p->prompt_logits = malloc(bytes);
	if (p->prompt_logits)
		memcpy(p->prompt_logits, logits, bytes);
	else
		p->no_memory = true;
}

bool samples_are_read(const struct samples *p)
{
	return p->is_read;
}

bool samples_have_begun(const struct samples *p)
{
	return p->scheduler;
}

/* Resume the samples that have waited for each other at the ends of their
 * steps. A sample that began the next step before the others and has already
 * completed it (`ready`) goes on waiting. */
static void resume(struct samples *p)
{
	for (uint32_t i = 0; i < p->n; i++) {
		struct sample *s = p->sample[i];
		bool waits = s->ready && p->by_step;

		s->ready = false;
		if (waits)
			continue;
		s->lane.held = false;
		sample_draw_ahead(p, s);
	}
}

int samples_begin(struct samples *p, struct scheduler *scheduler,
	struct lane *root, struct err *e)
{
	int ret;

	p->scheduler = scheduler;
	p->before = scheduler->stats;
	p->root = root;
	ret = p->many->begin(p, e);
	if (!ret)
		resume(p);
	return ret;
}

static bool any_is_active(const struct samples *p)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (!p->sample[i]->early && lane_is_active(&p->sample[i]->lane))
			return true;
	return false;
}

/* Called before the method's `next` (then `waiting` is true) and before its
 * `between`. Returns whether samples must be scored before that call; if so,
 * p->to_score has these samples. */
static bool must_score(struct samples *p, bool waiting)
{
	p->n_to_score = p->many->to_score && !p->is_scored
		? p->many->to_score(p, waiting, p->to_score)
		: 0;
	p->is_scored = false;
	return p->n_to_score;
}

/* Call the method's `next` until there is an active sample (which has not ended
 * and is not held), samples must be scored, or the answer is chosen. */
static int next(struct samples *p, struct err *e)
{
	int ret = 0;

	while (!ret && !p->no_memory && !any_is_active(p)) {
		if (must_score(p, true))
			return MANY_SCORE;
		ret = p->many->next(p, e);
		if (!ret)
			resume(p);
	}
	return ret;
}

int samples_next(struct samples *p, struct err *e)
{
	const struct scheduler *l = p->scheduler;
	int ret = next(p, e);

	if (!ret && !p->no_memory && p->many->between) {
		/* number of rows of the next pass that active lanes use */
		uint32_t used = 0;

		if (must_score(p, false))
			return MANY_SCORE;
		for (uint32_t i = 0; i < l->n; i++)
			used += lane_is_active(l->lane[i]);
		ret = p->many->between(
			p, used < l->width ? l->width - used : 0, e);
		if (!ret)
			ret = next(p, e);
	}
	if (ret >= 0 && p->no_memory)
		ret = err_set(e, ENOMEM, "no memory for samples");
	return ret;
}

struct sample *const *samples_to_score(const struct samples *p, uint32_t *n)
{
	*n = p->n_to_score;
	return p->to_score;
}

void samples_scored(struct samples *p)
{
	p->is_scored = true;
}

void samples_stop(struct samples *p)
{
	if (p->scheduler && p->many->stop)
		p->many->stop(p);
}

void samples_detach(struct samples *p)
{
	for (uint32_t i = 0; i < p->n && p->scheduler; i++) {
		struct sample *s = p->sample[i];

		if (!lane_is_over(&s->lane)) {
			lane_forget(&s->lane);
			gen_flush(s->gen);
			if (!s->n)
				sample_begin(p, s);
			s->ended_ns = clock_ns();
			s->ended_ps = session_phone_ps(p->scheduler->session);
		}
		scheduler_drop(&s->lane);
	}
	if (p->scheduler)
		samples_stats(p, &p->stats);
	p->scheduler = NULL;
	p->root = NULL;
	p->n_to_score = 0;
	free(p->prompt_logits);
	p->prompt_logits = NULL;
	tapped_release(&p->prompt);
}

/* ---- reading a pool ------------------------------------------------------ */

uint32_t samples_count(const struct samples *p)
{
	return p->n;
}

struct sample *samples_at(const struct samples *p, uint32_t i)
{
	return p->sample[i];
}

uint32_t samples_in(const struct samples *p, enum lane_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n; i++)
		n += p->sample[i]->lane.state == state;
	return n;
}

int samples_check(const struct samples *p, struct err *e)
{
	if (!p->n || samples_in(p, LANE_FAILED) < p->n)
		return 0;
	*e = p->sample[0]->err;
	return e->code;
}

bool samples_deliver(struct samples *p, const struct sample *s)
{
	size_t n, have;
	const int32_t *token = gen_tokens(s->gen, &n);

	gen_tokens(p->gen, &have);
	for (size_t i = have; i < n; i++)
		gen_append(p->gen, token[i]);
	if (s->stop == GEN_STOP_CONTEXT)
		gen_no_room(p->gen);
	return gen_stop_reason(p->gen) != GEN_STOP_ERROR;
}

void samples_choose(struct samples *p, const struct sample *s)
{
	samples_deliver(p, s);
	p->chosen = s;
}

const struct method_env *samples_env(const struct samples *p)
{
	return p->env;
}

void *samples_own(const struct samples *p)
{
	return p->own;
}

void samples_wait_at_steps(struct samples *p, bool wait)
{
	p->by_step = wait;
}

void samples_count_drafts(
	const struct samples *p, uint64_t *drafted, uint64_t *accepted)
{
	*drafted = *accepted = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		*drafted += p->sample[i]->lane.drafted;
		*accepted += p->sample[i]->lane.accepted;
	}
}

const struct sample *samples_chosen(const struct samples *p)
{
	return p->chosen;
}

const float *samples_prompt_state(const struct samples *p)
{
	return p->prompt.state;
}

void samples_stats(const struct samples *p, struct samples_stats *out)
{
	const struct scheduler_stats *now, *was = &p->before;

	*out = p->stats;
	if (!p->scheduler)
		return;
	now = &p->scheduler->stats;
	*out = (struct samples_stats){ p->tokens, now->passes - was->passes,
		now->rows - was->rows, now->pauses - was->pauses,
		now->forgotten - was->forgotten };
}
