/*
 * The benchmarks of `tandem bench`. Each measures, then prints a table or one
 * JSON object to standard output. All return 0, or -errno and set *e.
 */
#ifndef HOST_BENCH_BENCH_H
#define HOST_BENCH_BENCH_H

#include "base/progress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct opt_word;

#define BENCH_JSON_VERSION 1

struct bench_args {
	bool json;
	unsigned rounds; /* of all measurements, in alternation */
	unsigned threads;
	/* threads that compute beside the decode benchmark */
	unsigned beside;
	const char *model;  /* NULL: the bundled model */
	const char *shapes; /* "NAME,NAME" or "all"; NULL: the default */
	const char *clock;  /* "soc:NAME", a phone profile; NULL: the default */
	/* decode: "N,N", numbers of samples of one prompt that are decoded in
	 * one pass, one row each; NULL: rows of a single sequence. texts: "N"
	 * samples of each request; NULL: the default. */
	const char *samples;
	/* texts: "N,N" requests at a time; NULL: the default */
	const char *texts;
	unsigned prompt; /* tokens of the prompt, or of each prompt */
	/* texts: the task that the prompts are from, "math"; NULL: random
	 * prompts */
	const char *task;
	/* texts: as in tandem run; NULL: the default */
	const char *method, *draft;
	/* file for a trace of decode, samples or texts; NULL: none */
	const char *trace;
	struct progress_sink progress;
};

/* The shapes that bench kernels measures, and "all": an opt_words. */
bool bench_shape_word(size_t i, struct opt_word *);

int bench_ipc_main(const struct bench_args *, struct err *);
int bench_decode_main(const struct bench_args *, struct err *);
int bench_samples_main(const struct bench_args *, struct err *);
int bench_texts_main(const struct bench_args *, struct err *);
int bench_kernels_main(const struct bench_args *, struct err *);

#endif
