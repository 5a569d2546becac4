/*
 * A device inside the test process, with the table of operations that
 * host/npu/npu.h uses. The device stores buffers, maps them into a window with
 * holes, guard pages and a limited number of mappings (slots) like that of the
 * real device, and stores graphs. The device computes a request
 * (fake_compute.h) when the host receives the answer. A test can make the
 * device forge an answer, spoil computed states, or be lost.
 */
#ifndef TESTS_HOST_NPU_FAKE_DEVICE_H
#define TESTS_HOST_NPU_FAKE_DEVICE_H

#include "base/err.h"
#include "host/npu/npu_ops.h"
#include "ipc/wire.h"

#include <stddef.h>
#include <stdint.h>

/* An answer that the host has not received yet. A test may change the answer.
 */
struct fake_answer {
	struct wire_done done;
	uint8_t more[64]; /* bytes that follow `done`, if len includes them */
	size_t len;
	unsigned n_refs;
	uint32_t seq;
	/* number of times that the answer is sent; 0 means not at all */
	unsigned times;
};

struct fake {
	struct npu_ops ops; /* ops.arg is this struct */
	unsigned reached;   /* number of devices opened */
	unsigned answered;  /* number of requests answered by all devices */
	/* The device is lost after this many more answers; 0 means never. The
	 * loss sets `lives` to 0, so the next device is not lost. */
	unsigned lives;
	/* A request to load a graph is answered after this many later requests,
	 * or when no other request waits, as if a separate engine did the
	 * loading. 0 means that answers are in the order of requests. */
	unsigned late;
	unsigned most_under_way;
	uint32_t tcm_share;
	/* size of the extended region that the device reports; the device has
	 * no memory for it */
	uint64_t va_extended;
	/* Called with each answer before it is sent; `request` is the message
	 * that is answered. */
	void (*forge)(struct fake *, const void *request, struct fake_answer *);
	/* Called with the [rows][n_embd] hidden states of each run. */
	void (*spoil)(struct fake *, float *hidden, uint32_t rows, uint32_t n);
	void *arg; /* argument for the test's functions */
};

/* Set up a device without faults; `f->ops` opens it. */
void fake_init(struct fake *f);

/* The operation `open` of f->ops; `arg` is a struct fake. */
int fake_open(void *arg, const struct npu_opts *o, void **device,
	struct wire_welcome *w, struct err *e);

/* Turn an answer into a refusal. Returns `status`. */
int fake_refuse(struct wire_done *done, int status, const char *why);

#endif
