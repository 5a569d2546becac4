/*
 * The benchmarks of `tandem bench`. Each benchmark measures, then prints a
 * table or one JSON object to standard output. Each function returns 0 on
 * success, or a negative errno after setting *e.
 */
#ifndef HOST_BENCH_BENCH_H
#define HOST_BENCH_BENCH_H

#include "base/progress.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct opt_word;
struct tandem;
struct tandem_report;

#define BENCH_JSON_VERSION 1

struct bench_args {
	bool json;
	/* number of rounds; each round makes every measurement once */
	unsigned rounds;
	unsigned threads;
	/* for decode: number of competing threads, which compute while the
	 * benchmark measures */
	unsigned beside;
	const char *model; /* NULL means the bundled model */
	/* for kernels: names of model shapes (sets of dimensions), "NAME,NAME"
	 * or "all"; NULL means the default */
	const char *shapes;
	/* "soc:NAME": the phone for which times are computed; NULL means the
	 * default */
	const char *clock;
	/*
	 * For decode: "N,N", a list of numbers of samples (continuations of one
	 * prompt). For each N, a pass decodes one token of each of N samples.
	 * NULL means that a pass decodes a single sequence. For texts: "N", the
	 * number of samples of each request; NULL means the default.
	 */
	const char *samples;
	/* for texts: "N,N", numbers of simultaneous requests; NULL means the
	 * default */
	const char *texts;
	unsigned prompt; /* number of tokens of each prompt */
	/* for texts: the task that provides the prompts ("math"); NULL means
	 * prompts of random tokens */
	const char *task;
	/* for texts: method and draft model, as for `tandem run`; NULL means
	 * the default */
	const char *method, *draft;
	/* path of a trace file for decode, samples or texts; NULL means no
	 * trace */
	const char *trace;
	struct progress_sink progress;
};

/*
 * Set the opt_word to the name of shape i of bench kernels, or to "all" if `i`
 * equals the number of shapes. Returns false if `i` is larger than this number
 * (see opt_words).
 */
bool bench_shape_word(size_t i, struct opt_word *);

/* Create a library handle and read the weights of a causal model. The benchmark
 * then runs passes (runs of the model) itself, without a decoding method. Sets
 * *r to the report of the handle (tandem_report), and sets the session options
 * that `a` gives. Returns 0 or a negative errno. The caller calls
 * tandem_end(*out) also after a failure, unless *out is NULL. */
int bench_open_bare(const struct bench_args *a, struct tandem **out,
	struct tandem_report *r, struct err *);

int bench_ipc_main(const struct bench_args *, struct err *);
int bench_decode_main(const struct bench_args *, struct err *);
int bench_samples_main(const struct bench_args *, struct err *);
int bench_texts_main(const struct bench_args *, struct err *);
int bench_kernels_main(const struct bench_args *, struct err *);

#endif
