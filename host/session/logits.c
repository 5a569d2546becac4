#include "host/session/logits.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/hugemem.h"
#include "base/workers.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "tensor/kern.h"
#include "tensor/tile.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The largest number of outputs (logits) of a part, a multiple of TILE. */
#define PART_OUTPUTS 1024
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
	/* the same outputs divided among the threads, in units of TILE
	 * outputs */
	struct kern_parts parts;
	bool int8;
	/* the memory of the buffers below; all pointers in it are aligned for
	 * the kernels */
	uint8_t *buffers;
	/* [n_embd] weights of the final norm */
	float *norm_weight;
	float *normed; /* [LOGITS_ROWS][n_embd] normalized hidden states */
	/* [LOGITS_ROWS][kern_q8_bytes] quantized hidden states, if int8 is
	 * set */
	uint8_t *q8;
	/* [threads][scratch_bytes] scratch memory of the kernels */
	uint8_t *scratch;
	size_t scratch_bytes;
	/* [threads][LOGITS_ROWS][PART_OUTPUTS] logits of the part that the
	 * thread computes */
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

/* Allocate all buffers in one block, so that they share huge pages. */
static int alloc_buffers(struct logits *l, struct err *e)
{
	const size_t k = l->model->n_embd, threads = workers_count(l->workers);
	const size_t row = align_up(k * sizeof(float), ALIGN);
	const size_t normed = align_up(LOGITS_ROWS * k * sizeof(float), ALIGN);
	const size_t q8 =
		LOGITS_ROWS * kern_q8_bytes(l->model->n_embd) + KERN_Q8_GAP;
	const size_t part = LOGITS_ROWS * PART_OUTPUTS * sizeof(float);
	uint8_t *at;

	l->scratch_bytes =
		align_up(kern_multiply_scratch(l->model->n_embd), ALIGN);
	at = hugemem_alloc(
		row + normed + q8 + threads * (l->scratch_bytes + part));
	if (!at)
		return err_set(e, ENOMEM, "no memory for logits");
	l->buffers = at;
	l->norm_weight = (float *)(void *)at;
	l->normed = (float *)(void *)(at += row);
	l->q8 = at += normed;
	l->scratch = at += q8;
	l->part = (float *)(void *)(at + threads * l->scratch_bytes);
	return 0;
}

int logits_open(struct logits **out, const struct model *m, enum layout layout,
	enum wire_precision precision, bool streamed, struct workers *workers,
	struct err *e)
{
	struct logits *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return err_set(e, ENOMEM, "no memory for logits");
	l->model = m;
	l->workers = workers;
	if ((ret = kern_select(&l->kern, e)) ||
		(ret = pack_output(l, layout, streamed, e)))
		goto fail;
	if ((ret = alloc_buffers(l, e)))
		goto fail;
	dtype_info(DTYPE_F32)->to_f32(
		l->norm_weight, m->output_norm->data, m->n_embd);
	l->odd_weights +=
		dtype_not_finite(DTYPE_F32, l->norm_weight, m->n_embd);
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
	free(l->buffers);
	free(l);
}

/* Return whether the exponent of any value is at least `exponent` (exponent
 * bits of a float). Four values at a time, for speed: all logits are checked.
 */
static bool reaches(uint32_t exponent, const float *v, size_t n)
{
	typedef uint32_t four __attribute__((vector_size(16)));
	four odd = { 0 }, bits = { 0 };

	for (; n >= 4; n -= 4, v += 4) {
		memcpy(&bits, v, sizeof(bits));
		odd |= (four)((bits & EXPONENT) >= exponent);
	}
	bits = (four){ 0 };
	memcpy(&bits, v, n * sizeof(*v));
	odd |= (four)((bits & EXPONENT) >= exponent);
	return odd[0] | odd[1] | odd[2] | odd[3];
}

/* Compute one part of the outputs for all rows. Thread 0 is the thread that
 * called logits_compute. */
static void compute_outputs(void *arg, unsigned i, unsigned thread)
{
	struct logits *l = arg;
	const struct kern_part part = kern_part(&l->parts, i);
	uint32_t k = l->model->n_embd, n = part.n * TILE;
	uint32_t at = part.first * TILE, left = l->n_outputs - at;
	float *y = l->part + (size_t)thread * LOGITS_ROWS * PART_OUTPUTS;
	const uint8_t *w = l->weights + layout_bytes(l->type, at, k);
	const struct kern_rows rows = { l->normed, k, l->int8 ? l->q8 : NULL,
		l->n };

	if (!n)
		return;
	n = n < left ? n : left;
	kern_multiply(l->kern, y, PART_OUTPUTS, &rows, l->type, w, n, k,
		l->scratch + thread * l->scratch_bytes);
	for (unsigned r = 0; r < l->n; r++, y += PART_OUTPUTS) {
		memcpy(l->out[r] + l->first + at, y, n * sizeof(float));
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
		uint64_t work;
		int ret = 0;

		if (l->streamed) {
			ret = l->source.need(l->source.arg, i, &part, e);
			if (ret)
				return ret;
			l->weights = part.weights;
			l->n_outputs = part.n < left ? part.n : left;
		}
		l->parts = kern_parts((l->n_outputs + TILE - 1) / TILE,
			layout_bytes(l->type, TILE, m->n_embd),
			PART_OUTPUTS / TILE, workers_count(l->workers));
		work = (uint64_t)n * l->n_outputs * m->n_embd;
		workers_burst(l->workers, work);
		workers_share(l->workers, work, compute_outputs, l,
			kern_parts_count(&l->parts));
		workers_burst(l->workers, 0);
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
