/*
 * Borda votes by self-certainty (Kang et al., "Scalable best-of-N selection for
 * large language models via self-certainty", 2025). The self-certainty of a
 * sample is the KL divergence of the model's distribution from the uniform
 * distribution, averaged over the sample's tokens. Samples are ranked by
 * self-certainty; the vote of the k-th of n samples has the weight (n - k +
 * 1)^p, where p is --borda-power.
 */
#include "host/method/choosing.h"

#include "host/method/methods.h"
#include "host/scheduler/samples.h"

#include <math.h>

struct self_certainty_options {
	double power;
};

/* clang-format off */
#define IN(field) OPT_IN(self_certainty_options, field)
static const struct opt option_rows[] = {
	{ OPT_FLOAT, 0, "borda-power", IN(power), "P",
		"method self-certainty: the k-th most certain of n samples has "
		"(n - k + 1)^P votes ({}; 0: every sample has one vote)",
		0, 100, .noun = "Borda votes" },
};
#undef IN
/* clang-format on */

static const struct opt_table borda_table = OPT_TABLE_INIT(
	"samples", option_rows, self_certainty_options, .power = 0.5);

static const struct opt_table *const tables[] = { &samples_table, &answer_table,
	&borda_table, NULL };

static double certainty(const struct method_env *env, const struct sample *s)
{
	return s->n ? s->certainty / (double)s->n : NAN;
}

static void by_rank(
	const struct method_env *env, struct candidate *c, uint32_t n)
{
	const struct self_certainty_options *o =
		method_options(env, &borda_table);

	choice_borda(c, n, o->power);
}

static const struct chooser how = { certainty, by_rank, true };

const struct method method_self_certainty = {
	.name = "self-certainty",
	.summary = "a vote weighted by the certainty of the samples (-N)",
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.temperature = samples_temperature,
	.many = &choosing_steps,
	.chooser = &how,
};
