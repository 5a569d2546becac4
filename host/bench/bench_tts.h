/*
 * tandem bench tts: what many samples of a prompt buy. Models and methods of
 * samples at growing numbers of them, on the held-out items of a task: how many
 * come out right, with intervals, beside what it takes in time and energy; and
 * how often any of them is right, by the unbiased estimate. One thread.
 */
#ifndef HOST_BENCH_BENCH_TTS_H
#define HOST_BENCH_BENCH_TTS_H

#include "base/opt.h"
#include "base/progress.h"
#include "host/bench/bench_report.h"

#include <signal.h>
#include <stdint.h>

struct err;
struct method;

#define TTS_MODELS  2
#define TTS_METHODS 7
#define TTS_NUMBERS 6

struct tts_args {
	const struct opt_values *options; /* of the decoders */
	const char *model[TTS_MODELS];
	unsigned n_models;
	const struct method *method[TTS_METHODS]; /* of samples */
	unsigned n_methods;
	uint32_t samples[TTS_NUMBERS]; /* ascending */
	unsigned n_samples;
	const char *task;
	uint32_t items, n_predict;
	double temperature;
	uint64_t seed;
	enum bench_form form;
	const char *plot;                    /* folder; NULL: none */
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_tts(const struct tts_args *, struct err *);

#endif
