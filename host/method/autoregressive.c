/*
 * Plain decoding: one token per pass. The output and the speed of all other
 * methods are compared with plain decoding. The method has no steps, because
 * the scheduler gives a lane without a draft one row in each pass: the row of
 * its last token (host/scheduler/scheduler.h).
 */
#include "host/method/methods.h"

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
