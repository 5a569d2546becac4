#include "host/method/choosing.h"

#include "base/err.h"
#include "host/head/reward.h"
#include "host/method/decided.h"
#include "host/method/early_stop.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"
#include "host/text/answer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* clang-format off */
#define IN(field) OPT_IN(answer_options, field)
static const struct opt option_rows[] = {
	{ OPT_STRING, 0, "answer", IN(form), "FORM",
		"which part of a generated text is compared as its answer "
		"({}): " ANSWER_FORMS,
		.noun = "answers" },
};
#undef IN
/* clang-format on */

const struct opt_table answer_table = OPT_TABLE_INIT(
	"samples", option_rows, answer_options, .form = "last-number");

/* clang-format off */
#define IN(field) OPT_IN(aggregate_options, field)
static const struct opt aggregate_rows[] = {
	{ OPT_CHOICE, 0, "aggregate", IN(how), "NAME",
		"how to combine the reward model's scores of a sample's "
		"reasoning steps ({}); last: the last score; min: the "
		"smallest; prod: the product",
		.choices = aggregate_names,
		.noun = "scores" },
};
#undef IN
/* clang-format on */

const struct opt_table aggregate_table = OPT_TABLE_INIT(
	"samples", aggregate_rows, aggregate_options, AGGREGATE_LAST);

/* The state of a request. */
struct choosing {
	const struct method_env *env;
	const struct chooser *how;
	/* how answers are extracted from texts; NULL if the method does not
	 * extract answers */
	struct answer_form *form;
	struct early_stop early;
	bool stops_decided; /* whether --stop-decided was given */
	/* whether the warm-up of --early-stop has ended: the remaining samples
	 * have then been added, or are never added because the votes agreed */
	bool all_added;
	/* whether all samples have been scored, or need no scores because the
	 * method has no reward model */
	bool scored;
	/* whether samples were just scored while other samples still run: then
	 * the samples that can no longer be chosen are cut */
	bool may_cut;
};

/* ---- extracting and counting answers ------------------------------------- */

static void read_answer(const struct choosing *c, struct sample *s)
{
	if (c->form && s->lane.state == LANE_ENDED && !s->answer.len &&
		s->text.len)
		answer_of(c->form, s->text.data, s->text.len, &s->answer);
}

/*
 * Returns an array with the first n samples as candidates of a choice; the
 * caller frees the array. Returns NULL if there is no memory.
 */
static struct candidate *candidates(const struct samples *p, uint32_t n)
{
	struct candidate *c = calloc(n ? n : 1, sizeof(*c));

	for (uint32_t i = 0; c && i < n; i++) {
		const struct sample *s = samples_at(p, i);
		bool ended = s->lane.state == LANE_ENDED;

		c[i] = (struct candidate){ .answer = ended && s->answer.len
				? s->answer.data
				: NULL,
			.value = ended ? s->value : NAN,
			.weight = s->weight };
	}
	return c;
}

uint32_t choosing_tally(const struct samples *p, struct tally *row)
{
	uint32_t n = samples_count(p);
	struct candidate *c = candidates(p, n);
	uint32_t rows = c ? choice_tally(c, n, row) : 0;

	free(c);
	return rows;
}

/* Whether to cut all unfinished samples because the finished samples agree: a
 * large share of their votes is for one answer (--consensus). False if there is
 * no memory to count the votes. */
static bool agrees(const struct choosing *c, const struct samples *p)
{
	uint32_t n = samples_count(p), rows, votes = 0, most = 0;
	struct tally *row;

	if (!c->how->votes || !c->early.armed)
		return false;
	row = calloc(n, sizeof(*row));
	rows = row ? choosing_tally(p, row) : 0;
	for (uint32_t i = 0; i < rows; i++) {
		votes += row[i].votes;
		most = row[i].votes > most ? row[i].votes : most;
	}
	free(row);
	return (votes ? (double)most / votes : 0) >= c->early.opts.consensus;
}

static void drew(struct samples *p, struct sample *s)
{
	const struct choosing *c = samples_own(p);
	uint32_t n = samples_count(p);
	struct tally *row;

	early_stop_check(&c->early, p, s);
	read_answer(c, s);
	if (s->lane.state != LANE_ENDED)
		return;
	if (agrees(c, p))
		early_stop_cut_all(p);
	if (!c->stops_decided || !c->how->votes)
		return;
	/*
	 * Cut the samples that can no longer change the choice by votes; if
	 * there is no memory to count the votes, cut no sample. First read the
	 * answers of all samples, also of samples that ended without drawing a
	 * token.
	 */
	row = calloc(n, sizeof(*row));
	for (uint32_t i = 0; i < n; i++)
		read_answer(c, samples_at(p, i));
	if (row)
		decided_cut_by_votes(p, row, choosing_tally(p, row));
	free(row);
}

static void tally_votes(const struct samples *p, struct strbuf *out)
{
	const struct choosing *c = samples_own(p);
	uint32_t n = samples_count(p), rows, votes = 0, most;
	struct tally *row =
		c->how->votes ? calloc(n ? n : 1, sizeof(*row)) : NULL;

	if (!row)
		return;
	rows = choosing_tally(p, row);
	for (uint32_t i = 0; i < rows; i++)
		votes += row[i].votes;
	most = choice_heaviest(row, rows);
	if (most == CHOICE_NONE)
		strbuf_addf(out, "; no answer yet");
	else
		strbuf_addf(out, "; '%.40s' leads with %u of %u votes",
			row[most].answer, row[most].votes, votes);
	free(row);
}

/* ---- scoring by the reward model ----------------------------------------- */

static void value_by_score(const struct method_env *env, struct sample *s)
{
	const struct aggregate_options *o =
		method_options(env, &aggregate_table);

	s->value = (float)choice_aggregate(
		s->score, sample_steps_read(s), (enum aggregate)o->how);
}

int choosing_score(const struct method_env *env, struct sample *const *s,
	uint32_t n, struct err *e)
{
	struct reward_text *text = calloc(n, sizeof(*text));
	int ret;

	if (!text)
		return err_set(e, ENOMEM, "no memory to score %u samples", n);
	for (uint32_t i = 0; i < n; i++) {
		text[i] = (struct reward_text){ .n_prompt = gen_prompt_length(
							s[i]->gen),
			.step_end = s[i]->step_end,
			.n_steps = sample_steps_read(s[i]),
			.score = s[i]->score,
			.prompt_state = samples_prompt_state(s[i]->pool),
			.state = s[i]->tapped.state };
		text[i].token = gen_tokens(s[i]->gen, &text[i].n);
	}
	ret = reward_score(env->reward, text, n, e);
	for (uint32_t i = 0; i < n && !ret; i++)
		value_by_score(env, s[i]);
	free(text);
	return ret;
}

/* Whether the sample has a step that can be scored but is not scored yet. */
static bool is_unscored(const struct sample *s)
{
	uint32_t n = sample_steps_read(s);

	return n && isnan(s->score[n - 1]);
}

/*
 * Whether to score samples while some samples still run. Scores are used to cut
 * samples, and no sample can be cut before the first sample has ended. From
 * then on samples are scored in two cases: when another sample has ended,
 * because the largest value of an ended sample may have changed, and when all
 * running samples have ended a step, because their values have changed.
 */
static bool is_time_to_score(const struct samples *p)
{
	bool ended = false, better = false, run = false, all = true;

	for (uint32_t i = 0; i < samples_count(p); i++) {
		const struct sample *s = samples_at(p, i);

		if (s->lane.state == LANE_ENDED) {
			ended = true;
			better |= is_unscored(s);
		} else if (!lane_is_over(&s->lane) && s->n) {
			run = true;
			all &= is_unscored(s);
		}
	}
	return ended && run && (better || all);
}

/* List in out[] the unscored samples that have ended or still run, if they must
 * be scored now. `waiting` is true if no sample runs, so that a sample is
 * chosen next; else samples may be cut next. */
static uint32_t to_score(struct samples *p, bool waiting, struct sample **out)
{
	struct choosing *c = samples_own(p);
	uint32_t n = 0;

	if (!c->env->method->needs_reward ||
		(waiting ? !c->all_added
			 : !c->stops_decided || !is_time_to_score(p)))
		return 0;
	for (uint32_t i = 0; i < samples_count(p); i++) {
		const struct lane *x = &samples_at(p, i)->lane;

		if ((x->state == LANE_ENDED || !lane_is_over(x)) &&
			is_unscored(samples_at(p, i)))
			out[n++] = samples_at(p, i);
	}
	c->may_cut = n && !waiting;
	return n;
}

static int between(struct samples *p, uint32_t rows, struct err *e)
{
	struct choosing *c = samples_own(p);

	if (c->may_cut)
		decided_cut_by_values(p);
	c->may_cut = false;
	return 0;
}

/* ---- choosing a sample --------------------------------------------------- */

/* Index of the first sample that has ended and may be chosen, or CHOICE_NONE if
 * no sample may be chosen. */
static uint32_t first_ended(const struct samples *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (samples_at(p, i)->lane.state == LANE_ENDED)
			return i;
	return CHOICE_NONE;
}

int choosing_none(const struct samples *p, struct err *e)
{
	for (uint32_t i = 0; i < samples_count(p); i++)
		if (samples_at(p, i)->lane.state == LANE_FAILED) {
			*e = samples_at(p, i)->err;
			return err_in(e,
				"no sample of %u has ended normally; sample %u "
				"failed",
				samples_count(p), i);
		}
	return err_set(e, ECANCELED,
		"canceled before any sample ended, so "
		"there is no text");
}

/*
 * Compute the values of the first n samples and choose one of them: let them
 * vote, or find the sample with the largest value. If no sample has an answer
 * or a value, the first sample that has ended is chosen.
 */
static int choose_at(const struct choosing *c, struct samples *p, uint32_t n,
	uint32_t *at, struct err *e)
{
	uint32_t first = first_ended(p, n), most;
	struct candidate *known;
	struct tally *row;
	int ret = 0;

	*at = CHOICE_NONE;
	if (first == CHOICE_NONE)
		return choosing_none(p, e);
	for (uint32_t i = 0; i < n; i++) {
		struct sample *s = samples_at(p, i);

		read_answer(c, s);
		if (s->lane.state != LANE_ENDED)
			continue;
		if (c->how->value)
			s->value = (float)c->how->value(c->env, s);
		else if (c->env->method->needs_reward && c->scored)
			value_by_score(c->env, s);
		else
			/* remove the value that another method may have set for
			 * an earlier choice among these samples */
			s->value = NAN;
	}
	known = candidates(p, n);
	row = calloc(n, sizeof(*row));
	if (!known || !row) {
		ret = err_set(
			e, ENOMEM, "no memory for the answers of samples");
		goto out;
	}
	/* Reset the weights: another method may have set them for an earlier
	 * choice among these samples. */
	for (uint32_t i = 0; i < n; i++)
		known[i].weight = 1;
	if (c->how->weigh)
		c->how->weigh(c->env, known, n);
	for (uint32_t i = 0; i < n; i++)
		samples_at(p, i)->weight =
			known[i].answer ? (float)known[i].weight : 0;
	if (c->how->votes) {
		most = choice_heaviest(row, choice_tally(known, n, row));
		*at = most == CHOICE_NONE ? CHOICE_NONE : row[most].best;
	} else {
		*at = choice_largest(known, n);
	}
	if (*at == CHOICE_NONE)
		*at = first;
out:
	free(known);
	free(row);
	return ret;
}

static int choose(const struct choosing *c, struct samples *p, struct err *e)
{
	uint32_t at;
	int ret = choose_at(c, p, samples_count(p), &at, e);

	if (!ret)
		samples_choose(p, samples_at(p, at));
	return ret;
}

/* ---- functions of struct many_steps -------------------------------------- */

static int open_choosing(
	struct choosing *c, const struct method_env *env, struct err *e)
{
	const struct answer_options *o;

	c->env = env;
	c->how = env->method->chooser;
	c->stops_decided = decided_is_on(env);
	if (!method_uses(env->method, &answer_table))
		return 0;
	o = method_options(env, &answer_table);
	return answer_form_open(&c->form, o->form, e);
}

int choosing_among(const struct method_env *as, struct samples *p, uint32_t n,
	uint32_t *at, struct err *e)
{
	struct choosing c = { .scored = true };
	int ret = open_choosing(&c, as, e);

	if (!ret)
		ret = choose_at(&c, p, n, at, e);
	answer_form_close(c.form);
	return ret;
}

static int begin(struct samples *p, struct err *e)
{
	struct choosing *c = samples_own(p);
	int ret = open_choosing(c, samples_env(p), e);

	if (ret)
		return ret;
	early_stop_init(&c->early, c->env);
	return samples_add(
		p, early_stop_warm_up(&c->early, samples_all(c->env)), e);
}

static int next(struct samples *p, struct err *e)
{
	struct choosing *c = samples_own(p);
	uint32_t n = samples_count(p);
	int ret = 0;

	if (!c->all_added) {
		/* All samples of the warm-up have ended: add the remaining
		 * samples, unless enough votes of the warm-up samples agree. */
		uint32_t others = samples_all(c->env) - n;

		c->all_added = true;
		if (others)
			ret = early_stop_arm(&c->early, p, e);
		return ret || agrees(c, p) ? ret : samples_add(p, others, e);
	}
	c->scored = true;
	ret = choose(c, p, e);
	return ret ? ret : MANY_DONE;
}

/* Choose among the samples that have ended. Samples are not scored here,
 * because no passes run after a cancellation. */
static void stop(struct samples *p)
{
	if (first_ended(p, samples_count(p)) != CHOICE_NONE)
		choose(samples_own(p), p, NULL);
}

static void close_form(void *own)
{
	struct choosing *c = own;

	answer_form_close(c->form);
}

const struct many_steps choosing_steps = {
	.bytes = sizeof(struct choosing),
	.begin = begin,
	.to_score = to_score,
	.next = next,
	.between = between,
	.stop = stop,
	.drew = drew,
	.close = close_form,
	.tally = tally_votes,
};
