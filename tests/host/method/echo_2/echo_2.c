/*
 * A method that no build has but that of tests/cli/echo.sh, which shows what
 * one is made of: this file and one row (echo_2_row.h). Its draft is what came
 * last: that the last two tokens of the text come again, and again.
 */
#include "base/checked.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "tests/host/method/echo_2/echo_2_row.h"

#define MOST 15 /* times */

struct echo_options {
	uint32_t times;
};

static const struct opt option_rows[] = {
	{ OPT_UINT, 0, "echo-times", OPT_IN(echo_options, times), "N",
		"with echo-2: repeat the last two tokens so often ({})", 1,
		MOST },
};

static const struct opt_table table = {
	.rows = option_rows,
	.n = ARRAY_LEN(option_rows),
	.defaults = &(const struct echo_options){ .times = 2 },
	.size = sizeof(struct echo_options),
};

static const struct opt_table *const options[] = { &table, NULL };

static uint32_t echo_rows(const struct method_env *env)
{
	const struct echo_options *o = method_options(env, &table);

	return 1 + 2 * o->times;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The last token, which is not cached, and the draft behind it. */
static uint32_t draft(const struct session *s, const struct generation *g,
	uint32_t rows, int32_t token[1 + 2 * MOST])
{
	size_t n;
	const int32_t *text = gen_tokens(g, &n);

	rows = least(rows, gen_left(g));
	rows = least(
		rows, session_context(s) - session_length(s, SESSION_TEXT));
	token[0] = text[n - 1];
	for (uint32_t i = 1; i < rows; i++)
		token[i] = i % 2 ? text[n - 2] : text[n - 1];
	return rows;
}

/* One pass; the text goes on for as long as the draft was right. */
static int echo_pass(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	int32_t token[1 + 2 * MOST], next;
	uint32_t rows = draft(s, g, echo_rows(env), token), n = 0;
	int ret = session_continue(s, SESSION_TEXT, token, rows, e);

	do {
		if (!ret)
			ret = session_logits(s, n++, gen_logits(g), e);
		if (ret)
			return ret;
		next = gen_next(g, gen_logits(g));
	} while (!gen_done(g) && n < rows && next == token[n]);
	env->stats.cycles++;
	env->stats.drafted += rows - 1;
	env->stats.accepted += n - 1;
	return session_accept(s, SESSION_TEXT, NULL, n, e);
}

static int echo_run(struct session *s, struct generation *g,
	struct method_env *env, struct err *e)
{
	size_t n;
	const int32_t *prompt = gen_tokens(g, &n);
	uint32_t row;
	int ret = session_prefill(s, SESSION_TEXT, prompt, n, &row, e);

	if (!ret && !gen_done(g))
		ret = session_logits(s, row, gen_logits(g), e);
	if (!ret && !gen_done(g))
		gen_next(g, gen_logits(g));
	while (!ret && !gen_done(g))
		ret = echo_pass(s, g, env, e);
	return ret;
}

const struct method method_echo_2 = {
	.name = "echo-2",
	.summary = "the last two tokens as the draft of the next",
	.lossless = true,
	.options = options,
	.decode_rows = echo_rows,
	.run = echo_run,
};
