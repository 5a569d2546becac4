#include "host/cmd/samples_view.h"

#include "base/progress.h"
#include "host/api/report.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

/* ---- progress ------------------------------------------------------------ */

/* Storage for the progress line. The storage is static because cmd_progress
 * identifies a line by its address and does not copy the line. */
static char line[160];

void samples_draw(const char *text, uint32_t over, uint32_t of)
{
	snprintf(line, sizeof(line), "%s", text);
	progress_report(&cmd_progress, line, over, of);
}

/* ---- single samples ------------------------------------------------------ */

int samples_print(const struct tandem *t, uint32_t n, bool ids, FILE *f)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sample_report s;
		const struct tandem_sample *is = &s.is;

		tandem_sample_report(t, i, &s);
		fprintf(f,
			"== sample %u of %u: %s, %zu tokens, log-probability "
			"%.2f",
			is->index + 1, n,
			is->state == TANDEM_SAMPLE_ENDED ? s.stop : s.state,
			is->n_tokens, is->logprob);
		if (!isnan(is->score))
			fprintf(f, ", score %.4g", is->score);
		fprintf(f, "%s ==\n", is->chosen ? ", chosen" : "");
		if (is->error)
			fprintf(f, "(%s)\n", is->error);
		for (size_t k = 0; ids && k < is->n_tokens; k++)
			fprintf(f, "%s%d", k ? " " : "", is->tokens[k]);
		if (!ids)
			fwrite(is->text, 1, is->text_bytes, f);
		if (ids || !is->text_bytes ||
			is->text[is->text_bytes - 1] != '\n')
			fputc('\n', f);
	}
	return fflush(f) || ferror(f) ? -EIO : 0;
}

void samples_warn(const struct tandem *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sample_report s;

		tandem_sample_report(t, i, &s);
		if (s.is.error)
			cmd_warn("sample %u of %u failed: %s", i + 1, n,
				s.is.error);
	}
}

/* ---- summary ------------------------------------------------------------- */

/* number of samples in each state, indexed by enum tandem_sample_state */
struct states {
	uint32_t n[TANDEM_SAMPLE_FAILED + 1];
};

static struct states states_of(const struct tandem *t, uint32_t n)
{
	struct states all = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct sample_report s;

		tandem_sample_report(t, i, &s);
		all.n[s.is.state]++;
	}
	return all;
}

void samples_report(const struct tandem *t, const struct tandem_report *r,
	double seconds, FILE *f)
{
	const struct samples_stats *s = &r->samples;
	struct states in = states_of(t, r->n_samples);

	fprintf(f,
		"samples      %u: %u ended, %u cut, %u failed, %u incomplete; "
		"%" PRIu64 " tokens in %" PRIu64
		" passes, %.2f a pass, %.2f tokens/s",
		r->n_samples, in.n[TANDEM_SAMPLE_ENDED],
		in.n[TANDEM_SAMPLE_CUT], in.n[TANDEM_SAMPLE_FAILED],
		in.n[TANDEM_SAMPLE_INCOMPLETE], s->tokens, s->passes,
		s->passes ? (double)s->tokens / (double)s->passes : 0,
		seconds > 0 ? (double)s->tokens / seconds : 0);
	if (s->pauses)
		fprintf(f,
			"; %" PRIu64
			" pauses because the cache was full, %" PRIu64
			" times the dropped cache of a sample was "
			"computed again",
			s->pauses, s->forgotten);
	fputc('\n', f);
}

/* Return a list of the distinct answers with their votes. The array `row` is
 * allocated with Jansson's allocator, so that a failed allocation also prevents
 * the printing of the JSON object (json_all_or_nothing). */
static json_t *answers_json(const struct tandem *t, uint32_t n)
{
	json_t *list = json_array();
	json_malloc_t get;
	json_free_t give;
	struct tally *row;
	uint32_t rows;

	json_get_alloc_funcs(&get, &give);
	row = get(n * sizeof(*row));
	rows = row ? tandem_answers(t, row) : 0;
	for (uint32_t i = 0; i < rows; i++) {
		json_t *o = json_object();

		put_str(o, "answer", row[i].answer);
		put_u64(o, "votes", row[i].votes);
		put_real(o, "weight", row[i].weight);
		put_u64(o, "first", row[i].first);
		json_array_append_new(list, o);
	}
	give(row);
	return list;
}

void samples_json(json_t *out, const struct tandem *t,
	const struct tandem_report *r, double seconds)
{
	const struct samples_stats *st = &r->samples;
	struct states in = states_of(t, r->n_samples);
	json_t *list, *o;

	if (!r->n_samples)
		return;
	o = json_object();
	put_u64(o, "samples", r->n_samples);
	put_u64(o, "ended", in.n[TANDEM_SAMPLE_ENDED]);
	put_u64(o, "cut", in.n[TANDEM_SAMPLE_CUT]);
	put_u64(o, "failed", in.n[TANDEM_SAMPLE_FAILED]);
	put_u64(o, "incomplete", in.n[TANDEM_SAMPLE_INCOMPLETE]);
	put_u64(o, "tokens", st->tokens);
	put_u64(o, "passes", st->passes);
	put_u64(o, "rows", st->rows);
	put_u64(o, "pauses", st->pauses);
	put_u64(o, "forgotten", st->forgotten);
	put_real(o, "tokens_per_s",
		seconds > 0 ? (double)st->tokens / seconds : 0);
	json_object_set_new(out, "sampling", o);
	list = json_array();
	for (uint32_t i = 0; i < r->n_samples; i++) {
		struct sample_report s;
		const struct tandem_sample *is = &s.is;
		json_t *sample = json_object(), *steps = json_array(),
		       *ids = json_array();

		tandem_sample_report(t, i, &s);
		for (size_t j = 0; j < is->n_steps; j++) {
			json_t *step = json_object();

			put_u64(step, "tokens",
				is->step_ends[j] + 1 - s.prompt_tokens);
			put_real(step, "score", (double)is->step_scores[j]);
			json_array_append_new(steps, step);
		}
		for (size_t j = 0; j < is->n_tokens; j++)
			json_array_append_new(ids, json_integer(is->tokens[j]));
		put_u64(sample, "index", is->index);
		json_object_set_new(sample, "parent",
			is->parent < 0 ? json_null()
				       : json_integer(is->parent));
		put_u64(sample, "stream", is->stream);
		put_str(sample, "state", s.state);
		put_str(sample, "stop",
			is->state == TANDEM_SAMPLE_ENDED ? s.stop : NULL);
		put_str(sample, "error", is->error);
		json_object_set_new(sample, "chosen", json_boolean(is->chosen));
		put_real(sample, "score", is->score);
		if (r->votes) {
			put_str(sample, "answer", s.answer);
			put_real(sample, "vote", s.vote);
		}
		put_real(sample, "logprob", is->logprob);
		put_real(sample, "certainty", is->certainty);
		put_real(sample, "confidence", is->confidence);
		json_object_set_new(sample, "steps", steps);
		put_real(sample, "time_s", is->seconds);
		if (r->pair->soc)
			put_real(sample, "phone_s", is->phone_seconds);
		json_object_set_new(
			sample, "text", json_stringn(is->text, is->text_bytes));
		json_object_set_new(sample, "ids", ids);
		json_array_append_new(list, sample);
	}
	json_object_set_new(out, "samples", list);
	if (r->votes)
		json_object_set_new(
			out, "answers", answers_json(t, r->n_samples));
}
