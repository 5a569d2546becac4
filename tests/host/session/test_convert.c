/*
 * Conversion of a model file to a flash image, which has the weights in the
 * device's layout. The image's model has the weights of the model file or, if
 * the conversion changes their types, the weights rounded to the new types. The
 * reported losses must equal the actual losses.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/progress.h"
#include "base/rng.h"
#include "base/workers.h"
#include "flash/image.h"
#include "host/convert/convert.h"
#include "host/memory/weights.h"
#include "host/model/model.h"
#include "host/model/packed.h"
#include "host/session/logits.h"
#include "shm/buffer.h"
#include "tensor/tile.h"
#include "tests/harness.h"
#include "tests/host/convert/convert_file.h"
#include "tests/host/model/model_file.h"
#include "tests/tensor/tile_reader.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int files_in(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* ---- the same bytes as without an image ---- */

static void compare_blocks(const struct model *a, const struct model *b,
	enum layout layout, struct workers *w, uint32_t want)
{
	struct weights_plan plan = { layout, SIZE_MAX, want, SIZE_MAX,
		residency_of(a->n_layer, a->n_layer, 1), 0 };
	struct block *x, *y;
	uint32_t nx, ny;
	struct err e = { 0 };

	assert_ok(weights_cut(a, &plan, &x, &nx, &e), &e);
	/* an image has its own layout, so the plan's layout has no effect */
	plan.layout = layout == LAYOUT_ROWS ? LAYOUT_SUPER : LAYOUT_ROWS;
	assert_ok(weights_cut(b, &plan, &y, &ny, &e), &e);
	assert_int_equal(nx, ny);
	assert_ok(weights_load(a, w, x, nx, &(struct progress_sink){ 0 }, &e),
		&e);
	assert_ok(weights_load(b, w, y, ny, &(struct progress_sink){ 0 }, &e),
		&e);
	for (uint32_t i = 0; i < nx; i++) {
		assert_int_equal(x[i].bytes, y[i].bytes);
		assert_memory_equal(x[i].tensor, y[i].tensor,
			x[i].n_layers * sizeof(*x[i].tensor));
		assert_memory_equal(
			buffer_begin(x[i].buffer, 0, x[i].bytes, BUFFER_READ),
			buffer_begin(y[i].buffer, 0, y[i].bytes, BUFFER_READ),
			x[i].bytes);
	}
	weights_release(x, nx);
	weights_release(y, ny);
}

static void compare_logits(const struct model *a, const struct model *b,
	enum layout layout, struct workers *w)
{
	float hidden[64], x[90], y[90], *to_x = x, *to_y = y;
	const float *from = hidden;
	struct logits *lx, *ly;
	struct err e = { 0 };

	for (unsigned i = 0; i < 64; i++)
		hidden[i] = (float)(rng_uniform(3, 1, i) * 2 - 1);
	assert_ok(logits_open(&lx, a, layout, WIRE_INT8, false, w, &e), &e);
	assert_ok(logits_open(&ly, b, layout, WIRE_INT8, false, w, &e), &e);
	assert_ok(logits_compute(lx, &from, &to_x, 1, &e), &e);
	assert_ok(logits_compute(ly, &from, &to_y, 1, &e), &e);
	assert_memory_equal(x, y, sizeof(x));
	logits_close(lx);
	logits_close(ly);
}

static void same(const struct model_file *f, enum layout layout, int zstd)
{
	struct convert_opts o = keep;
	struct model *a = source(f), *b;
	float x[64], y[64];
	struct workers *w;
	struct err e = { 0 };

	o.layout = layout;
	o.zstd = zstd;
	b = converted(a, &o, NULL);
	assert_ok(workers_open(&w, 2, &e), &e);
	assert_int_equal(b->packed->layout, layout);
	assert_string_equal(a->arch, b->arch);
	assert_int_equal(a->n_vocab, b->n_vocab);
	assert_memory_equal(
		a->rope_freq, b->rope_freq, a->n_rot / 2 * sizeof(float));
	for (uint32_t t = 0; t < a->n_vocab; t++) {
		assert_ok(model_embed(a, t, x, &e), &e);
		assert_ok(model_embed(b, t, y, &e), &e);
		assert_memory_equal(x, y, sizeof(x));
	}
	for (uint32_t want = 1; want <= f->n_layer; want++)
		compare_blocks(a, b, layout, w, want);
	compare_logits(a, b, layout, w);
	workers_close(w);
	model_close(a);
	model_close(b);
}

static void test_same_bytes(void **state)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
		DTYPE_Q8_0, DTYPE_Q4_0 };
	struct model_file f = mixed;

	for (int layout = LAYOUT_ROWS; layout <= LAYOUT_SUPER; layout++) {
		for (size_t i = 0; i < ARRAY_LEN(types); i++) {
			f.type = types[i];
			f.tied = i % 2;
			same(&f, (enum layout)layout, i % 3 ? 0 : 1);
		}
	}
	f.arch = "qwen2";
	f.bias = true;
	same(&f, LAYOUT_TILES, 1);
	f.arch = "qwen3";
	f.qk_norm = true;
	same(&f, LAYOUT_SUPER, 0);
}

/* The image has a byte-for-byte copy of the model file's header. */
static void test_header(void **state)
{
	struct model *a = source(&mixed), *b = converted(a, &keep, NULL);
	size_t nx, ny, n;
	const void *x = gguf_header(a->gguf, &nx);
	const void *y = gguf_header(b->gguf, &ny);
	struct err e = { 0 };
	char *data;

	assert_ok(fd_read_file(gguf_path, 1 << 24, &data, &n, &e), &e);
	assert_int_equal(nx, ny);
	assert_memory_equal(x, y, nx);
	assert_memory_equal(data, y, ny);
	assert_int_equal(gguf_file_bytes(b->gguf), n);
	assert_null(b->layer[0][WIRE_T_Q]->data);
	free(data);
	model_close(a);
	model_close(b);
}

/* The image stores the output matrix separately if its bytes differ from those
 * of the embedding: because the two are not tied, or because the layout changes
 * the output matrix. */
static void test_output(void **state)
{
	struct model_file f = mixed;
	struct convert_opts o = keep;

	for (int i = 0; i < 4; i++) {
		struct model *a, *b;

		f.tied = i & 1;
		o.layout = i & 2 ? LAYOUT_SUPER : LAYOUT_ROWS;
		a = source(&f);
		b = converted(a, &o, NULL);
		assert_int_equal(
			image_find(b->packed->image, IMAGE_OUTPUT, 0) != NULL,
			i != 1);
		assert_int_equal(b->packed->output.rows, i == 1 ? 0 : 90);
		model_close(a);
		model_close(b);
	}
}

/* ---- matrices that stay on flash ----------------------------------------- */

#define MANY 34000u /* rows of 64 fp16 values: more than PACKED_STAYS bytes */

static void same_rows(const struct model *a, const struct model *b)
{
	static const uint32_t rows[] = { 0, 1, 63, 64, 8191, MANY - 1 };
	float x[64], y[64];
	struct err e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_ok(model_embed(a, rows[i], x, &e), &e);
		assert_ok(model_embed(b, rows[i], y, &e), &e);
		assert_memory_equal(x, y, sizeof(x));
	}
}

static void test_embedding_stays(void **state)
{
	struct model_file f = mixed;
	struct model *a, *b;
	const struct image_extent *host;
	struct err e = { 0 };
	float x[64];

	f.n_vocab = MANY;
	f.type = DTYPE_F16;
	a = source(&f);
	b = converted(a, &keep, NULL);
	host = image_find(b->packed->image, IMAGE_HOST, 0);
	assert_null(b->token_embd->data);
	assert_memory_equal(
		a->output_norm->data, b->output_norm->data, 64 * sizeof(float));
	same_rows(a, b);
	harness_flip(path, host->offset + 70 * 64 * 2);
	assert_int_equal(model_embed(b, 70, x, &e), -EBADMSG);
	assert_int_equal(model_keep_embedding(b, &e), -EBADMSG);
	assert_null(b->token_embd->data);
	harness_flip(path, host->offset + 70 * 64 * 2);
	assert_ok(model_keep_embedding(b, &e), &e);
	assert_non_null(b->token_embd->data);
	same_rows(a, b);
	model_close(a);
	model_close(b);
}

/* If the embedding is tied to the output matrix and the image stores the output
 * matrix separately, the embedding stays on flash. */
static void test_tied_embedding_stays(void **state)
{
	struct model_file f = mixed;
	struct convert_opts o = keep;

	f.n_vocab = MANY;
	f.type = DTYPE_F16;
	f.tied = true;
	for (int own = 0; own < 2; own++) {
		struct model *a = source(&f), *b;

		o.layout = own ? LAYOUT_TILES : LAYOUT_ROWS;
		b = converted(a, &o, NULL);
		assert_int_equal(b->packed->output.rows, own ? MANY : 0);
		assert_int_equal(b->token_embd->data == NULL, own);
		same_rows(a, b);
		model_close(a);
		model_close(b);
	}
}

/* The output matrix in memory, divided into parts of 1 to 9 strips (32 rows
 * each) as if it were streamed from flash. */
struct parts {
	const struct packed *packed;
	const uint8_t *data;
	uint32_t at;    /* first output row of next part */
	uint32_t fails; /* the part that cannot be read */
	unsigned held;  /* parts that are not released */
	unsigned looked;
};

static int need_part(
	void *arg, uint32_t i, struct logits_part *part, struct err *e)
{
	struct parts *p = arg;
	const struct wire_tensor *w = &p->packed->output;

	if (i == p->fails)
		return err_set(e, EBADMSG, "part %u is damaged", i);
	p->at = i ? p->at : 0;
	part->weights = p->data + layout_bytes(w->type, p->at, w->cols);
	part->n = (1 + i % 9) * TILE;
	p->at += part->n;
	p->held++;
	return 0;
}

static int part_done(void *arg, struct err *e)
{
	struct parts *p = arg;

	p->held--;
	return 0;
}

static void look(void *arg)
{
	struct parts *p = arg;

	assert_int_equal(p->held, 1);
	p->looked++;
}

/* Logits of a streamed output matrix equal those of a matrix in memory. A
 * callback runs while the logits are computed. */
static void test_output_streamed(void **state)
{
	struct model_file f = mixed;
	struct convert_opts o = keep;
	static float x[MANY], y[MANY];
	float hidden[64], *to_x = x, *to_y = y;
	const float *from = hidden;
	struct logits *lx, *ly;
	struct workers *w;
	struct model *a, *b;
	struct parts p = { .fails = UINT32_MAX };
	struct err e = { 0 };
	uint8_t *data;

	f.n_vocab = MANY;
	f.type = DTYPE_F16;
	o.layout = LAYOUT_TILES;
	a = source(&f);
	b = converted(a, &o, NULL);
	p.packed = b->packed;
	p.data = data =
		malloc(image_find(b->packed->image, IMAGE_OUTPUT, 0)->bytes);
	assert_non_null(data);
	assert_ok(packed_read(b->packed, IMAGE_OUTPUT, 0, data, &e), &e);
	for (unsigned i = 0; i < 64; i++)
		hidden[i] = (float)(rng_uniform(3, 2, i) * 2 - 1);
	for (unsigned threads = 1; threads < 3; threads++) {
		assert_ok(workers_open(&w, threads, &e), &e);
		assert_ok(logits_open(&lx, b, LAYOUT_TILES, WIRE_INT8, false, w,
				  &e),
			&e);
		assert_ok(logits_open(
				  &ly, b, LAYOUT_TILES, WIRE_INT8, true, w, &e),
			&e);
		logits_set_source(ly,
			&(struct logits_source){ need_part, part_done, &p });
		logits_set_beside(ly, &(struct logits_beside){ look, &p });
		assert_ok(logits_compute(lx, &from, &to_x, 1, &e), &e);
		for (unsigned i = 0; i < 2; i++) {
			memset(y, 0, sizeof(y));
			assert_ok(logits_compute(ly, &from, &to_y, 1, &e), &e);
			assert_memory_equal(x, y, sizeof(x));
			assert_int_equal(p.held, 0);
		}
		assert_true(p.looked > 0);
		p.fails = 3;
		assert_int_equal(
			logits_compute(ly, &from, &to_y, 1, &e), -EBADMSG);
		assert_int_equal(logits_rows(ly), 2);
		p.fails = UINT32_MAX;
		logits_close(lx);
		logits_close(ly);
		workers_close(w);
	}
	free(data);
	model_close(a);
	model_close(b);
}

/* ---- other types ---- */

/* Read row `row` of a packed matrix. */
static void packed_row(const struct wire_tensor *w, const uint8_t *layer,
	uint32_t row, float *y)
{
	const uint8_t *data = layer + w->offset;

	if (tile_info(w->type))
		row_of_tiles((enum dtype)w->type, y, data, w->cols, row);
	else
		dtype_info(w->type)->to_f32(y,
			data + row * dtype_row_bytes(w->type, w->cols),
			w->cols);
}

/* Quantize a row to conventional blocks of the type and convert it back, so
 * that the row has the values that such blocks preserve. */
static void conventional(enum dtype t, float *x, size_t k)
{
	uint8_t blocks[4096];

	dtype_info(t)->from_f32(blocks, x, k);
	dtype_info(t)->to_f32(x, blocks, k);
}

static void check_rows(const struct model *a, const struct model *b,
	uint32_t layer, unsigned i, enum dtype like)
{
	const struct gguf_tensor *t = a->layer[layer][i];
	uint8_t *data = malloc(packed_layer_bytes(b->packed, layer));
	float x[352], y[352];
	struct err e = { 0 };

	assert_ok(packed_read(b->packed, IMAGE_LAYER, layer, data, &e), &e);
	for (uint32_t r = 0; r < t->dim[1]; r++) {
		dtype_info(t->type)->to_f32(x,
			(const char *)t->data +
				r * dtype_row_bytes(t->type, t->dim[0]),
			t->dim[0]);
		conventional(like, x, t->dim[0]);
		packed_row(&b->packed->layer[layer][i], data, r, y);
		assert_memory_equal(x, y, t->dim[0] * sizeof(*x));
	}
	free(data);
}

/* In the layouts rows and tiles, a matrix has the values that result from
 * quantizing its rows in conventional blocks. */
static void test_types(void **state)
{
	static const struct {
		enum layout layout;
		int type, down;
		enum dtype is, down_is;
	} cases[] = {
		{ LAYOUT_ROWS, DTYPE_Q4_0, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q8_0 },
		{ LAYOUT_TILES, DTYPE_Q4_0, DTYPE_Q8_0, DTYPE_TILE_Q4_0,
			DTYPE_TILE_Q8_0 },
		{ LAYOUT_ROWS, DTYPE_NF4, DTYPE_FP4, DTYPE_NF4, DTYPE_FP4 },
		{ LAYOUT_TILES, DTYPE_IQ4_NL, DTYPE_MXFP4, DTYPE_IQ4_NL,
			DTYPE_MXFP4 },
		{ LAYOUT_TILES, DTYPE_F16, CONVERT_KEEP, DTYPE_TILE_F16,
			DTYPE_F32 },
		{ LAYOUT_ROWS, CONVERT_KEEP, DTYPE_F16, DTYPE_F32, DTYPE_F16 },
	};
	struct model_file f = mixed;

	f.type = DTYPE_F32;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct convert_opts o = { .layout = cases[i].layout,
			.type = cases[i].type,
			.down = cases[i].down };
		struct model *a = source(&f), *b = converted(a, &o, NULL);
		const struct wire_tensor *w = b->packed->layer[2];

		assert_int_equal(w[WIRE_T_K].type, cases[i].is);
		assert_int_equal(w[WIRE_T_GATE].type, cases[i].is);
		assert_int_equal(w[WIRE_T_DOWN].type, cases[i].down_is);
		assert_int_equal(w[WIRE_T_ATTN_NORM].type, DTYPE_F32);
		check_rows(a, b, 2, WIRE_T_UP,
			cases[i].type < 0 ? DTYPE_F32
					  : (enum dtype)cases[i].type);
		check_rows(a, b, 1, WIRE_T_DOWN,
			cases[i].down < 0 ? DTYPE_F32
					  : (enum dtype)cases[i].down);
		model_close(a);
		model_close(b);
	}
}

/* The types of the npu-tts paper (docs/papers.md): 4 bits, and 8 bits for
 * FFN-down, in super-groups. Rows whose length is not a multiple of a block
 * keep their type. */
static void test_super(void **state)
{
	struct convert_opts o = {
		.layout = LAYOUT_SUPER, .type = DTYPE_Q4_0, .down = DTYPE_Q8_0
	};
	struct model_file f = mixed;
	struct model *a, *b;

	f.type = DTYPE_F16;
	a = source(&f);
	b = converted(a, &o, NULL);
	assert_int_equal(b->packed->layer[0][WIRE_T_V].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(
		b->packed->layer[0][WIRE_T_DOWN].type, DTYPE_SUPER_Q8_0);
	assert_int_equal(b->packed->output.type, DTYPE_TILE_F16);
	model_close(a);
	model_close(b);

	f.n_ff = 120;
	a = source(&f);
	b = converted(a, &o, NULL);
	assert_int_equal(b->packed->layer[0][WIRE_T_UP].type, DTYPE_SUPER_Q4_0);
	assert_int_equal(b->packed->layer[0][WIRE_T_DOWN].type, DTYPE_F16);
	check_rows(a, b, 0, WIRE_T_DOWN, DTYPE_F16);
	model_close(a);
	model_close(b);
}

static void put_types(struct gguf_writer *w)
{
	gguf_put_file_type(w, DTYPE_F16);
	gguf_put_u32(w, "general.alignment", 32);
	gguf_put_str(w, "general.name", "kept");
}

/* The matrices of a converted GGUF file equal those of an image with the same
 * types. Tensors outside the layers, and keys that do not describe the data,
 * are copied unchanged. */
static void test_gguf(void **state)
{
	struct convert_opts o = {
		.layout = LAYOUT_TILES, .type = DTYPE_Q4_0, .down = DTYPE_Q8_0
	};
	struct model_file f = mixed;
	struct conversion done;
	struct model *a, *b, *image;
	struct workers *w;
	struct err e = { 0 };
	struct gguf_str name;
	uint64_t number;
	char to[4400];
	size_t n = 0;

	f.type = DTYPE_F16;
	f.keys = put_types;
	a = source(&f);
	image = converted(a, &o, NULL);
	o.gguf = true;
	snprintf(to, sizeof(to), "%s/m-q4.gguf", dir);
	assert_ok(convert(a, to, &o, &done, &e), &e);
	assert_ok(model_open(&b, to, NULL, NULL, &e), &e);

	assert_int_equal(gguf_n_tensors(b->gguf), gguf_n_tensors(a->gguf));
	assert_int_equal(gguf_n_kv(b->gguf), gguf_n_kv(a->gguf) - 1);
	assert_null(gguf_find(b->gguf, "general.alignment"));
	assert_int_equal(gguf_str(b->gguf, "general.name", &name, &e), 1);
	assert_true(gguf_str_is(name, "kept"));
	assert_int_equal(
		gguf_u64(b->gguf, "general.file_type", &number, &e), 1);
	assert_int_equal(number, 2);

	assert_int_equal(b->layer[1][WIRE_T_GATE]->type, DTYPE_Q4_0);
	assert_int_equal(b->layer[1][WIRE_T_DOWN]->type, DTYPE_Q8_0);
	assert_int_equal(b->token_embd->type, DTYPE_F16);
	assert_memory_equal(
		a->token_embd->data, b->token_embd->data, b->token_embd->bytes);
	assert_memory_equal(
		a->rope_freq, b->rope_freq, a->n_rot / 2 * sizeof(float));
	assert_ok(workers_open(&w, 2, &e), &e);
	compare_blocks(b, image, LAYOUT_TILES, w, 1);
	compare_logits(b, image, LAYOUT_TILES, w);
	workers_close(w);

	for (size_t i = 0; i < done.n; i++)
		n += done.tensor[i].of_device;
	assert_int_equal(n, 3 * 7);
	conversion_release(&done);
	model_close(a);
	model_close(b);
	model_close(image);
}

static const struct convert_tensor *find(
	const struct conversion *c, const struct gguf_tensor *t)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->tensor[i].tensor == t)
			return &c->tensor[i];
	fail();
	return NULL;
}

/* With 4 bits per channel, values of a row are rounded to multiples -8 to 7 or
 * -7 to 8 of an eighth of the row's largest magnitude. Only values near the
 * opposite extreme are off by more than half of this step. */
static void test_by_channel(void **state)
{
	struct convert_opts o = { .gguf = true,
		.type = DTYPE_F16,
		.down = DTYPE_F16,
		.by_channel = true,
		.measure = true };
	struct model_file f = mixed;
	struct conversion done;
	struct model *a, *b;
	struct err e = { 0 };
	char to[4400];

	f.type = DTYPE_F16;
	a = source(&f);
	snprintf(to, sizeof(to), "%s/m-rounded.gguf", dir);
	assert_ok(convert(a, to, &o, &done, &e), &e);
	assert_ok(model_open(&b, to, NULL, NULL, &e), &e);
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		const struct gguf_tensor *t = a->layer[1][i];

		if (!t || t->dim[1] == 1)
			continue;
		assert_int_equal(b->layer[1][i]->type, DTYPE_F16);
		assert_in_range(1000 * find(&done, t)->loss.error, 50, 200);
		for (uint32_t r = 0; r < t->dim[1]; r++) {
			const size_t at =
				r * dtype_row_bytes(DTYPE_F16, t->dim[0]);
			float x[352], y[352], most = 0, scale;

			dtype_info(DTYPE_F16)->to_f32(
				x, (const char *)t->data + at, t->dim[0]);
			dtype_info(DTYPE_F16)->to_f32(y,
				(const char *)b->layer[1][i]->data + at,
				t->dim[0]);
			for (uint64_t k = 0; k < t->dim[0]; k++)
				if (fabsf(x[k]) > fabsf(most))
					most = x[k];
			scale = fabsf(most) / 8;
			for (uint64_t k = 0; k < t->dim[0]; k++) {
				bool opposite = x[k] / most < -7.5f / 8;

				assert_close(remainderf(y[k], scale), 0,
					scale * 0.005f, "a multiple");
				assert_close(y[k], x[k],
					scale * (opposite ? 1.01f : 0.505f),
					"rounded");
			}
		}
	}
	assert_memory_equal(
		a->token_embd->data, b->token_embd->data, b->token_embd->bytes);
	conversion_release(&done);
	model_close(a);
	model_close(b);
}

/* ---- reported losses ---- */

static double relative_error(const struct model *a, const struct model *b,
	uint32_t layer, unsigned i, int like)
{
	const struct gguf_tensor *t = a->layer[layer][i];
	uint8_t *data = malloc(packed_layer_bytes(b->packed, layer));
	double sum = 0, error = 0;
	float x[352], y[352];
	struct err e = { 0 };

	assert_ok(packed_read(b->packed, IMAGE_LAYER, layer, data, &e), &e);
	for (uint32_t r = 0; r < t->dim[1]; r++) {
		dtype_info(t->type)->to_f32(x,
			(const char *)t->data +
				r * dtype_row_bytes(t->type, t->dim[0]),
			t->dim[0]);
		memcpy(y, x, sizeof(y));
		if (like >= 0)
			conventional((enum dtype)like, y, t->dim[0]);
		else
			packed_row(&b->packed->layer[layer][i], data, r, y);
		for (uint64_t k = 0; k < t->dim[0]; k++) {
			sum += (double)x[k] * x[k];
			error += ((double)x[k] - y[k]) * ((double)x[k] - y[k]);
		}
	}
	free(data);
	return sqrt(error / sum);
}

/* Types with a table of values keep their table in super-groups. The
 * conventional groups with which losses are compared have the same table. */
static void test_super_tables(void **state)
{
	static const enum dtype cases[][3] = {
		{ DTYPE_IQ4_NL, DTYPE_SUPER_IQ4_NL, DTYPE_IQ4_NL },
		{ DTYPE_NF4, DTYPE_SUPER_NF4, DTYPE_NF4 },
		{ DTYPE_FP4, DTYPE_SUPER_FP4, DTYPE_FP4 },
		{ DTYPE_MXFP4, DTYPE_SUPER_FP4, DTYPE_FP4 },
	};
	struct model_file f = mixed;

	f.type = DTYPE_F16;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct convert_opts o = { .layout = LAYOUT_SUPER,
			.type = cases[i][0],
			.down = DTYPE_Q8_0,
			.measure = true };
		struct conversion done;
		struct model *a = source(&f), *b = converted(a, &o, &done);
		const struct requant_loss *loss =
			&find(&done, a->layer[1][WIRE_T_Q])->loss;
		const double error = relative_error(a, b, 1, WIRE_T_Q, -1);
		const double usual =
			relative_error(a, b, 1, WIRE_T_Q, cases[i][2]);

		assert_int_equal(
			b->packed->layer[1][WIRE_T_Q].type, cases[i][1]);
		assert_close(loss->error, error, error * 1e-9, "error");
		assert_close(loss->conventional, usual, usual * 1e-9, "usual");
		conversion_release(&done);
		model_close(b);
		model_close(a);
	}
}

static void test_losses(void **state)
{
	struct convert_opts o = { .layout = LAYOUT_GROUPS,
		.type = DTYPE_Q4_0,
		.down = DTYPE_Q8_0,
		.measure = true };
	struct model_file f = mixed;
	struct conversion done;
	struct model *a, *b;

	f.type = DTYPE_BF16;
	a = source(&f);
	b = converted(a, &o, &done);
	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		const struct requant_loss *loss;
		double error, usual;

		if (!a->layer[1][i] || a->layer[1][i]->dim[1] == 1)
			continue;
		loss = &find(&done, a->layer[1][i])->loss;
		error = relative_error(a, b, 1, i, -1);
		usual = relative_error(
			a, b, 1, i, i == WIRE_T_DOWN ? DTYPE_Q8_0 : DTYPE_Q4_0);
		assert_true(error > (i == WIRE_T_DOWN ? 1e-4 : 1e-2));
		assert_true(loss->is_grouped);
		assert_close(loss->error, error, error * 1e-9, "error");
		assert_close(loss->conventional, usual, usual * 1e-9, "usual");
		assert_close(loss->ratio, error / usual, 1e-9, "ratio");
	}
	conversion_release(&done);
	model_close(b);

	/* In tiles, weights are quantized in the same blocks as in rows, so the
	 * loss equals that of rows, and there is no second loss (that of
	 * conventional groups) to compare it with. */
	o.layout = LAYOUT_TILES;
	b = converted(a, &o, &done);
	assert_false(find(&done, a->layer[0][WIRE_T_Q])->loss.is_grouped);
	assert_close(find(&done, a->layer[0][WIRE_T_Q])->loss.error,
		relative_error(a, b, 0, WIRE_T_Q, DTYPE_Q4_0), 1e-9, "tiles");
	conversion_release(&done);
	model_close(b);
	o.layout = LAYOUT_ROWS;
	b = converted(a, &o, &done);
	assert_close(find(&done, a->layer[0][WIRE_T_DOWN])->loss.error,
		relative_error(a, b, 0, WIRE_T_DOWN, DTYPE_Q8_0), 1e-9, "rows");
	conversion_release(&done);
	model_close(b);
	model_close(a);
}

/* If the matrices of the file are quantized in conventional groups, storing
 * them in tiles loses nothing, but quantizing them again in super-groups
 * does. */
static void test_losses_of_groups(void **state)
{
	struct convert_opts o = keep;
	const struct requant_loss *loss;
	struct conversion done;
	struct model *a = source(&mixed), *b;

	o.measure = true;
	o.layout = LAYOUT_TILES;
	b = converted(a, &o, &done);
	loss = &find(&done, a->layer[0][WIRE_T_Q])->loss;
	assert_true(loss->error == 0 && !loss->is_grouped);
	conversion_release(&done);
	model_close(b);
	o.layout = LAYOUT_SUPER;
	b = converted(a, &o, &done);
	loss = &find(&done, a->layer[0][WIRE_T_Q])->loss;
	assert_true(loss->is_grouped && loss->error > 0);
	assert_true(loss->conventional == 0 && isinf(loss->ratio));
	conversion_release(&done);
	model_close(b);
	model_close(a);
}

/* ---- interruption -------------------------------------------------------- */

static void test_interrupted(void **state)
{
	volatile sig_atomic_t stop = 1;
	struct convert_opts o = keep;
	struct model *a = source(&mixed);
	struct conversion done;
	struct err e = { 0 };

	o.cancel = &stop;
	assert_int_equal(convert(a, path, &o, &done, &e), -ECANCELED);
	conversion_release(&done);
	assert_int_equal(files_in(dir), 1);
	snprintf(path, sizeof(path), "%s/none/m.tdm", dir);
	assert_int_equal(convert(a, path, &keep, &done, &e), -ENOENT);
	conversion_release(&done);
	model_close(a);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_same_bytes),
	cmocka_unit_test(test_header),
	cmocka_unit_test(test_output),
	cmocka_unit_test(test_embedding_stays),
	cmocka_unit_test(test_tied_embedding_stays),
	cmocka_unit_test(test_output_streamed),
	cmocka_unit_test(test_types),
	cmocka_unit_test(test_super),
	cmocka_unit_test(test_super_tables),
	cmocka_unit_test(test_gguf),
	cmocka_unit_test(test_by_channel),
	cmocka_unit_test(test_losses),
	cmocka_unit_test(test_losses_of_groups),
	cmocka_unit_test(test_interrupted),
};

TEST_FILE(tests)
