/*
 * tandem bench decode: measures the speed of a model that host and device
 * process run together, and the speed of the same model and kernels in a single
 * process (the host's forward pass in host/draft/). Reports both speeds as
 * shares of this machine's memory bandwidth and arithmetic rate.
 */
#include "host/bench/bench.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/median.h"
#include "base/rng.h"
#include "base/workers.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/bench/bench_machine.h"
#include "host/bench/print_json.h"
#include "host/model/model.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PROMPT 512
#define CHUNK  256 /* maximum number of prompt tokens in a pass */
#define DEPTH  64  /* number of tokens in the KV cache before a timed pass */
#define PASSES 8   /* number of passes whose total time is measured */
/*
 * While competing threads run, this many timings are taken one after another,
 * and their mean is used. Together these timings take longer than a scheduler
 * time slice, so that they include preemption by the competing threads.
 */
#define BESIDE_TIMES 16
#define BESIDE_MAX   64

/* The configurations to measure, in the order of the report. A row is one token
 * of a pass (a run of the model). The first configuration reads the prompt; its
 * name and its number of rows depend on the model. */
static const struct {
	/* name: the name in the text report; what: the name in the JSON
	 * report */
	const char *name, *what;
	uint32_t rows;
} configurations[] = {
	{ NULL, "prompt", 0 },
	{ "pass of 1 row", "pass", 1 },
	{ "pass of 2 rows", "pass", 2 },
	{ "pass of 4 rows", "pass", 4 },
	{ "pass of 8 rows", "pass", 8 },
	{ "pass of 16 rows", "pass", 16 },
	{ "one process, 1 row", "one process", 1 },
	{ "busy: pass of 1 row", "pass beside", 1 },
	{ "busy: one process", "one process beside", 1 },
};
#define MAX_ROWS 16

/*
 * Indexes into configurations[]. PREFILL: the prompt. PAIR: a pass of one row
 * on host and device process. SINGLE: the same pass in one process.
 * PAIR_CONTENDED, SINGLE_CONTENDED: the same two passes while competing threads
 * run.
 */
enum {
	PREFILL,
	PAIR,
	SINGLE = 6,
	PAIR_CONTENDED,
	SINGLE_CONTENDED,
	CONFIGURATIONS
};
_Static_assert(ARRAY_LEN(configurations) == CONFIGURATIONS, "");

struct bench_decode {
	const struct bench_args *args;
	unsigned rounds;
	struct tandem *tandem;
	const struct model *model;
	struct bench_machine *machine;
	int32_t token[PROMPT];
	uint32_t prompt;
	float *logits;
	/* Weights of the layers and of the output matrix: their number that a
	 * pass multiplies for each token, and their bytes that a pass reads. */
	struct {
		double number, bytes;
	} layers, output;
	/* mapped: bytes mapped in the device's address window (the only memory
	 * that the device can address). huge: how many of these bytes are in
	 * huge pages. */
	uint64_t mapped, huge;
	unsigned measured; /* number of configurations that are measured */
	/* seconds of one pass; for PREFILL, seconds of reading the whole
	 * prompt */
	double seconds[CONFIGURATIONS][BENCH_ROUNDS_MAX];
	double bandwidth[BENCH_ROUNDS_MAX], int8[BENCH_ROUNDS_MAX];
};

/* ---- measuring ----------------------------------------------------------- */

static double seconds_since(uint64_t began)
{
	return (double)(clock_ns() - began) / 1e9;
}

static uint32_t depth_of(const struct bench_decode *b)
{
	return b->prompt < DEPTH ? b->prompt : DEPTH;
}

/* Measure the passes of configuration `which`: one untimed pass, then PASSES
 * timed passes. Each pass appends configurations[which].rows tokens to a
 * sequence, and computes the logits of each of them. Only the first of these
 * tokens stays in the KV cache. */
static int time_pair(
	struct bench_decode *b, unsigned which, unsigned round, struct err *e)
{
	struct bare_pass p = { .sequences = 1,
		.length = depth_of(b),
		.rows = configurations[which].rows,
		.token = b->token };
	struct bare_pass_times times = { 0 };
	uint64_t began = 0;
	int ret = 0;

	for (unsigned i = 0; i <= PASSES && !ret; i++, p.length++) {
		if (i == 1)
			began = clock_ns();
		ret = tandem_bare_pass(b->tandem, &p, b->logits, &times, e);
	}
	b->seconds[which][round] = seconds_since(began) / PASSES;
	return ret;
}

static int time_single(
	struct bench_decode *b, unsigned which, unsigned round, struct err *e)
{
	uint32_t length = depth_of(b);
	uint64_t began = 0;
	int ret = lone_model_read(b->tandem, 0, b->token, length, e);

	for (unsigned i = 0; i <= PASSES && !ret; i++) {
		if (i == 1)
			began = clock_ns();
		ret = lone_model_read(b->tandem, length + i, b->token, 1, e);
	}
	b->seconds[which][round] = seconds_since(began) / PASSES;
	return ret;
}

/* ---- while competing threads run ----------------------------------------- */

struct others {
	pthread_t thread[BESIDE_MAX];
	unsigned n;
	_Atomic bool stop;
};

static void *want_processor(void *arg)
{
	struct others *o = arg;

	while (!atomic_load_explicit(&o->stop, memory_order_relaxed))
		;
	return NULL;
}

/* Call `time` BESIDE_TIMES times and store the mean of its measured times in
 * b->seconds. */
static int time_long(struct bench_decode *b, unsigned which, unsigned round,
	int (*time)(struct bench_decode *, unsigned, unsigned, struct err *),
	struct err *e)
{
	double sum = 0;
	int ret = 0;

	for (unsigned i = 0; i < BESIDE_TIMES && !ret; i++) {
		ret = time(b, which, round, e);
		sum += b->seconds[which][round];
	}
	b->seconds[which][round] = sum / BESIDE_TIMES;
	return ret;
}

static int time_contended(struct bench_decode *b, unsigned round, struct err *e)
{
	struct others o = { .n = 0 };
	int ret = 0;

	for (; o.n < b->args->beside && !ret; o.n += !ret) {
		ret = pthread_create(&o.thread[o.n], NULL, want_processor, &o);
		if (ret)
			ret = err_sys(
				e, ret, "cannot start busy thread %u", o.n + 1);
	}
	if (!ret)
		ret = time_long(b, PAIR_CONTENDED, round, time_pair, e);
	if (!ret)
		ret = time_long(b, SINGLE_CONTENDED, round, time_single, e);
	atomic_store(&o.stop, true);
	while (o.n)
		pthread_join(o.thread[--o.n], NULL);
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

int bench_open_bare(const struct bench_args *a, struct tandem **out,
	struct tandem_report *r, struct err *e)
{
	const struct opt_values unsaid = { 0 };
	struct session_opts *o;
	int ret = tandem_create(out, NULL, &unsaid, e);

	if (ret)
		return ret;
	if (tandem_read_weights(*out, a->model))
		return tandem_failure(*out, e);
	tandem_report(*out, r);
	o = tandem_pair(*out);
	o->trace = a->trace;
	o->threads = a->threads;
	o->restarts = 0;
	o->prefill_chunk = CHUNK;
	return r->model->causal
		? 0
		: err_set(e, EINVAL,
			  "this benchmark cannot measure a diffusion model; "
			  "use a causal one");
}

static int open_all(struct bench_decode *b, struct err *e)
{
	struct tandem_report r;
	struct session_opts *o;
	int ret = bench_open_bare(b->args, &b->tandem, &r, e);

	if (ret)
		return ret;
	b->model = r.model;
	b->prompt = b->model->n_ctx < PROMPT + MAX_ROWS ? b->model->n_ctx / 2
							: PROMPT;
	b->logits = malloc(
		MAX_ROWS * (size_t)b->model->n_vocab * sizeof(*b->logits));
	if (!b->logits)
		return err_set(e, ENOMEM, "no memory for logits");
	for (uint32_t i = 0; i < PROMPT; i++)
		b->token[i] =
			(int32_t)(rng_uniform(1, 0, i) * b->model->n_vocab);
	b->measured = b->args->beside ? CONFIGURATIONS : PAIR_CONTENDED;
	o = tandem_pair(b->tandem);
	o->decode_rows = MAX_ROWS;
	o->context_need = b->prompt + PASSES + 2 * MAX_ROWS;
	if ((ret = lone_model_open(
		     b->tandem, DEPTH + PASSES + 1, b->args->threads, e)) ||
		(ret = tandem_start_bare(b->tandem, e)))
		return ret;
	tandem_report(b->tandem, &r);
	b->mapped = r.total.bytes_mapped;
	b->huge = tandem_huge_bytes(b->tandem);

	/* Count the weights that are multiplied for each token: those of the
	 * layers and of the output matrix. In a layer with experts, only the
	 * experts that a token uses count. */
	for (uint32_t l = 0; l < b->model->n_layer; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const struct gguf_tensor *t = b->model->layer[l][i];

			if (t && t->dim[1] > 1)
				b->layers.number += (double)t->dim[0] *
					(double)t->dim[1] *
					(t->dim[2] > 1 ? b->model->n_used : 1);
		}
	b->layers.bytes = (double)r.total.weight_bytes;
	b->output.number = (double)b->model->output->dim[0] *
		(double)b->model->output->dim[1];
	b->output.bytes = (double)b->model->output->bytes;
	return bench_machine_open(&b->machine, b->args->threads,
		(size_t)(b->layers.bytes + b->output.bytes), e);
}

/* ---- report -------------------------------------------------------------- */

/* Medians over the rounds for one configuration. of_memory: bytes_per_s divided
 * by the machine's memory bandwidth. of_int8: ops_per_s divided by the
 * machine's int8 operations/s. Bandwidth and operations/s were measured in the
 * same round. */
struct run_summary {
	uint32_t rows;
	double seconds, tokens_per_s;
	/* bytes/s at which weights are read, and this rate divided by the
	 * memory bandwidth */
	double bytes_per_s, of_memory;
	double ops_per_s, of_int8;
};

/* What one configuration computes: rows, bytes of weights that are read, and
 * int8 operations. For the prompt, only the last row is multiplied by the
 * output matrix. */
struct work {
	uint32_t rows;
	double bytes, ops;
};

static struct work work_of(const struct bench_decode *b, unsigned which)
{
	uint32_t rows =
		which == PREFILL ? b->prompt : configurations[which].rows;
	uint32_t passes = which == PREFILL ? (rows + CHUNK - 1) / CHUNK : 1;
	uint32_t outputs = which == PREFILL ? 1 : rows;

	return (struct work){ rows, b->layers.bytes * passes + b->output.bytes,
		2 * (b->layers.number * rows + b->output.number * outputs) };
}

static void raise_limits(struct bench_decode *b, unsigned round)
{
	for (unsigned i = 0; i < b->measured; i++) {
		const struct work w = work_of(b, i);

		bench_raise(
			&b->bandwidth[round], w.bytes / b->seconds[i][round]);
		bench_raise(&b->int8[round], w.ops / b->seconds[i][round]);
	}
}

static struct run_summary rates_of(const struct bench_decode *b, unsigned which)
{
	const double *seconds = b->seconds[which];
	const struct work w = work_of(b, which);
	double memory[BENCH_ROUNDS_MAX], int8[BENCH_ROUNDS_MAX];
	double s = median(seconds, b->rounds);

	for (unsigned r = 0; r < b->rounds; r++) {
		memory[r] = bench_share(w.bytes / seconds[r], b->bandwidth[r]);
		int8[r] = bench_share(w.ops / seconds[r], b->int8[r]);
	}
	return (struct run_summary){ w.rows, s, w.rows / s, w.bytes / s,
		median(memory, b->rounds), w.ops / s, median(int8, b->rounds) };
}

/* Return the median over the rounds of the time of configuration `one` divided
 * by the time of configuration `other`. */
static double ratio_of(
	const struct bench_decode *b, unsigned one, unsigned other)
{
	double ratio[BENCH_ROUNDS_MAX];

	for (unsigned r = 0; r < b->rounds; r++)
		ratio[r] = b->seconds[one][r] / b->seconds[other][r];
	return median(ratio, b->rounds);
}

/* Return the factor by which the competing threads slow the benchmark down if
 * all threads get equal shares of the CPUs. */
static double fair_share(const struct bench_decode *b)
{
	double want = b->args->threads + b->args->beside;

	return want > workers_online() ? want / workers_online() : 1;
}

static void print_text(const struct bench_decode *b)
{
	char prompt[32];

	printf("Decoding on %u threads, wall clock, medians of %u rounds. "
	       "Limits of this machine:\nmemory reads %.1f GB/s, %.0f GOP/s of "
	       "int8 products\n\n",
		b->args->threads, b->rounds,
		median(b->bandwidth, b->rounds) / 1e9,
		median(b->int8, b->rounds) / 1e9);
	printf("%-22s %9s %10s %8s %8s %9s %8s\n", "", "ms", "tokens/s", "GB/s",
		"of limit", "GOP/s", "of limit");
	snprintf(prompt, sizeof(prompt), "prompt of %u", b->prompt);
	for (unsigned i = 0; i < b->measured; i++) {
		struct run_summary t = rates_of(b, i);

		printf("%-22s %9.2f %10.1f %8.1f %6.0f %% %9.0f %6.0f %%\n",
			i == PREFILL ? prompt : configurations[i].name,
			t.seconds * 1e3, t.tokens_per_s, t.bytes_per_s / 1e9,
			100 * t.of_memory, t.ops_per_s / 1e9, 100 * t.of_int8);
	}
	printf("\nA pass of one row on host and device takes %.3f times as "
	       "long as in one process. The device\nmaps %.1f of %.1f MiB with "
	       "huge pages.\n",
		ratio_of(b, PAIR, SINGLE), (double)b->huge / 0x1p20,
		(double)b->mapped / 0x1p20);
	if (b->args->beside)
		printf("\nWith %u busy thread%s, host and device take %.2f "
		       "times as long as without, one process\n%.2f times. "
		       "Equal shares of the CPUs for all threads would give "
		       "%.2f times (%u CPUs).\n",
			b->args->beside, b->args->beside > 1 ? "s" : "",
			ratio_of(b, PAIR_CONTENDED, PAIR),
			ratio_of(b, SINGLE_CONTENDED, SINGLE), fair_share(b),
			workers_online());
}

static json_t *report_json(const struct bench_decode *b)
{
	json_t *rows = json_array();

	for (unsigned i = 0; i < b->measured; i++) {
		struct run_summary t = rates_of(b, i);

		json_array_append_new(rows,
			json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}",
				"what", configurations[i].what, "rows",
				(int)t.rows, "seconds", t.seconds,
				"tokens_per_s", t.tokens_per_s,
				"weight_bytes_per_s", t.bytes_per_s,
				"of_memory", t.of_memory, "ops_per_s",
				t.ops_per_s, "of_int8", t.of_int8));
	}
	return json_pack("{s:i, s:s, s:s, s:i, s:i, s:f, s:f, s:o, s:f, s:I, "
			 "s:I, s:i, s:f}",
		"version", BENCH_JSON_VERSION, "bench", "decode", "clock",
		"wall", "rounds", (int)b->rounds, "threads",
		(int)b->args->threads, "memory_bytes_per_s",
		median(b->bandwidth, b->rounds), "int8_ops_per_s",
		median(b->int8, b->rounds), "rows", rows, "pair_to_one_process",
		ratio_of(b, PAIR, SINGLE), "bytes_mapped",
		(json_int_t)b->mapped, "huge_bytes", (json_int_t)b->huge,
		"beside", (int)b->args->beside, "fair_share", fair_share(b));
}

/* ---- the benchmark --------------------------------------------------- */

int bench_decode_main(const struct bench_args *args, struct err *e)
{
	struct bench_decode *b;
	int ret, closed = 0;

	if (args->samples)
		return bench_samples_main(args, e);
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	b->args = args;
	b->rounds = args->rounds < BENCH_ROUNDS_MAX ? args->rounds
						    : BENCH_ROUNDS_MAX;
	ret = open_all(b, e);
	if (!ret) {
		const struct progress_sink *p = &b->args->progress;
		uint64_t began;

		progress_report(p, "measuring", 0, b->rounds);
		for (unsigned r = 0; r < b->rounds && !ret; r++) {
			b->bandwidth[r] = bench_read_bandwidth(b->machine);
			b->int8[r] = bench_int8_peak(b->machine);
			began = clock_ns();
			ret = tandem_prefill(b->tandem, b->token, b->prompt, 1,
				b->logits, e);
			b->seconds[PREFILL][r] = seconds_since(began);
			for (unsigned i = PAIR; i < SINGLE && !ret; i++)
				ret = time_pair(b, i, r, e);
			if (!ret)
				ret = time_single(b, SINGLE, r, e);
			if (!ret && b->args->beside)
				ret = time_contended(b, r, e);
			if (!ret)
				raise_limits(b, r);
			progress_report(p, "measuring", r + 1, b->rounds);
		}
		progress_report(p, NULL, 0, 0);
	}
	bench_machine_close(b->machine);
	if (b->tandem)
		closed = tandem_end(b->tandem, ret ? NULL : e);
	ret = ret ? ret : closed;
	free(b->logits);
	if (!ret && args->json)
		ret = print_json(report_json(b), 6, e);
	else if (!ret)
		print_text(b);
	free(b);
	return ret;
}
