/* Gives callers of the library the samples of a request: fills struct
 * tandem_sample, writes progress lines, and records and replays samples for
 * measurements. */
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_impl.h"
#include "host/api/tandem_pass.h"
#include "host/api/request_impl.h"
#include "host/method/choosing.h"
#include "host/method/methods.h"
#include "host/scheduler/samples.h"
#include "host/text/generation.h"

#include <stdlib.h>
#include <string.h>

static double mean(double sum, size_t n)
{
	return n ? sum / (double)n : 0;
}

static struct tandem_sample sample_of(
	const struct samples *p, const struct sample *s)
{
	/* the elements of all other lane states are 0, which is
	 * TANDEM_SAMPLE_INCOMPLETE */
	static const enum tandem_sample_state states[LANE_FAILED + 1] = {
		[LANE_ENDED] = TANDEM_SAMPLE_ENDED,
		[LANE_CUT] = TANDEM_SAMPLE_CUT,
		[LANE_FAILED] = TANDEM_SAMPLE_FAILED,
	};
	double confidence = 0;
	struct tandem_sample out = { .size = sizeof(out),
		.index = s->index,
		.parent = s->parent,
		.stream = s->stream,
		.state = states[s->lane.state],
		.stop = tandem_stop_of(s->stop),
		.chosen = s == samples_chosen(p),
		.text = s->text.data ? s->text.data : "",
		.text_bytes = s->text.len,
		.n_tokens = s->n,
		.logprob = s->logprob,
		.certainty = mean(s->certainty, s->n),
		.score = (double)s->value,
		.n_steps = s->n_steps,
		.step_ends = s->step_end,
		.step_scores = s->score,
		.seconds = (double)(s->ended_ns - s->began_ns) * 1e-9,
		.phone_seconds = (double)(s->ended_ps - s->began_ps) * 1e-12,
		.error = s->lane.state == LANE_FAILED ? s->err.text : NULL };
	size_t n, prompt = gen_prompt_length(s->gen);

	out.tokens = gen_tokens(s->gen, &n) + prompt;
	for (size_t i = 0; i < s->n; i++)
		confidence += (double)s->confidence[i];
	out.confidence = mean(confidence, s->n);
	return out;
}

void request_report_samples(const struct tandem_submitted *x)
{
	const struct tandem_request *q = &x->request;
	uint32_t n = q->sample && x->samples ? samples_count(x->samples) : 0;

	for (uint32_t i = 0; i < n; i++) {
		struct tandem_sample one =
			sample_of(x->samples, samples_at(x->samples, i));

		q->sample(q->sample_arg, &one);
	}
}

void tandem_sample_report(
	const struct tandem *t, uint32_t i, struct sample_report *out)
{
	const struct samples *p = t->last->samples;
	const struct sample *s = samples_at(p, i);

	*out = (struct sample_report){
		.is = sample_of(p, s),
		.state = lane_is_over(&s->lane)
			? sample_state_name(s->lane.state)
			: "incomplete",
		.stop = gen_stop_name(s->stop),
		.prompt_tokens = gen_prompt_length(s->gen),
		.answer = s->answer.len ? s->answer.data : NULL,
		.vote = (double)s->weight,
		.err = s->lane.state == LANE_FAILED ? &s->err : NULL,
	};
}

uint32_t tandem_answers(const struct tandem *t, struct tally *row)
{
	uint32_t n = choosing_tally(t->last->samples, row);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t most = i + choice_heaviest(row + i, n - i);
		struct tally heaviest = row[most];

		memmove(row + i + 1, row + i, (most - i) * sizeof(*row));
		row[i] = heaviest;
	}
	return n;
}

/* Report a line such as "12 of 16 samples finished, 3 running, 1 paused; '42'
 * leads with 5 of 12 votes:". */
void request_report_progress(const struct tandem_submitted *x)
{
	const struct tandem *t = x->tandem;
	const struct samples *p = x->samples;
	const struct many_steps *many = t->decoder.method->many;
	uint32_t paused = samples_in(p, LANE_PAUSED);
	uint32_t over = samples_in(p, LANE_ENDED) + samples_in(p, LANE_CUT) +
		samples_in(p, LANE_FAILED);
	struct strbuf line = STRBUF_INIT;

	if (!t->watch_samples)
		return;
	strbuf_addf(&line, "%u of %u samples finished, %u running", over,
		samples_count(p), samples_in(p, LANE_RUNNING));
	if (paused)
		strbuf_addf(&line, ", %u paused", paused);
	if (many->tally)
		many->tally(p, &line);
	strbuf_addf(&line, ":");
	t->watch_samples(line.data ? line.data : "", over, samples_count(p));
	strbuf_release(&line);
}

void tandem_watch_samples(struct tandem *t,
	void (*report)(const char *line, uint32_t over, uint32_t of))
{
	t->watch_samples = report;
}

/* ---- recording and replaying --------------------------------------------- */

/* The generated tokens of a sample, without those of the prompt. */
static struct sample_tokens tokens_of(const struct sample *s)
{
	size_t n;

	return (struct sample_tokens){
		gen_tokens(s->gen, &n) + gen_prompt_length(s->gen), s->n
	};
}

/* A single allocation holds the script, its samples and their tokens. */
struct samples_script *tandem_record(const struct tandem *t)
{
	const struct samples *p = t->last->samples;
	uint32_t n = samples_count(p);
	struct sample_tokens *sample;
	struct samples_script *out;
	size_t all = 0;
	int32_t *to;

	for (uint32_t i = 0; i < n; i++)
		all += samples_at(p, i)->n;
	out = malloc(sizeof(*out) + n * sizeof(*sample) + all * sizeof(*to));
	if (!out)
		return NULL;
	sample = (struct sample_tokens *)(out + 1);
	to = (int32_t *)(sample + n);
	for (uint32_t i = 0; i < n; i++) {
		struct sample_tokens from = tokens_of(samples_at(p, i));

		memcpy(to, from.token, from.n * sizeof(*to));
		sample[i] = (struct sample_tokens){ to, from.n };
		to += from.n;
	}
	*out = (struct samples_script){ n, sample };
	return out;
}

void tandem_replay(struct tandem *t, const struct samples_script *script)
{
	t->decoder.env.script = script;
}

uint32_t tandem_compare(
	const struct tandem *t, const struct samples_script *script)
{
	const struct samples *p = t->last->samples;
	uint32_t n = samples_count(p), i;

	for (i = 0; i < n; i++) {
		struct sample_tokens is = tokens_of(samples_at(p, i));
		const struct sample_tokens *was = &script->sample[i];

		if (is.n != was->n ||
			memcmp(is.token, was->token, is.n * sizeof(int32_t)) !=
				0)
			break;
	}
	return i;
}

int tandem_choose(struct tandem *t, const struct opt_values *options,
	uint32_t n, uint32_t *chosen, struct err *e)
{
	const struct decoding_options *o =
		opt_values_of(options, &decoding_table);
	struct method_env as = { .method = method_find(o->method),
		.options = options };

	return choosing_among(&as, t->last->samples, n, chosen, e);
}
