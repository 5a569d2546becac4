#include "host/cmd/samples_view.h"

#include "base/progress.h"
#include "host/api/report.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

static double per(double sum, uint64_t n)
{
	return n ? sum / (double)n : 0;
}

/* ---- while they are written ---------------------------------------------- */

/* The line is told by its address, and is not copied. */
static char line[160];

void samples_draw(const char *said, uint32_t over, uint32_t of)
{
	snprintf(line, sizeof(line), "%s", said);
	progress_tell(&cmd_progress, line, over, of);
}

void samples_drawn(void)
{
	progress_tell(&cmd_progress, NULL, 0, 0);
}

/* ---- each of them -------------------------------------------------------- */

static void print_heading(const struct sample_report *s, uint32_t of, FILE *f)
{
	const struct tandem_sample *is = &s->is;

	fprintf(f, "== sample %u of %u: %s", is->index + 1, of,
		is->state == TANDEM_SAMPLE_ENDED ? s->stop : s->state);
	fprintf(f, ", %zu tokens, log-probability %.2f", is->n_tokens,
		is->logprob);
	if (!isnan(is->score))
		fprintf(f, ", score %.4g", is->score);
	fprintf(f, "%s ==\n", is->chosen ? ", chosen" : "");
	if (is->error)
		fprintf(f, "(%s)\n", is->error);
}

static void print_ids(const struct tandem_sample *s, FILE *f)
{
	for (size_t i = 0; i < s->n_tokens; i++)
		fprintf(f, "%s%d", i ? " " : "", s->tokens[i]);
	fputc('\n', f);
}

static void print_text(const struct tandem_sample *s, FILE *f)
{
	size_t n = s->text_bytes;

	fwrite(s->text, 1, n, f);
	if (!n || s->text[n - 1] != '\n')
		fputc('\n', f);
}

int samples_print(const struct tandem *t, uint32_t n, bool ids, FILE *f)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sample_report s;

		tandem_sample_report(t, i, &s);
		print_heading(&s, n, f);
		if (ids)
			print_ids(&s.is, f);
		else
			print_text(&s.is, f);
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

/* ---- all of them --------------------------------------------------------- */

/* Samples by enum tandem_sample_state. */
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
		per((double)s->tokens, s->passes),
		seconds > 0 ? (double)s->tokens / seconds : 0);
	if (s->pauses)
		fprintf(f,
			"; %" PRIu64 " pauses for want of slots, %" PRIu64
			" tails computed again",
			s->pauses, s->forgotten);
	fputc('\n', f);
}

static void put(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

static json_t *count_json(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *number_json(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

static json_t *steps_json(const struct sample_report *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->is.n_steps; i++) {
		json_t *o = json_object();

		put(o, "tokens",
			count_json(s->is.step_ends[i] + 1 - s->prompt_tokens));
		put(o, "score", number_json((double)s->is.step_scores[i]));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *sample_ids_json(const struct tandem_sample *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n_tokens; i++)
		json_array_append_new(list, json_integer(s->tokens[i]));
	return list;
}

static json_t *sample_json(
	const struct tandem_report *r, const struct sample_report *s)
{
	const struct tandem_sample *is = &s->is;
	json_t *o = json_object();

	put(o, "index", count_json(is->index));
	put(o, "parent",
		is->parent < 0 ? json_null() : json_integer(is->parent));
	put(o, "stream", count_json(is->stream));
	put(o, "state", json_string(s->state));
	put(o, "stop",
		is->state == TANDEM_SAMPLE_ENDED ? json_string(s->stop)
						 : json_null());
	put(o, "error", is->error ? json_ctext(is->error) : json_null());
	put(o, "chosen", json_boolean(is->chosen));
	put(o, "score", number_json(is->score));
	if (r->votes) {
		put(o, "answer",
			s->answer ? json_ctext(s->answer) : json_null());
		put(o, "vote", number_json(s->vote));
	}
	put(o, "logprob", number_json(is->logprob));
	put(o, "certainty", number_json(is->certainty));
	put(o, "confidence", number_json(is->confidence));
	put(o, "steps", steps_json(s));
	put(o, "time_s", json_real(is->seconds));
	if (r->pair->soc)
		put(o, "phone_s", json_real(is->phone_seconds));
	put(o, "text", json_stringn(is->text, is->text_bytes));
	put(o, "ids", sample_ids_json(is));
	return o;
}

static json_t *together_json(
	const struct tandem *t, const struct tandem_report *r, double seconds)
{
	const struct samples_stats *s = &r->samples;
	struct states in = states_of(t, r->n_samples);
	json_t *o = json_object();

	put(o, "samples", count_json(r->n_samples));
	put(o, "ended", count_json(in.n[TANDEM_SAMPLE_ENDED]));
	put(o, "cut", count_json(in.n[TANDEM_SAMPLE_CUT]));
	put(o, "failed", count_json(in.n[TANDEM_SAMPLE_FAILED]));
	put(o, "incomplete", count_json(in.n[TANDEM_SAMPLE_INCOMPLETE]));
	put(o, "tokens", count_json(s->tokens));
	put(o, "passes", count_json(s->passes));
	put(o, "rows", count_json(s->rows));
	put(o, "pauses", count_json(s->pauses));
	put(o, "forgotten", count_json(s->forgotten));
	put(o, "tokens_per_s",
		json_real(seconds > 0 ? (double)s->tokens / seconds : 0));
	return o;
}

/* Their rows are memory of Jansson's, which remembers when it had none. */
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

		put(o, "answer", json_ctext(row[i].answer));
		put(o, "votes", count_json(row[i].votes));
		put(o, "weight", number_json(row[i].weight));
		put(o, "first", count_json(row[i].first));
		json_array_append_new(list, o);
	}
	give(row);
	return list;
}

void samples_json(json_t *out, const struct tandem *t,
	const struct tandem_report *r, double seconds)
{
	json_t *list;

	if (!r->n_samples)
		return;
	list = json_array();
	for (uint32_t i = 0; i < r->n_samples; i++) {
		struct sample_report s;

		tandem_sample_report(t, i, &s);
		json_array_append_new(list, sample_json(r, &s));
	}
	put(out, "sampling", together_json(t, r, seconds));
	put(out, "samples", list);
	if (r->votes)
		put(out, "answers", answers_json(t, r->n_samples));
}
