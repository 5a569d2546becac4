/*
 * Statistics of a load on a server: the times of many requests, and the sums
 * over the requests of one category. Names and definitions of the figures are
 * those of vLLM's `vllm bench serve` and of llama.cpp's SPEED-Bench client, so
 * that reports can be compared. Creates no thread.
 */
#ifndef HOST_BENCH_SERVE_FIGURES_H
#define HOST_BENCH_SERVE_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list of numbers in the order of their arrival. A struct of zeros is an
 * empty list. */
struct series {
	double *value;
	size_t n, cap;
	bool failed; /* whether memory ran out, so that numbers were lost */
};

void series_add(struct series *, double);
void series_release(struct series *);

/* Mean and standard deviation; NAN if there are no numbers. The deviation is
 * that of the population (divisor n, not n - 1). */
double series_mean(const struct series *);
double series_deviation(const struct series *);

/*
 * The p-th percentile, p from 0 to 100, interpolated between the two nearest
 * numbers. Sorts the numbers. Returns NAN if there are no numbers.
 */
double series_percentile(struct series *, double p);

/* The answer to one request. Times are in nanoseconds of clock_ns(). */
struct serve_answer {
	uint64_t sent_ns;
	/* arrival of the first and of the last piece of text; 0 if no text has
	 * arrived */
	uint64_t first_ns, last_ns;
	uint64_t pieces; /* number of pieces of text */
	/* numbers of tokens, as the server reports them */
	uint64_t prompt_tokens, cached_tokens, tokens, drafted, accepted;
	/* the server's own times and rates; 0 if it does not report them */
	double prompt_ms, predicted_ms, prompt_per_s, predicted_per_s;
};

/* The times of all requests of a load, in ms. */
struct serve_times {
	struct series first;     /* time until the first piece of text (TTFT) */
	struct series per_token; /* time for each later token (TPOT) */
	/* time between two consecutive pieces of text (ITL) */
	struct series gap;
	struct series whole; /* time until the last piece (E2EL) */
};

/* Add the times of an answer that has text, except the gaps between its pieces,
 * which serve_stream_feed() adds. */
void serve_times_add(struct serve_times *, const struct serve_answer *);
void serve_times_release(struct serve_times *);

/* Add to the object mean_ttft_ms, median_ttft_ms, std_ttft_ms, p90_ttft_ms and
 * p99_ttft_ms; then the same for tpot, itl and e2el. */
void serve_times_json(struct serve_times *, json_t *object);

/* The prompts of a category. A prompt has one request for each of its turns. */
struct serve_category {
	const char *name; /* name of the category; the caller owns it */
	unsigned prompts, failed, turns;
	uint64_t drafted, accepted;
	/*
	 * For each prompt: tokens/s of reading the prompt and of generating,
	 * from the server's reports (a rate of 0 is left out), and total
	 * seconds of the prompt's requests.
	 */
	struct series prompt_per_s, predicted_per_s, latency_s;
};

/* Add the figures of a category to *all. */
void serve_category_join(
	struct serve_category *all, const struct serve_category *);
void serve_category_release(struct serve_category *);

/* Return one row of the "summary" of a SPEED-Bench report. */
json_t *serve_category_json(const struct serve_category *);

#endif
