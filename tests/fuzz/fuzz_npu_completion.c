/*
 * Sends completions of arbitrary bytes to a host that maps memory, loads a
 * graph, runs the graph, and removes the mappings and the graph again. An input
 * is a list of changes to the completions of a fake device:
 *
 *   1 byte   number of unchanged completions before this change, modulo 8
 *   1 byte   how often the completion is sent, modulo 4; bits 7, 6 and 5 tell
 *            which of the next three bytes are present
 *   1 byte   the new length of the completion, divided by 2
 *   1 byte   a number that is added to the completion's request number
 *   1 byte   the new number of refs
 *   2 bytes  offset in the completion
 *   1 byte   n, modulo 32
 *   n bytes  new bytes of the completion at this offset
 *
 * Each call must return 0 or an error with a message. Mappings must lie inside
 * the window, begin on pages, and not overlap.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "host/npu/npu.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "tests/host/npu/fake_device.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW  (1u << 20)
#define BUFFERS 3

static struct buffer *buffer[BUFFERS];

struct input {
	const uint8_t *data;
	size_t size;
	unsigned until; /* completions until the next change */
};

static uint8_t take(struct input *in)
{
	if (!in->size)
		return 0;
	in->size--;
	return *in->data++;
}

static void forge(struct fake *f, const void *request, struct fake_answer *a)
{
	struct input *in = f->arg;
	uint8_t how;
	size_t at, n;

	if (!in->size || in->until--)
		return;
	how = take(in);
	a->times = how % 4;
	if (how & 0x80)
		a->len = take(in) * 2u;
	if (how & 0x40)
		a->seq += take(in);
	if (how & 0x20)
		a->n_refs = take(in);
	at = (take(in) | take(in) << 8) % sizeof(a->done);
	for (n = take(in) % 32; n; n--, at++)
		if (at < sizeof(a->done))
			((uint8_t *)&a->done)[at] = take(in);
	in->until = take(in) % 8;
}

static void die(const char *what)
{
	fprintf(stderr, "fuzz_npu_completion: %s\n", what);
	abort();
}

/* Whether the call failed. A failure must have a message. */
static bool failed(int ret, const struct err *e)
{
	if (ret > 0 || (ret && !e->text[0]))
		die("an error without a sentence");
	if (ret && ret != e->code)
		die("a code that is not the sentence's");
	return ret != 0;
}

static bool map_all(struct npu *n, uint32_t *id, uint32_t *addr, struct err *e)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		uint64_t bytes = buffer_bytes(buffer[i]);

		if (failed(npu_share(n, buffer[i], &id[i], e), e) ||
			failed(npu_map(n, id[i], &addr[i], e), e))
			return false;
		if (!addr[i] || addr[i] % 4096 || addr[i] + bytes > WINDOW)
			die("mapped where no page of the window is");
		for (unsigned k = 0; k < i; k++)
			if (addr[i] < addr[k] + buffer_bytes(buffer[k]) &&
				addr[k] < addr[i] + bytes)
				die("mapped over another");
	}
	return true;
}

/* Do the requests. Returns true if all succeeded. */
static bool talk(struct npu *n)
{
	struct wire_graph_load load = { .op = WIRE_GRAPH_LOAD, .rows = 1 };
	struct wire_graph_run run = {
		.op = WIRE_GRAPH_RUN, .rows = 1, .mask_words = 1
	};
	struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_ref refs[WIRE_ROLE_COUNT];
	uint32_t id[BUFFERS], addr[BUFFERS];
	struct wire_done done;
	struct npu_stats st;
	struct err e = { 0 };

	if (!map_all(n, id, addr, &e) ||
		failed(npu_send(n, NULL, 0, &load, sizeof(load), NULL, &e), &e))
		return false;
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned k = 0; k < WIRE_ROLE_COUNT; k++)
			refs[k] = (struct wire_ref){
				.addr = addr[k % BUFFERS],
				.len = 64,
				.role = (uint8_t)k,
			};
		if (failed(npu_send(n, refs, WIRE_ROLE_COUNT, &run, sizeof(run),
				   NULL, &e),
			    &e))
			return false;
	}
	if (failed(npu_call(n, &nop, sizeof(nop), &done, &e), &e) ||
		failed(npu_unmap(n, id[1], &e), &e) ||
		failed(npu_map(n, id[1], &addr[1], &e), &e) ||
		failed(npu_drain(n, 0, NULL, NULL, &e), &e))
		return false;
	npu_stats(n, &st);
	if (strnlen(st.violation, sizeof(st.violation)) == sizeof(st.violation))
		die("a violation's text without an end");
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pages[BUFFERS] = { 3, 1, 2 };
	struct input in = { data, size, 0 };
	struct fake fake;
	struct npu_opts o = { .ops = &fake.ops,
		.hello = { .va_window = WINDOW, .va_slots = 4 } };
	struct npu *n;
	struct err e = { 0 };

	for (unsigned i = 0; !buffer[BUFFERS - 1] && i < BUFFERS; i++)
		if (buffer_create(&buffer[i], "fuzzed", pages[i] * 4096, 0, &e))
			die(e.text);
	in.until = take(&in) % 8;
	fake_init(&fake);
	fake.forge = forge;
	fake.arg = &in;
	if (npu_open(&n, &o, &e))
		die(e.text);
	if (!talk(n) && !size)
		die("an honest device is refused");
	/* The host closes the fake device and opens it again. */
	if (!failed(npu_reopen(n, &e), &e))
		talk(n);
	npu_close(n);
	return 0;
}

/* The seeds. Each changes one field of a completion that the host reads, or how
 * a completion is sent. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const struct {
		uint8_t answer, how;
		uint16_t at;
		uint8_t n, bytes[8];
	} seeds[] = {
		{ 0, 1, offsetof(struct wire_done, arg), 4, { 0, 0x20 } },
		{ 1, 1, offsetof(struct wire_done, arg), 4, { 0, 0x30 } },
		{ 3, 1, offsetof(struct wire_done, status), 4, { 5 } },
		{ 3, 1, offsetof(struct wire_done, status), 4,
			{ 0xea, 0xff, 0xff, 0xff } },
		{ 4, 1, offsetof(struct wire_done, op), 4, { 2 } },
		{ 4, 1, offsetof(struct wire_done, counters), 8,
			{ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f } },
		{ 4, 1, offsetof(struct wire_done, price), 8, { 1 } },
		{ 4, 1, offsetof(struct wire_done, text), 8,
			{ 's', 't', 'a', 'l', 'e', 0 } },
		{ 5, 2, 0, 0, { 0 } },
		{ 5, 0, 0, 0, { 0 } },
		{ 5, 0x81, 0, 0, { 0 } },
		{ 5, 0x41, 0, 0, { 0 } },
	};
	uint8_t head[5];

	if (i >= ARRAY_LEN(seeds))
		return 0;
	head[0] = seeds[i].answer;
	head[1] = seeds[i].how;
	head[2] = (uint8_t)seeds[i].at;
	head[3] = (uint8_t)(seeds[i].at >> 8);
	head[4] = seeds[i].n;
	memcpy(buf, head, sizeof(head));
	memcpy(buf + sizeof(head), seeds[i].bytes, seeds[i].n);
	return sizeof(head) + seeds[i].n;
}
