/*
 * Reference for beam search. Plain decoding generates every beam alone, one
 * step at a time, from an empty cache, with the beam's tokens as its prompt. In
 * each round of a search, every beam gets one more step. The reference does not
 * use the sample pools or forks of the program. Words that end a step are
 * recognized by their token id.
 */
#ifndef TESTS_HOST_METHOD_SLOW_BEAMS_H
#define TESTS_HOST_METHOD_SLOW_BEAMS_H

#include "host/head/reward.h"
#include "tests/host/method/text_writer.h"

#include <math.h>

#define BEAMS 640 /* maximum number of beams in one search */

/* The parameters of a search. */
struct slow_plan {
	bool trees; /* true for diverse verifier tree search (dvts) */
	uint32_t n, width, rounds;
	const char *aggregate;
	uint32_t step_tokens; /* maximum tokens of a step; 0: any number */
};

struct slow_beam {
	int parent;
	uint64_t stream;
	int32_t token[MOST];
	size_t n;
	uint32_t step_end[MOST], n_steps;
	uint32_t place; /* index among the beams of the round */
	bool over, cut;
	float value; /* NAN if the beam was never scored */
};

struct slow_search {
	struct writer *w; /* its session is open for plain decoding */
	int32_t eos;
	struct slow_plan plan;
	struct slow_beam beam[BEAMS];
	uint32_t n;
	int best; /* index of the best beam; -1 if there is none */
	uint32_t rounds, scored, forks;
};

/* ---- words --------------------------------------------------------------- */

#define WORD_ENDS_STEP(id) ((id) >= 3 && (id) % 6 == 0)

/* A tokenizer in which words with an 'a' end steps and `eos` ends texts. */
static inline void words_open(struct writer *w, uint32_t eos)
{
	static struct vocab v;
	struct vocab_file keys = { 0 };
	struct strbuf file = STRBUF_INIT;
	struct gguf *gguf;
	struct err e = { 0 };

	v = (struct vocab){ .model = "llama" };
	vocab_add(&v, "<unk>", 2, 0);
	vocab_add(&v, "<s>", 3, 0);
	vocab_add(&v, "</s>", 3, 0);
	while (v.n < N_VOCAB) {
		char word[16];

		snprintf(word, sizeof(word), "w%u%s", v.n,
			WORD_ENDS_STEP(v.n) ? "a" : "");
		vocab_add(&v, word, 1, 0);
	}
	vocab_keys(&keys, &v);
	vocab_u32(&keys, "tokenizer.ggml.eos_token_id", eos);
	vocab_finish(&keys, &file);
	assert_ok(gguf_parse(&gguf, file.data, file.len, &e), &e);
	assert_ok(tokenizer_open(&w->tok, gguf, &e), &e);
	gguf_close(gguf);
	strbuf_release(&file);
}

/* ---- scores -------------------------------------------------------------- */

/* A pseudorandom score that depends only on the n tokens of the text. */
static inline float slow_score(const int32_t *token, size_t n)
{
	uint64_t sum = 1469598103934665603u;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (uint64_t)token[i]) * 1099511628211u;
	return (float)((double)(sum >> 40) / (double)(1u << 24));
}

static inline void slow_value(struct slow_search *s, struct slow_beam *b)
{
	double least = INFINITY, product = 1, last = NAN;

	for (uint32_t i = 0; i < b->n_steps; i++) {
		last = (double)slow_score(b->token, b->step_end[i] + 1);
		least = last < least ? last : least;
		product *= last;
	}
	if (!b->n_steps || s->plan.n == 1)
		return;
	s->scored++;
	b->value = (float)(!strcmp(s->plan.aggregate, "last") ? last
			: !strcmp(s->plan.aggregate, "min")   ? least
							      : product);
}

/* ---- writing ------------------------------------------------------------- */

/* Whether the token at index `at` ends the step that begins at index `step`.
 * Only some tokens are words, and a step has at least one word. */
static inline bool slow_ends_step(const struct slow_search *s,
	const int32_t *token, size_t step, size_t at)
{
	bool word = false;

	if (WORD_ENDS_STEP(token[at]))
		return true;
	for (size_t i = step; i <= at; i++)
		word = word || (token[i] >= 3 && token[i] != s->eos);
	return s->plan.step_tokens && word &&
		at + 1 - step >= s->plan.step_tokens;
}

struct slow_sink {
	const struct slow_search *s;
	bool to_the_end;
	int32_t token[MOST];
	size_t n; /* tokens of the step so far */
};

static inline int slow_sink(void *arg, int32_t id, const char *text, size_t len)
{
	struct slow_sink *to = arg;

	if (to->to_the_end)
		return 0;
	to->token[to->n++] = id;
	return slow_ends_step(to->s, to->token, 0, to->n - 1);
}

/* Generate the beam's next step or, if `to_the_end` is set, the rest of its
 * text. */
static inline void slow_write(
	struct slow_search *s, struct slow_beam *b, bool to_the_end)
{
	struct writer *w = s->w;
	struct slow_sink to = { .s = s, .to_the_end = to_the_end };
	struct sampler_opts by = w->sampling;
	struct generation_opts o = {
		.tokenizer = w->tok,
		.n_vocab = N_VOCAB,
		.n_predict = w->n_predict - (uint32_t)(b->n - N_PROMPT),
		.context = session_context(w->s),
		.sink = slow_sink,
		.arg = &to,
	};
	struct method_env none = { 0 };
	struct generation *g;
	struct err e = { 0 };
	size_t from = b->n,
	       step = b->n_steps ? b->step_end[b->n_steps - 1] + 1 : N_PROMPT;
	const int32_t *token;

	by.stream = b->stream;
	assert_ok(sampler_open(&o.sampler, &by, N_VOCAB, &e), &e);
	assert_ok(generation_open(&g, &o, b->token, b->n, &e), &e);
	session_truncate(w->s, SESSION_TEXT, 0);
	none.method = &method_autoregressive;
	assert_ok(method_run(w->s, g, &none, &e), &e);
	token = gen_tokens(g, &b->n);
	assert_in_range(b->n, from + 1, MOST);
	memcpy(b->token, token, b->n * sizeof(*token));
	b->over = gen_stop_reason(g) != GEN_STOP_ERROR ||
		b->n == N_PROMPT + w->n_predict;
	for (; from < b->n; from++)
		if (slow_ends_step(s, b->token, step, from)) {
			b->step_end[b->n_steps++] = (uint32_t)from;
			step = from + 1;
		}
	/* The tokens after the last complete step form a step too, if one of
	 * them is a word. */
	for (bool word = false; b->over && step < b->n && !word; step++) {
		word = b->token[step] >= 3 && b->token[step] != s->eos;
		if (word)
			b->step_end[b->n_steps++] = (uint32_t)b->n - 1;
	}
	generation_close(g);
	sampler_close(o.sampler);
}

/* ---- choosing ------------------------------------------------------------ */

static inline struct slow_beam *slow_add(
	struct slow_search *s, const struct slow_beam *from, uint64_t stream)
{
	struct slow_beam *b = &s->beam[s->n];

	assert_in_range(s->n, 0, BEAMS - 1);
	*b = (struct slow_beam){ .parent = -1, .n = N_PROMPT };
	if (from) {
		*b = *from;
		b->parent = (int)(from - s->beam);
	} else {
		write_prompt(b->token);
	}
	b->value = NAN;
	b->stream = s->w->sampling.stream + stream;
	s->n++;
	return b;
}

static inline bool slow_better(
	const struct slow_search *s, uint32_t a, uint32_t b)
{
	float x = s->beam[a].value, y = s->beam[b].value;

	return isgreater(x, y) || (!isnan(x) && isnan(y)) ||
		(!isless(x, y) && isnan(x) == isnan(y) &&
			s->beam[a].place < s->beam[b].place);
}

/* Returns the index k of a beam of[k] for which open[k] is set: of the best
 * such beam or, if `best` is false, of the first one. Returns -1 if no entry of
 * open[] is set. */
static inline int slow_take(const struct slow_search *s, const uint32_t *of,
	const bool *open, uint32_t n, bool best)
{
	int at = -1;

	for (uint32_t i = 0; i < n; i++)
		if (open[i] &&
			(at < 0 || (best && slow_better(s, of[i], of[at]))))
			at = (int)i;
	return at;
}

static inline void slow_finish(struct slow_search *s, uint32_t at)
{
	float value = s->beam[at].value;
	float best = s->best < 0 ? NAN : s->beam[s->best].value;

	/* of equal values the first one wins */
	if (s->best < 0 || isgreater(value, best) ||
		(isnan(best) && !isnan(value)))
		s->best = (int)at;
}

/* Replace the n beams of one tree by those of the next round, which continue
 * the `keep` best beams. Returns the number of new beams: n, or 0 if no beam is
 * left to continue. */
static inline uint32_t slow_choose(
	struct slow_search *s, uint32_t *of, uint32_t n, uint32_t keep)
{
	uint32_t kept[BEAMS], n_kept = 0, left = 0, order[BEAMS];
	bool open[BEAMS];

	for (uint32_t i = 0; i < n; i++)
		left += !s->beam[of[i]].over || s->plan.trees;
	for (uint32_t i = 0; i < n; i++)
		if (s->beam[of[i]].over || left > keep)
			slow_value(s, &s->beam[of[i]]);
	for (uint32_t i = 0; i < n; i++) {
		open[i] = s->plan.trees || !s->beam[of[i]].over;
		if (!open[i])
			slow_finish(s, of[i]);
	}
	memcpy(order, of, n * sizeof(*of));
	for (uint32_t k = 0; k < keep; k++) {
		/* If all beams can be kept, their order does not change. */
		int at = slow_take(s, order, open, n, left > keep);

		if (at < 0)
			break;
		open[at] = false;
		if (s->beam[order[at]].over)
			slow_finish(s, order[at]);
		else
			kept[n_kept++] = order[at];
	}
	for (uint32_t i = 0; i < n; i++)
		s->beam[order[i]].cut |= open[i] && !s->beam[order[i]].over;
	for (uint32_t i = 0; n_kept && i < n; i++) {
		if (i >= n_kept) {
			struct slow_beam *from = &s->beam[kept[i % n_kept]];

			uint64_t stream = s->plan.n *
					(1 + (s->rounds - 1) * s->plan.n +
						i / n_kept) +
				from->place;

			kept[i] =
				(uint32_t)(slow_add(s, from, stream) - s->beam);
			s->forks++;
		}
		of[i] = kept[i];
	}
	return n_kept ? n : 0;
}

static inline void slow_run(struct slow_search *s, struct writer *w,
	int32_t eos, const struct slow_plan *plan)
{
	uint32_t active[BEAMS], n = plan->n;
	uint32_t width = n > 1 ? plan->width : 1;
	uint32_t tree = plan->trees ? width : n;
	uint32_t keep = plan->trees ? 1 : n / width;

	*s = (struct slow_search){
		.w = w, .eos = eos, .plan = *plan, .best = -1
	};
	for (uint32_t i = 0; i < n; i++)
		active[i] = (uint32_t)(slow_add(s, NULL, i) - s->beam);
	while (n) {
		uint32_t left = 0;

		s->rounds++;
		for (uint32_t i = 0; i < n; i++)
			s->beam[active[i]].place = i;
		for (uint32_t i = 0; i < n; i++)
			slow_write(s, &s->beam[active[i]],
				s->rounds == plan->rounds);
		for (uint32_t t = 0; t < n; t += tree) {
			uint32_t next = slow_choose(s, active + t, tree, keep);

			memmove(active + left, active + t,
				next * sizeof(*active));
			left += next;
		}
		n = left;
	}
}

#endif
