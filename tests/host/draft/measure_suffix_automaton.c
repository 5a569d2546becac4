/*
 * Measures the suffix automaton: time and bytes of adding a text and a history,
 * and the time of one lookup step, which also lists the tokens that follow the
 * match. Run by hand:
 *
 *   build/release/tests/host/draft/measure_suffix_automaton [FILE]
 *
 * FILE holds token ids separated by whitespace. Without FILE a text is
 * generated whose word frequencies follow Zipf's law and whose order is that of
 * an order-2 Markov chain.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/draft/suffix_automaton.h"
#include "tensor/soc/price_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* a counter of search steps, which the automaton requires; not read here */
static struct search_work work;

#define TOKENS 1000000
#define RECORD 300 /* tokens of one record of the history */

static uint32_t zipf(uint64_t stream, uint64_t i)
{
	double u = rng_uniform(1, stream, i), x = 1;

	for (; u > 0.1; u -= 0.1)
		x *= 2.8;
	return (uint32_t)(x * (1 + 10 * u));
}

/* Fill t with a text. With probability 3/4 a token is one of three fixed
 * successors of the two tokens before it; otherwise it is random. */
static void make_up(int32_t *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t last = i > 1
			? (uint64_t)t[i - 1] << 20 | (uint32_t)t[i - 2]
			: 0;
		uint64_t which = (uint64_t)(rng_uniform(1, 2, i) * 4);

		t[i] = (int32_t)(which ? zipf(last + 10, which) : zipf(3, i));
	}
}

static size_t read_ids(const char *path, int32_t *t, size_t room)
{
	FILE *f = fopen(path, "r");
	size_t n = 0;

	if (!f) {
		perror(path);
		exit(1);
	}
	while (n < room && fscanf(f, "%d", &t[n]) == 1)
		n++;
	fclose(f);
	return n;
}

/* Returns CPU time, so that other programs do not affect the result. */
static uint64_t processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void or_die(int ret, const struct err *e)
{
	if (!ret)
		return;
	fprintf(stderr, "%s\n", e->text);
	exit(1);
}

static void add(struct suffix_automaton *a, const int32_t *t, size_t n,
	size_t record, const char *what)
{
	uint64_t began = processor_ns();
	struct err e = { 0 };

	for (size_t i = 0; i < n; i += record)
		or_die(suffix_automaton_add(
			       a, t + i, n - i < record ? n - i : record, &e),
			&e);
	printf("%-8s %zu tokens in %.3f s, %.2f states and %.1f bytes a "
	       "token\n",
		what, n, (double)(processor_ns() - began) / 1e9,
		suffix_automaton_states(a) / (double)n,
		(double)suffix_automaton_bytes(a) / (double)n);
}

/* Look up every token of a text. Every step also reads the tokens that follow
 * the match, as a drafter does. */
static void look_up(struct suffix_automaton *a, const int32_t *t, size_t n,
	const char *what)
{
	uint64_t began = processor_ns(), matched = 0, known = 0;
	struct suffix_child child[8];
	struct suffix_match m = { 0 };

	for (size_t i = 0; i < n; i++) {
		suffix_automaton_follow(a, &m, t[i]);
		matched += m.len;
		if (m.len)
			known +=
				suffix_automaton_children(a, m.state, child, 8);
	}
	printf("%-8s %zu steps in %.3f us each, %.2f tokens matched, %.2f "
	       "children\n",
		what, n, (double)(processor_ns() - began) / 1e3 / (double)n,
		(double)matched / (double)n, (double)known / (double)n);
}

int main(int argc, char **argv)
{
	int32_t *t = malloc(2 * TOKENS * sizeof(*t));
	struct suffix_automaton *text, *history;
	struct err e = { 0 };
	size_t n = 2 * TOKENS, half;

	if (!t)
		return 1;
	if (argc > 1)
		n = read_ids(argv[1], t, n);
	else
		make_up(t, n);
	half = n / 2;
	or_die(suffix_automaton_open(&text, SUFFIX_TEXT, &work, &e), &e);
	or_die(suffix_automaton_open(&history, SUFFIX_HISTORY, &work, &e), &e);
	add(text, t, half, half, "text");
	add(history, t, half, RECORD, "history");
	look_up(text, t + half, n - half, "text");
	look_up(history, t + half, n - half, "history");
	suffix_automaton_close(text);
	suffix_automaton_close(history);
	free(t);
	return 0;
}
