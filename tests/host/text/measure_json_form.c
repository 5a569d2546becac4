/*
 * Measures the time of constrained decoding on this machine, with the
 * vocabulary of a GGUF file and random logits: measure_json_form FILE [SCHEMA].
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/text/json_form.h"
#include "host/text/sampler.h"
#include "host/text/token_trie.h"
#include "host/text/tokenizer.h"
#include "tensor/gguf.h"

#include <stdio.h>
#include <stdlib.h>

#define TOKENS 2000

static const char any[] = "{}";

/* Draw random logits in which tokens that end JSON values are likelier, so that
 * many values are completed. */
static void draw_logits(
	const struct token_trie *t, float *logits, uint64_t position)
{
	for (uint32_t i = 0; i < t->n_vocab; i++) {
		const char *p = t->bytes + t->at[i];
		uint32_t len = t->at[i + 1] - t->at[i];

		logits[i] = 10 * (float)rng_uniform(i, 0, position);
		for (uint32_t k = 0; k < len; k++)
			logits[i] += p[k] == '"' ? 4.0f : p[k] == ' ' ? -3 : 0;
	}
}

static void measure(const struct token_trie *t, struct json_form *f)
{
	struct sampler_opts o = sampler_defaults;
	struct sampler *s;
	struct json_front place;
	float *logits = malloc(t->n_vocab * sizeof(*logits));
	uint64_t all = 0, worst = 0;
	uint64_t *took = calloc(TOKENS, sizeof(*took));

	o.temperature = 1;
	if (!logits || !took || sampler_open(&s, &o, t->n_vocab, NULL))
		exit(1);
	json_begin(json_form_machine(f), &place);
	for (uint32_t i = 0; i < TOKENS; i++) {
		uint64_t from, n;
		const float *row;
		int32_t id;

		draw_logits(t, logits, i);
		from = clock_ns();
		row = json_form_mask(f, &place, logits, t->n_vocab);
		n = clock_ns() - from;
		id = sampler_draw_from(s, 0, row, NULL, 0, 0, i);
		if (!json_form_take(f, &place, id) ||
			json_is_over(json_form_machine(f), &place))
			json_begin(json_form_machine(f), &place);
		took[i] = n;
		all += n;
		worst = n > worst ? n : worst;
	}
	printf("%d tokens: mean %.1f us, worst %.1f ms", TOKENS,
		(double)all / TOKENS / 1e3, (double)worst / 1e6);
	all = 0;
	for (uint32_t i = TOKENS / 2; i < TOKENS; i++)
		all += took[i];
	printf(", of the second half mean %.1f us\n",
		(double)all / (TOKENS / 2) / 1e3);
	sampler_close(s);
	free(logits);
	free(took);
}

int main(int argc, char **argv)
{
	struct tokenizer *tok;
	struct token_trie *trie;
	struct json_form *f;
	struct gguf *g;
	struct err e = { 0 };
	uint64_t from;

	if (argc < 2 || gguf_open(&g, argv[1], &e) ||
		tokenizer_open(&tok, g, &e)) {
		fprintf(stderr, "%s\n", argc < 2 ? "FILE [SCHEMA]" : e.text);
		return 1;
	}
	from = clock_ns();
	if (token_trie_open(&trie, tok, &e))
		return 1;
	printf("%u tokens, %u nodes: %.0f ms\n", trie->n_vocab, trie->n_nodes,
		(double)(clock_ns() - from) / 1e6);
	if (json_form_open(&f, argc > 2 ? argv[2] : any, trie, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	measure(trie, f);
	json_form_close(f);
	token_trie_close(trie);
	tokenizer_close(tok);
	gguf_close(g);
	return 0;
}
