/*
 * Many samples of one prompt, generated side by side. All samples are reported,
 * and none is chosen. Sample 0 becomes the text of the request; its tokens are
 * the same as in plain decoding with the same random numbers.
 */
#include "host/method/methods.h"
#include "host/scheduler/samples.h"

static const struct opt_table *const tables[] = { &samples_table, NULL };

static int begin(struct samples *p, struct err *e)
{
	return samples_add(p, samples_all(samples_env(p)), e);
}

/* Append the tokens of sample 0 to the request's text as they are drawn. If the
 * reader of this text stops reading, all samples are cut. */
static void follow(struct samples *p, struct sample *s)
{
	if (s->index || samples_deliver(p, s))
		return;
	for (uint32_t i = 0; i < samples_count(p); i++)
		samples_cut(p, samples_at(p, i));
}

static int next(struct samples *p, struct err *e)
{
	int ret;

	samples_deliver(p, samples_at(p, 0));
	ret = samples_check(p, e);
	return ret ? ret : MANY_DONE;
}

static const struct many_steps steps = {
	.begin = begin,
	.next = next,
	.drew = follow,
};

const struct method method_sample = {
	.name = "sample",
	.summary = "-N samples of one prompt, all of them printed",
	.lossless = true,
	.options = tables,
	.decode_rows = samples_rows,
	.sequences = samples_rows,
	.many = &steps,
};
