/*
 * tandem bench tts: test-time scaling, that is the accuracy gained by many
 * samples of a prompt and their cost. Runs models and sampling methods with
 * growing numbers of samples on the held-out items of a task, and reports
 * accuracy with intervals, time and energy, and pass@k by the unbiased
 * estimate. One thread.
 *
 * Sample i of an item does not depend on the number of samples, so each model
 * draws the largest number once, and each method chooses among the first n of
 * them (tandem_choose). The phone's cost of n samples comes from going through
 * their tokens again in a session that prices the same passes and computes
 * nothing (session_opts.idle). The first items are generated again with each
 * number of samples to be timed, and must have the same tokens. Methods that
 * choose while they generate (beams) or that need more than a choice (early
 * stop, drafts) have runs of their own.
 */
#ifndef HOST_BENCH_BENCH_TTS_H
#define HOST_BENCH_BENCH_TTS_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_report.h"

#include <signal.h>
#include <stdint.h>

struct err;

#define TTS_MODELS  2
#define TTS_METHODS 12
#define TTS_NUMBERS 6
#define TTS_NAME    32

/* "best-of-n:min": a method, and how a sample's scores are aggregated (NULL: by
 * the method's default). */
struct tts_method {
	char name[TTS_NAME];
	const char *method; /* a sampling method */
	const char *aggregate;
};

struct tts_args {
	const struct opt_values *options; /* for the decoders */
	const char *model[TTS_MODELS];
	const char *shape[TTS_MODELS]; /* priced shape; NULL: as in `options` */
	unsigned n_models;
	struct tts_method method[TTS_METHODS];
	unsigned n_methods;
	uint32_t samples[TTS_NUMBERS]; /* ascending */
	unsigned n_samples;
	const char *task;
	uint32_t items, n_predict;
	uint32_t timed; /* items that are timed */
	double temperature;
	uint64_t seed;
	enum bench_form form;
	/* folder for pictures; NULL: none */
	const char *plot;
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
};

/* Measure and print the report; -ECANCELED when interrupted. */
int bench_tts(const struct tts_args *, struct err *);

#endif
