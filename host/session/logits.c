#include "host/session/logits.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tensor/kern.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Number of logits (outputs of the matrix) that one work item computes. Their
 * weights take a few hundred KB in models of 1 B parameters: enough to outweigh
 * the cost of starting a work item, and little enough that all threads end at
 * about the same time. A multiple of 32, because the weights of 32 outputs are
 * stored together (a strip). */
#define PART_OUTPUTS 256
#define ALIGN        64
/* mask of the exponent bits of a float; all are set in an infinity or NaN */
#define EXPONENT 0x7f800000u
/* Exponent bits of 2^56. In the norm the sum of squares of 65536 such values
 * overflows, and the norm then sets every value to 0. States and logits of
 * working models are far smaller. */
#define EXPONENT_HUGE ((127u + 56) << 23)

struct logits {
	const struct model *model;
	const struct kern *kern;
	struct workers *workers;
	struct logits_beside beside;
	/* rows: number of computed rows. odd_rows: the result of
	 * logits_rows_not_finite. */
	uint64_t rows, odd_rows;
	uint64_t odd_weights;
	/* for each row of the current call, whether odd_rows will count the
	 * row */
	_Atomic bool odd[LOGITS_ROWS];
	enum dtype type;
	const uint8_t *weights;
	void *packed; /* the weights if they are packed into tiles, else NULL */
	/* reads the weights if they are streamed */
	struct logits_source source;
	bool streamed;
	/* Range of outputs (tokens of the vocabulary) whose weights are at
	 * `weights`: all outputs, or the outputs of one part of a streamed
	 * matrix. */
	uint32_t first, n_outputs;
	size_t part_bytes; /* bytes of the weights of PART_OUTPUTS outputs */
	bool int8;
	/* [n_embd] weights of the final norm, aligned for the kernels */
	float *norm_weight;
	float *normed; /* [LOGITS_ROWS][n_embd] normalized hidden states */
	/* [LOGITS_ROWS][kern_q8_bytes] quantized hidden states, if int8 is
	 * set */
	uint8_t *q8;
	/* [threads][scratch_bytes] scratch memory of the kernels */
	uint8_t *scratch;
	size_t scratch_bytes;
	/* [threads][LOGITS_ROWS][PART_OUTPUTS] logits that the thread's current
	 * work item computes */
	float *part;
	/* where the logits of each row of the current call are stored */
	float *const *out;
	unsigned n;
};

/* Prepare the output matrix. The matrix is packed into tiles if the layout has
 * tiles for its type; the matrix of a flash image already has its final
 * layout. */
static int pack_output(
	struct logits *l, enum layout layout, bool streamed, struct err *e)
{
	const struct gguf_tensor *t = l->model->output;
	const struct packed *p = l->model->packed;
	uint32_t n = l->model->n_vocab, k = l->model->n_embd;

	l->type = p && p->output.rows ? p->output.type
		: p                   ? t->type
		    : layout_type(layout, t->type, k, SIZE_MAX);
	l->part_bytes = layout_bytes(l->type, PART_OUTPUTS, k);
	l->weights = t->data;
	if (p ? !p->output.rows : l->type == t->type) {
		l->odd_weights = p
			? 0
			: layout_pack(l->workers, t->type, NULL,
				  (struct layout_source){ t->type, t->data }, n,
				  k);
		return 0;
	}
	l->streamed = streamed;
	if (streamed)
		return 0;
	l->packed = hugemem_reserve(layout_bytes(l->type, n, k));
	if (!l->packed)
		return err_set(e, ENOMEM,
			"no memory for an output matrix of %zu MiB",
			layout_bytes(l->type, n, k) >> 20);
	l->weights = l->packed;
	if (p)
		return packed_read(p, IMAGE_OUTPUT, 0, l->packed, e);
	l->odd_weights = layout_pack(l->workers, l->type, l->packed,
		(struct layout_source){ t->type, t->data, l->model->gguf }, n,
		k);
	return 0;
}

int logits_open(struct logits **out, const struct model *m, enum layout layout,
	enum wire_precision precision, bool streamed, struct workers *workers,
	struct err *e)
{
	size_t k = m->n_embd, row = k * sizeof(float);
	size_t threads = workers_count(workers);
	struct logits *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return err_set(e, ENOMEM, "no memory for logits");
	l->model = m;
	l->workers = workers;
	if ((ret = kern_select(&l->kern, e)) ||
		(ret = pack_output(l, layout, streamed, e)))
		goto fail;
	l->scratch_bytes = align_up(kern_multiply_scratch(m->n_embd), ALIGN);
	l->norm_weight = aligned_alloc(ALIGN, align_up(row, ALIGN));
	l->normed = aligned_alloc(ALIGN, align_up(LOGITS_ROWS * row, ALIGN));
	l->q8 = aligned_alloc(
		ALIGN, LOGITS_ROWS * kern_q8_bytes(m->n_embd) + ALIGN);
	/* Allocate ALIGN bytes more than needed, so that the pointer is valid
	 * even if the kernels need no scratch memory. */
	l->scratch = aligned_alloc(ALIGN, threads * l->scratch_bytes + ALIGN);
	l->part = aligned_alloc(
		ALIGN, threads * LOGITS_ROWS * PART_OUTPUTS * sizeof(float));
	if (!l->norm_weight || !l->normed || !l->q8 || !l->scratch ||
		!l->part) {
		ret = err_set(e, ENOMEM, "no memory for logits");
		goto fail;
	}
	dtype_info(DTYPE_F32)->to_f32(l->norm_weight, m->output_norm->data, k);
	l->odd_weights += dtype_not_finite(DTYPE_F32, l->norm_weight, k);
	l->int8 = precision == WIRE_INT8 && kern_takes_q8(l->type);
	*out = l;
	return 0;
fail:
	logits_close(l);
	return ret;
}

void logits_set_beside(struct logits *l, const struct logits_beside *beside)
{
	l->beside = *beside;
}

void logits_set_source(struct logits *l, const struct logits_source *source)
{
	l->source = *source;
}

void logits_share(struct logits *l, uint8_t *dst, struct wire_tensor *norm,
	struct wire_tensor *matrix)
{
	uint32_t n = l->model->n_vocab, k = l->model->n_embd;
	size_t bytes = k * sizeof(*l->norm_weight), at = align_up(bytes, ALIGN);

	*norm = (struct wire_tensor){ DTYPE_F32, 1, k, 0 };
	*matrix = (struct wire_tensor){ l->type, n, k, (uint32_t)at };
	memcpy(dst, l->norm_weight, bytes);
	memcpy(dst + at, l->weights, layout_bytes(l->type, n, k));
	free(l->packed);
	l->packed = NULL;
	l->weights = dst + at;
}

void logits_close(struct logits *l)
{
	if (!l)
		return;
	free(l->packed);
	free(l->norm_weight);
	free(l->normed);
	free(l->q8);
	free(l->scratch);
	free(l->part);
	free(l);
}

/* Return whether the exponent of any value is at least `exponent` (exponent
 * bits of a float). The loop has no branches, for speed: it runs over all
 * logits. */
static bool reaches(uint32_t exponent, const float *v, size_t n)
{
	uint32_t odd = 0, bits;

	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, &v[i], sizeof(bits));
		odd |= (bits & EXPONENT) >= exponent;
	}
	return odd;
}

/* Compute PART_OUTPUTS outputs for all rows. Thread 0 is the thread that called
 * logits_compute. */
static void compute_outputs(void *arg, unsigned i, unsigned thread)
{
	struct logits *l = arg;
	uint32_t k = l->model->n_embd, n = l->n_outputs - i * PART_OUTPUTS;
	uint32_t first = l->first + i * PART_OUTPUTS;
	float *y = l->part + (size_t)thread * LOGITS_ROWS * PART_OUTPUTS;
	const uint8_t *w = l->weights + i * l->part_bytes;
	const struct kern_rows rows = { l->normed, k, l->int8 ? l->q8 : NULL,
		l->n };

	n = n > PART_OUTPUTS ? PART_OUTPUTS : n;
	kern_multiply(l->kern, y, PART_OUTPUTS, &rows, l->type, w, n, k,
		l->scratch + thread * l->scratch_bytes);
	for (unsigned r = 0; r < l->n; r++, y += PART_OUTPUTS) {
		memcpy(l->out[r] + first, y, n * sizeof(float));
		if (reaches(EXPONENT_HUGE, y, n))
			atomic_store_explicit(
				&l->odd[r], true, memory_order_relaxed);
	}
	if (!thread && l->beside.fn)
		l->beside.fn(l->beside.arg);
}

int logits_check(
	const float *hidden, uint32_t n_embd, uint32_t row, struct err *e)
{
	uint32_t at = 0;

	if (!reaches(EXPONENT, hidden, n_embd))
		return 0;
	while (isfinite(hidden[at]))
		at++;
	return err_set(e, EPROTO,
		"the device computed a hidden state that is not finite: row "
		"%u, value %u of %u is %g",
		row, at, n_embd, (double)hidden[at]);
}

int logits_compute(struct logits *l, const float *const *hidden,
	float *const *out, unsigned n, struct err *e)
{
	const struct model *m = l->model;

	assert(n <= LOGITS_ROWS);
	for (unsigned i = 0; i < n; i++) {
		float *x = l->normed + (size_t)i * m->n_embd;

		l->kern->rmsnorm(
			x, hidden[i], l->norm_weight, m->n_embd, m->norm_eps);
		/* Check the state before the norm, because the norm hides huge
		 * values; check the result of the norm before it is quantized,
		 * because quantization turns a value that is not finite into an
		 * arbitrary number. */
		atomic_store_explicit(&l->odd[i],
			reaches(EXPONENT_HUGE, hidden[i], m->n_embd) ||
				reaches(EXPONENT_HUGE, x, m->n_embd),
			memory_order_relaxed);
		if (l->int8)
			l->kern->quantize(l->q8 + i * kern_q8_bytes(m->n_embd),
				x, m->n_embd);
	}
	l->out = out;
	l->n = n;
	l->first = 0;
	l->n_outputs = m->n_vocab;
	for (uint32_t i = 0; l->first < m->n_vocab; i++) {
		uint32_t left = m->n_vocab - l->first;
		struct logits_part part;
		int ret = 0;

		if (l->streamed) {
			ret = l->source.need(l->source.arg, i, &part, e);
			if (ret)
				return ret;
			l->weights = part.weights;
			l->n_outputs = part.n < left ? part.n : left;
		}
		workers_share(l->workers,
			(uint64_t)n * l->n_outputs * m->n_embd, compute_outputs,
			l, (l->n_outputs + PART_OUTPUTS - 1) / PART_OUTPUTS);
		l->first += l->n_outputs;
		if (l->streamed)
			ret = l->source.done(l->source.arg, e);
		if (ret)
			return ret;
	}
	for (unsigned i = 0; i < n; i++)
		l->odd_rows +=
			atomic_load_explicit(&l->odd[i], memory_order_relaxed);
	l->rows += n;
	return 0;
}

uint64_t logits_rows(const struct logits *l)
{
	return l->rows;
}

uint64_t logits_rows_not_finite(const struct logits *l)
{
	return l->odd_rows;
}

uint64_t logits_weights_not_finite(const struct logits *l)
{
	return l->odd_weights;
}
