#include "host/method/decided.h"

#include "base/err.h"
#include "host/head/reward.h"
#include "host/method/choice.h"
#include "host/method/choosing.h"
#include "host/method/early_stop.h"
#include "host/scheduler/method.h"
#include "host/scheduler/samples.h"

#include <errno.h>
#include <math.h>

/* clang-format off */
#define IN(field) OPT_IN(decided_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLAG, 0, "stop-decided", IN(on), NULL,
		"stop samples that can no longer be chosen and no longer "
		"change the choice among the others; faster, with the same "
		"chosen text",
		.noun = "a choice that can be decided early" },
};
#undef IN
/* clang-format on */

const struct opt_table decided_table =
	OPT_TABLE_INIT("samples", option_rows, decided_options, false);

bool decided_is_on(const struct method_env *env)
{
	const struct decided_options *o = method_options(env, &decided_table);

	return o->on;
}

int decided_check(
	const struct method_env *env, const struct reward *r, struct err *e)
{
	const struct aggregate_options *a =
		method_options(env, &aggregate_table);
	const struct early_stop_options *early =
		method_options(env, &early_stop_table);

	if (!decided_is_on(env))
		return 0;
	if (early->on)
		return err_set(e, EINVAL,
			"--stop-decided and --early-stop exclude each other: "
			"only --early-stop may change the chosen text; leave "
			"out one of them");
	if (r && a->how == AGGREGATE_LAST && !reward_scores_fall(r))
		return err_set(e, EINVAL,
			"--stop-decided cannot be used with --aggregate last "
			"and the reward '%s', whose scores may rise from step "
			"to step; try --aggregate min or prod",
			reward_name(r));
	return 0;
}

void decided_cut_by_votes(
	struct samples *p, const struct tally *row, uint32_t n)
{
	uint32_t left = 0, first_left = CHOICE_NONE, winner;

	for (uint32_t i = 0; i < samples_count(p); i++)
		if (!lane_is_over(&samples_at(p, i)->lane)) {
			first_left = left ? first_left : i;
			left++;
		}
	winner = choice_decided(row, n, left, first_left);
	if (winner == CHOICE_NONE)
		return;
	for (uint32_t i = row[winner].first + 1; i < samples_count(p); i++)
		samples_cut(p, samples_at(p, i));
}

void decided_cut_by_values(struct samples *p)
{
	const struct sample *best = NULL;

	for (uint32_t i = 0; i < samples_count(p); i++) {
		const struct sample *s = samples_at(p, i);

		if (s->lane.state == LANE_ENDED &&
			s->value > (best ? best->value : -INFINITY))
			best = s;
	}
	for (uint32_t i = 0; best && i < samples_count(p); i++) {
		struct sample *s = samples_at(p, i);

		if (s->value < best->value ||
			(s->value <= best->value && i > best->index))
			samples_cut(p, s);
	}
}
