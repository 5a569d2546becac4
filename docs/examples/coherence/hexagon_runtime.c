/*
 * A small runtime in the style of runtimes for Hexagon DSPs, built with
 * shm/coherence/hexagon, which replaces functions of the Hexagon SDK. The host
 * sends one message for each token with dspqueue. The DSP adds two vectors with
 * its cores, fetches the sum by DMA to its local memory (VTCM), normalizes the
 * sum there and writes the output. The code has three bugs; with the argument
 * "right" the program runs the corrected code:
 *
 *   1. The host sends tensor POSITION without INVALIDATE_RECIPIENT, so for the
 *      second token the DSP still reads the cache lines of the first token.
 *   2. The DSP cleans the cache lines of the sum only when it sends its answer,
 *      after the DMA has read the sum from memory.
 *   3. The DSP squares the vector in VTCM before dmwait, which waits until the
 *      DMA has written this vector.
 */
#include "AEEStdErr.h"
#include "HAP_vtcm_mgr.h"
#include "dspqueue.h"
#include "hexagon_protos.h"
#include "hexagon_types.h"
#include "qurt_memory.h"
#include "remote.h"
#include "rpcmem.h"
#include "tandem_coherence.h"
#include "tandem_hexagon.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOATS 256
#define BYTES  (FLOATS * sizeof(float))
#define TOKENS 2

struct message {
	uint32_t token, floats;
};

enum { INPUT, POSITION, SUM, OUTPUT, TENSORS };

static bool right;

/* ---- the DSP ------------------------------------------------------------- */

struct dsp {
	dspqueue_t queue;
	float *vtcm;
};

static void add(const struct dspqueue_buffer *t, unsigned n)
{
	const float *input, *position;
	float *sum;

	HEX_OPERATOR("add", -1);
	input = HEX_READ(t[INPUT].ptr, n * sizeof(float));
	position = HEX_READ(t[POSITION].ptr, n * sizeof(float));
	sum = HEX_WRITE(t[SUM].ptr, n * sizeof(float));
	for (unsigned i = 0; i < n; i++)
		sum[i] = input[i] + position[i];
	if (right)
		qurt_mem_cache_clean((qurt_addr_t)t[SUM].ptr, t[SUM].size,
			QURT_MEM_CACHE_FLUSH, QURT_MEM_DCACHE);
}

static float sum_of_squares(const float *vtcm, unsigned n)
{
	const float *x = HEX_READ(vtcm, n * sizeof(float));
	float s = 0;

	for (unsigned i = 0; i < n; i++)
		s += x[i] * x[i];
	return s;
}

static void normalize(
	struct dsp *dsp, const struct dspqueue_buffer *t, unsigned n)
{
	hexagon_udma_descriptor_type1_t fetch = {
		.desctype = HEXAGON_UDMA_DESC_DESCTYPE_TYPE1,
		.srcbypass = HEXAGON_UDMA_DESC_BYPASS_ON,
		.src = t[SUM].ptr,
		.dst = dsp->vtcm,
		.roiwidth = (uint16_t)(n * sizeof(float)),
		.roiheight = 1,
	};
	float squares, *output;
	const float *x;

	HEX_OPERATOR("normalize", -1);
	Q6_dmstart_A(&fetch);
	if (right)
		Q6_R_dmwait();
	squares = sum_of_squares(dsp->vtcm, n);
	if (!right)
		Q6_R_dmwait();
	x = HEX_READ(dsp->vtcm, n * sizeof(float));
	output = HEX_WRITE(t[OUTPUT].ptr, n * sizeof(float));
	for (unsigned i = 0; i < n; i++)
		output[i] = x[i] / sqrtf(squares / (float)n + 1e-6f);
}

static void answer(dspqueue_t queue, const struct dspqueue_buffer *t,
	const struct message *m)
{
	struct dspqueue_buffer back[TENSORS];

	for (unsigned i = 0; i < TENSORS; i++) {
		back[i] = t[i];
		back[i].flags = DSPQUEUE_BUFFER_FLAG_DEREF;
	}
	if (!right)
		back[SUM].flags |= DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER;
	back[OUTPUT].flags |= DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER |
		DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT;
	dspqueue_write(queue, 0, TENSORS, back, sizeof(*m), (const uint8_t *)m,
		DSPQUEUE_TIMEOUT_NONE);
}

/* Callback of the DSP's queue: run the operators add and normalize for each
 * message, and answer the message. */
static void serve(dspqueue_t queue, int error, void *context)
{
	struct dspqueue_buffer t[TENSORS];
	struct dsp *dsp = context;
	struct message m;
	uint32_t flags, buffers, bytes;

	while (!dspqueue_read_noblock(queue, &flags, TENSORS, &buffers, t,
		sizeof(m), &bytes, (uint8_t *)&m)) {
		add(t, m.floats);
		normalize(dsp, t, m.floats);
		answer(queue, t, &m);
	}
}

/* ---- the host ------------------------------------------------------------ */

static float *tensor[TENSORS];

static void send_token(dspqueue_t queue, uint32_t token)
{
	struct message m = { token, FLOATS };
	struct dspqueue_buffer t[TENSORS] = { 0 };

	for (unsigned i = 0; i < FLOATS; i++) {
		tensor[INPUT][i] = (float)(i % 7) + (float)token;
		tensor[POSITION][i] = (float)(i * token % 5);
	}
	for (unsigned i = 0; i < TENSORS; i++) {
		t[i].fd = (uint32_t)rpcmem_to_fd(tensor[i]);
		t[i].ptr = tensor[i];
		t[i].size = BYTES;
		t[i].flags = DSPQUEUE_BUFFER_FLAG_REF;
	}
	t[INPUT].flags |= DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER |
		DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT;
	t[POSITION].flags |= DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER;
	if (right)
		t[POSITION].flags |= DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT;
	dspqueue_write(queue, 0, TENSORS, t, sizeof(m), (uint8_t *)&m,
		DSPQUEUE_TIMEOUT_NONE);
}

/* The largest absolute error of an element of the output. */
static float largest_error(void)
{
	float squares = 0, error = 0, wanted;

	for (unsigned i = 0; i < FLOATS; i++) {
		wanted = tensor[INPUT][i] + tensor[POSITION][i];
		squares += wanted * wanted;
	}
	for (unsigned i = 0; i < FLOATS; i++) {
		wanted = (tensor[INPUT][i] + tensor[POSITION][i]) /
			sqrtf(squares / FLOATS + 1e-6f);
		error = fmaxf(error, fabsf(wanted - tensor[OUTPUT][i]));
	}
	return error;
}

static void receive(dspqueue_t queue, int error, void *context)
{
	struct dspqueue_buffer t[TENSORS];
	struct message m;
	uint32_t flags, buffers, bytes;

	while (!dspqueue_read_noblock(queue, &flags, TENSORS, &buffers, t,
		sizeof(m), &bytes, (uint8_t *)&m))
		printf("token %u is %s\n", m.token,
			largest_error() < 1e-3f ? "right" : "wrong");
}

static void report(void *arg, const char *text)
{
	printf("%s\n", text);
}

int main(int argc, char **argv)
{
	struct coherence_config config = { .level = COHERENCE_CHECK,
		.report = report };
	dspqueue_t queue;
	struct dsp dsp;
	uint64_t id;

	right = argc > 1 && !strcmp(argv[1], "right");
	if (tandem_hexagon_open(&config))
		return 2;
	for (unsigned i = 0; i < TENSORS; i++)
		if (!(tensor[i] = rpcmem_alloc(RPCMEM_HEAP_ID_SYSTEM,
			      RPCMEM_DEFAULT_FLAGS, BYTES)))
			return 2;
	dsp.vtcm = HAP_request_VTCM(BYTES, 1);
	if (!dsp.vtcm ||
		dspqueue_create(CDSP_DOMAIN_ID, 0, 4096, 4096, receive, NULL,
			NULL, &queue) ||
		dspqueue_export(queue, &id) ||
		dspqueue_import(id, serve, NULL, &dsp, &dsp.queue))
		return 2;
	memset(dsp.vtcm, 0, BYTES);
	for (uint32_t token = 1; token <= TOKENS; token++)
		send_token(queue, token);
	dspqueue_close(dsp.queue);
	dspqueue_close(queue);
	HAP_release_VTCM(dsp.vtcm);
	for (unsigned i = 0; i < TENSORS; i++)
		rpcmem_free(tensor[i]);
	return tandem_hexagon_close() > 0;
}
