/*
 * Records the text, the statistics and the steps of one sample. A step is a
 * piece of the sample's text, such as a line of reasoning; --step-end and
 * --step-tokens set where a step ends.
 */
#include "host/scheduler/samples_impl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int sample_keep_text(void *arg, int32_t id, const char *text, size_t len)
{
	struct sample *s = arg;

	strbuf_add(&s->text, text, len);
	return s->text.failed ? -ENOMEM : 0;
}

void sample_free(struct sample *s)
{
	generation_close(s->gen);
	strbuf_release(&s->text);
	strbuf_release(&s->answer);
	free(s->confidence);
	free(s->step_end);
	free(s->score);
	free(s->ahead);
	tapped_release(&s->tapped);
	free(s);
}

int sample_grow_tokens(struct sample *s)
{
	size_t room = s->room ? 2 * s->room : 64;
	float *p;

	if (s->n < s->room)
		return 0;
	p = reallocarray(s->confidence, room, sizeof(*p));
	if (!p)
		return -ENOMEM;
	s->confidence = p;
	s->room = room;
	return 0;
}

static int grow_steps(struct sample *s)
{
	uint32_t room = s->step_room ? 2 * s->step_room : 16;
	uint32_t *end;
	float *score;

	if (s->n_steps < s->step_room)
		return 0;
	end = reallocarray(s->step_end, room, sizeof(*end));
	if (end)
		s->step_end = end;
	score = reallocarray(s->score, room, sizeof(*score));
	if (score)
		s->score = score;
	if (!end || !score)
		return -ENOMEM;
	s->step_room = room;
	return 0;
}

/* ---- steps of a sample --------------------------------------------------- */

bool sample_is_begun(const struct sample *s)
{
	for (size_t i = s->step_at; i < s->text.len; i++)
		if (!s->text.data[i] || !strchr(" \t\r\n", s->text.data[i]))
			return true;
	return false;
}

/* Index of the first token of the current step. */
static size_t step_begin(const struct sample *s)
{
	return s->n_steps ? (size_t)s->step_end[s->n_steps - 1] + 1
			  : gen_prompt_length(s->gen);
}

int sample_end_step(struct sample *s)
{
	size_t n, least = step_begin(s);
	int ret = grow_steps(s);

	if (ret)
		return ret;
	gen_tokens(s->gen, &n);
	n -= s->no_slot;
	if (n <= least)
		return 0;
	s->step_end[s->n_steps] = (uint32_t)n - 1;
	s->score[s->n_steps++] = NAN;
	s->step_at = s->text.len;
	return 0;
}

bool sample_step_ends(struct sample *s, const struct samples_options *o)
{
	const char *end = o->step_end;
	size_t len = strlen(end), from = s->searched, n;

	from = from < len ? 0 : from - (len - 1);
	from = from < s->step_at ? s->step_at : from;
	s->searched = s->text.len;
	gen_tokens(s->gen, &n);
	if (o->step_tokens && n - step_begin(s) >= o->step_tokens)
		return sample_is_begun(s);
	return len && from < s->text.len && sample_is_begun(s) &&
		memmem(s->text.data + from, s->text.len - from, end, len);
}

uint32_t sample_steps_read(const struct sample *s)
{
	size_t n;

	gen_tokens(s->gen, &n);
	return s->n_steps -
		(!lane_is_over(&s->lane) && !s->lane.held &&
			step_begin(s) == n && s->n_steps);
}

/* ---- forking a sample ---------------------------------------------------- */

int sample_copy(
	const struct samples *p, struct sample *to, const struct sample *from)
{
	size_t bytes = p->scheduler->n_vocab * sizeof(*to->ahead);
	int ret = 0;

	if (from->ahead) {
		to->ahead = malloc(bytes);
		if (to->ahead)
			memcpy(to->ahead, from->ahead, bytes);
		else
			ret = -ENOMEM;
	}
	if (!ret)
		ret = tapped_copy(
			&to->tapped, &from->tapped, p->scheduler->session);
	if (from->text.len)
		strbuf_add(&to->text, from->text.data, from->text.len);
	while (!ret && to->n < from->n && !(ret = sample_grow_tokens(to))) {
		to->confidence[to->n] = from->confidence[to->n];
		to->n++;
	}
	while (!ret && to->n_steps < from->n_steps && !(ret = grow_steps(to))) {
		to->step_end[to->n_steps] = from->step_end[to->n_steps];
		to->score[to->n_steps] = from->score[to->n_steps];
		to->n_steps++;
	}
	to->parent = (int32_t)from->index;
	to->logprob = from->logprob;
	to->certainty = from->certainty;
	to->lane.held = from->lane.held;
	to->step_at = from->step_at;
	to->searched = from->searched;
	return to->text.failed ? -ENOMEM : ret;
}
