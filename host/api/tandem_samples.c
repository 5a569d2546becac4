/* What a program is told of many samples: struct tandem_sample. */
#include "host/api/tandem_impl.h"
#include "host/api/text_impl.h"
#include "host/method/samples.h"
#include "host/text/generation.h"

static double mean(double sum, size_t n)
{
	return n ? sum / (double)n : 0;
}

static double confidence_of(const struct sample *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += (double)s->confidence[i];
	return mean(sum, s->n);
}

static enum tandem_sample_state state_of(const struct sample *s)
{
	switch (s->lane.state) {
	case LANE_ENDED:
		return TANDEM_SAMPLE_ENDED;
	case LANE_CUT:
		return TANDEM_SAMPLE_CUT;
	case LANE_FAILED:
		return TANDEM_SAMPLE_FAILED;
	default:
		return TANDEM_SAMPLE_INCOMPLETE;
	}
}

static void tell_one(const struct tandem_request *q, const struct samples *p,
	const struct sample *s)
{
	struct tandem_sample out = { .size = sizeof(out),
		.index = s->index,
		.parent = s->parent,
		.stream = s->stream,
		.state = state_of(s),
		.stop = tandem_stop_of(s->stop),
		.chosen = s == samples_chosen(p),
		.text = s->text.data ? s->text.data : "",
		.text_bytes = s->text.len,
		.n_tokens = s->n,
		.logprob = s->logprob,
		.certainty = mean(s->certainty, s->n),
		.confidence = confidence_of(s),
		.score = (double)s->value,
		.n_steps = s->n_steps,
		.step_ends = s->step_end,
		.step_scores = s->score,
		.seconds = (double)(s->ended_ns - s->began_ns) * 1e-9,
		.phone_seconds = (double)(s->ended_ps - s->began_ps) * 1e-12,
		.error = s->lane.state == LANE_FAILED ? s->err.text : NULL };
	size_t n, prompt = gen_prompt_length(s->gen);

	out.tokens = gen_tokens(s->gen, &n) + prompt;
	q->sample(q->sample_arg, &out);
}

void tandem_tell_samples(const struct tandem *t, const struct tandem_request *q)
{
	const struct samples *p = t->decoder.env.samples;

	for (uint32_t i = 0; q->sample && p && i < samples_count(p); i++)
		tell_one(q, p, samples_at(p, i));
}
