/*
 * tandem bench kernels: allocates the memory and threads that all measurements
 * use, and runs the rounds. Each round makes every measurement once.
 */
#include "host/bench/bench_kernels.h"

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/opt.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "host/bench/bench.h"
#include "host/bench/bench_lists.h"
#include "host/bench/bench_machine.h"
#include "tensor/kern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_NS 5000000u
#define MODEL_NS  UINT64_C(60000000000)
#define ALIGNMENT 64

/* number of time measurements in one round of one model */
#define SAMPLES                                                              \
	(KERNELS_PASSES +                                                    \
		KERNELS_MATRICES * KERNELS_LAYOUT_PASSES * KERNELS_LAYOUTS + \
		2 * KERNELS_SOFTMAXES)

#define DEFAULT_SHAPES "qwen2.5-1.5b"
/* In a set of shapes, bit i stands for shapes[i]. This is the bit of the shape
 * "tiny", which is not part of "all". */
#define SHAPE_TINY 1u

static const struct kernels_shape shapes[] = {
	{ "tiny", 64, 128, 2, 1 },
	{ "qwen2.5-0.5b", 896, 4864, 14, 2 },
	{ "qwen2.5-1.5b", 1536, 8960, 12, 2 },
	{ "qwen2.5-3b", 2048, 11008, 16, 2 },
	{ "llama3.2-1b", 2048, 8192, 32, 8 },
	{ "llama3.2-3b", 3072, 8192, 24, 8 },
};

bool bench_shape_word(size_t i, struct opt_word *w)
{
	const size_t n = ARRAY_LEN(shapes);

	*w = (struct opt_word){ i < n ? shapes[i].name : "all" };
	return i <= n;
}

/* ---- shared by the measurements ------------------------------------------ */

static const char measuring[] = "measuring kernels";

double kernels_time(struct bench_kernels *b, void (*run)(void *arg), void *arg)
{
	uint64_t began = clock_ns(), took;
	unsigned n = 0;

	do {
		run(arg);
		n++;
		took = clock_ns() - began;
	} while (took < SAMPLE_NS);
	progress_report(&b->args->progress, measuring, ++b->done, b->samples);
	return (double)took / 1e9 / n;
}

const uint8_t *kernels_weights(struct bench_kernels *b, size_t bytes)
{
	const uint8_t *w;

	bytes = align_up(bytes, ALIGNMENT);
	if (bytes > KERNELS_WEIGHTS - b->next)
		b->next = 0;
	w = b->weights + b->next;
	b->next += bytes;
	return w;
}

void *kernels_scratch(const struct bench_kernels *b, unsigned thread)
{
	return b->scratch + thread * b->scratch_bytes;
}

/* ---- options ------------------------------------------------------------- */

/* Parse the list "NAME,NAME" or "all" into the shapes to measure. Returns 0 or
 * a negative errno. */
static int take_shapes(struct bench_kernels *b, struct err *e)
{
	const char *list = b->args->shapes ? b->args->shapes : DEFAULT_SHAPES;
	bool all = !strcmp(list, "all");
	unsigned chosen = all ? (1u << ARRAY_LEN(shapes)) - 1 - SHAPE_TINY : 0;
	/* names of all shapes, for the error message */
	struct strbuf names = STRBUF_INIT;
	int ret = 0;

	for (const char *item = list; !all && !ret; item++) {
		size_t len = strcspn(item, ","), i = 0;

		while (i < ARRAY_LEN(shapes) &&
			(strlen(shapes[i].name) != len ||
				memcmp(shapes[i].name, item, len)))
			strbuf_addf(&names, "%s, ", shapes[i++].name);
		if (i == ARRAY_LEN(shapes))
			ret = err_set(e, EINVAL,
				"--shapes: there is no shape '%.*s'; try %sor "
				"all",
				(int)len, item, names.data ? names.data : "");
		strbuf_reset(&names);
		chosen |= 1u << i;
		item += len;
		if (!*item)
			break;
	}
	strbuf_release(&names);
	if (ret)
		return ret;
	b->model = calloc(ARRAY_LEN(shapes), sizeof(*b->model));
	if (!b->model)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	for (size_t i = 0; i < ARRAY_LEN(shapes) && !ret; i++) {
		struct kernels_model *m = &b->model[b->n_models];

		if (!(chosen & 1u << i))
			continue;
		b->n_models++;
		m->shape = &shapes[i];
		ret = kernels_matmul_init(b, m, e);
		if (!ret)
			ret = kernels_softmax_init(b, m, e);
	}
	return ret;
}

/* ---- opening ------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Allocate the inputs and outputs for the largest shape. */
static int make_rows(struct bench_kernels *b, struct err *e)
{
	size_t widest = 0, scratch = 0, values;

	for (unsigned i = 0; i < b->n_models; i++) {
		const struct kernels_shape *s = b->model[i].shape;

		widest = larger(widest, larger(s->embd, s->ff));
		scratch = larger(scratch,
			kern_attend_scratch(
				s->heads / s->kv_heads, s->embd / s->heads));
	}
	scratch = larger(scratch * sizeof(float),
		kern_multiply_scratch((unsigned)widest));
	b->scratch_bytes = align_up(scratch, ALIGNMENT);
	values = KERNELS_MAX_ROWS * widest;
	b->x = hugemem_alloc(values * sizeof(*b->x));
	b->y = hugemem_alloc(values * sizeof(*b->y));
	b->q8 = hugemem_alloc(
		KERNELS_MAX_ROWS * kern_q8_bytes((unsigned)widest));
	b->scratch = hugemem_alloc(b->args->threads * b->scratch_bytes);
	b->exp2 = hugemem_alloc(KERN_EXP2_ENTRIES * sizeof(*b->exp2));
	b->slot = hugemem_alloc(KERNELS_MAX_KV * sizeof(*b->slot));
	if (!b->x || !b->y || !b->q8 || !b->scratch || !b->exp2 || !b->slot)
		return err_set(e, ENOMEM, "no memory for a benchmark");
	for (size_t i = 0; i < values; i++) {
		b->x[i] = (float)(2 * rng_uniform(1, 1, i) - 1);
		b->y[i] = 0;
	}
	kern_exp2_table(b->exp2);
	for (uint32_t i = 0; i < KERNELS_MAX_KV; i++)
		b->slot[i] = i;
	return 0;
}

/* ---- the benchmark ------------------------------------------------------- */

int bench_kernels_main(const struct bench_args *args, struct err *e)
{
	struct bench_kernels b = { .args = args };
	unsigned rounds =
		args->rounds < KERNELS_ROUNDS ? args->rounds : KERNELS_ROUNDS;
	int ret;

	if ((ret = bench_phone(args->clock, &b.phone, &b.soc, e)) ||
		(ret = take_shapes(&b, e)) || (ret = kern_select(&b.kern, e)) ||
		(ret = make_rows(&b, e)) ||
		(ret = workers_open(&b.workers, args->threads, e)) ||
		(ret = bench_machine_open(
			 &b.machine, args->threads, KERNELS_WEIGHTS, e)))
		goto out;
	b.weights = bench_machine_block(b.machine);
	b.samples = (uint64_t)b.n_models * rounds * SAMPLES;
	for (unsigned i = 0; i < b.n_models; i++) {
		/* Run the requested number of rounds, but stop early if the
		 * time limit for a model is exceeded. Run at least one
		 * round. */
		uint64_t began = clock_ns(), took;

		do {
			unsigned r = b.model[i].rounds++;

			b.model[i].read_rate[r] =
				bench_read_bandwidth(b.machine);
			b.model[i].int8_rate[r] = bench_int8_peak(b.machine);
			kernels_measure_passes(&b, &b.model[i], r);
			kernels_measure_layouts(&b, &b.model[i], r);
			kernels_measure_softmax(&b, &b.model[i], r);
			took = clock_ns() - began;
		} while (b.model[i].rounds < rounds &&
			took + took / b.model[i].rounds < MODEL_NS);
	}
	progress_report(&args->progress, NULL, 0, 0);
	if (args->json)
		ret = kernels_print_json(&b, e);
	else
		kernels_print(&b);
out:
	bench_machine_close(b.machine);
	workers_close(b.workers);
	free(b.slot);
	free(b.exp2);
	free(b.scratch);
	free(b.q8);
	free(b.y);
	free(b.x);
	free(b.model);
	return ret;
}
