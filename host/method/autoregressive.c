/* Plain decoding: one token in each pass. All other methods are compared with
 * its output and its speed. It has no steps: a lane without a draft has the row
 * of its last token in each pass (host/method/lanes.h). */
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
