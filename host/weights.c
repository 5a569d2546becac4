#include "host/weights.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "host/model/model.h"
#include "shm/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64

static struct wire_tensor place(const struct gguf_tensor *t, uint64_t *at)
{
	struct wire_tensor w = { 0 };

	if (!t)
		return w;
	w.type = t->type;
	w.rows = (uint32_t)t->dim[1];
	w.cols = (uint32_t)t->dim[0];
	w.offset = (uint32_t)*at;
	*at = align_up(*at + t->bytes, ALIGN);
	return w;
}

/*
 * The bytes of layers [first, first + n) in one buffer. The tensors' sizes
 * were checked against the file, so their sum cannot overflow.
 */
static uint64_t block_bytes(const struct model *m, uint32_t first, uint32_t n)
{
	uint64_t bytes = align_up(m->n_rot / 2 * sizeof(float), ALIGN);

	for (uint32_t l = first; l < first + n; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			if (m->layer[l][i])
				bytes += align_up(m->layer[l][i]->bytes, ALIGN);
	return bytes;
}

static uint32_t first_of(const struct model *m, uint32_t n, uint32_t block)
{
	return (uint32_t)((uint64_t)block * m->n_layer / n);
}

static uint64_t largest_block(const struct model *m, uint32_t n)
{
	uint64_t most = 0;

	for (uint32_t b = 0; b < n; b++) {
		uint32_t first = first_of(m, n, b);
		uint64_t bytes =
			block_bytes(m, first, first_of(m, n, b + 1) - first);

		most = bytes > most ? bytes : most;
	}
	return most;
}

static int lay_out(const struct model *m, struct block *b, struct err *e)
{
	uint64_t at = align_up(m->n_rot / 2 * sizeof(float), ALIGN);
	uint64_t bytes = block_bytes(m, b->first_layer, b->n_layers);

	if (bytes > BUFFER_MAX)
		return err_set(e, EFBIG,
			"layer %u has %llu MiB of weights; a shared buffer "
			"holds at most %zu MiB",
			b->first_layer, (unsigned long long)(bytes >> 20),
			BUFFER_MAX >> 20);
	b->bytes = (uint32_t)bytes;
	b->rope_freq = (struct wire_tensor){
		.type = DTYPE_F32, .rows = 1, .cols = m->n_rot / 2
	};
	b->tensor = calloc(b->n_layers, sizeof(*b->tensor));
	if (!b->tensor)
		return err_set(e, ENOMEM, "no memory for a block's layout");
	for (uint32_t l = 0; l < b->n_layers; l++)
		for (unsigned i = 0; i < WIRE_T_COUNT; i++)
			b->tensor[l][i] =
				place(m->layer[b->first_layer + l][i], &at);
	return 0;
}

int weights_cut(const struct model *m, uint32_t want, uint64_t limit,
	struct block **blocks, uint32_t *n_blocks, struct err *e)
{
	uint32_t n = want < m->n_layer ? want : m->n_layer;
	struct block *b;

	while (n < m->n_layer && largest_block(m, n) > limit)
		n++;
	b = calloc(n, sizeof(*b));
	if (!b)
		return err_set(e, ENOMEM, "no memory for %u blocks", n);
	for (uint32_t i = 0; i < n; i++) {
		int ret;

		b[i].first_layer = first_of(m, n, i);
		b[i].n_layers = first_of(m, n, i + 1) - b[i].first_layer;
		ret = lay_out(m, &b[i], e);
		if (ret) {
			weights_release(b, n);
			return ret;
		}
	}
	*blocks = b;
	*n_blocks = n;
	return 0;
}

static void fill(const struct model *m, const struct block *b, uint8_t *dst)
{
	memcpy(dst, m->rope_freq, m->n_rot / 2 * sizeof(float));
	for (uint32_t l = 0; l < b->n_layers; l++) {
		for (unsigned i = 0; i < WIRE_T_COUNT; i++) {
			const struct gguf_tensor *t =
				m->layer[b->first_layer + l][i];

			if (t)
				memcpy(dst + b->tensor[l][i].offset, t->data,
					t->bytes);
		}
	}
}

static int load_block(
	const struct model *m, struct block *b, uint32_t index, struct err *e)
{
	char name[BUFFER_NAME_MAX];
	int ret;

	snprintf(name, sizeof(name), "weights%u", index);
	ret = buffer_create(
		&b->buffer, name, b->bytes, BUFFER_DMA | BUFFER_HUGE, e);
	if (ret) {
		b->buffer = NULL;
		return ret;
	}
	fill(m, b, buffer_begin(b->buffer, 0, b->bytes, BUFFER_WRITE));
	buffer_end(b->buffer, 0, b->bytes, BUFFER_WRITE);
	return 0;
}

int weights_load(
	const struct model *m, struct block *blocks, uint32_t n, struct err *e)
{
	struct progress p;
	int ret = 0;

	progress_begin(&p, "loading weights", n);
	for (uint32_t i = 0; i < n && !ret; i++) {
		ret = load_block(m, &blocks[i], i, e);
		progress_at(&p, i + 1);
	}
	progress_end(&p);
	return ret;
}

void weights_release(struct block *blocks, uint32_t n)
{
	for (uint32_t i = 0; blocks && i < n; i++) {
		buffer_close(blocks[i].buffer);
		free(blocks[i].tensor);
	}
	free(blocks);
}
