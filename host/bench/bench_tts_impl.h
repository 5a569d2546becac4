/*
 * Private to bench_tts*.c: bench_tts.c draws, chooses and prices,
 * bench_tts_report.c prints the report, bench_tts_kernels.c fills two of its
 * tables.
 */
#ifndef HOST_BENCH_BENCH_TTS_IMPL_H
#define HOST_BENCH_BENCH_TTS_IMPL_H

#include "host/bench/bench_trace.h"
#include "host/bench/bench_tts.h"
#include "host/eval/eval.h"
#include "host/eval/eval_items.h"
#include "tensor/soc/soc.h"

#include <stdbool.h>

/* Cost of the items; phone figures are 0 without a phone. */
struct tts_cost {
	uint64_t items, tokens; /* tokens of all samples */
	double seconds, phone_seconds, joules, cpu_seconds;
	uint64_t phone_ps; /* phone_seconds without rounding */
};

/* Result of one model, one method and one number of samples. */
struct tts_point {
	unsigned model;
	const char *method;
	uint32_t n;
	struct eval_tally tally;
	struct tts_cost cost;
};

/* Costs of a model's plain samples at one number of them: of all items on the
 * phone, and of the timed items on the wall clock. */
struct tts_speed {
	struct tts_cost phone, wall;
};

#define TTS_GREEDY "greedy"
#define TTS_SAMPLE "sample" /* the method that does not choose */
#define TTS_POINTS (TTS_MODELS * (1 + TTS_METHODS * TTS_NUMBERS))

/* Properties of a method. */
struct tts_how {
	bool plain; /* does not choose among its samples */
	/* Chooses among the first samples, which their tokens identify;
	 * otherwise the method has runs of its own. */
	bool follows;
	bool reward;    /* needs a reward model */
	uint32_t group; /* numbers above 1 must be a multiple of this */
};

struct tts {
	const struct tts_args *args;
	struct tts_how how[TTS_METHODS];
	struct eval_items items;
	struct bench_trace trace;
	bool priced;
	struct soc soc; /* the phone, if priced */
	struct tts_point
		point[TTS_POINTS]; /* by model, greedy decoding first */
	unsigned n;
	/* [model][number]: sums of pass@k over the items */
	double pass[TTS_MODELS][TTS_NUMBERS];
	struct tts_speed speed[TTS_MODELS][TTS_NUMBERS];
	bool drew[TTS_MODELS]; /* whether pass[] and speed[] are filled */
};

int tts_report(const struct tts *, struct err *);

/* In bench_tts_kernels.c. For the shape that the first model is priced as;
 * without one, for the paper's. */
struct bench_table;
void tts_kernels(const struct tts *, struct bench_table *);
void tts_softmax(const struct tts *, struct bench_table *);

#endif
