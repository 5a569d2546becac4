/*
 * Runs a pass of lanes (sequences of a batch) whose method is a diffusion
 * method (host/scheduler/denoising.h).
 *
 * All rows of a pass have the same kind of attention mask, and all rows that a
 * lane has planned must be in the same pass. So a planned lane waits until a
 * pass has room for all its rows. The lane that has waited longest is served
 * first; other lanes with the same kind of mask join its pass while the largest
 * graph has rows for them. If a method reads the prompt before the blocks, each
 * chunk of the prompt has a separate pass, and again the lane that has waited
 * longest is served first.
 *
 * Lanes of diffusion methods are never paused. Their cached keys and values
 * depend on earlier states of the text, so if they were dropped they could not
 * be computed again from the tokens. Instead a lane begins only when there are
 * slots for all positions that it may need until it ends
 * (host/scheduler/scheduler.c).
 */
#include "host/scheduler/scheduler.h"

#include "base/clock.h"
#include "base/err.h"
#include "host/scheduler/denoising.h"
#include "host/scheduler/method.h"
#include "host/session/logits.h"
#include "host/session/session.h"
#include "host/text/generation.h"

#include <errno.h>
#include <string.h>

/* If the error concerns only this lane, end the lane with the error and return
 * 0. Otherwise the error concerns all lanes and is returned. */
static int fail_one(struct lane *x, int ret, struct err *e)
{
	if (ret != -EPROTO && ret != -ENOSPC && ret != -EINVAL &&
		ret != -ENOMEM)
		return ret;
	x->ops->fail(x, e);
	return 0;
}

int lane_start_denoising(struct lane *x, struct err *e)
{
	struct scheduler *l = x->scheduler;
	int ret = denoising_open(
		&x->denoising, l->session, l->env, x->gen, x->sequence, e);

	return ret ? fail_one(x, ret, e) : 0;
}

/* ---- choosing the lanes of a pass ---------------------------------------- */

/* Plan the next pass of each lane that has no plan. Lanes whose plan fails are
 * ended and removed from the pass. */
static int plan(struct scheduler *l, struct err *e)
{
	uint32_t n = 0;
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in && !ret; i++) {
		struct lane *x = l->in[i];

		if (x->planned || x->denoising->reads_prompt)
			continue;
		ret = l->env->method->denoise->plan(x->denoising, e);
		x->planned = !ret;
		if (ret)
			ret = fail_one(x, ret, e);
	}
	for (uint32_t i = 0; i < l->n_in; i++)
		if (!lane_is_over(l->in[i]))
			l->in[n++] = l->in[i];
	l->n_in = n;
	return ret;
}

/*
 * Whether to add `more` rows to a pass of `rows` rows. `longest` is the number
 * of positions of the longest text in the pass. On a simulated phone, rows are
 * added only while the time per row does not grow, because a graph of twice the
 * rows may take more than twice the time.
 */
static bool is_worth(const struct scheduler *l, uint32_t rows, uint32_t more,
	uint32_t longest)
{
	double now, then;

	if (!l->env->phone || !rows)
		return true;
	now = (double)session_expect_pass(l->session, rows, longest);
	then = (double)session_expect_pass(l->session, rows + more, longest);
	return then / (rows + more) <= now / rows;
}

/* Put the rows of the first lane into the pass, and the rows of those later
 * lanes that can share the pass. got[] is 0 for the other lanes. */
static void put_rows(struct scheduler *l)
{
	uint32_t most = session_max_rows(l->session), longest = 0;

	l->n_rows = 0;
	for (uint32_t i = 0; i < l->n_in; i++) {
		struct denoising *d = l->in[i]->denoising;
		struct row *row = l->row + l->n_rows;

		l->got[i] = 0;
		if (d->reads_prompt ||
			d->visibility != l->in[0]->denoising->visibility)
			continue;
		if (longest < d->row[d->n_rows - 1].position + 1)
			longest = d->row[d->n_rows - 1].position + 1;
		if (l->n_rows + d->n_rows > most ||
			!is_worth(l, l->n_rows, d->n_rows, longest))
			continue;
		d->first = l->first[i] = l->n_rows;
		l->got[i] = d->n_rows;
		memcpy(row, d->row, d->n_rows * sizeof(*row));
		for (uint32_t k = 0; k < d->n_rows; k++) {
			row[k].sequence = d->sequence;
			if (d->visibility == VISIBILITY_TREE &&
				row[k].parent >= 0)
				row[k].parent += (int32_t)l->n_rows;
		}
		l->n_rows += d->n_rows;
	}
}

/* ---- running the pass ---------------------------------------------------- */

/* Read a chunk of the first lane's prompt, or the whole prompt if the scheduler
 * serves one lane only. */
static int read_prompt(struct scheduler *l, struct err *e)
{
	struct lane *x = l->in[0];
	struct denoising *d = x->denoising;
	uint32_t prompt = (uint32_t)gen_prompt_length(x->gen);
	uint32_t from = session_length(l->session, x->sequence), row;
	uint32_t some = prompt - from, most = session_max_rows(l->session);
	size_t n;
	const int32_t *token = gen_tokens(x->gen, &n);
	int ret;

	if (l->width > 1 && some > most)
		some = most;
	memset(l->got, 0, sizeof(l->got));
	l->first[0] = 0;
	l->got[0] = l->n_rows = some;
	ret = session_prefill(
		l->session, x->sequence, token + from, some, NULL, &row, e);
	if (ret || from + some < prompt)
		return ret;
	d->reads_prompt = false;
	d->first = 0;
	return l->env->method->denoise->prompt(d, row, e);
}

static int forward(struct scheduler *l, struct err *e)
{
	for (;;) {
		const struct rows rows = { l->in[0]->denoising->visibility,
			l->n_rows, l->row };
		int ret;

		for (uint32_t i = 0; i < l->n_in; i++)
			if (l->got[i] && l->in[i]->denoising->clear_cache)
				session_truncate(
					l->session, l->in[i]->sequence, 0);
		ret = session_forward(l->session, &rows, NULL, e);
		if (ret != -ENOSPC)
			return ret;
		/*
		 * The cache is too fragmented: the lanes attend to more ranges
		 * of slots than a pass can describe. Retry without the last
		 * lane, which waits for a later pass.
		 */
		while (l->n_in > 1 && !l->got[l->n_in - 1])
			l->n_in--;
		if (l->n_in == 1)
			return ret;
		l->n_in--;
		put_rows(l);
	}
}

/* ---- guessing tokens from logits ----------------------------------------- */

/*
 * Rows whose logits are computed together, so that the output matrix is read
 * only once. row: index of the row in the pass; in: the row's lane, as an index
 * of scheduler.in; guess: the position that the row predicts, as an index of
 * the lane's at[].
 */
struct sweep {
	uint32_t n;
	uint32_t row[LOGITS_ROWS], in[LOGITS_ROWS], guess[LOGITS_ROWS];
};

static int guess_together(struct scheduler *l, struct sweep *w, struct err *e)
{
	float *logits[LOGITS_ROWS];
	uint32_t n = w->n;
	int ret;

	w->n = 0;
	if (!n)
		return 0;
	for (uint32_t k = 0; k < n; k++)
		logits[k] = l->logits + (size_t)k * l->n_vocab;
	ret = session_logits_rows(l->session, w->row, n, logits, e);
	for (uint32_t k = 0; k < n && !ret; k++)
		denoising_guess(
			l->in[w->in[k]]->denoising, w->guess[k], logits[k]);
	if (ret != -EPROTO)
		return ret;

	/* At least one row is unusable: compute the logits row by row, so that
	 * an unusable row fails only its own lane. */
	ret = 0;
	for (uint32_t k = 0; k < n && !ret; k++) {
		struct lane *x = l->in[w->in[k]];

		if (lane_is_over(x))
			continue;
		ret = session_logits_rows(
			l->session, &w->row[k], 1, &l->logits, e);
		if (!ret)
			denoising_guess(x->denoising, w->guess[k], l->logits);
		else
			ret = fail_one(x, ret, e);
	}
	return ret;
}

/* Guess a token for each position that the pass predicts for a lane (at[] of
 * struct denoising). */
static int guess_all(struct scheduler *l, struct err *e)
{
	struct sweep w = { 0 };
	int ret = 0;

	for (uint32_t i = 0; i < l->n_in; i++) {
		if (l->got[i] && l->in[i]->denoising)
			denoising_begin_guesses(l->in[i]->denoising);
		for (uint32_t k = 0; l->got[i] && !ret; k++) {
			struct denoising *d = l->in[i]->denoising;
			uint32_t row;

			/* d is NULL if the lane has ended because one of its
			 * rows was unusable. */
			if (!d || k == d->n_at)
				break;
			if (!denoising_row_of(d, k, &row)) {
				denoising_guess(d, k, d->carried);
				continue;
			}
			w.row[w.n] = d->first + row;
			w.in[w.n] = i;
			w.guess[w.n++] = k;
			if (w.n == LOGITS_ROWS)
				ret = guess_together(l, &w, e);
		}
	}
	return ret ? ret : guess_together(l, &w, e);
}

/* ---- scheduler_denoise --------------------------------------------------- */

static int after_pass(struct scheduler *l, struct err *e)
{
	const struct method_stats *stats = &l->env->stats;

	for (uint32_t i = 0; i < l->n_in; i++) {
		struct lane *x = l->in[i];
		uint64_t drafted = stats->drafted, accepted = stats->accepted;
		int ret;

		if (!l->got[i] || lane_is_over(x))
			continue;
		x->planned = false;
		ret = l->env->method->denoise->after_pass(x->denoising, e);
		x->drafted += stats->drafted - drafted;
		x->accepted += stats->accepted - accepted;
		if (ret)
			ret = fail_one(x, ret, e);
		else if (x->ops->passed)
			x->ops->passed(x);
		if (ret)
			return ret;
	}
	return 0;
}

int scheduler_denoise(struct scheduler *l, struct err *e)
{
	uint64_t began_ns = clock_ns();
	bool reads;
	int ret = plan(l, e);

	if (ret || !l->n_in)
		return ret;
	/* Sort the lanes: the lane that has waited longest comes first. Lanes
	 * that have waited equally long keep their order. */
	for (uint32_t i = 1; i < l->n_in; i++) {
		struct lane *x = l->in[i];
		uint32_t k = i;

		for (; k && l->in[k - 1]->last_pass > x->last_pass; k--)
			l->in[k] = l->in[k - 1];
		l->in[k] = x;
	}
	reads = l->in[0]->denoising->reads_prompt;
	if (!reads)
		put_rows(l);
	ret = reads ? read_prompt(l, e) : forward(l, e);
	if (ret)
		return fail_one(l->in[0], ret, e);
	l->stats.passes++;
	l->stats.rows += l->n_rows;
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->got[i])
			l->in[i]->last_pass = l->stats.passes;
	scheduler_report_pass(l, began_ns);
	if (reads)
		return 0;
	ret = guess_all(l, e);
	return ret ? ret : after_pass(l, e);
}
