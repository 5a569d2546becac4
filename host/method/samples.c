#include "host/method/samples.h"

#include "base/checked.h"
#include "base/clock.h"
#include "host/method/lanes.h"
#include "host/method/method.h"
#include "host/method/tree_options.h"
#include "host/model/model.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/certainty.h"
#include "host/text/sampler.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct samples {
	struct lanes lanes;     /* session NULL: at rest */
	struct generation *gen; /* the user's; of the run, as the session */
	struct samples_options opts;
	struct method_env *env;
	uint64_t stream;      /* of sample 0 */
	float *prompt_logits; /* [n_vocab]; NULL: no token is wanted */
	struct tapped prompt;
	uint32_t n, room;
	struct sample **sample; /* [n] */
	const struct sample *chosen;
	samples_token *told;
	void *told_arg;
	bool by_step; /* samples wait for one another */
	bool no_memory;
	uint64_t tokens; /* drawn */
};

/* ---- options ------------------------------------------------------------- */

/* clang-format off */
#define IN(field) OPT_IN(samples_options, field)
static const struct opt samples_rows_of[] = {
	{ OPT_UINT, 'N', "samples", IN(n), "N",
		"texts of one prompt, each with random numbers of its own "
		"({}); without a method that chooses among them all are told",
		1, SAMPLES_MOST, .noun = "samples" },
	{ OPT_UINT, 0, "parallel", IN(parallel), "K",
		"of them at a time in a pass ({}); as they end others begin",
		1, SAMPLES_PARALLEL, .noun = "samples" },
	{ OPT_UINT, 0, "slots", IN(slots), "N",
		"tokens that all of them together have room for in the "
		"key-value cache (0: as many as they need and it holds); where "
		"it is full some wait until others have ended",
		0, 1 << 26, .noun = "samples" },
	{ OPT_STRING, 0, "step-end", IN(step_end), "TEXT",
		"what ends a step of a text (a line feed)",
		.noun = "samples" },
};
#undef IN
/* clang-format on */

const struct opt_table samples_table = {
	.heading = "Samples",
	.rows = samples_rows_of,
	.n = ARRAY_LEN(samples_rows_of),
	.defaults = &(const struct samples_options){ .n = 1, .parallel = 16 },
	.size = sizeof(struct samples_options),
};

static const struct samples_options *options_of(const struct method_env *env)
{
	return method_options(env, &samples_table);
}

uint32_t samples_rows(const struct method_env *env)
{
	const struct samples_options *o = options_of(env);

	return o->n < o->parallel ? o->n : o->parallel;
}

uint32_t samples_tree_rows(const struct method_env *env)
{
	uint32_t rows = tree_decode_rows(env);

	return rows > samples_rows(env) ? rows : samples_rows(env);
}

uint32_t samples_all(const struct method_env *env)
{
	return options_of(env)->n;
}

double samples_temperature(const struct method_env *env)
{
	return samples_all(env) > 1 ? 0.8 : 0;
}

/* ---- one sample ---------------------------------------------------------- */

bool sample_is_over(const struct sample *s)
{
	return lane_is_over(&s->lane);
}

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

static int keep_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct sample *s = arg;

	strbuf_add(&s->text, text, len);
	return s->text.failed ? -ENOMEM : 0;
}

static void sample_free(struct sample *s)
{
	generation_close(s->gen);
	strbuf_release(&s->text);
	strbuf_release(&s->answer);
	free(s->confidence);
	free(s->step_end);
	free(s->score);
	free(s->ahead);
	tapped_release(&s->tapped);
	free(s);
}

/* Room for one token more. */
static int grow_tokens(struct sample *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	float *p;

	if (s->n < s->room)
		return 0;
	p = reallocarray(s->confidence, room, sizeof(*p));
	if (!p)
		return -ENOMEM;
	s->confidence = p;
	s->room = room;
	return 0;
}

static int grow_steps(struct sample *s)
{
	uint32_t room = s->step_room ? 2 * s->step_room : 16;
	uint32_t *end;
	float *score;

	if (s->n_steps < s->step_room)
		return 0;
	end = reallocarray(s->step_end, room, sizeof(*end));
	if (end)
		s->step_end = end;
	score = reallocarray(s->score, room, sizeof(*score));
	if (score)
		s->score = score;
	if (!end || !score)
		return -ENOMEM;
	s->step_room = room;
	return 0;
}

/* ---- steps --------------------------------------------------------------- */

static bool is_blank(const char *text, size_t len)
{
	size_t i = 0;

	while (i < len && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	return i == len;
}

static bool is_begun(const struct sample *s)
{
	size_t len = s->text.len - s->step_at;

	return len && !is_blank(s->text.data + s->step_at, len);
}

/* The last token ends a step; one that there is no room for is no part of it.
 */
static int end_step(struct sample *s)
{
	size_t n, least = gen_prompt_length(s->gen);
	int ret = grow_steps(s);

	if (ret)
		return ret;
	if (s->n_steps)
		least = (size_t)s->step_end[s->n_steps - 1] + 1;
	gen_tokens(s->gen, &n);
	n -= s->roomless;
	if (n <= least)
		return 0;
	s->step_end[s->n_steps] = (uint32_t)n - 1;
	s->score[s->n_steps++] = NAN;
	s->step_at = s->text.len;
	return 0;
}

/* Whether the text holds the end of a step that it did not hold before the last
 * token. A step of nothing but blanks is the beginning of the next. */
static bool step_ends(const struct samples *p, struct sample *s)
{
	const char *end = p->opts.step_end;
	size_t len = strlen(end), from = s->looked;

	from = from < len ? 0 : from - (len - 1);
	from = from < s->step_at ? s->step_at : from;
	s->looked = s->text.len;
	return len && from < s->text.len && is_begun(s) &&
		memmem(s->text.data + from, s->text.len - from, end, len);
}

/* ---- drawing ------------------------------------------------------------- */

/* Not that sample's alone: the run ends by it. */
static void fail_memory(struct samples *p, struct sample *s)
{
	p->no_memory = true;
	s->lane.state = LANE_FAILED;
	err_set(&s->err, ENOMEM, "no memory for sample %u", s->index);
}

/* It is over, as `state` says; its slots are given back. */
static void sample_end(
	struct samples *p, struct sample *s, enum lane_state state)
{
	s->lane.closing = false;
	lane_end(&p->lanes, &s->lane, state);
	s->ended_ns = clock_ns();
	s->ended_ps = session_phone_ps(p->lanes.session);
	gen_flush(s->gen);
	if (s->text.failed ||
		(state == LANE_ENDED && is_begun(s) && end_step(s)))
		fail_memory(p, s);
}

/* The one that is told, where one is. */
static int32_t next_token(
	const struct samples *p, const struct sample *s, const float *logits)
{
	const struct samples_script *script = p->env->script;
	int32_t id;

	if (!script)
		return method_next(p->lanes.session, s->gen, logits);
	session_add_draws(
		p->lanes.session, 1, gen_sampling(s->gen)->temperature == 0);
	assert(s->index < script->n && s->n < script->sample[s->index].n);
	id = script->sample[s->index].token[s->n];
	gen_append(s->gen, id);
	return id;
}

/* Two sweeps: its sum and its largest, and the softmax. */
static void price_note(const struct samples *p)
{
	session_add_tops(p->lanes.session, 1, SAMPLES_CONFIDENCE);
	session_add_sweep(p->lanes.session, PRICE_SWEEP_ADD, 1);
}

/* What the row says of the token drawn from it. */
static int note(
	struct samples *p, struct sample *s, const float *logits, int32_t id)
{
	struct certainty c = { 0 };
	int ret = grow_tokens(s);

	if (ret)
		return ret;
	price_note(p);
	if (!p->env->script)
		certainty_of(
			&c, logits, p->lanes.n_vocab, id, SAMPLES_CONFIDENCE);
	s->logprob += c.logprob;
	s->certainty += c.self;
	s->confidence[s->n++] = (float)c.confidence;
	p->tokens++;
	return 0;
}

static void begin(const struct samples *p, struct sample *s)
{
	s->began_ns = clock_ns();
	s->began_ps = session_phone_ps(p->lanes.session);
}

static void tell(struct samples *p, struct sample *s)
{
	if (p->told)
		p->told(p->told_arg, p, s);
}

/* Its text is done, and only the state of its last token is wanted. */
static bool is_whole(const struct sample *s)
{
	return s->lane.closing && gen_done(s->gen);
}

/* The next token of a sample from its row of logits, and what is known by it;
 * it may end the sample. */
static void draw(struct samples *p, struct sample *s, const float *logits)
{
	int32_t id;
	bool step;
	int ret;

	if (!s->n)
		begin(p, s);
	id = next_token(p, s, logits);
	ret = note(p, s, logits, id);
	step = !ret && step_ends(p, s);
	s->stop = gen_stop_reason(s->gen);
	if (step)
		ret = end_step(s);
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
	if (!is_whole(s))
		tell(p, s);
}

/* Its last row is there: it is over or, where its text goes on, waits to be
 * drawn from that. */
static void close_last(struct samples *p, struct sample *s, const float *logits)
{
	size_t bytes = p->lanes.n_vocab * sizeof(*logits);

	if (is_whole(s)) {
		sample_end(p, s, LANE_ENDED);
		tell(p, s);
		return;
	}
	s->lane.closing = false;
	s->lane.held = true;
	s->ahead = malloc(bytes);
	if (s->ahead)
		memcpy(s->ahead, logits, bytes);
	else
		fail_memory(p, s);
}

static void draw_ahead(struct samples *p, struct sample *s)
{
	float *logits = s->ahead;

	s->ahead = NULL;
	if (logits && !sample_is_over(s))
		draw(p, s, logits);
	free(logits);
}

/* ---- as lanes ------------------------------------------------------------ */

static struct sample *sample_of(struct lane *x)
{
	return (struct sample *)x;
}
_Static_assert(offsetof(struct sample, lane) == 0, "a lane is its sample");

/* Its first token comes from the prompt's last row, and the prompt from
 * SESSION_TEXT. */
static int enter(void *arg, struct lane *x, struct err *e)
{
	struct samples *p = arg;

	if (!sample_of(x)->n)
		draw(p, sample_of(x), p->prompt_logits);
	if (!lane_goes_on(x) || x->sequence != LANE_NOWHERE)
		return 0;
	return session_fork(p->lanes.session, SESSION_TEXT, &x->sequence, e);
}

static void keep_state(void *arg, struct lane *x, uint32_t row)
{
	struct samples *p = arg;
	struct sample *s = sample_of(x);
	size_t n;

	gen_tokens(s->gen, &n);
	if (tapped_keep(&s->tapped, p->lanes.session,
		    n - 1 - gen_prompt_length(s->gen), row)) {
		sample_end(p, s, LANE_FAILED);
		fail_memory(p, s);
	}
}

static void draw_lane(void *arg, struct lane *x, const float *logits)
{
	if (x->closing)
		close_last(arg, sample_of(x), logits);
	else
		draw(arg, sample_of(x), logits);
}

static void end_without_room(void *arg, struct lane *x)
{
	struct sample *s = sample_of(x);

	s->roomless = true;
	gen_no_room(s->gen);
	s->stop = gen_stop_reason(s->gen);
	sample_end(arg, s, LANE_ENDED);
}

static void end_spoilt(void *arg, struct lane *x, const struct err *e)
{
	sample_of(x)->err = *e;
	sample_end(arg, sample_of(x), LANE_FAILED);
}

/* ---- the pool ------------------------------------------------------------ */

/* The prompt's last row, which all samples draw their first token from. */
static int read_prompt(
	struct samples *p, struct session *session, struct err *e)
{
	uint32_t row, n_vocab = session_model(session)->n_vocab;
	int ret = tapped_prefill(&p->prompt, session, p->gen, &row, e);

	if (ret || gen_done(p->gen))
		return ret;
	p->prompt_logits = malloc(n_vocab * sizeof(*p->prompt_logits));
	if (!p->prompt_logits)
		return err_set(e, ENOMEM, "no memory for a prompt's logits");
	return session_logits(session, row, p->prompt_logits, e);
}

int samples_open(struct method_env *env, struct session *session,
	struct generation *g, struct err *e)
{
	struct samples *p = calloc(1, sizeof(*p));
	int ret;

	samples_close(env->samples);
	env->samples = NULL;
	if (!p)
		return err_set(e, ENOMEM, "no memory for samples");
	p->lanes = (struct lanes){ .session = session,
		.env = env,
		.owner = { .enter = enter,
			.came = keep_state,
			.draw = draw_lane,
			.no_room = end_without_room,
			.spoilt = end_spoilt,
			.arg = p },
		.tree_rows = samples_tree_rows(env) };
	p->gen = g;
	p->opts = *options_of(env);
	if (!p->opts.step_end)
		p->opts.step_end = "\n";
	p->stream = gen_sampling(g)->stream;
	p->env = env;
	ret = read_prompt(p, session, e);
	if (!ret)
		ret = lanes_open(&p->lanes, p->opts.parallel, e);
	if (ret)
		samples_close(p);
	else
		env->samples = p;
	return ret;
}

void samples_rest(struct samples *p)
{
	struct session *session = p ? p->lanes.session : NULL;

	if (!session)
		return;
	for (uint32_t i = 0; i < p->n; i++) {
		struct sample *s = p->sample[i];

		if (sample_is_over(s))
			continue;
		lane_forget(&p->lanes, &s->lane);
		gen_flush(s->gen);
		if (!s->n)
			begin(p, s);
		s->ended_ns = clock_ns();
		s->ended_ps = session_phone_ps(session);
	}
	lanes_close(&p->lanes);
	free(p->prompt_logits);
	tapped_release(&p->prompt);
	p->prompt_logits = NULL;
	p->lanes.session = NULL;
	p->gen = NULL;
	p->told = NULL;
}

void samples_close(struct samples *p)
{
	if (!p)
		return;
	samples_rest(p);
	for (uint32_t i = 0; i < p->n; i++)
		sample_free(p->sample[i]);
	free(p->sample);
	free(p);
}

void samples_watch(struct samples *p, samples_token *told, void *arg)
{
	p->told = told;
	p->told_arg = arg;
}

static int grow_pool(struct samples *p, struct err *e)
{
	uint32_t room = p->room ? 2 * p->room : 16;
	struct sample **list;

	if (p->n < p->room)
		return 0;
	list = reallocarray(p->sample, room, sizeof(*list));
	if (!list)
		return err_set(e, ENOMEM, "no memory for %u samples", room);
	p->sample = list;
	p->room = room;
	return 0;
}

/* One that goes on where `g` stands. */
static int add(struct samples *p, const struct generation *g, uint64_t stream,
	struct sample **out, struct err *e)
{
	struct sample *s;
	int ret = grow_pool(p, e);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ENOMEM, "no memory for a sample");
	*s = (struct sample){ .index = p->n,
		.parent = -1,
		.stream = stream,
		.value = NAN,
		.weight = 1 };
	begin(p, s);
	ret = generation_fork(&s->gen, g, stream, keep_text, s, e);
	s->lane.gen = s->gen;
	if (!ret)
		ret = lanes_add(&p->lanes, &s->lane, e);
	if (ret) {
		sample_free(s);
		return ret;
	}
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

/* What is drawn from next, where that is known. */
static int copy_ahead(
	const struct samples *p, struct sample *to, const struct sample *from)
{
	size_t bytes = p->lanes.n_vocab * sizeof(*to->ahead);

	if (!from->ahead)
		return 0;
	to->ahead = malloc(bytes);
	if (!to->ahead)
		return -ENOMEM;
	memcpy(to->ahead, from->ahead, bytes);
	return 0;
}

/* What is known of one is known of the other. */
static int copy_known(
	const struct samples *p, struct sample *to, const struct sample *from)
{
	int ret = copy_ahead(p, to, from);

	if (!ret)
		ret = tapped_copy(&to->tapped, &from->tapped, p->lanes.session);

	if (from->text.len)
		strbuf_add(&to->text, from->text.data, from->text.len);
	while (to->n < from->n && !ret) {
		ret = grow_tokens(to);
		if (!ret)
			to->confidence[to->n] = from->confidence[to->n];
		to->n += !ret;
	}
	while (to->n_steps < from->n_steps && !ret) {
		ret = grow_steps(to);
		if (ret)
			break;
		to->step_end[to->n_steps] = from->step_end[to->n_steps];
		to->score[to->n_steps] = from->score[to->n_steps];
		to->n_steps++;
	}
	to->parent = (int32_t)from->index;
	to->logprob = from->logprob;
	to->certainty = from->certainty;
	to->lane.held = from->lane.held;
	to->step_at = from->step_at;
	to->looked = from->looked;
	return to->text.failed ? -ENOMEM : ret;
}

int samples_fork(struct samples *p, struct sample *from, uint64_t stream,
	struct sample **out, struct err *e)
{
	struct sample *s;
	int ret;

	if (sample_is_over(from))
		return err_set(e, EINVAL,
			"sample %u is over: it has no end to "
			"go on from",
			from->index);
	ret = add(p, from->gen, stream, &s, e);
	if (ret)
		return ret;
	if (copy_known(p, s, from)) {
		lanes_drop(&p->lanes, &s->lane);
		sample_free(p->sample[--p->n]);
		return err_set(e, ENOMEM, "no memory for a sample");
	}
	if (from->lane.sequence != LANE_NOWHERE)
		ret = session_fork(p->lanes.session, from->lane.sequence,
			&s->lane.sequence, e);
	if (ret) /* it is computed again when there is room */
		s->lane.sequence = LANE_NOWHERE;
	*out = s;
	return 0;
}

void samples_cut(struct samples *p, struct sample *s)
{
	if (!sample_is_over(s) && !is_whole(s))
		sample_end(p, s, LANE_CUT);
}

/* ---- all of it ----------------------------------------------------------- */

static int run(struct samples *p, bool by_step, struct err *e)
{
	const struct samples_sink *sink = &p->env->samples_sink;
	int ret = 0;

	p->by_step = by_step;
	for (uint32_t i = 0; i < p->n; i++) {
		p->sample[i]->lane.held = false;
		draw_ahead(p, p->sample[i]);
	}
	while (!ret && lanes_left(&p->lanes)) {
		uint64_t passes = p->lanes.stats.passes;

		ret = lanes_pass(&p->lanes, e);
		if (!ret && sink->tell && p->lanes.stats.passes > passes)
			sink->tell(sink->arg, p);
		if (!ret && p->no_memory)
			ret = err_set(e, ENOMEM, "no memory for samples");
	}
	return ret;
}

int samples_run(struct samples *p, struct err *e)
{
	return run(p, false, e);
}

int samples_run_step(struct samples *p, struct err *e)
{
	return run(p, true, e);
}

/* ---- what there is ------------------------------------------------------- */

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

void samples_deliver(struct samples *p, const struct sample *s)
{
	size_t n, have;
	const int32_t *token = gen_tokens(s->gen, &n);

	gen_tokens(p->gen, &have);
	for (size_t i = have; i < n; i++)
		gen_append(p->gen, token[i]);
	if (s->stop == GEN_STOP_CONTEXT)
		gen_no_room(p->gen);
}

void samples_choose(struct samples *p, const struct sample *s)
{
	samples_deliver(p, s);
	p->chosen = s;
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
	const struct lanes_stats *l = &p->lanes.stats;

	*out = (struct samples_stats){ p->tokens, l->passes, l->rows, l->pauses,
		l->forgotten };
}
