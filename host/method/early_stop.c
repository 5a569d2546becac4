#include "host/method/early_stop.h"

#include "base/err.h"
#include "host/method/choice.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* clang-format off */
#define IN(field) OPT_IN(early_stop_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLAG, 0, "early-stop", IN(on), NULL,
		"stop samples whose confidence (the certainty of next-token "
		"predictions) falls below a threshold (see --warm-up), and all "
		"unfinished samples when enough finished samples have the same "
		"answer (--consensus); may change the chosen text",
		.noun = "early stop" },
	{ OPT_UINT, 0, "warm-up", IN(warm_up), "N",
		"with --early-stop: decode the first N samples to their ends, "
		"and derive from their confidence the threshold below which "
		"other samples are stopped ({})",
		1, SAMPLES_MOST, .noun = "early stop" },
	{ OPT_UINT, 0, "confidence-window", IN(window), "N",
		"with --early-stop: number of successive tokens over which a "
		"sample's confidence is averaged ({})",
		1, 65536, .noun = "early stop" },
	{ OPT_FLOAT, 0, "confidence-keep", IN(keep), "SHARE",
		"with --early-stop: choose the threshold such that the "
		"confidence of this share of the --warm-up samples, 0 to 1, "
		"stays above it ({})",
		0, 1, .noun = "early stop" },
	{ OPT_FLOAT, 0, "consensus", IN(consensus), "SHARE",
		"with --early-stop: stop all unfinished samples when this "
		"share of the finished samples' answers, 0 to 1, is the same "
		"({}; above 1: never)", 0, 2, .noun = "early stop" },
};
#undef IN
/* clang-format on */

const struct opt_table early_stop_table =
	OPT_TABLE_INIT("samples", option_rows, early_stop_options, .warm_up = 4,
		.window = 8, .keep = 0.25, .consensus = 0.75);

void early_stop_init(struct early_stop *s, const struct method_env *env)
{
	*s = (struct early_stop){ 0 };
	if (method_uses(env->method, &early_stop_table))
		s->opts = *(const struct early_stop_options *)method_options(
			env, &early_stop_table);
}

double early_stop_lowest(const float *confidence, size_t n, uint32_t window)
{
	double sum = 0, least = INFINITY;

	for (size_t i = 0; i < n; i++) {
		sum += confidence[i];
		if (i + 1 < window)
			continue;
		least = sum < least ? sum : least;
		sum -= confidence[i + 1 - window];
	}
	return n < window ? n ? sum / (double)n : INFINITY : least / window;
}

int early_stop_arm(struct early_stop *s, const struct samples *p, struct err *e)
{
	uint32_t n = samples_count(p), known = 0;
	double *lowest = calloc(n, sizeof(*lowest));

	if (!lowest)
		return err_set(e, ENOMEM, "no memory for %u samples", n);
	for (uint32_t i = 0; i < n; i++) {
		const struct sample *t = samples_at(p, i);

		if (t->lane.state == LANE_ENDED && t->n)
			lowest[known++] = early_stop_lowest(
				t->confidence, t->n, s->opts.window);
	}
	s->armed = known > 0;
	if (known)
		s->threshold = choice_quantile(lowest, known, 1 - s->opts.keep);
	free(lowest);
	return 0;
}

uint32_t early_stop_warm_up(const struct early_stop *s, uint32_t n)
{
	return s->opts.on && s->opts.warm_up < n ? s->opts.warm_up : n;
}

void early_stop_check(
	const struct early_stop *s, struct samples *p, struct sample *t)
{
	double sum = 0;

	if (!s->armed || lane_is_over(&t->lane) || t->n < s->opts.window)
		return;
	for (size_t i = t->n - s->opts.window; i < t->n; i++)
		sum += t->confidence[i];
	if (sum / s->opts.window < s->threshold)
		samples_cut(p, t);
}

void early_stop_cut_all(struct samples *p)
{
	for (uint32_t i = 0; i < samples_count(p); i++)
		samples_cut(p, samples_at(p, i));
}
