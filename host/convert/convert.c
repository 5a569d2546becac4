#include "host/convert/convert.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "base/workers.h"
#include "flash/image_write.h"
#include "host/model/model.h"
#include "host/model/packed_format.h"
#include "shm/buffer.h"
#include "tensor/gguf_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct extent {
	enum image_kind kind;
	uint32_t index;
	/* The extent (a contiguous part of the image) consists of the tensors
	 * [first, first + n) of conversion.tensor. The extents of all experts
	 * of a layer refer to the same tensors. */
	size_t first, n;
	uint32_t expert; /* number of the expert within its layer */
	uint64_t bytes;
};

struct convert {
	const struct model *model;
	const struct convert_opts *opts;
	struct conversion *out;
	struct workers *workers;
	struct image_writer *writer;
	/* extent[0] is the metadata, which has no tensors */
	struct extent *extent;
	uint32_t n_extents;
	/* buffer with room for the contents of the largest extent */
	uint8_t *buffer;
	/* total: bytes of all extents; done: bytes written so far */
	uint64_t total;
	uint64_t done;
};

/* ---- planning the extents ------------------------------------------------ */

static void begin_extent(struct convert *c, enum image_kind kind, uint32_t i)
{
	c->extent[c->n_extents++] =
		(struct extent){ kind, i, c->out->n, 0, 0, 0 };
}

/* Whether tensor `i` of a layer is copied unchanged: vectors, and the router,
 * because it is small and the choice of experts depends on its precision. */
static bool is_copied(const struct gguf_tensor *t, unsigned i)
{
	return t->dim[1] == 1 || i == WIRE_T_ROUTER;
}

static void add(struct convert *c, const struct gguf_tensor *t, enum dtype type,
	bool of_device)
{
	struct extent *x = &c->extent[c->n_extents - 1];
	uint64_t bytes =
		layout_bytes(type, (uint32_t)t->dim[1], (uint32_t)t->dim[0]);

	c->out->tensor[c->out->n++] = (struct convert_tensor){
		.tensor = t,
		.type = type,
		.of_device = of_device,
		.extent = c->n_extents - 1,
		.offset = x->bytes,
		.bytes = bytes,
	};
	x->n++;
	x->bytes = align_up(x->bytes + bytes, PACKED_ALIGN);
}

static enum dtype layer_type(
	const struct convert *c, const struct gguf_tensor *t, unsigned i)
{
	bool down = i == WIRE_T_DOWN || i == WIRE_T_SHARED_DOWN;
	int want = down ? c->opts->down : c->opts->type;
	enum dtype type = t->type;

	if (is_copied(t, i))
		want = CONVERT_KEEP;
	if (want != CONVERT_KEEP && dtype_row_bytes((uint32_t)want, t->dim[0]))
		type = (enum dtype)want;
	return c->opts->gguf || t->dim[1] == 1
		? type
		: layout_type(
			  c->opts->layout, type, (uint32_t)t->dim[0], SIZE_MAX);
}

static void add_tensors(
	struct convert *c, uint32_t layer, unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++) {
		const struct gguf_tensor *t = c->model->layer[layer][i];

		if (t)
			add(c, t, layer_type(c, t, i), !is_copied(t, i));
	}
}

static int plan(struct convert *c, struct err *e)
{
	const struct model *m = c->model;
	const struct gguf_tensor *rope, *t = m->output;
	uint64_t most = BUFFER_MAX -
		align_up(m->n_rot / 2 * sizeof(float), PACKED_ALIGN);
	enum dtype type;

	/* Add 1, because the embedding may be written twice: unchanged for the
	 * host, and as the output matrix. */
	c->out->tensor =
		calloc(gguf_n_tensors(m->gguf) + 1, sizeof(*c->out->tensor));
	c->extent = calloc(
		(size_t)m->n_layer * (1 + m->n_expert) + 3, sizeof(*c->extent));
	if (!c->out->tensor || !c->extent)
		return err_set(e, ENOMEM, "no memory for the image's table");
	begin_extent(c, IMAGE_METADATA, 0);

	rope = gguf_tensor(m->gguf, "rope_freqs.weight");
	begin_extent(c, IMAGE_HOST, 0);
	add(c, m->token_embd, m->token_embd->type, false);
	add(c, m->output_norm, m->output_norm->type, false);
	if (rope)
		add(c, rope, rope->type, false);

	/* If the model uses the embedding as its output matrix, and the type of
	 * the matrix does not change, the image needs no separate output
	 * matrix. */
	type = layout_type(
		c->opts->layout, t->type, (uint32_t)t->dim[0], SIZE_MAX);
	if (t != m->token_embd || type != t->type) {
		begin_extent(c, IMAGE_OUTPUT, 0);
		add(c, t, type, true);
	}

	for (uint32_t l = 0; l < m->n_layer; l++) {
		begin_extent(c, IMAGE_LAYER, l);
		add_tensors(c, l, 0, m->n_expert ? WIRE_T_GATE : WIRE_T_COUNT);
	}
	for (uint32_t i = 0; i < m->n_layer * m->n_expert; i++) {
		if (i % m->n_expert == 0) {
			begin_extent(c, IMAGE_EXPERT, i);
			add_tensors(
				c, i / m->n_expert, WIRE_T_GATE, WIRE_T_COUNT);
			continue;
		}
		c->extent[c->n_extents] = c->extent[c->n_extents - 1];
		c->extent[c->n_extents].index = i;
		c->extent[c->n_extents++].expert = i % m->n_expert;
	}
	for (uint32_t i = 0; i < c->n_extents; i++) {
		const struct extent *x = &c->extent[i];
		char name[32];

		if (x->kind >= IMAGE_LAYER && x->bytes > most)
			return err_set(e, EFBIG,
				"%s has %llu MiB of weights; a shared buffer "
				"holds at most %zu MiB",
				image_extent_name(
					x->kind, x->index, name, sizeof(name)),
				(unsigned long long)(x->bytes >> 20),
				BUFFER_MAX >> 20);
	}
	return 0;
}

/* ---- writing an image ---- */

static int alloc_buffer(struct convert *c, uint64_t bytes, struct err *e)
{
	c->buffer = aligned_alloc(PACKED_ALIGN, bytes);
	return c->buffer
		? 0
		: err_set(e, ENOMEM, "no memory to convert %llu MiB at a time",
			  (unsigned long long)(bytes >> 20));
}

/* Convert matrix number `i` of a tensor, and write it to its position in the
 * buffer. */
static int fill(
	struct convert *c, struct convert_tensor *t, uint64_t i, struct err *e)
{
	const struct gguf_tensor *from = t->tensor;
	uint32_t n = (uint32_t)from->dim[1], k = (uint32_t)from->dim[0];
	const uint8_t *src = (const uint8_t *)from->data +
		i * n * dtype_row_bytes(from->type, k);
	uint8_t *dst = c->buffer + t->offset;

	if (c->opts->cancel && *c->opts->cancel)
		return err_set(e, ECANCELED, "interrupted");
	if (layout_pack(c->workers, from->type, NULL,
		    (struct layout_source){ from->type, src }, n, k))
		return err_set(e, EDOM,
			"tensor '%.*s' has weights that are infinite or not a "
			"number; download or make the model file again",
			(int)from->name.len, from->name.data);
	requant(c->workers, t->type, dst, from->type, src, n, k,
		c->opts->by_channel && t->of_device);
	if (c->opts->measure &&
		requant_measure(c->workers, &t->loss, t->type, dst, from->type,
			src, n, k))
		return err_set(e, ENOMEM, "no memory to measure '%.*s'",
			(int)from->name.len, from->name.data);
	c->done += t->bytes;
	progress_report(&c->opts->progress, "converting", c->done, c->total);
	return 0;
}

static int write_all(struct convert *c, struct err *e)
{
	uint64_t largest = 0;
	int ret;
	static const char zeros[8];
	struct packed_head head;
	struct strbuf b;
	size_t size;
	const void *header;
	const struct gguf_tensor *first;

	for (uint32_t i = 1; i < c->n_extents; i++) {
		c->total += c->extent[i].bytes;
		if (c->extent[i].bytes > largest)
			largest = c->extent[i].bytes;
	}
	ret = alloc_buffer(c, largest, e);
	if (ret)
		return ret;
	progress_report(&c->opts->progress, "converting", 0, c->total);

	head = (struct packed_head){
		.version = PACKED_VERSION,
		.layout = (uint32_t)c->opts->layout,
		.file_bytes = gguf_file_bytes(c->model->gguf),
		.n_tensors = (uint32_t)c->out->n,
	};
	b = (struct strbuf)STRBUF_INIT;
	header = gguf_header(c->model->gguf, &size);
	first = gguf_tensor_at(c->model->gguf, 0);
	head.header_bytes = size;
	head.table = align_up(sizeof(head) + size, sizeof(zeros));
	strbuf_add(&b, &head, sizeof(head));
	strbuf_add(&b, header, size);
	strbuf_add(&b, zeros, head.table - b.len);

	for (size_t i = 0; i < c->out->n; i++) {
		const struct convert_tensor *t = &c->out->tensor[i];
		struct packed_entry entry = {
			.tensor = (uint32_t)(t->tensor - first),
			.extent = t->extent,
			.type = t->type,
			.rows = (uint32_t)t->tensor->dim[1],
			.cols = (uint32_t)t->tensor->dim[0],
			.offset = t->offset,
		};

		strbuf_add(&b, &entry, sizeof(entry));
	}

	ret = b.failed
		? err_set(e, ENOMEM, "no memory for the image's metadata")
		: image_write(c->writer, IMAGE_METADATA, 0, b.data, b.len, e);
	strbuf_release(&b);

	for (uint32_t i = 1; i < c->n_extents && !ret; i++) {
		const struct extent *x = &c->extent[i];

		/* zero the gaps between tensors */
		memset(c->buffer, 0, x->bytes);
		for (size_t k = 0; k < x->n && !ret; k++)
			ret = fill(
				c, &c->out->tensor[x->first + k], x->expert, e);
		if (!ret)
			ret = image_write(c->writer, x->kind, x->index,
				c->buffer, x->bytes, e);
	}
	progress_report(&c->opts->progress, NULL, 0, 0);
	return ret ? ret : image_writer_commit(c->writer, e);
}

/* ---- writing a GGUF file ---- */

static void put_keys(const struct convert *c, struct gguf_writer *w)
{
	const struct gguf *g = c->model->gguf;
	bool retyped = c->opts->type != CONVERT_KEEP;

	for (size_t i = 0; i < gguf_n_kv(g); i++) {
		const struct gguf_kv *kv = gguf_kv_at(g, i);

		/* Leave out this key: the writer uses the default alignment. */
		if (gguf_str_is(kv->key, "general.alignment"))
			continue;
		if (retyped &&
			(gguf_str_is(kv->key, "general.file_type") ||
				gguf_str_is(kv->key,
					"general.quantization_version")))
			continue;
		gguf_put_kv(w, kv);
	}
	if (retyped)
		gguf_put_file_type(w, (enum dtype)c->opts->type);
}

static int write_gguf(struct convert *c, const char *path, struct err *e)
{
	const struct model *m = c->model;
	const struct gguf *g = m->gguf;
	struct gguf_writer *w = NULL;
	struct conversion *out = c->out;
	uint64_t largest = 0;
	int ret;

	out->tensor = calloc(gguf_n_tensors(g), sizeof(*out->tensor));
	if (!out->tensor)
		return err_set(e, ENOMEM, "no memory for a table of tensors");
	ret = gguf_writer_open(&w, path, e);
	if (ret)
		return ret;
	put_keys(c, w);
	for (size_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		struct convert_tensor *to = &out->tensor[out->n++];
		/* A name that is truncated here is still too long for ggml, so
		 * the writer refuses the name. */
		char name[80];

		*to = (struct convert_tensor){ .tensor = t, .type = t->type };
		for (uint32_t l = 0; l < m->n_layer; l++)
			for (unsigned k = 0; k < WIRE_T_COUNT; k++)
				if (m->layer[l][k] == t) {
					to->type = layer_type(c, t, k);
					to->of_device = !is_copied(t, k);
				}
		to->bytes = layout_bytes(
			to->type, (uint32_t)t->dim[1], (uint32_t)t->dim[0]);
		snprintf(name, sizeof(name), "%.*s", (int)t->name.len,
			t->name.data);
		gguf_put_tensor(w, name, to->type, t->n_dims, t->dim);
		c->total += to->bytes * t->dim[2] * t->dim[3];
		largest = to->bytes > largest ? to->bytes : largest;
	}
	ret = alloc_buffer(c, align_up(largest, PACKED_ALIGN), e);
	for (size_t i = 0; i < out->n; i++) {
		struct convert_tensor *t = &out->tensor[i];
		uint64_t matrices = t->tensor->dim[2] * t->tensor->dim[3];

		for (uint64_t k = 0; k < matrices && !ret; k++) {
			ret = fill(c, t, k, e);
			if (!ret)
				ret = gguf_write_data(
					w, c->buffer, t->bytes, e);
		}
	}
	progress_report(&c->opts->progress, NULL, 0, 0);
	if (!ret)
		ret = gguf_writer_commit(w, e);
	gguf_writer_close(w);
	return ret;
}

/* ---- converting ---- */

int convert(const struct model *m, const char *path,
	const struct convert_opts *o, struct conversion *out, struct err *e)
{
	struct convert c = { .model = m, .opts = o, .out = out };
	struct image_write_opts w = { .zstd = o->zstd,
		.threads = workers_online(),
		.cancel = o->cancel };
	int ret;

	*out = (struct conversion){ 0 };
	ret = workers_open(&c.workers, w.threads, e);
	if (!ret && o->gguf) {
		ret = write_gguf(&c, path, e);
	} else if (!ret) {
		ret = plan(&c, e);
		out->n_extents = w.n_extents = c.n_extents;
		if (!ret)
			ret = image_writer_open(&c.writer, path, &w, e);
		if (!ret)
			ret = write_all(&c, e);
	}
	image_writer_close(c.writer);
	workers_close(c.workers);
	free(c.extent);
	free(c.buffer);
	return ret;
}

void conversion_release(struct conversion *c)
{
	free(c->tensor);
	*c = (struct conversion){ 0 };
}
