/*
 * A device without a channel, called the rig: a tiny model with random weights
 * in real shared buffers, and requests that are passed directly to
 * device_dispatch. Header only, for the device's tests and its fuzz target.
 */
#ifndef TESTS_DEVICE_RIG_H
#define TESTS_DEVICE_RIG_H

#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "device/device.h"
#include "device/fault.h"
#include "shm/buffer.h"
#include "tensor/dtype.h"
#include "tensor/soc/soc.h"
#include "tensor/tile.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RIG_SLOTS  128
#define RIG_LAYERS 2
#define RIG_ROWS   32
#define RIG_GRAPH  7

struct rig_opts {
	enum coherence coherence;
	uint64_t evict_seed, seed;
	unsigned threads;
	enum wire_precision precision;
	bool neox, bias, norms;
	bool wide_norms; /* q_norm and k_norm normalize all heads together */
	enum dtype type; /* type of the matrices */
	uint32_t rows;   /* number of rows of the graph; 0: RIG_ROWS */
	uint32_t shared; /* width of the shared expert of rig_experts */
	bool extended;   /* the weights lie in the extended region */
	bool cached_rings;
	enum coherence_contract contract;
	const char *fault;
};

struct rig {
	struct rig_opts opts;
	struct device *dev;
	struct fault fault;
	struct buffer *weights, *kv, *io;
	uint32_t weights_at, kv_at, io_at; /* device addresses */
	uint32_t seq;
	struct wire_done done; /* completion of the last request */
	struct wire_model model;
	/* values of the weights, rounded to the stored type */
	float *value[RIG_LAYERS][WIRE_T_COUNT];
	float *freq;
	uint8_t load[sizeof(struct wire_graph_load) +
		RIG_LAYERS * WIRE_T_COUNT * sizeof(struct wire_tensor)];
	char report[32][320];
	unsigned n_reports;
};

/* Offsets in the io buffer. */
enum { RIG_ROWS_OFF = 0, RIG_IN_OFF = 64 << 10, RIG_OUT_OFF = 128 << 10 };
#define RIG_IO_BYTES (192u << 10)

static inline void rig_die(const char *what, const char *text)
{
	fprintf(stderr, "rig: %s: %s\n", what, text);
	abort();
}

static inline void rig_report(void *arg, const char *text)
{
	struct rig *r = arg;

	if (r->n_reports < ARRAY_LEN(r->report))
		snprintf(r->report[r->n_reports++], sizeof(r->report[0]), "%s",
			text);
}

static inline void rig_beat(void *arg)
{
}

/* Returns a uniform random number in [-1, 1). */
static inline float rig_random(uint64_t seed, uint64_t stream, uint64_t i)
{
	return (float)(2 * rng_uniform(seed, stream, i) - 1);
}

/* ---- requests ---------------------------------------------------------- */

/* Send a request of any kind; its completion is stored in r->done. */
static inline int rig_send(struct rig *r, const struct wire_ref *refs,
	unsigned n_refs, const void *msg, size_t len)
{
	struct packet p = { ++r->seq, n_refs, refs, msg, len };
	uint32_t seq;

	if (!device_dispatch(r->dev, &p, &r->done))
		device_loaded(r->dev, true, &seq, &r->done);
	return r->done.status;
}

static inline int rig_simple(struct rig *r, uint32_t op, uint32_t arg)
{
	struct wire_simple s = { op, arg };

	return rig_send(r, NULL, 0, &s, sizeof(s));
}

static inline int rig_map(struct rig *r, uint32_t id, uint32_t generation)
{
	struct wire_map m = { WIRE_MAP, id, generation, 0 };

	return rig_send(r, NULL, 0, &m, sizeof(m));
}

static inline void rig_share(struct rig *r, uint32_t id, struct buffer *b)
{
	struct wire_share s = {
		.op = WIRE_SHARE,
		.buffer = id,
		.generation = buffer_generation(b),
		.flags = buffer_flags(b) & BUFFER_DMA ? WIRE_SHARE_DMA : 0,
		.bytes = buffer_bytes(b),
	};

	snprintf(s.name, sizeof(s.name), "%s", buffer_name(b));
	device_share(r->dev, &s, fcntl(buffer_fd(b), F_DUPFD_CLOEXEC, 0));
}

static inline uint32_t rig_give(struct rig *r, uint32_t id, struct buffer *b)
{
	rig_share(r, id, b);
	if (rig_map(r, id, buffer_generation(b)))
		rig_die("map", r->done.text);
	return r->done.arg[WIRE_MAP_ADDR];
}

static inline int rig_map_extended(
	struct rig *r, uint32_t id, uint32_t generation)
{
	struct wire_map m = { WIRE_MAP, id, generation, WIRE_IN_EXTENDED };

	return rig_send(r, NULL, 0, &m, sizeof(m));
}

static inline uint32_t rig_extend(struct rig *r, uint32_t id, struct buffer *b)
{
	rig_share(r, id, b);
	if (rig_map_extended(r, id, buffer_generation(b)))
		rig_die("map", r->done.text);
	return r->done.arg[WIRE_MAP_ADDR];
}

/* Returns a phone profile in which every number has its largest value. */
static inline struct soc rig_some_phone(void)
{
	struct soc soc;

	for (size_t i = 0; i < SOC_COUNT; i++)
		soc_set(&soc, i, soc_numbers[i].upper);
	return soc;
}

static inline int rig_send_soc(
	struct rig *r, const struct soc *soc, uint32_t count, size_t len)
{
	struct {
		struct wire_soc head;
		struct soc soc;
	} msg = { { WIRE_SOC, count }, *soc };

	return rig_send(r, NULL, 0, &msg, len);
}

/* ---- the model --------------------------------------------------------- */

static inline struct wire_tensor *rig_tensor(
	struct rig *r, unsigned layer, unsigned i)
{
	struct wire_tensor *t =
		(void *)(r->load + sizeof(struct wire_graph_load));

	return &t[layer * WIRE_T_COUNT + i];
}

static inline void rig_shape(const struct rig_opts *o,
	const struct wire_model *m, unsigned i, struct wire_tensor *t)
{
	uint32_t q = m->n_head * m->head_dim, kv = m->n_kv_head * m->head_dim;
	const uint32_t shape[WIRE_T_COUNT][2] = {
		[WIRE_T_ATTN_NORM] = { 1, m->n_embd },
		[WIRE_T_Q] = { q, m->n_embd },
		[WIRE_T_K] = { kv, m->n_embd },
		[WIRE_T_V] = { kv, m->n_embd },
		[WIRE_T_O] = { m->n_embd, q },
		[WIRE_T_Q_BIAS] = { o->bias, q },
		[WIRE_T_K_BIAS] = { o->bias, kv },
		[WIRE_T_V_BIAS] = { o->bias, kv },
		[WIRE_T_O_BIAS] = { o->bias, m->n_embd },
		[WIRE_T_Q_NORM] = { o->norms, o->wide_norms ? q : m->head_dim },
		[WIRE_T_K_NORM] = { o->norms,
			o->wide_norms ? kv : m->head_dim },
		[WIRE_T_FFN_NORM] = { 1, m->n_embd },
		[WIRE_T_ROUTER] = { m->n_expert, m->n_embd },
		[WIRE_T_SHARED_FACTOR] = { m->n_shared > 0, m->n_embd },
		[WIRE_T_SHARED_GATE] = { m->n_shared, m->n_embd },
		[WIRE_T_SHARED_UP] = { m->n_shared, m->n_embd },
		[WIRE_T_SHARED_DOWN] = { m->n_shared ? m->n_embd : 0,
			m->n_shared },
		[WIRE_T_GATE] = { m->n_ff, m->n_embd },
		[WIRE_T_UP] = { m->n_ff, m->n_embd },
		[WIRE_T_DOWN] = { m->n_embd, m->n_ff },
	};

	t->rows = shape[i][0];
	t->cols = shape[i][1];
	t->type = t->rows > 1 ? o->type : DTYPE_F32;
}

/* Size in bytes of a tensor that is stored in rows or in tiles. */
static inline size_t rig_bytes(const struct wire_tensor *t)
{
	return tile_info(t->type) ? tile_bytes(t->type, t->rows, t->cols)
				  : t->rows * dtype_row_bytes(t->type, t->cols);
}

/* Pack v[rows][cols] into tiles at `at`. Replace the values in v by those that
 * the tiles hold, which are rounded. */
static inline void rig_tiles(uint8_t *at, const struct wire_tensor *t, float *v)
{
	float tile[TILE_VALUES];

	for (uint32_t n = 0; n < t->rows; n += TILE) {
		for (uint32_t k = 0; k < t->cols; k += TILE) {
			for (uint32_t i = 0; i < TILE; i++)
				memcpy(tile + i * TILE,
					v + (n + i) * t->cols + k,
					TILE * sizeof(float));
			tile_encode(t->type, at, tile);
			tile_decode(t->type, tile, at);
			for (uint32_t i = 0; i < TILE; i++)
				memcpy(v + (n + i) * t->cols + k,
					tile + i * TILE, TILE * sizeof(float));
			at += tile_info(t->type)->bytes;
		}
	}
}

/* Write random weights of one tensor to `at`. Returns the values that are
 * stored, after rounding; the caller frees them. */
static inline float *rig_fill(uint8_t *at, const struct wire_tensor *t,
	uint64_t seed, uint64_t stream)
{
	const struct dtype_info *info = dtype_info(t->type);
	size_t n = (size_t)t->rows * t->cols;
	float *v = malloc(n * sizeof(*v));
	/* Weights of norms are near 1. Weights of matrices are scaled so that a
	 * product with a matrix has about the magnitude of its input. */
	float scale = t->rows > 1 ? 1.5f / sqrtf((float)t->cols) : 0.3f;
	float mid = t->rows > 1 ? 0 : 1;

	for (size_t i = 0; i < n; i++)
		v[i] = mid + scale * rig_random(seed, stream, i);
	if (tile_info(t->type)) {
		rig_tiles(at, t, v);
	} else if (t->type == DTYPE_F32) {
		memcpy(at, v, n * sizeof(*v));
	} else {
		info->from_f32(at, v, n);
		info->to_f32(v, at, n);
	}
	return v;
}

static inline void rig_model(struct rig *r, const struct rig_opts *o)
{
	struct wire_graph_load *g = (void *)r->load;
	struct wire_model *m = &r->model;
	uint8_t *w = buffer_begin(
		r->weights, 0, buffer_bytes(r->weights), BUFFER_WRITE);
	uint32_t at = 0;

	*m = (struct wire_model){ .n_embd = 64,
		.n_head = 4,
		.n_kv_head = 2,
		.head_dim = 32,
		.n_rot = 24,
		.n_ff = 96,
		.rope_neox = o->neox,
		.precision = o->precision,
		.norm_eps = 1e-5f,
		.attn_scale = 0.17f,
		.kv_slots = RIG_SLOTS,
		.kv_stride = wire_kv_f16(o->precision) ? 192 : 320 };
	for (unsigned l = 0; l < RIG_LAYERS; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			struct wire_tensor *t = rig_tensor(r, l, i);

			rig_shape(o, m, i, t);
			if (!t->rows)
				continue;
			t->offset = at;
			r->value[l][i] = rig_fill(
				w + at, t, o->seed, l * WIRE_T_COUNT + i);
			at += (uint32_t)align_up(rig_bytes(t), 64);
		}
	}
	g->rope_freq = (struct wire_tensor){ DTYPE_F32, 1, m->n_rot / 2, at };
	r->freq = malloc(m->n_rot / 2 * sizeof(float));
	for (uint32_t i = 0; i < m->n_rot / 2; i++)
		r->freq[i] = powf(10000, -2.0f * (float)i / (float)m->n_rot);
	memcpy(w + at, r->freq, m->n_rot / 2 * sizeof(float));
	at += (uint32_t)align_up(m->n_rot / 2 * sizeof(float), 64);
	buffer_end(r->weights, 0, buffer_bytes(r->weights), BUFFER_WRITE);
	*g = (struct wire_graph_load){ WIRE_GRAPH_LOAD, RIG_GRAPH,
		o->rows ? o->rows : RIG_ROWS, 0, RIG_LAYERS, at, *m,
		g->rope_freq };
}

/* ---- parts of a layer ---------------------------------------------------- */

struct rig_part {
	struct wire_graph_load g;
	struct wire_tensor t[WIRE_T_COUNT];
	struct wire_part part;
};

/*
 * Make the two graphs of a layer with experts from the rig's first layer:
 * *first ends with the router and the shared expert, and *expert computes the
 * routed experts. The router and the shared expert are stored after the rig's
 * weights; the matrices of each expert are stored in a separate range. The
 * caller sets the graphs' ids.
 */
static inline void rig_experts(const struct rig *r, struct rig_part *first,
	struct rig_part *expert, uint32_t n_expert, uint32_t n_used,
	enum dtype router)
{
	const struct wire_tensor *all =
		(const void *)(r->load + sizeof(struct wire_graph_load));
	struct wire_model *m = &first->g.model;
	uint32_t at = 0;

	memcpy(&first->g, r->load, sizeof(first->g));
	first->g.n_layers = 1;
	m->n_expert = n_expert;
	m->n_used = n_used;
	m->n_shared = r->opts.shared;
	memcpy(first->t, all, sizeof(first->t));
	*expert = *first;
	for (unsigned i = WIRE_T_ROUTER; i < WIRE_T_GATE; i++) {
		struct wire_tensor *t = &first->t[i];

		rig_shape(&r->opts, m, i, t);
		if (i == WIRE_T_ROUTER)
			t->type = router;
		t->offset = first->g.weights_bytes;
		first->g.weights_bytes += (uint32_t)align_up(rig_bytes(t), 64);
	}
	if (first->g.weights_bytes > buffer_bytes(r->weights))
		rig_die("experts", "no room");
	first->part = (struct wire_part){ 0, 0, WIRE_T_GATE, 0 };
	expert->part = (struct wire_part){ WIRE_T_GATE, 0, WIRE_T_COUNT, 0 };
	expert->g.rope_freq.rows = 0;
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		if (i < WIRE_T_GATE) {
			expert->t[i].rows = 0;
			continue;
		}
		first->t[i].rows = 0;
		expert->t[i].offset = at;
		at += (uint32_t)align_up(rig_bytes(&expert->t[i]), 64);
	}
	expert->g.weights_bytes = at;
}

/* Open the device, map the buffers and load the graph. */
static inline void rig_start(struct rig *r)
{
	const struct rig_opts *o = &r->opts;
	struct device_config config = {
		.coherence = { .level = o->coherence,
			.contract = o->contract,
			.evict_seed = o->evict_seed,
			.report = rig_report,
			.arg = r },
		.cached_rings = o->cached_rings,
		.threads = o->threads ? o->threads : 1,
		.va_window = 16 << 20,
		.va_extended = o->extended ? 1 << 20 : 0,
		.fault = &r->fault,
		.beat = rig_beat,
		.arg = r,
	};
	struct err e = { 0 };

	if (fault_parse(&r->fault, o->fault, &e) ||
		device_open(&r->dev, &config, &e))
		rig_die("start", e.text);
	r->weights_at = o->extended ? rig_extend(r, 0, r->weights)
				    : rig_give(r, 0, r->weights);
	r->kv_at = rig_give(r, 1, r->kv);
	r->io_at = rig_give(r, 2, r->io);
	if (rig_send(r, NULL, 0, r->load, sizeof(r->load)))
		rig_die("load", r->done.text);
}

static inline void rig_open(struct rig *r, const struct rig_opts *o)
{
	struct err e = { 0 };

	memset(r, 0, sizeof(*r));
	r->opts = *o;
	if (buffer_create(&r->weights, "weights", 512 << 10, BUFFER_DMA, &e) ||
		buffer_create(&r->kv, "kv", RIG_LAYERS * 2 * RIG_SLOTS * 320, 0,
			&e) ||
		buffer_create(&r->io, "io", RIG_IO_BYTES, 0, &e))
		rig_die("open", e.text);
	rig_model(r, o);
	rig_start(r);
}

static inline void rig_close(struct rig *r)
{
	device_close(r->dev);
	buffer_close(r->weights);
	buffer_close(r->kv);
	buffer_close(r->io);
	for (unsigned l = 0; l < RIG_LAYERS; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			free(r->value[l][i]);
	free(r->freq);
}

/* ---- runs -------------------------------------------------------------- */

struct rig_batch {
	uint32_t n, n_spans;
	struct wire_row row[RIG_ROWS];
	struct wire_span span[RIG_ROWS];
	uint64_t mask[RIG_ROWS]; /* bit j of mask[i]: row i attends to row j */
	uint32_t flags;          /* flags of the run */
};

/* Make a batch of n rows, one token after another. Each row attends to the
 * first `past` slots of the cache, to the rows before it and to itself. */
static inline void rig_chain(struct rig_batch *b, uint32_t past, uint32_t n)
{
	memset(b, 0, sizeof(*b));
	b->n = n;
	b->n_spans = 1;
	b->span[0] = (struct wire_span){ 0, past };
	for (uint32_t i = 0; i < n; i++) {
		b->row[i] =
			(struct wire_row){ past + i, past + i, 0, b->n_spans };
		b->mask[i] = (2ull << i) - 1;
	}
}

static inline void rig_write(
	struct rig *r, size_t off, const void *data, size_t len)
{
	if (!len)
		return;
	memcpy(buffer_begin(r->io, off, len, BUFFER_WRITE), data, len);
	buffer_end(r->io, off, len, BUFFER_WRITE);
}

/* Write the references of a run (struct wire_ref) to ref[]. Returns their
 * number. */
static inline unsigned rig_refs(struct rig *r, struct wire_ref *ref)
{
	const struct buffer_range *range;
	unsigned n = 0, written;

	ref[n++] = (struct wire_ref){ r->weights_at,
		(uint32_t)buffer_bytes(r->weights), WIRE_REF_WEIGHTS,
		r->opts.extended ? WIRE_REF_EXTENDED : 0, 0, 0 };
	ref[n++] = (struct wire_ref){ r->kv_at, (uint32_t)buffer_bytes(r->kv),
		WIRE_REF_KV, 0, 0, 0 };
	ref[n++] = (struct wire_ref){ r->io_at + RIG_ROWS_OFF, 64 << 10,
		WIRE_REF_ROWS, 0, 0, 0 };
	ref[n++] = (struct wire_ref){ r->io_at + RIG_IN_OFF, 64 << 10,
		WIRE_REF_HIDDEN_IN, 0, 0, 0 };
	ref[n++] = (struct wire_ref){ r->io_at + RIG_OUT_OFF, 64 << 10,
		WIRE_REF_HIDDEN_OUT, 0, 0, 0 };
	written = buffer_written(r->io, &range);
	for (unsigned i = 0; i < written; i++)
		ref[n++] = (struct wire_ref){ r->io_at + (uint32_t)range[i].off,
			(uint32_t)range[i].len, WIRE_REF_SYNC,
			WIRE_REF_INVALIDATE, 0, range[i].seq };
	written = buffer_written(r->kv, &range);
	for (unsigned i = 0; i < written; i++)
		ref[n++] = (struct wire_ref){ r->kv_at + (uint32_t)range[i].off,
			(uint32_t)range[i].len, WIRE_REF_SYNC,
			WIRE_REF_INVALIDATE, 0, range[i].seq };
	buffer_written_clear(r->io);
	buffer_written_clear(r->kv);
	return n;
}

static inline void rig_put(
	struct rig *r, const struct rig_batch *b, const float *in)
{
	size_t at = RIG_ROWS_OFF;

	rig_write(r, at, b->row, b->n * sizeof(b->row[0]));
	at += b->n * sizeof(b->row[0]);
	rig_write(r, at, b->span, b->n_spans * sizeof(b->span[0]));
	at += b->n_spans * sizeof(b->span[0]);
	rig_write(r, at, b->mask, b->n * sizeof(b->mask[0]));
	rig_write(r, RIG_IN_OFF, in, b->n * r->model.n_embd * sizeof(float));
}

/* Run a batch. `in` and `out` are [n][n_embd]. */
static inline int rig_run(
	struct rig *r, const struct rig_batch *b, const float *in, float *out)
{
	struct wire_graph_run run = { WIRE_GRAPH_RUN, RIG_GRAPH, b->n,
		b->n_spans, 1, b->flags };
	size_t bytes = b->n * r->model.n_embd * sizeof(float);
	struct wire_ref ref[5 + 2 * BUFFER_RANGES];
	unsigned n;
	int ret;

	rig_put(r, b, in);
	n = rig_refs(r, ref);
	ret = rig_send(r, ref, n, &run, sizeof(run));
	if (!ret && out)
		memcpy(out,
			buffer_begin(r->io, RIG_OUT_OFF, bytes, BUFFER_READ),
			bytes);
	return ret;
}

#endif
