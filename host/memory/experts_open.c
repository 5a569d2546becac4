#include "host/memory/experts_impl.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "host/model/packed_format.h"
#include "host/trace/trace.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Total bytes of the reads in flight, if the caller does not give the number of
 * reads in flight. 16 MiB are enough for the full speed of flash, and few
 * enough that the first expert of a layer is complete long before the layer's
 * last expert. */
#define IN_FLIGHT ((size_t)16 << 20)
#define DEPTH_MIN 8u

/* ---- layout ---- */

uint64_t experts_tensors(const struct model *m, enum layout layout,
	size_t strip_max, uint32_t layer,
	struct wire_tensor tensor[WIRE_T_COUNT])
{
	uint64_t at = 0;

	for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
		const struct gguf_tensor *t = m->layer[layer][i];
		struct wire_tensor *w = &tensor[i];

		*w = (struct wire_tensor){ 0 };
		if (i < WIRE_T_GATE)
			continue;
		w->rows = (uint32_t)t->dim[1];
		w->cols = (uint32_t)t->dim[0];
		w->type = layer < m->layers_packed
			? m->packed->layer[layer][i].type
			: layout_type(layout, t->type, w->cols, strip_max);
		w->offset = (uint32_t)at;
		at = align_up(at + layout_bytes(w->type, w->rows, w->cols),
			PACKED_ALIGN);
	}
	return at;
}

size_t experts_slot_bytes(
	const struct model *m, enum layout layout, size_t strip_max)
{
	struct wire_tensor tensor[WIRE_T_COUNT];
	uint64_t most = 0;

	for (uint32_t l = 0; l < m->n_layer; l++) {
		uint64_t bytes =
			experts_tensors(m, layout, strip_max, l, tensor);

		most = bytes > most ? bytes : most;
	}
	return (size_t)align_up(most, IMAGE_PAGE);
}

/* ---- opening ---- */

static int open_buffers(struct experts *x, struct workers *w, struct err *e)
{
	char name[BUFFER_NAME_MAX];

	if (x->slot_bytes > BUFFER_MAX)
		return err_set(e, EFBIG,
			"an expert has %zu MiB of weights, but a shared "
			"buffer holds at most %zu MiB",
			x->slot_bytes >> 20, BUFFER_MAX >> 20);
	x->per_buffer = (uint32_t)(BUFFER_MAX / x->slot_bytes);
	x->buffer = calloc(
		(x->slots - 1) / x->per_buffer + 1, sizeof(struct buffer *));
	if (!x->buffer)
		return err_set(e, ENOMEM, "no memory for experts");
	for (uint32_t at = 0; at < x->slots; at += x->per_buffer) {
		uint32_t n = x->slots - at;
		struct buffer **b = &x->buffer[x->buffers];
		int ret;

		n = n < x->per_buffer ? n : x->per_buffer;
		snprintf(name, sizeof(name), "experts%u", x->buffers);
		ret = buffer_create(b, name, n * x->slot_bytes,
			BUFFER_DMA | BUFFER_HUGE, e);
		if (ret)
			return ret;
		x->buffers++;
		buffer_take_memory(*b, w);
	}
	return 0;
}

/* Record in the trace that a read was submitted or, if `back` is set,
 * completed. */
static void trace_read(
	void *arg, unsigned lane, bool back, uint64_t offset, uint64_t bytes)
{
	struct experts *x = arg;

	trace_flash_read(
		x->opts.trace, &x->in_flight, lane, back, offset, bytes);
}

static int open_stream(struct experts *x, struct err *e)
{
	struct stream_opts o = x->opts.stream;
	size_t block = o.block ? o.block : STREAM_BLOCK_DEFAULT;
	int ret;

	if (!o.depth) {
		block = block < x->slot_bytes ? block : x->slot_bytes;
		o.depth = (unsigned)(IN_FLIGHT / block);
		o.depth = o.depth < DEPTH_MIN ? DEPTH_MIN : o.depth;
		o.depth =
			o.depth > STREAM_DEPTH_MAX ? STREAM_DEPTH_MAX : o.depth;
	}
	if (x->opts.trace) {
		o.on_read = trace_read;
		o.on_read_arg = x;
	}
	ret = stream_open(&x->stream, x->opts.model->packed->image, &o, e);
	if (ret)
		x->stream = NULL;
	for (uint32_t i = 0; i < x->slots && !ret; i++) {
		size_t at;
		struct buffer *b = buffer_of(x, i, &at);

		ret = stream_add_slot(x->stream, b, at, x->slot_bytes, e);
	}
	return ret;
}

/* Copy the matrices of an expert from a GGUF file to its slot. */
static void load_expert(
	struct experts *x, struct workers *workers, uint32_t expert)
{
	const struct model *m = x->opts.model;
	const struct gguf_tensor *const *layer = m->layer[expert / m->n_expert];
	struct wire_tensor to[WIRE_T_COUNT];
	size_t at;
	struct buffer *b = buffer_of(x, expert, &at);
	uint8_t *dst = buffer_begin(b, at, x->slot_bytes, BUFFER_WRITE);

	experts_tensors(
		m, x->opts.layout, x->opts.strip_max, expert / m->n_expert, to);
	for (unsigned i = WIRE_T_GATE; i < WIRE_T_COUNT; i++) {
		size_t bytes = to[i].rows *
			dtype_row_bytes(layer[i]->type, to[i].cols);
		const char *src = layer[i]->data;

		x->not_finite += layout_pack(workers, to[i].type,
			dst + to[i].offset,
			(struct layout_source){ layer[i]->type,
				src + expert % m->n_expert * bytes, m->gguf },
			to[i].rows, to[i].cols);
	}
	buffer_end(b, at, x->slot_bytes, BUFFER_WRITE);
}

/* Load all experts, expert i into slot i. */
static int load_all(struct experts *x, struct workers *workers,
	const struct progress_sink *progress, struct err *e)
{
	int ret = 0;

	for (uint32_t i = 0; i < x->slots && x->stream && !ret; i++)
		ret = stream_begin(x->stream, i, extent_of(x, i), e);
	for (uint32_t i = 0; i < x->slots && !ret; i++) {
		if (x->stream)
			ret = stream_wait(x->stream, i, e);
		else
			load_expert(x, workers, i);
		x->slot[i].state = SLOT_READY;
		x->slot[i].owner = x->expert[i].slot = i;
		progress_report(progress, "loading experts", i + 1, x->slots);
	}
	progress_report(progress, NULL, 0, 0);
	if (ret)
		return ret;
	stream_close(x->stream);
	x->stream = NULL;
	return 0;
}

int experts_open(struct experts **out, const struct experts_opts *opts,
	struct workers *workers, const struct progress_sink *progress,
	struct err *e)
{
	const struct model *m = opts->model;
	const uint32_t all = m->n_layer * m->n_expert;
	struct experts *x;
	int ret;

	if (opts->slots < all && !m->layers_packed)
		return err_set(e, EINVAL,
			"there is memory for %u of %u experts; to read the "
			"others while the model runs, Tandem needs a flash "
			"image: make one with 'tandem convert', or raise "
			"--dram-budget",
			opts->slots, all);
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(e, ENOMEM, "no memory for experts");
	x->opts = *opts;
	x->slots = opts->slots < all ? opts->slots : all;
	x->slot_bytes = experts_slot_bytes(m, opts->layout, opts->strip_max);
	x->slot = calloc(x->slots, sizeof(*x->slot));
	x->expert = calloc(all, sizeof(*x->expert));
	ret = x->slot && x->expert
		? open_buffers(x, workers, e)
		: err_set(e, ENOMEM, "no memory for experts");
	for (uint32_t i = 0; i < all && !ret; i++)
		x->expert[i].slot = EXPERT_ABSENT;
	if (!ret && m->layers_packed)
		ret = open_stream(x, e);
	if (!ret && x->slots == all)
		ret = load_all(x, workers, progress, e);
	if (ret)
		experts_close(x);
	else
		*out = x;
	return ret;
}

void experts_close(struct experts *x)
{
	if (!x)
		return;
	/* If a read has not completed, the kernel may still write into the slot
	 * of the read, so the buffers are not freed. */
	if (stream_close(x->stream))
		for (unsigned i = 0; i < x->buffers; i++)
			buffer_close(x->buffer[i]);
	free(x->buffer);
	free(x->expert);
	free(x->slot);
	free(x);
}

unsigned experts_buffers(const struct experts *x)
{
	return x->buffers;
}

struct buffer *experts_buffer(const struct experts *x, unsigned i)
{
	return x->buffer[i];
}

uint64_t experts_not_finite(const struct experts *x)
{
	return x->not_finite;
}
