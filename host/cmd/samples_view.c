#include "host/cmd/samples_view.h"

#include "base/progress.h"
#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/method/choosing.h"
#include "host/method/samples.h"
#include "host/text/generation.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static double per(double sum, uint64_t n)
{
	return n ? sum / (double)n : 0;
}

static uint32_t over(const struct samples *p)
{
	return samples_in(p, LANE_ENDED) + samples_in(p, LANE_CUT) +
		samples_in(p, LANE_FAILED);
}

/* "incomplete" of those that were not over when the run was. */
static const char *state_name(const struct sample *s)
{
	return sample_is_over(s) ? sample_state_name(s->lane.state)
				 : "incomplete";
}

/* ---- while they are written ---------------------------------------------- */

/* "12 of 16 samples over, 3 running, 1 paused; 42 leads with 5 of 12": */
static void tally(const struct method_env *env, const struct samples *p,
	struct strbuf *out)
{
	uint32_t paused = samples_in(p, LANE_PAUSED);

	strbuf_addf(out, "%u of %u samples over, %u running", over(p),
		samples_count(p), samples_in(p, LANE_RUNNING));
	if (paused)
		strbuf_addf(out, ", %u paused", paused);
	if (env->method->tally) {
		strbuf_addf(out, "; ");
		env->method->tally(env, out);
	}
	strbuf_addf(out, ":");
}

/* The line is told by its address, and is not copied. */
static char line[160];

void samples_draw(void *arg, const struct samples *p)
{
	struct strbuf text = STRBUF_INIT;

	tally(arg, p, &text);
	snprintf(line, sizeof(line), "%s", text.data ? text.data : "");
	strbuf_release(&text);
	progress_tell(&cmd_progress, line, over(p), samples_count(p));
}

void samples_drawn(void)
{
	progress_tell(&cmd_progress, NULL, 0, 0);
}

/* ---- each of them -------------------------------------------------------- */

static void print_heading(
	const struct samples *p, const struct sample *s, FILE *f)
{
	fprintf(f, "== sample %u of %u: ", s->index + 1, samples_count(p));
	if (s->lane.state == LANE_ENDED)
		fprintf(f, "%s", gen_stop_name(s->stop));
	else
		fprintf(f, "%s", state_name(s));
	fprintf(f, ", %zu tokens, log-probability %.2f", s->n, s->logprob);
	if (!isnan(s->value))
		fprintf(f, ", score %.4g", (double)s->value);
	fprintf(f, "%s ==\n", s == samples_chosen(p) ? ", chosen" : "");
	if (s->lane.state == LANE_FAILED)
		fprintf(f, "(%s)\n", s->err.text);
}

static void print_ids(const struct sample *s, FILE *f)
{
	size_t n, at = gen_prompt_length(s->gen);
	const int32_t *id = gen_tokens(s->gen, &n);

	for (size_t i = at; i < n; i++)
		fprintf(f, "%s%d", i > at ? " " : "", id[i]);
	fputc('\n', f);
}

static void print_text(const struct sample *s, FILE *f)
{
	size_t n = s->text.len;

	fwrite(n ? s->text.data : "", 1, n, f);
	if (!n || s->text.data[n - 1] != '\n')
		fputc('\n', f);
}

int samples_print(const struct decoder *d, bool ids, FILE *f)
{
	const struct samples *p = d->env.samples;

	for (uint32_t i = 0; p && i < samples_count(p); i++) {
		print_heading(p, samples_at(p, i), f);
		if (ids)
			print_ids(samples_at(p, i), f);
		else
			print_text(samples_at(p, i), f);
	}
	return fflush(f) || ferror(f) ? -EIO : 0;
}

void samples_warn(const struct decoder *d)
{
	const struct samples *p = d->env.samples;

	for (uint32_t i = 0; p && i < samples_count(p); i++) {
		const struct sample *s = samples_at(p, i);

		if (s->lane.state == LANE_FAILED)
			cmd_warn("sample %u of %u failed: %s", i + 1,
				samples_count(p), s->err.text);
	}
}

/* ---- all of them --------------------------------------------------------- */

void samples_report(const struct decoder *d, double seconds, FILE *f)
{
	const struct samples *p = d->env.samples;
	uint32_t n = samples_count(p);
	struct samples_stats s;

	samples_stats(p, &s);
	fprintf(f,
		"samples      %u: %u ended, %u cut, %u failed, %u incomplete; "
		"%" PRIu64 " tokens in %" PRIu64
		" passes, %.2f a pass, %.2f tokens/s",
		n, samples_in(p, LANE_ENDED), samples_in(p, LANE_CUT),
		samples_in(p, LANE_FAILED), n - over(p), s.tokens, s.passes,
		per((double)s.tokens, s.passes),
		seconds > 0 ? (double)s.tokens / seconds : 0);
	if (s.pauses)
		fprintf(f,
			"; %" PRIu64 " pauses for want of slots, %" PRIu64
			" tails computed again",
			s.pauses, s.forgotten);
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

static json_t *steps_json(const struct sample *s)
{
	json_t *list = json_array();
	size_t prompt = gen_prompt_length(s->gen);

	for (uint32_t i = 0; i < s->n_steps; i++) {
		json_t *o = json_object();

		put(o, "tokens", count_json(s->step_end[i] + 1 - prompt));
		put(o, "score", number_json((double)s->score[i]));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *sample_ids_json(const struct sample *s)
{
	size_t n, at = gen_prompt_length(s->gen);
	const int32_t *id = gen_tokens(s->gen, &n);
	json_t *list = json_array();

	for (; at < n; at++)
		json_array_append_new(list, json_integer(id[at]));
	return list;
}

static double confidence(const struct sample *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += (double)s->confidence[i];
	return per(sum, s->n);
}

static json_t *sample_json(const struct decoder *d, const struct sample *s)
{
	json_t *o = json_object();

	put(o, "index", count_json(s->index));
	put(o, "parent", s->parent < 0 ? json_null() : json_integer(s->parent));
	put(o, "stream", count_json(s->stream));
	put(o, "state", json_string(state_name(s)));
	put(o, "stop",
		s->lane.state == LANE_ENDED
			? json_string(gen_stop_name(s->stop))
			: json_null());
	put(o, "error",
		s->lane.state == LANE_FAILED ? json_ctext(s->err.text)
					     : json_null());
	put(o, "chosen", json_boolean(s == samples_chosen(d->env.samples)));
	put(o, "score", number_json((double)s->value));
	if (method_uses(d->method, &answer_table)) {
		put(o, "answer",
			s->answer.len ? json_ctext(s->answer.data)
				      : json_null());
		put(o, "vote", number_json((double)s->weight));
	}
	put(o, "logprob", number_json(s->logprob));
	put(o, "certainty", number_json(per(s->certainty, s->n)));
	put(o, "confidence", number_json(confidence(s)));
	put(o, "steps", steps_json(s));
	put(o, "time_s", json_real((double)(s->ended_ns - s->began_ns) * 1e-9));
	if (d->session_opts.soc)
		put(o, "phone_s",
			json_real((double)(s->ended_ps - s->began_ps) * 1e-12));
	put(o, "text",
		json_stringn(s->text.len ? s->text.data : "", s->text.len));
	put(o, "ids", sample_ids_json(s));
	return o;
}

static json_t *together_json(const struct samples *p, double seconds)
{
	json_t *o = json_object();
	uint32_t n = samples_count(p);
	struct samples_stats s;

	samples_stats(p, &s);
	put(o, "samples", count_json(n));
	put(o, "ended", count_json(samples_in(p, LANE_ENDED)));
	put(o, "cut", count_json(samples_in(p, LANE_CUT)));
	put(o, "failed", count_json(samples_in(p, LANE_FAILED)));
	put(o, "incomplete", count_json(n - over(p)));
	put(o, "tokens", count_json(s.tokens));
	put(o, "passes", count_json(s.passes));
	put(o, "rows", count_json(s.rows));
	put(o, "pauses", count_json(s.pauses));
	put(o, "forgotten", count_json(s.forgotten));
	put(o, "tokens_per_s",
		json_real(seconds > 0 ? (double)s.tokens / seconds : 0));
	return o;
}

/* The answers, those that weigh most first. Their rows are memory of Jansson's,
 * which remembers when it had none. */
static json_t *answers_json(const struct samples *p)
{
	uint32_t n = samples_count(p), rows, most;
	json_t *list = json_array();
	json_malloc_t get;
	json_free_t give;
	struct tally *row;

	json_get_alloc_funcs(&get, &give);
	row = get((n ? n : 1) * sizeof(*row));
	rows = row ? choosing_tally(p, row, NULL) : 0;
	for (; (most = choice_heaviest(row, rows)) != CHOICE_NONE; rows--) {
		json_t *o = json_object();

		put(o, "answer", json_ctext(row[most].answer));
		put(o, "votes", count_json(row[most].votes));
		put(o, "weight", number_json(row[most].weight));
		put(o, "first", count_json(row[most].first));
		json_array_append_new(list, o);
		memmove(row + most, row + most + 1,
			(rows - most - 1) * sizeof(*row));
	}
	give(row);
	return list;
}

void samples_json(json_t *out, const struct decoder *d, double seconds)
{
	const struct samples *p = d->env.samples;
	json_t *list;

	if (!p)
		return;
	list = json_array();
	for (uint32_t i = 0; i < samples_count(p); i++)
		json_array_append_new(list, sample_json(d, samples_at(p, i)));
	put(out, "sampling", together_json(p, seconds));
	put(out, "samples", list);
	if (method_uses(d->method, &answer_table))
		put(out, "answers", answers_json(p));
}
