/*
 * The benchmarks of `tandem bench`: each measures, then prints a table or one
 * JSON object to standard output. 0, or -errno and *e.
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
	unsigned rounds; /* of everything that is measured, in alternation */
	unsigned threads;
	unsigned beside;    /* threads that compute nothing while decode does */
	const char *model;  /* NULL: the one that comes with the program */
	const char *shapes; /* "NAME,NAME" or "all"; NULL: the default */
	const char *clock;  /* "soc:NAME" of a phone; NULL: the default */
	/* "N,N": decode with rows of so many samples of a prompt of so many
	 * tokens; NULL: with rows of one text. texts: "N" of each request;
	 * NULL: the default. */
	const char *samples;
	const char *texts; /* "N,N" at a time; NULL: the default */
	unsigned prompt;   /* tokens, of each of them too */
	const char *task;  /* texts: whose prompts, "math"; NULL: random */
	/* texts: as those of tandem run; NULL: the default */
	const char *method, *draft;
	const char *trace; /* of decode, samples and texts; NULL: none */
	struct progress_sink progress;
};

/* The models of kernels, and "all": an opt_words. */
bool bench_shape_word(size_t i, struct opt_word *);

int bench_ipc_main(const struct bench_args *, struct err *);
int bench_decode_main(const struct bench_args *, struct err *);
int bench_samples_main(const struct bench_args *, struct err *);
int bench_texts_main(const struct bench_args *, struct err *);
int bench_kernels_main(const struct bench_args *, struct err *);

#endif
