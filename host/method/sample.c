/*
 * Many samples of one prompt, side by side, and nothing is chosen among them:
 * all are told (env->samples). The generation is the first, which is what plain
 * decoding with the same random numbers writes.
 */
#include "host/method/method.h"
#include "host/method/samples.h"
#include "host/text/generation.h"

static const struct opt_table *const tables[] = { &samples_table, NULL };

/* The first is told as it comes; whoever wants no more of it wants none. */
static void follow(void *arg, struct samples *p, struct sample *s)
{
	struct generation *g = arg;

	if (s->index)
		return;
	samples_deliver(p, s);
	if (gen_stop_reason(g) == GEN_STOP_ERROR)
		for (uint32_t i = 0; i < samples_count(p); i++)
			samples_cut(p, samples_at(p, i));
}

static int sample_run(struct session *session, struct generation *g,
	struct method_env *env, struct err *e)
{
	int ret = samples_open(env, session, g, e);

	if (!ret) {
		samples_watch(env->samples, follow, g);
		ret = samples_add(env->samples, samples_all(env), e);
	}
	if (!ret)
		ret = samples_run(env->samples, e);
	if (!ret)
		samples_deliver(env->samples, samples_at(env->samples, 0));
	return ret ? ret : samples_check(env->samples, e);
}

const struct method method_sample = {
	.name = "sample",
	.summary = "several samples of one prompt (-N), side by side",
	.lossless = true,
	.shares = true,
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.run = sample_run,
};
