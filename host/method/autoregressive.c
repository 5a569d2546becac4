/*
 * Plain decoding: one token a pass. The yardstick of every other method, for
 * its output and for its speed.
 */
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"

static int decode_one(struct session *s, int32_t token, struct err *e)
{
	int ret = session_continue(s, SESSION_TEXT, &token, 1, e);

	return ret ? ret : session_accept(s, SESSION_TEXT, NULL, 1, e);
}

static uint32_t autoregressive_rows(const struct method_env *env)
{
	return 1;
}

int autoregressive_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	float *logits = gen_logits(g);
	uint32_t row;
	int ret = method_prefill(s, g, &row, e);

	while (!ret && !gen_done(g)) {
		int32_t token;

		ret = session_logits(s, row, logits, e);
		if (ret)
			break;
		token = method_next(s, g, logits);
		if (gen_done(g))
			break;
		ret = decode_one(s, token, e);
		row = 0;
	}
	return ret;
}

const struct method method_autoregressive = {
	.name = "autoregressive",
	.summary = "one token in each pass",
	.lossless = true,
	.shares = true,
	.runs = METHOD_CAUSAL | METHOD_BLOCK,
	.decode_rows = autoregressive_rows,
	.run = autoregressive_run,
};
