/*
 * tandem bench tts: what many samples of a prompt buy. Models and methods of
 * samples at growing numbers of them, on the held-out items of a task: how many
 * come out right, with intervals, beside what it takes in time and energy; and
 * how often any of them is right, by the unbiased estimate. One thread.
 *
 * Sample i of an item is the same whatever their number, so each model draws
 * the largest number once, and each method chooses among the first n of them
 * (tandem_choose). What n samples take a phone is found by going through their
 * tokens again, in a session that prices the same passes and computes nothing
 * (session_opts.idle). The first items are written anew for each number: these
 * are timed, and both must be found the same. What chooses while it writes
 * (beams), or asks for more than a choice (early stop, drafts), runs by itself.
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

/* "best-of-n:min": a method, and what scores come to (NULL: as asked). */
struct tts_method {
	char name[TTS_NAME];
	const char *method; /* of samples */
	const char *aggregate;
};

struct tts_args {
	const struct opt_values *options; /* of the decoders */
	const char *model[TTS_MODELS];
	const char *shape[TTS_MODELS]; /* priced as; NULL: as asked */
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
	const char *plot;                    /* folder; NULL: none */
	const volatile sig_atomic_t *cancel; /* set: -ECANCELED soon */
	struct progress_sink progress;
};

/* Measure and tell; -ECANCELED when interrupted. */
int bench_tts(const struct tts_args *, struct err *);

#endif
