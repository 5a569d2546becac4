/*
 * Plain decoding: one token per pass. The output and the speed of all other
 * methods are compared with plain decoding. The method needs almost no code of
 * its own: without a draft, the scheduler gives a request one row in each pass,
 * for the last token of the request's text (host/scheduler/scheduler.h).
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
