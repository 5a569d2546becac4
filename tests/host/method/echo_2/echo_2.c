/* A minimal example of a method: this file and one row of the table of methods
 * (echo_2_row.h). Only the build of tests/cli/echo.sh includes this method. The
 * method drafts repetitions of the text's last two tokens. */
#include "base/checked.h"
#include "host/scheduler/denoising.h"
#include "host/method/methods.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "tests/host/method/echo_2/echo_2_row.h"

#define MOST 15 /* maximum repetitions */

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

static int echo_start(struct denoising *d, struct err *e)
{
	d->reads_prompt = true;
	return denoising_reserve(d, session_context(d->session), e);
}

/* The first token is drawn from the prompt's last row. */
static int echo_prompt(struct denoising *d, uint32_t row, struct err *e)
{
	float *logits = gen_logits(d->gen);
	int ret = session_logits(d->session, row, 1, logits, e);

	if (!ret)
		gen_next(d->gen, logits);
	return ret;
}

/* Plan a pass with the text's last token, which is not cached, and the drafted
 * tokens after it. */
static int echo_plan(struct denoising *d, struct err *e)
{
	uint32_t cached = session_length(d->session, d->sequence);
	uint32_t rows = least(echo_rows(d->env), gen_left(d->gen));
	int32_t token[1 + 2 * MOST];
	size_t n;
	const int32_t *text = gen_tokens(d->gen, &n);

	rows = least(rows, session_context(d->session) - cached);
	for (uint32_t i = 0; i < rows; i++)
		token[i] = i % 2 ? text[n - 2] : text[n - 1];
	rows_tree(d->row, d->sequence, cached, token, NULL, rows);
	d->visibility = VISIBILITY_TREE;
	d->n_rows = rows;
	return 0;
}

/* Emit tokens as long as the drawn token equals the drafted token. */
static int echo_after_pass(struct denoising *d, struct err *e)
{
	struct method_stats *stats = &d->env->stats;
	float *logits = gen_logits(d->gen);
	uint32_t n = 0;
	int32_t next;

	do {
		int ret = session_logits(
			d->session, d->first + n++, 1, logits, e);

		if (ret)
			return ret;
		next = gen_next(d->gen, logits);
	} while (!gen_done(d->gen) && n < d->n_rows && next == d->row[n].token);
	stats->cycles++;
	stats->drafted += d->n_rows - 1;
	stats->accepted += n - 1;
	return session_accept(d->session, d->sequence, NULL, n, e);
}

static const struct denoising_steps steps = {
	.start = echo_start,
	.prompt = echo_prompt,
	.plan = echo_plan,
	.after_pass = echo_after_pass,
};

const struct method method_echo_2 = {
	.name = "echo-2",
	.summary = "the last two tokens as the draft of the next",
	.lossless = true,
	.options = options,
	.decode_rows = echo_rows,
	.denoise = &steps,
};
