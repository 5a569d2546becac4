#include "host/eval/eval_score.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/report.h"
#include "host/api/tandem.h"
#include "host/api/tandem_pass.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS 64 /* number of solutions that are scored at a time */

/* ---- reading ------------------------------------------------------------- */

int scoring_read(struct scoring *sc, const char *path, struct err *e)
{
	int ret;

	*sc = (struct scoring){ 0 };
	ret = eval_items_read(&sc->items, path, EVAL_NEED_PROMPTS, e);
	if (ret)
		return ret;
	sc->scored = calloc(sc->items.n, sizeof(*sc->scored));
	if (!sc->scored)
		return err_set(e, ENOMEM, "no memory for the solutions");
	for (size_t i = 0; i < sc->items.n && !ret; i++) {
		struct scored *s = &sc->scored[i];
		const json_t *line = sc->items.item[i].line;
		const json_t *solution = json_object_get(line, "solution");
		const json_t *mark;
		size_t k;

		s->item = &sc->items.item[i];
		s->solution = json_string_value(solution);
		s->marks = json_object_get(line, "marks");
		if (!s->solution || !*s->solution)
			ret = err_set(e, EINVAL,
				"'%s': member 'solution' is %s", s->item->id,
				!solution             ? "missing"
					: s->solution ? "empty"
						      : "not a string");
		else if (s->marks && !json_is_array(s->marks))
			ret = err_set(e, EINVAL,
				"'%s': member 'marks' is not a list",
				s->item->id);
		else if (!s->marks != !sc->scored[0].marks)
			ret = err_set(e, EINVAL,
				s->marks
					? "'%s' has marks, but the first "
					  "solution has none; all or none must "
					  "have marks"
					: "'%s' has no marks, but the first "
					  "solution has; all or none must have "
					  "marks",
				s->item->id);
		json_array_foreach(s->marks, k, mark)
		{
			if (!ret && !json_is_boolean(mark))
				ret = err_set(e, EINVAL,
					"'%s': member 'marks': element %zu is "
					"neither true nor false",
					s->item->id, k + 1);
		}
		if (ret)
			err_in(e, "'%s'", path);
	}
	return ret;
}

void scoring_release(struct scoring *sc)
{
	for (size_t i = 0; sc->scored && i < sc->items.n; i++) {
		free(sc->scored[i].token);
		free(sc->scored[i].step_end);
		free(sc->scored[i].score);
	}
	free(sc->scored);
	eval_items_release(&sc->items);
	*sc = (struct scoring){ 0 };
}

/* ---- tokens -------------------------------------------------------------- */

static int put_tokens(struct scored *s, struct tandem *t,
	const struct tokenizer *tok, struct err *e)
{
	size_t len = strlen(s->item->prompt);
	int64_t n = tandem_tokenize(
		t, s->item->prompt, len, TANDEM_SPECIAL, NULL, 0);
	struct token_list list = { 0 };
	int ret;

	if (n < 0)
		return tandem_failure(t, e);
	list.id = calloc((size_t)n + 1, sizeof(*list.id));
	if (!list.id)
		return err_set(e, ENOMEM, "no memory for the solutions");
	list.n = list.cap = s->n_prompt = (size_t)n;
	tandem_tokenize(
		t, s->item->prompt, len, TANDEM_SPECIAL, list.id, list.n);
	ret = tokenize(
		tok, s->solution, strlen(s->solution), 0, NULL, 0, &list, e);
	s->token = list.id;
	s->n = list.n;
	return ret;
}

/* Find the ends of the steps. A step ends with the token whose text completes
 * `end`; the last step ends with the last token. */
static int put_steps(struct scored *s, const struct tokenizer *tok,
	const char *end, struct err *e)
{
	struct detokenizer words = { .tok = tok, .started = true };
	struct strbuf text = STRBUF_INIT;
	const char *found;
	size_t looked = 0;
	int ret = 0;

	s->step_end = calloc(s->n - s->n_prompt, sizeof(*s->step_end));
	s->score = calloc(s->n - s->n_prompt, sizeof(*s->score));
	if (!s->step_end || !s->score)
		return err_set(e, ENOMEM, "no memory for the solutions");
	for (size_t i = s->n_prompt; i < s->n && !ret; i++) {
		ret = detokenize(&words, s->token[i], &text);
		if (ret || text.failed)
			break;
		found = text.len ? strstr(text.data + looked, end) : NULL;
		if (!found && i + 1 < s->n)
			continue;
		s->step_end[s->n_steps++] = (uint32_t)i;
		looked = text.len;
	}
	if (ret || text.failed)
		ret = err_set(e, ENOMEM, "no memory for the solutions");
	strbuf_release(&text);
	return ret;
}

int scoring_tokenize(struct scoring *sc, struct tandem *t, const char *step_end,
	struct err *e)
{
	struct tandem_report r;
	int ret = 0;

	tandem_report(t, &r);
	for (size_t i = 0; i < sc->items.n && !ret; i++) {
		struct scored *s = &sc->scored[i];

		if ((ret = put_tokens(s, t, r.tokenizer, e)) ||
			(ret = put_steps(s, r.tokenizer, step_end, e)))
			break;
		if (s->marks && json_array_size(s->marks) != s->n_steps)
			return err_set(e, EINVAL,
				"'%s' has %u step%s but %zu mark%s",
				s->item->id, s->n_steps,
				s->n_steps == 1 ? "" : "s",
				json_array_size(s->marks),
				json_array_size(s->marks) == 1 ? "" : "s");
		sc->longest = s->n > sc->longest ? s->n : sc->longest;
	}
	return ret;
}

/* ---- scores -------------------------------------------------------------- */

int scoring_run(struct scoring *sc, struct tandem *t,
	const struct progress_sink *progress, struct err *e)
{
	struct reward_text text[TEXTS];
	int ret = 0;

	for (size_t at = 0; at < sc->items.n && !ret;) {
		unsigned n = 0;

		for (; n < TEXTS && at + n < sc->items.n; n++) {
			const struct scored *s = &sc->scored[at + n];

			text[n] = (struct reward_text){ .token = s->token,
				.n = s->n,
				.n_prompt = s->n_prompt,
				.step_end = s->step_end,
				.n_steps = s->n_steps,
				.score = s->score };
		}
		ret = tandem_score(t, text, n, e);
		at += n;
		progress_report(progress, "solutions", at, sc->items.n);
	}
	progress_report(progress, NULL, 0, 0);
	return ret;
}

/* ---- summary ------------------------------------------------------------- */

struct mark {
	float score;
	bool right;
};

static int by_score(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	return (x->score > y->score) - (x->score < y->score);
}

/* Return the area under the ROC curve. This area is the share of pairs of a
 * right and a wrong step in which the right step has the higher score; pairs
 * with equal scores count half. */
static double area(struct mark *mark, size_t n)
{
	double wrong_below = 0, pairs = 0;
	uint64_t right = 0, wrong = 0;

	qsort(mark, n, sizeof(*mark), by_score);
	for (size_t i = 0, end; i < n; i = end) {
		uint64_t same[2] = { 0, 0 };

		for (end = i; end < n && mark[end].score == mark[i].score;
			end++)
			same[mark[end].right]++;
		wrong_below +=
			(double)same[1] * ((double)wrong + (double)same[0] / 2);
		wrong += same[0];
		right += same[1];
	}
	pairs = (double)right * (double)wrong;
	return pairs > 0 ? wrong_below / pairs : NAN;
}

static int by_prompt(const void *a, const void *b)
{
	const struct scored *const *x = a, *const *y = b;
	int order = strcmp((*x)->item->prompt, (*y)->item->prompt);

	/* Among solutions of the same problem, keep the order of the file. */
	return order ? order : (*x > *y) - (*x < *y);
}

static void sum_problems(
	struct scoring_summary *sum, const struct scored **of, size_t n)
{
	qsort(of, n, sizeof(*of), by_prompt);
	for (size_t i = 0, end; i < n; i = end) {
		const struct scored *best = of[i];
		uint64_t right = 0;

		/* After sorting, the solutions of a problem are consecutive. */
		for (end = i; end < n &&
			!strcmp(of[i]->item->prompt, of[end]->item->prompt);
			end++) {
			const struct scored *s = of[end];

			right += json_is_true(
				json_array_get(s->marks, s->n_steps - 1));
			if (s->score[s->n_steps - 1] >
				best->score[best->n_steps - 1])
				best = s;
		}
		sum->one += (double)right / (double)(end - i);
		sum->best += json_is_true(
			json_array_get(best->marks, best->n_steps - 1));
		sum->any += right > 0;
		sum->least = !sum->problems || end - i < sum->least
			? end - i
			: sum->least;
		sum->most = end - i > sum->most ? end - i : sum->most;
		sum->problems++;
	}
	sum->one /= (double)sum->problems;
	sum->best /= (double)sum->problems;
	sum->any /= (double)sum->problems;
}

int scoring_sum(
	const struct scoring *sc, struct scoring_summary *out, struct err *e)
{
	const struct scored **of = calloc(sc->items.n, sizeof(*of));
	struct mark *mark;
	size_t n = 0;

	*out = (struct scoring_summary){ .solutions = sc->items.n };
	for (size_t i = 0; i < sc->items.n; i++)
		out->steps += sc->scored[i].n_steps;
	mark = calloc(out->steps, sizeof(*mark));
	if (of && mark && sc->scored[0].marks) {
		for (size_t i = 0; i < sc->items.n; i++) {
			const struct scored *s = of[i] = &sc->scored[i];

			for (uint32_t k = 0; k < s->n_steps; k++, n++) {
				mark[n] = (struct mark){ s->score[k],
					json_is_true(
						json_array_get(s->marks, k)) };
				out->right_steps += mark[n].right;
			}
		}
		out->area = area(mark, n);
		sum_problems(out, of, sc->items.n);
	}
	free(mark);
	free(of);
	return of && mark
		? 0
		: err_set(e, ENOMEM, "no memory to compare scores with marks");
}
