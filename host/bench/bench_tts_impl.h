/*
 * Private to bench_tts*.c. bench_tts.c draws samples, lets methods choose, and
 * computes phone costs; bench_tts_report.c prints the report; bench_tts_paper.c
 * fills the tables that are computed from model shapes (dimensions) without
 * running a model.
 */
#ifndef HOST_BENCH_BENCH_TTS_IMPL_H
#define HOST_BENCH_BENCH_TTS_IMPL_H

#include "host/bench/bench_trace.h"
#include "host/bench/bench_tts.h"
#include "host/eval/eval.h"
#include "host/eval/eval_items.h"
#include "tensor/soc/soc.h"

#include <stdbool.h>

/* Cost of all items of a run. The phone figures are 0 if no phone is
 * modeled. */
struct tts_cost {
	uint64_t items, tokens; /* tokens: sum over all samples */
	double seconds, phone_seconds, joules, cpu_seconds;
	/* time on the phone in ps, from which phone_seconds is rounded */
	uint64_t phone_ps;
};

/* A point: the result of one model, one method and one number of samples. */
struct tts_point {
	unsigned model;
	const char *method;
	uint32_t n;
	struct eval_tally tally;
	/* [items] whether each item is right; points into tts.right */
	bool *right;
	struct tts_cost cost;
};

/* Costs of drawing n samples of each item with one model, without choosing.
 * `phone` covers all items; `wall` covers the items whose generation is
 * timed. */
struct tts_speed {
	struct tts_cost phone, wall;
};

#define TTS_GREEDY "greedy"
/* the method that keeps all samples and chooses none */
#define TTS_SAMPLE "sample"
#define TTS_POINTS (TTS_MODELS * (1 + TTS_METHODS * TTS_NUMBERS))

/* Properties of a method. */
struct tts_how {
	/* whether the method reports all samples without choosing one */
	bool plain;
	/* whether the method chooses among the first n samples that the model
	 * drew once; otherwise the method generates in runs of its own */
	bool follows;
	bool reward; /* needs a reward model */
	/* A number of samples above 1 must be a multiple of this number. */
	uint32_t group;
};

/*
 * The table of phones compares the first model, with samples, to greedy
 * decoding of the second model. Costs are computed for the phones tts_phones,
 * as if the two models had the shapes of each pair in tts_pairs.
 */
#define TTS_N_PHONES 3
#define TTS_PAIRS    3
extern const char *const tts_phones[TTS_N_PHONES];
extern const char *const tts_pairs[TTS_PAIRS][TTS_MODELS];

struct tts {
	const struct tts_args *args;
	struct tts_how how[TTS_METHODS];
	struct eval_items items;
	struct bench_trace trace;
	bool on_phone;  /* whether costs are computed for a simulated phone */
	struct soc soc; /* the simulated phone; valid if `on_phone` */
	struct tts_point
		/* ordered by model; the first point of each model is greedy
		 * decoding */
		point[TTS_POINTS];
	unsigned n;
	/* [TTS_POINTS][items] storage for the members `right` of the points, in
	 * the order of the runs */
	bool *right;
	unsigned n_right;
	/* [model][index into samples]: sum of pass@k over the items */
	double pass[TTS_MODELS][TTS_NUMBERS];
	struct tts_speed speed[TTS_MODELS][TTS_NUMBERS];
	/* [model]: whether pass[model] and speed[model] are set */
	bool drew[TTS_MODELS];
	/*
	 * Costs for each phone and pair of shapes: best-of-n of the first model
	 * with each number of samples, and greedy decoding of the second model.
	 */
	struct tts_cost best[TTS_N_PHONES][TTS_PAIRS][TTS_NUMBERS];
	struct tts_cost greedy[TTS_N_PHONES][TTS_PAIRS];
};

int tts_report(const struct tts *, struct err *);

/* Each function fills a table with phone costs. tts_kernels, tts_softmax and
 * tts_attention use the shape args->shape[0] or, if it is NULL, a shape of the
 * npu-tts paper; the other functions use shapes of this paper. Defined in
 * bench_tts_paper.c. */
struct bench_table;
void tts_kernels(const struct tts *, struct bench_table *);
void tts_softmax(const struct tts *, struct bench_table *);
void tts_attention(const struct tts *, struct bench_table *);
void tts_batches(const struct tts *, struct bench_table *);
void tts_prompts(const struct tts *, struct bench_table *);
void tts_memory(const struct tts *, struct bench_table *);

#endif
