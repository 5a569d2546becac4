#include "host/bench/experiment.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT 200 /* size of a setting's description in a message, in bytes */

/* ---- settings ------------------------------------------------------------ */

int experiment_add(struct experiment *x, struct setting *s, unsigned same_text,
	struct run **out, struct err *e)
{
	struct run **all, *r = NULL;

	for (unsigned i = 0; i < x->n_runs && !r; i++)
		if (setting_same(&x->run[i]->set, s))
			r = x->run[i];
	if (r) {
		setting_release(s);
		if (!r->same_text)
			r->same_text = same_text;
	} else {
		all = reallocarray(x->run, x->n_runs + 1, sizeof(struct run *));
		if (all)
			x->run = all;
		r = all ? calloc(1, sizeof(*r)) : NULL;
		if (!r) {
			setting_release(s);
			return err_set(e, ENOMEM,
				"no memory for the runs of the benchmark");
		}
		x->run[x->n_runs++] = r;
		r->set = *s;
		r->same_text = same_text;
		*s = (struct setting){ 0 };
	}
	if (same_text > x->n_same_text)
		x->n_same_text = same_text;
	if (out)
		*out = r;
	return 0;
}

/* ---- checks -------------------------------------------------------------- */

static struct known_text *known_text(
	const struct experiment *x, const struct run *r, size_t item)
{
	return r->same_text ? &x->known[(r->same_text - 1) * x->n_items + item]
			    : NULL;
}

/*
 * Whether two lengths of the same text are consistent. The text was generated
 * twice: with the limit n it had `got` tokens, with the limit `might` it had
 * `had` tokens. A text that ended before its limit has the same length with any
 * larger limit. A text that reached its limit may be longer with a larger
 * limit.
 */
static bool length_fits(size_t got, uint32_t n, size_t had, uint32_t might)
{
	if (n <= might)
		return got == (had < n ? had : n);
	return had < might ? got == had : got >= had;
}

static int keep_text(struct known_text *known, const struct run *r,
	const struct item_report *t, struct err *e)
{
	int32_t *copy = malloc(t->n * sizeof(*copy));

	if (!copy)
		return err_set(e, ENOMEM,
			"no memory for the generated text of an item");
	memcpy(copy, t->text, t->n * sizeof(*copy));
	free(known->id);
	*known = (struct known_text){ copy, t->n, t->n_predict, r };
	return 0;
}

/* Check that all runs of a group generate the same text for an item. */
static int check_text(struct experiment *x, const struct run *r, size_t item,
	const struct item_report *t, struct err *e)
{
	struct known_text *known = known_text(x, r, item);
	char here[TEXT], there[TEXT];
	size_t same = 0;

	if (!known)
		return 0;
	if (!known->id)
		return keep_text(known, r, t, e);
	while (same < t->n && same < known->n &&
		t->text[same] == known->id[same])
		same++;
	if ((same < t->n && same < known->n) ||
		!length_fits(t->n - t->n_prompt, t->n_predict,
			known->n - t->n_prompt, known->n_predict))
		return err_set(e, EPROTO,
			"%s and %s must generate the same text, but for an "
			"item of %s they differ from token %zu after the "
			"prompt on",
			setting_text(&r->set, here, TEXT),
			setting_text(&known->by->set, there, TEXT),
			x->task[x->item_task[item]],
			same < t->n_prompt ? 0 : same - t->n_prompt);
	x->same_texts++;
	return t->n > known->n ? keep_text(known, r, t, e) : 0;
}

static int check_figures(struct experiment *x, const struct run *r,
	const struct item_report *t, struct err *e)
{
	const struct figures *f = &t->figures;
	const struct method_stats *d = &f->drafts;
	uint64_t least = x->phone ? f->least_ps : f->least_ns;
	uint64_t took = x->phone ? f->ps : f->ns;
	double ms = x->phone ? 1e-9 : 1e-6;
	int64_t more = t->kernel_bytes - (int64_t)t->kernel_wanted;
	uint64_t emitted = d->cycles ? d->accepted + d->cycles : f->tokens;
	char text[TEXT];

	setting_text(&r->set, text, TEXT);
	if (f->bytes != f->passes * t->streamed)
		return err_set(e, EPROTO,
			"%s read %llu bytes in %llu passes, but each pass "
			"should read %llu",
			text, (unsigned long long)f->bytes,
			(unsigned long long)f->passes,
			(unsigned long long)t->streamed);
	x->exact_reads += f->passes;

	/* The passes must take at least the time that flash needs to read the
	 * bytes of the passes. If the passes took less time, some of their
	 * bytes were read before the measurement began, and the measured time
	 * is too short. */
	if (took < least)
		return err_set(e, EPROTO,
			"%s took %.3f ms for %llu passes, but flash needs at "
			"least %.3f ms for the %llu bytes of these passes: "
			"some of the bytes were read before the measurement "
			"began",
			text, (double)took * ms, (unsigned long long)f->passes,
			(double)least * ms,
			(unsigned long long)f->priced_bytes);
	x->above_floor += least > 0;

	if (t->kernel_bytes >= 0) {
		if ((uint64_t)(more < 0 ? -more : more) > t->kernel_slack)
			return err_set(e, EPROTO,
				"%s: the kernel counts %lld bytes read from "
				"storage, but %llu passes should have read "
				"%llu",
				text, (long long)t->kernel_bytes,
				(unsigned long long)f->passes,
				(unsigned long long)t->kernel_wanted);
		x->kernel_reads++;
	}
	if (t->rows_emitted) {
		if (f->logits_rows != emitted || emitted != f->tokens)
			return err_set(e, EPROTO,
				"%s used %llu rows of logits for %llu tokens, "
				"but accepted %llu",
				text, (unsigned long long)f->logits_rows,
				(unsigned long long)f->tokens,
				(unsigned long long)emitted);
		x->exact_logits += f->tokens;
	}
	return 0;
}

/* ---- runs ---------------------------------------------------------------- */

/* Process all items of the shard once, in round `round`, with the setting of
 * run number `run`. */
static int run_items(struct experiment *x, unsigned round, unsigned run,
	void *one, struct err *e)
{
	size_t n = shard_count(&x->shard, x->n_items);
	uint64_t done = ((uint64_t)round * x->n_runs + run) * n;
	uint64_t total = (uint64_t)x->rounds * x->n_runs * n;
	struct figures before[FIGURES_TASKS];
	struct run *r = x->run[run];
	int ret = 0;

	memcpy(before, r->task, sizeof(before));
	for (size_t i = 0; i < x->n_items && !ret; i++) {
		const struct known_text *known;
		struct item_report report;

		if (!shard_has(&x->shard, i))
			continue;

		known = known_text(x, r, i);
		report = (struct item_report){ .kernel_bytes = -1 };
		ret = x->runner->item(x->runner->arg, one, i,
			known && known->id ? known : NULL, &report, e);
		if (!ret)
			ret = check_text(x, r, i, &report, e);
		if (!ret)
			ret = check_figures(x, r, &report, e);
		figures_add(&r->task[x->item_task[i]], &report.figures);
		r->item[i].prompt_time += x->phone ? report.figures.prompt_ps
						   : report.figures.prompt_ns;
		r->item[i].decode_time +=
			x->phone ? report.figures.ps : report.figures.ns;
		r->base_w = report.base_w;

		progress_report(&x->progress, "measuring", ++done, total);
	}
	for (unsigned t = 0; t < x->n_tasks; t++) {
		const struct figures *now = &r->task[t], *then = &before[t];
		struct round_sums *took = &r->round[t][round];

#define TOOK(type, name) took->name = now->name - then->name;
		ROUND_SUMS(TOOK)
#undef TOOK
	}
	return ret;
}

int experiment_room(struct experiment *x, struct err *e)
{
	for (unsigned i = 0; i < x->n_runs; i++) {
		struct run *r = x->run[i];

		r->item = calloc(x->n_items + 1, sizeof(*r->item));
		if (!r->item)
			return err_set(e, ENOMEM,
				"no memory for the times of the items");
	}
	return 0;
}

int experiment_run(struct experiment *x, struct err *e)
{
	const struct runner *how = x->runner;
	int ret = experiment_room(x, e), closed;

	if (ret)
		return ret;
	assert(x->rounds && x->rounds <= EXPERIMENT_ROUNDS);
	assert(x->n_tasks <= FIGURES_TASKS);
	x->known = calloc(x->n_same_text * x->n_items + 1, sizeof(*x->known));
	if (!x->known)
		return err_set(e, ENOMEM, "no memory for the generated texts");
	for (unsigned round = 0; round < x->rounds && !ret; round++)
		for (unsigned i = 0; i < x->n_runs && !ret; i++) {
			void *one;

			ret = how->open(how->arg, &x->run[i]->set, &one, e);
			if (ret)
				break;
			ret = run_items(x, round, i, one, e);
			closed =
				how->close(how->arg, one, !ret, ret ? NULL : e);
			ret = ret ? ret : closed;
		}
	progress_report(&x->progress, NULL, 0, 0);
	return ret;
}

void experiment_release(struct experiment *x)
{
	for (size_t i = 0; x->known && i < x->n_same_text * x->n_items; i++)
		free(x->known[i].id);
	free(x->known);
	for (unsigned i = 0; i < x->n_runs; i++) {
		setting_release(&x->run[i]->set);
		free(x->run[i]->item);
		free(x->run[i]);
	}
	free(x->run);
	x->run = NULL;
	x->known = NULL;
	x->n_runs = 0;
}
