/*
 * Plain decoding: one token a pass. The yardstick of every other method, for
 * its output and for its speed. It has no steps: a lane without a draft has the
 * row of its last token in each pass (host/method/lanes.h).
 */
#include "host/method/method.h"

static uint32_t autoregressive_rows(const struct method_env *env)
{
	return 1;
}

const struct method method_autoregressive = {
	.name = "autoregressive",
	.summary = "one token in each pass",
	.lossless = true,
	.runs = METHOD_CAUSAL | METHOD_BLOCK,
	.decode_rows = autoregressive_rows,
};
