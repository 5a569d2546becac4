/*
 * What the files of `tandem bench tts` share: bench_tts.c draws, chooses and
 * prices, bench_tts_report.c tells, bench_tts_kernels.c has two tables. Nobody
 * else includes it.
 */
#ifndef HOST_BENCH_BENCH_TTS_IMPL_H
#define HOST_BENCH_BENCH_TTS_IMPL_H

#include "host/bench/bench_trace.h"
#include "host/bench/bench_tts.h"
#include "host/eval/eval.h"
#include "host/eval/eval_items.h"
#include "tensor/soc/soc.h"

#include <stdbool.h>

/* What so many items took; phone figures are 0 without one. */
struct tts_cost {
	uint64_t items, tokens; /* of all samples */
	double seconds, phone_seconds, joules, cpu_seconds;
	uint64_t phone_ps; /* exactly */
};

/* One model, one method, one number of samples. */
struct tts_point {
	unsigned model;
	const char *method;
	uint32_t n;
	struct eval_tally tally;
	struct tts_cost cost;
};

/* A model's plain samples at a number of them: all items on the phone, and
 * those that were timed. */
struct tts_speed {
	struct tts_cost phone, wall;
};

#define TTS_GREEDY "greedy"
#define TTS_SAMPLE "sample" /* the method that chooses none */
#define TTS_POINTS (TTS_MODELS * (1 + TTS_METHODS * TTS_NUMBERS))

/* What is made of a method. */
struct tts_how {
	bool plain; /* it chooses none of its samples */
	/* What it chooses is a choice among the first samples, and the samples
	 * are told by their tokens; else it runs by itself. */
	bool follows;
	bool reward;    /* it needs one */
	uint32_t group; /* more than one sample: a multiple of it */
};

struct tts {
	const struct tts_args *args;
	struct tts_how how[TTS_METHODS];
	struct eval_items items;
	struct bench_trace trace;
	bool priced;
	struct soc soc; /* of that */
	struct tts_point
		point[TTS_POINTS]; /* a model's, its greedy one first */
	unsigned n;
	/* [model][number]: sums over items of the estimates. */
	double pass[TTS_MODELS][TTS_NUMBERS];
	struct tts_speed speed[TTS_MODELS][TTS_NUMBERS];
	bool drew[TTS_MODELS]; /* pass[] and speed[] are known */
};

int tts_report(const struct tts *, struct err *);

/* bench_tts_kernels.c: of the shape that the first model is priced as, else of
 * the paper's. */
struct bench_table;
void tts_kernels(const struct tts *, struct bench_table *);
void tts_softmax(const struct tts *, struct bench_table *);

#endif
