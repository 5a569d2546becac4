/*
 * The measurements of bench kernels, and the modeled costs on a phone. With
 * integer kernels, all matrices of a layer are measured as one sequence, as a
 * model runs them. The group and super-group layouts have no integer kernels,
 * so layouts are compared with float kernels: each matrix is measured alone, in
 * each layout.
 */
#include "host/bench/bench_kernels.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/kern.h"
#include "tensor/tile.h"

#include <errno.h>
#include <math.h>

static const uint32_t pass_rows[KERNELS_PASSES] = { 1, 2, 4, 8, 16, 32, 128,
	KERNELS_MAX_ROWS };
const uint32_t kernels_layout_rows[KERNELS_LAYOUT_PASSES] = { 1, 32 };

const char *const kernels_layout_names[KERNELS_LAYOUTS] = { "rows", "groups",
	"super", "tiles", "f16 tiles", "bytes read" };

/* The matrices of a layer in order of execution. `quantize` is true if the
 * input of the matrix is not that of the previous matrix, and so must be
 * quantized first. */
static const struct {
	int matrix;
	bool quantize;
} layer[] = {
	{ KERNELS_QO, true },
	{ KERNELS_KV, false },
	{ KERNELS_KV, false },
	{ KERNELS_QO, true },
	{ KERNELS_GATE_UP, true },
	{ KERNELS_GATE_UP, false },
	{ KERNELS_DOWN, true },
};

enum dtype kernels_type(enum kernels_layout layout, bool q8_0)
{
	static const enum dtype types[KERNELS_LAYOUTS][2] = {
		[KERNELS_ROWS] = { DTYPE_Q4_0, DTYPE_Q8_0 },
		[KERNELS_GROUPS] = { DTYPE_GROUP_Q4_0, DTYPE_GROUP_Q8_0 },
		[KERNELS_SUPER] = { DTYPE_SUPER_Q4_0, DTYPE_SUPER_Q8_0 },
		[KERNELS_TILES] = { DTYPE_TILE_Q4_0, DTYPE_TILE_Q8_0 },
		[KERNELS_F16] = { DTYPE_TILE_F16, DTYPE_TILE_F16 },
		[KERNELS_READ] = { DTYPE_SUPER_Q4_0, DTYPE_SUPER_Q8_0 },
	};

	return types[layout][q8_0];
}

/* ---- one product --------------------------------------------------------- */

enum product_by { BY_FLOATS, BY_INT8, BY_READING };

struct product {
	struct bench_kernels *b;
	enum product_by by;
	enum dtype type;
	uint32_t n, k, rows;
	const uint8_t *w;
	/* A unit of the matrix is a row or a strip of tiles (TILE rows). unit:
	 * number of outputs of a unit. unit_bytes: size of a unit in bytes. */
	uint32_t unit;
	size_t unit_bytes;
	struct kern_parts parts;
};

static struct product product(struct bench_kernels *b,
	const struct kernels_matrix *m, enum kernels_layout layout,
	enum product_by by, uint32_t rows)
{
	enum dtype type = kernels_type(layout, m->q8_0);
	bool tiled = tile_info(type);
	struct product p = { b, by, type, m->n, m->k, rows };
	size_t units;

	p.unit = tiled ? TILE : 1;
	p.unit_bytes = tiled ? tile_strip_bytes(type, m->k)
			     : dtype_row_bytes(type, m->k);
	units = (m->n + p.unit - 1) / p.unit;
	p.parts = kern_parts(
		units, p.unit_bytes, SIZE_MAX, workers_count(b->workers));
	return p;
}

typedef uint64_t line __attribute__((vector_size(64)));

/*
 * Prefetch distance in cache lines, the same as in the integer kernels: large
 * enough to hide the latency of memory. Without prefetching, a plain read would
 * be slower than the kernels, so the speed of the read would not be an upper
 * bound of the kernels' speed.
 */
#define LINES_AHEAD 64

/* Read `bytes` bytes. `bytes` must be a multiple of the size of a cache line,
 * as the size of a tile is. */
static void read_lines(const void *from, size_t bytes)
{
	const line *p = from;
	line any[4] = { 0 };
	size_t n = bytes / sizeof(*p);

	for (; n >= 4; n -= 4, p += 4)
		for (int i = 0; i < 4; i++) {
			__builtin_prefetch(p + i + LINES_AHEAD);
			any[i] |= p[i];
		}
	for (; n; n--)
		any[0] |= *p++;
	__asm__ volatile("" : : "m"(any));
}

static void product_part(void *arg, unsigned i, unsigned thread)
{
	const struct product *p = arg;
	const struct bench_kernels *b = p->b;
	const struct kern_part part = kern_part(&p->parts, i);
	uint32_t from = part.first * p->unit, n = part.n * p->unit;
	const uint8_t *w = p->w + part.first * p->unit_bytes;
	void *scratch = kernels_scratch(b, thread);
	const struct kern_rows rows = { b->x, p->k,
		p->by == BY_INT8 ? b->q8 : NULL, p->rows };

	if (!part.n)
		return;
	if (n > p->n - from)
		n = p->n - from;
	if (p->by == BY_READING)
		read_lines(w, part.n * p->unit_bytes);
	else
		kern_multiply(b->kern, b->y + from, p->n, &rows, p->type, w, n,
			p->k, scratch);
}

static void run_product(void *arg)
{
	struct product *p = arg;
	uint32_t units = (p->n + p->unit - 1) / p->unit;

	p->w = kernels_weights(p->b, units * p->unit_bytes);
	workers_run(
		p->b->workers, product_part, p, kern_parts_count(&p->parts));
}

/* ---- a layer ------------------------------------------------------------- */

struct layer_run {
	struct bench_kernels *b;
	struct product product[KERNELS_MATRICES];
};

static void quantize_row(void *arg, unsigned row, unsigned thread)
{
	const struct product *p = arg;

	p->b->kern->quantize(p->b->q8 + row * kern_q8_bytes(p->k),
		p->b->x + (size_t)row * p->k, p->k);
}

static void run_layer(void *arg)
{
	struct layer_run *l = arg;

	for (size_t i = 0; i < ARRAY_LEN(layer); i++) {
		struct product *p = &l->product[layer[i].matrix];

		if (layer[i].quantize)
			workers_run(l->b->workers, quantize_row, p, p->rows);
		run_product(p);
	}
}

void kernels_measure_passes(
	struct bench_kernels *b, struct kernels_model *m, unsigned round)
{
	const double bytes = (double)kernels_layer_bytes(m);
	const double weights = (double)kernels_layer_weights(m);

	for (size_t i = 0; i < KERNELS_PASSES; i++) {
		struct kernels_pass *p = &m->pass[i];
		struct layer_run l = { .b = b };

		for (size_t j = 0; j < KERNELS_MATRICES; j++)
			l.product[j] = product(b, &m->matrix[j], KERNELS_TILES,
				BY_INT8, p->rows);
		p->seconds[round] = kernels_time(b, run_layer, &l);
		bench_raise(&m->read_rate[round], bytes / p->seconds[round]);
		bench_raise(&m->int8_rate[round],
			2 * weights * p->rows / p->seconds[round]);
	}
}

uint64_t kernels_layer_weights(const struct kernels_model *m)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(layer); i++)
		n += (uint64_t)m->matrix[layer[i].matrix].n *
			m->matrix[layer[i].matrix].k;
	return n;
}

uint64_t kernels_layer_bytes(const struct kernels_model *m)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < ARRAY_LEN(layer); i++) {
		const struct kernels_matrix *x = &m->matrix[layer[i].matrix];

		bytes += tile_bytes(
			kernels_type(KERNELS_TILES, x->q8_0), x->n, x->k);
	}
	return bytes;
}

/* ---- layouts ------------------------------------------------------------- */

void kernels_measure_layouts(
	struct bench_kernels *b, struct kernels_model *m, unsigned round)
{
	for (int i = 0; i < KERNELS_MATRICES; i++)
		for (int r = 0; r < KERNELS_LAYOUT_PASSES; r++)
			for (int l = 0; l < KERNELS_LAYOUTS; l++) {
				struct product p = product(b, &m->matrix[i],
					(enum kernels_layout)l,
					l == KERNELS_READ ? BY_READING
							  : BY_FLOATS,
					kernels_layout_rows[r]);

				m->layout[i][r][l].seconds[round] =
					kernels_time(b, run_product, &p);
			}
}

/* ---- phone time ---------------------------------------------------------- */

static int price_layout(const struct bench_kernels *b,
	const struct kernels_matrix *m, enum kernels_layout layout,
	uint32_t rows, struct price *p)
{
	enum dtype type = kernels_type(layout, m->q8_0);

	return price_matmul_by(&b->soc, rows, m->n, m->k, type,
		layout == KERNELS_READ ? PRICE_DEQUANT_COPY : PRICE_DEQUANT, p);
}

static int price_layer(const struct bench_kernels *b,
	const struct kernels_model *m, enum kernels_layout layout,
	uint32_t rows, uint64_t *ps, uint64_t *pj)
{
	struct price sum = { 0 }, one;
	int ret = 0;

	for (size_t i = 0; i < ARRAY_LEN(layer) && !ret; i++) {
		ret = price_layout(
			b, &m->matrix[layer[i].matrix], layout, rows, &one);
		price_add(&sum, &one);
	}
	*ps = sum.total_ps;
	/* 1 W equals 1 pJ/ps. */
	*pj = sum.energy_pj + (uint64_t)(b->soc.base_w * (double)*ps);
	return ret;
}

int kernels_matmul_init(
	const struct bench_kernels *b, struct kernels_model *m, struct err *e)
{
	const struct kernels_shape *s = m->shape;
	uint32_t kv = s->embd / s->heads * s->kv_heads;
	struct price one;
	int ret;

	m->matrix[KERNELS_QO] =
		(struct kernels_matrix){ "q, o", s->embd, s->embd, false };
	m->matrix[KERNELS_KV] =
		(struct kernels_matrix){ "k, v", kv, s->embd, false };
	m->matrix[KERNELS_GATE_UP] =
		(struct kernels_matrix){ "gate, up", s->ff, s->embd, false };
	m->matrix[KERNELS_DOWN] =
		(struct kernels_matrix){ "down", s->embd, s->ff, true };

	ret = 0;
	for (size_t i = 0; i < KERNELS_PASSES && !ret; i++) {
		struct kernels_pass *p = &m->pass[i];

		p->rows = pass_rows[i];
		ret = price_layer(b, m, KERNELS_TILES, p->rows, &p->tiles_ps,
			&p->tiles_pj);
		if (!ret)
			ret = price_layer(b, m, KERNELS_SUPER, p->rows,
				&p->super_ps, &p->super_pj);
	}
	for (int i = 0; i < KERNELS_MATRICES; i++)
		for (int r = 0; r < KERNELS_LAYOUT_PASSES; r++)
			for (int l = 0; l < KERNELS_LAYOUTS && !ret; l++) {
				ret = price_layout(b, &m->matrix[i],
					(enum kernels_layout)l,
					kernels_layout_rows[r], &one);
				m->layout[i][r][l].ps = one.total_ps;
			}

	if (ret)
		return err_set(e, EINVAL,
			"phone '%s' cannot run the matrices of %s; try another "
			"--clock or --shapes",
			b->phone, s->name);
	return 0;
}

/* ---- softmax ------------------------------------------------------------- */

/*
 * On the phone, only the softmax is modeled, with scores in the NPU's local
 * memory (TCM). On this machine, softmax is measured within attention over fp16
 * keys and values, because no kernel computes softmax alone.
 */
static const uint32_t queries[] = { 1, 4, 16 };
static const uint32_t lengths[] = { 1024, 4096, KERNELS_MAX_KV };

_Static_assert(
	ARRAY_LEN(queries) * ARRAY_LEN(lengths) == KERNELS_SOFTMAXES, "");

/*
 * Factor by which the attention scores are multiplied. The values of queries
 * are uniform in [-1, 1]; the values of keys are about 0.07 or -0.07. With this
 * factor the scores have a standard deviation of 3, so their exponentials vary
 * as in a real model.
 */
#define SCORE_SCALE 75.0f

struct attention {
	const struct bench_kernels *b;
	const struct kernels_shape *shape;
	uint32_t queries, length;
	bool table;
};

static void attend_part(void *arg, unsigned part, unsigned thread)
{
	const struct attention *a = arg;
	const struct bench_kernels *b = a->b;
	const struct kernels_shape *s = a->shape;
	uint32_t row = part / s->kv_heads, head = part % s->kv_heads;
	uint32_t group = s->heads / s->kv_heads, dim = s->embd / s->heads;
	size_t stride = (size_t)s->kv_heads * dim * sizeof(uint16_t);
	size_t at = (size_t)row * s->embd + (size_t)head * group * dim;
	float scale = SCORE_SCALE / sqrtf((float)dim);
	float *scratch = kernels_scratch(b, thread);
	struct kern_kv kv = {
		.stride = stride, .slot = b->slot, .n = a->length, .f16 = true
	};

	kv.k = b->weights + (size_t)head * dim * sizeof(uint16_t);
	kv.v = kv.k + KERNELS_MAX_KV * stride;
	if (a->table)
		b->kern->attend_table(b->y + at, b->x + at, group, &kv, dim,
			scale, b->exp2, scratch);
	else
		b->kern->attend(
			b->y + at, b->x + at, group, &kv, dim, scale, scratch);
}

static void run_attention(void *arg)
{
	struct attention *a = arg;

	workers_run(
		a->b->workers, attend_part, a, a->queries * a->shape->kv_heads);
}

void kernels_measure_softmax(
	struct bench_kernels *b, struct kernels_model *m, unsigned round)
{
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		struct kernels_softmax *s = &m->softmax[i];
		struct attention a = { b, m->shape, s->queries, s->length };

		s->f32[round] = kernels_time(b, run_attention, &a);
		a.table = true;
		s->table[round] = kernels_time(b, run_attention, &a);
	}
}

int kernels_softmax_init(
	const struct bench_kernels *b, struct kernels_model *m, struct err *e)
{
	for (size_t i = 0; i < KERNELS_SOFTMAXES; i++) {
		struct kernels_softmax *s = &m->softmax[i];

		s->queries = queries[i / ARRAY_LEN(lengths)];
		s->length = lengths[i % ARRAY_LEN(lengths)];
		for (int x = PRICE_EXP_F32; x <= PRICE_EXP_TABLE; x++) {
			struct price p;

			if (price_softmax(&b->soc,
				    (uint64_t)s->queries * m->shape->heads,
				    s->length, (enum price_exp)x, &p))
				return err_set(e, EINVAL,
					"phone '%s' cannot run softmax of "
					"length %u; try another --clock",
					b->phone, s->length);
			s->ps[x] = p.total_ps;
		}
	}
	return 0;
}
