/*
 * tandem bench tts: measures test-time scaling, that is, the accuracy gained by
 * drawing many samples of a prompt, and the cost of these samples. The
 * benchmark runs models and sampling methods with increasing numbers of samples
 * on the held-out items of a task. The benchmark reports accuracy with
 * confidence intervals, time and energy, and the unbiased estimate of pass@k.
 * Some tables reproduce figures of the paper "Scaling LLM test-time compute
 * with mobile NPU on smartphones" (called npu-tts here). Only one thread may
 * run the benchmark.
 *
 * Sample i of an item does not depend on the number of samples. So each model
 * draws the largest number of samples once, and each method chooses among the
 * first n of these samples (tandem_choose). The cost of n samples on a phone is
 * found with a session that only computes the costs of passes, without running
 * them (session_opts.idle). The tokens of the samples are fed through this
 * session. To find wall-clock times, the samples of the first items
 * (tts_args.timed) are generated again for each number of samples, and must
 * consist of the same tokens. Methods that do more
 * than choose at the end (beam search, stopping samples early, drafting)
 * generate in runs of their own.
 */
#ifndef HOST_BENCH_BENCH_TTS_H
#define HOST_BENCH_BENCH_TTS_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_report.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define TTS_MODELS  2
#define TTS_METHODS 12
#define TTS_NUMBERS 6
#define TTS_NAME    32

/* The tables that can be made. Tables from TTS_PAPER on are computed from the
 * shapes (dimensions) of models; for the tables before TTS_PAPER, models
 * decode. */
enum tts_table {
	TTS_ACCURACY,
	TTS_PASS,
	TTS_SPEED,
	TTS_PHONES,
	TTS_PAPER,
	TTS_KERNELS = TTS_PAPER,
	TTS_SOFTMAX,
	TTS_ATTENTION,
	TTS_BATCHES,
	TTS_PROMPTS,
	TTS_MEMORY,
	TTS_TABLES
};
/* names of the tables; ends with NULL */
extern const char *const tts_table_names[TTS_TABLES + 1];

/* A sampling method, and how it combines the scores of a sample's steps, such
 * as "best-of-n:min". */
struct tts_method {
	char name[TTS_NAME];
	const char *method; /* name of a sampling method, such as "best-of-n" */
	const char *aggregate;
};

struct tts_args {
	/* values of the options in decoder_tables */
	const struct opt_values *options;
	bool table[TTS_TABLES]; /* the tables to make */
	const char *model[TTS_MODELS];
	/* [n_models] shape for which phone costs are computed; NULL means the
	 * shape that `options` give */
	const char *shape[TTS_MODELS];
	unsigned n_models;
	struct tts_method method[TTS_METHODS];
	unsigned n_methods;
	/* numbers of samples, in ascending order */
	uint32_t samples[TTS_NUMBERS];
	unsigned n_samples;
	const char *task;
	uint32_t items, n_predict;
	uint32_t timed; /* number of items whose generation is timed */
	double temperature;
	uint64_t seed;
	enum bench_form form;
	/* folder for pictures; NULL means no pictures */
	const char *plot;
	/* when set, the benchmark ends early with -ECANCELED */
	const volatile sig_atomic_t *cancel;
	struct progress_sink progress;
};

/* Measure and print the report. Returns 0 on success, -ECANCELED if
 * interrupted, or another negative errno. */
int bench_tts(const struct tts_args *, struct err *);

#endif
