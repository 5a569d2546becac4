/* tandem score: prints the scores that a reward model gives to the steps of
 * solutions. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/json_text.h"
#include "host/cmd/report_parts.h"
#include "host/eval/eval_score.h"
#include "host/model/model.h"
#include "tensor/soc/soc.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define JSON_VERSION 1

static struct opt_values values; /* values of the decoder's options */
static const char *model_path, *reward_said, *step_end = "\n";
static bool as_json, sum_alone;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &model_path, "FILE",
		"model that generated the solutions; a GGUF file or the name "
		"of a bundled model (target)" },
	{ OPT_STRING, 0, "reward", &reward_said, "NAME|FILE",
		"reward model that scores the solutions; a bundled one, or a "
		"process reward model in a GGUF file (the bundled one for the "
		"model of -m):", .words = reward_word },
	{ OPT_STRING, 0, "step-end", &step_end, "TEXT",
		"text that ends a step (a line feed)" },
	{ OPT_FLAG, 0, "sum", &sum_alone, NULL,
		"print only the totals, not each solution" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object a line" },
	PAIR_OPTIONS(values),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem score",
	.synopsis = "FILE [-m MODEL] [--reward NAME|FILE] [OPTIONS]",
	.summary = "score the steps of given solutions with a reward model",
	.details =
		"FILE (- for standard input) has one JSON object a line, with "
		"a \"prompt\" and a \"solution\" that follows it; an \"id\" "
		"names the line. For each step of a solution the command "
		"prints the probability, by the reward model, that the "
		"solution is right up to the end of this step.\n\n"
		"Where lines have \"marks\", a list with true or false for "
		"each step, a summary shows how well the scores separate right "
		"steps from wrong ones, by the area under the ROC curve; and "
		"how many of the problems (lines with the same prompt) are "
		"solved by a random solution, by the solution whose last step "
		"has the best score, and by any solution.\n\n"
		"A score depends only on its prompt and solution, not on other "
		"lines.",
	.examples = "  tandem score solutions.jsonl\n"
		    "  tandem score solutions.jsonl --reward prm.gguf --json\n"
		    "  tandem score - --sum <solutions.jsonl",
	.common = "model reward step-end sum threads json",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

/* ---- JSON ---------------------------------------------------------------- */

static json_t *sum_json(
	const struct tandem_report *r, const struct scoring_summary *sum)
{
	const struct reward_stats *st = &r->scored;
	json_t *o = json_object();

	put_priced(o, r);
	put_u64(o, "version", JSON_VERSION);
	put_str(o, "command", "score");
	put_str(o, "model", r->model_path);
	put_str(o, "reward", r->reward);
	put_u64(o, "solutions", sum->solutions);
	put_u64(o, "steps", sum->steps);
	put_u64(o, "rows", st->rows);
	put_u64(o, "passes", st->passes);
	put_real(o, "seconds", (double)st->ns * 1e-9);
	if (r->pair->soc)
		put_real(o, "phone_s", (double)st->ps * 1e-12);
	if (!sum->problems)
		return o;
	put_u64(o, "right_steps", sum->right_steps);
	put_real(o, "area_under_curve", sum->area);
	put_u64(o, "problems", sum->problems);
	put_real(o, "solved_by_one", sum->one);
	put_real(o, "solved_by_best", sum->best);
	put_real(o, "solved_by_any", sum->any);
	return o;
}

/* ---- running ------------------------------------------------------------- */

static int report(
	const struct tandem *t, const struct scoring *sc, struct err *e)
{
	struct scoring_summary sum;
	struct tandem_report r;
	int ret = scoring_sum(sc, &sum, e);
	const struct reward_stats *st;

	if (ret)
		return ret;
	tandem_report(t, &r);
	if (as_json) {
		for (size_t i = 0; i < sc->items.n && !ret && !sum_alone; i++) {
			json_t *o = json_object(), *scores = json_array();

			for (uint32_t k = 0; k < sc->scored[i].n_steps; k++)
				json_array_append_new(scores,
					json_real((double)sc->scored[i]
							  .score[k]));
			put_u64(o, "version", JSON_VERSION);
			put_str(o, "command", "score");
			put_str(o, "id", sc->scored[i].item->id);
			put_u64(o, "tokens",
				(sc->scored[i].n - sc->scored[i].n_prompt));
			json_object_set_new(o, "scores", scores);
			if (sc->scored[i].marks)
				json_object_set(o, "marks",
					(json_t *)(uintptr_t)sc->scored[i]
						.marks);
			ret = json_print(o, 9, stdout);
		}
		if (!ret)
			ret = json_print(sum_json(&r, &sum), 9, stdout);
		if (ret)
			return err_sys(
				e, errno, "cannot write to standard output");
		return cmd_flush(e);
	}
	priced_text(&r, stdout);
	for (size_t i = 0; i < sc->items.n && !sum_alone; i++) {
		const struct scored *s = &sc->scored[i];

		printf("%s:", s->item->id);
		for (uint32_t k = 0; k < s->n_steps; k++)
			printf(" %.4f%s", (double)s->score[k],
				!s->marks ? ""
					: json_is_true(
						  json_array_get(s->marks, k))
					? "+"
					: "-");
		putchar('\n');
	}

	st = &r.scored;
	printf("%" PRIu64 " solutions, %" PRIu64 " steps by %s: %" PRIu64
	       " rows in %" PRIu64 " passes, %.2f s",
		sum.solutions, sum.steps, r.reward, st->rows, st->passes,
		(double)st->ns * 1e-9);
	if (r.pair->soc)
		printf(", %.3f s on %s", (double)st->ps * 1e-12,
			r.pair->clock + 4);
	putchar('\n');
	if (sum.problems) {
		printf("%" PRIu64 " steps are right; area under the curve ",
			sum.right_steps);
		if (isnan(sum.area))
			printf("undefined\n");
		else
			printf("%.4f\n", sum.area);
		printf("of %" PRIu64 " problems with %" PRIu64, sum.problems,
			sum.least);
		if (sum.most > sum.least)
			printf(" to %" PRIu64, sum.most);
		printf(" solutions each are solved: %.1f %% by a random one, "
		       "%.1f %% by the one whose last step scores best, %.1f "
		       "%% by any\n",
			100 * sum.one, 100 * sum.best, 100 * sum.any);
	}

	return cmd_flush(e);
}

static int score(struct tandem *t, struct scoring *sc, const char *operand,
	struct err *e)
{
	struct tandem_report r;
	int ret = scoring_read(sc, operand, e);

	if (ret)
		return ret;
	tandem_want_reward(t, reward_said);
	if (tandem_read_model(t, model_path))
		return tandem_failure(t, e);
	ret = scoring_tokenize(sc, t, step_end, e);
	if (ret)
		return ret;
	tandem_report(t, &r);
	if (sc->longest > r.model->n_ctx)
		return err_set(e, EFBIG,
			"the longest prompt with its solution has %zu tokens, "
			"but the model was trained for only %u",
			sc->longest, r.model->n_ctx);
	tandem_pair(t)->cancel = &cmd_interrupted;
	if (tandem_start(t, sc->longest))
		return tandem_failure(t, e);
	cmd_catch_signals();
	ret = scoring_run(sc, t, &cmd_progress, e);
	return ret ? ret : report(t, sc, e);
}

static int score_main(int argc, char **argv)
{
	struct scoring sc = { 0 };
	struct tandem *t;
	struct err e = { 0 }, closing = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_score, argc, argv, &operands, &status))
		return status;
	if (!operands)
		return cmd_misuse(&cmd_score,
			"no input: give a FILE of solutions, one JSON object a "
			"line");
	if (!*step_end)
		return cmd_misuse(&cmd_score, "--step-end is empty");
	if (reward_check_unanswered(reward_said, &e))
		return cmd_refuse(&cmd_score, &e);
	if (cmd_create(&t, &values, &e))
		return cmd_refuse(&cmd_score, &e);
	ret = score(t, &sc, argv[1], &e);
	ret = cmd_closed(ret, tandem_end(t, &closing), &closing, &e);
	scoring_release(&sc);
	if (ret == -ECANCELED)
		return EXIT_INTERRUPTED;
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_score = { .usage = &usage, .run = score_main };
