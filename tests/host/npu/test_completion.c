/*
 * Invalid answers of a device. The call that receives an invalid answer fails
 * with an error that names the invalid part, and every later call fails with
 * the same error. Valid answers are passed on.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/npu/completion.h"
#include "host/npu/npu.h"
#include "ipc/channel.h"
#include "ipc/window_view.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW   (1u << 20)
#define EXTENDED (64u << 10)

struct fixture {
	struct fake fake;
	struct npu *n;
	struct buffer *a, *b;
	uint32_t id[2], addr[2];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct npu_opts o = { .ops = &f->fake.ops,
		.hello = { .va_window = WINDOW, .va_slots = 4 } };
	struct err e = { 0 };

	fake_init(&f->fake);
	f->fake.va_extended = EXTENDED;
	assert_ok(buffer_create(&f->a, "a", 3 * 4096, 0, &e), &e);
	assert_ok(buffer_create(&f->b, "b", 2 * 4096, 0, &e), &e);
	assert_ok(npu_open(&f->n, &o, &e), &e);
	assert_ok(npu_share(f->n, f->a, &f->id[0], &e), &e);
	assert_ok(npu_share(f->n, f->b, &f->id[1], &e), &e);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	npu_close(f->n);
	buffer_close(f->a);
	buffer_close(f->b);
	free(f);
	return 0;
}

static int nop(struct fixture *f, struct err *e)
{
	struct wire_simple msg = { WIRE_NOP, 0 };
	struct wire_done done;

	return npu_call(f->n, &msg, sizeof(msg), &done, e);
}

static void anew(struct fixture *f)
{
	struct err e = { 0 };

	f->fake.forge = NULL;
	assert_ok(npu_reopen(f->n, &e), &e);
	assert_ok(npu_share(f->n, f->a, &f->id[0], &e), &e);
	assert_ok(npu_share(f->n, f->b, &f->id[1], &e), &e);
}

/* ---- answers to any request ---------------------------------------------- */

/* Replaces `size` bytes of the answer at offset `at` by those of `value`. The
 * error must contain `text`. */
struct forgery {
	size_t at, size;
	uint64_t value;
	const char *text;
};

static const struct forgery *forgery;

static void forge(struct fake *f, const void *request, struct fake_answer *a)
{
	memcpy((uint8_t *)a + forgery->at, &forgery->value, forgery->size);
}

#define FORGED(member, new_value, sentence)                        \
	{                                                          \
		.at = offsetof(struct fake_answer, member),        \
		.size = sizeof(((struct fake_answer *)0)->member), \
		.value = (uint64_t)(new_value), .text = (sentence) \
	}

static void test_of_any_request(void **state)
{
	static const struct forgery cases[] = {
		FORGED(done.status, 5, "status 5 is not an error code"),
		FORGED(done.status, INT_MIN,
			"status -2147483648 is not an error"),
		FORGED(done.status, -4096, "status -4096 is not an error code"),
		FORGED(done.op, WIRE_MAP, "the answer is to operation 2 (map)"),
		FORGED(done.op, 0, "the answer is to operation 0 (?)"),
		FORGED(done.op, UINT_MAX,
			"the answer is to operation 4294967295"),
		FORGED(seq, 77, "answered request 77, which is not in flight"),
		FORGED(seq, UINT_MAX, "which is not in flight"),
		FORGED(len, 0, "has 0 bytes and 0 references"),
		FORGED(len, 12, "has 12 bytes"),
		FORGED(len, sizeof(struct wire_done) - 1, "has 415 bytes"),
		FORGED(len, sizeof(struct wire_done) + 8, "has 424 bytes"),
		FORGED(n_refs, 3, "and 3 references; a completion has 416"),
		FORGED(done.counters.dma_bytes, UINT64_MAX,
			"dma_bytes is 18446"),
		FORGED(done.counters.invalidated_lines, COMPLETION_MOST + 1,
			"invalidated_lines is 9007199254740993, more than"),
		FORGED(done.counters.cleaned_lines, UINT64_MAX, "cleaned_line"),
		FORGED(done.counters.evicted_lines, UINT64_MAX, "evicted_line"),
		FORGED(done.counters.whole_calls, UINT64_MAX, "whole_calls"),
		FORGED(done.counters.busy_ns, UINT64_MAX,
			"busy_ns is 1844674407"),
		FORGED(done.counters.busy_ns, 1000000000000ull,
			"busy_ns is 1000000000000 ns, but the device was "),
		FORGED(done.price[0], 1,
			"word 0 of the phone's time is 1, but the device has no cost"),
		FORGED(done.price[WIRE_PRICE_WORDS - 1], 1,
			"word 18 of the phone"),
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		forgery = &cases[i];
		f->fake.forge = forge;
		assert_int_equal(nop(f, &e), -EPROTO);
		if (!strstr(e.text, cases[i].text))
			fail_msg("'%s' does not contain '%s'", e.text,
				cases[i].text);
		/* The next call returns the same error without sending a
		 * request. */
		f->fake.forge = NULL;
		memset(&e, 0, sizeof(e));
		assert_int_equal(nop(f, &e), -EPROTO);
		assert_non_null(strstr(e.text, cases[i].text));
		assert_int_equal(npu_drain(f->n, 0, NULL, NULL, NULL), -EPROTO);
		anew(f);
		assert_ok(nop(f, &e), &e);
	}
}

static uint32_t graphs[4];

static void forge_graphs(
	struct fake *f, const void *request, struct fake_answer *a)
{
	a->done.status = 0;
	memcpy(a->done.arg, graphs, sizeof(graphs));
}

static int drop(struct fixture *f, struct err *e)
{
	struct wire_simple msg = { WIRE_GRAPH_DROP, 0 };
	struct wire_done done;

	return npu_call(f->n, &msg, sizeof(msg), &done, e);
}

/* The fake device gets a request to drop a graph that it does not have, and its
 * answer is forged. */
static void test_of_graphs(void **state)
{
	static const uint32_t refused[][4] = { { 2, 1, 0, 0 },
		{ 1, WIRE_MAX_GRAPHS + 1, 0, 0 }, { 1, 1, 8, 7 } };
	static const char *const text[] = {
		"reports 2 graphs now and a maximum of 1 so far",
		"a maximum of 4097 so far, but there can be only 4096",
		"8 KiB of weights of graphs now, but a maximum of only 7"
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(refused); i++) {
		struct err e = { 0 };

		memcpy(graphs, refused[i], sizeof(graphs));
		f->fake.forge = forge_graphs;
		assert_int_equal(drop(f, &e), -EPROTO);
		if (!strstr(e.text, text[i]))
			fail_msg("'%s' does not contain '%s'", e.text, text[i]);
		anew(f);
	}
}

static uint32_t words[6];

static int run(struct fixture *f, struct err *e)
{
	struct wire_graph_run msg = { WIRE_GRAPH_RUN, 0, 1, 0, 1, 0 };
	struct wire_done done;

	return npu_call(f->n, &msg, sizeof(msg), &done, e);
}

/* Forge the answer to a run of a graph that the device does not have. */
static void forge_words(struct fake *f, const void *q, struct fake_answer *a)
{
	a->done.status = 0;
	memcpy(a->done.arg, words, sizeof(words));
	a->done.counters.dma_bytes = (1ull << 32) + 8;
}

/* An answer is refused if attention read more keys and values than its rows
 * attend to. */
static void test_of_a_run(void **state)
{
	static const uint32_t refused[][6] = { { 7, 1, 6, 1 }, { 0, 1, 7, 0 },
		{ 0, 0, 1, 1u << 21 }, { 0, 0, 0, 0, 9, 1 } };
	static const char *const text[] = { "4294967303 bytes read of keys and",
		"rows attend to only 7", "rows attend to only 9007199254740993",
		"4294967305 bytes read from the extended region, but only" };
	static const uint32_t fine[] = { 5, 2, 6, 2, 8, 1 };
	struct fixture *f = *state;
	struct npu_stats st;
	struct err e = { 0 };

	for (unsigned i = 0; i < ARRAY_LEN(refused); i++) {
		memcpy(words, refused[i], sizeof(refused[i]));
		f->fake.forge = forge_words;
		assert_int_equal(run(f, &e), -EPROTO);
		if (!strstr(e.text, text[i]))
			fail_msg("'%s' does not contain '%s'", e.text, text[i]);
		anew(f);
	}
	memcpy(words, fine, sizeof(fine));
	f->fake.forge = forge_words;
	assert_ok(run(f, &e), &e);
	npu_stats(f->n, &st);
	assert_int_equal(st.kv_read_bytes, (2ull << 32) + 5);
	assert_int_equal(st.kv_apart_bytes, (2ull << 32) + 6);
	assert_int_equal(st.extended_read, (1ull << 32) + 8);
}

/* Answers that are unusual but valid. */
static void test_what_is_no_forgery(void **state)
{
	static const struct forgery cases[] = {
		FORGED(done.counters.busy_ns, 1000000, NULL),
		FORGED(done.counters.dma_bytes, COMPLETION_MOST, NULL),
		FORGED(done.counters.saturated, UINT_MAX, NULL),
		FORGED(done.arg[0], UINT_MAX, NULL),
	};
	struct fixture *f = *state;
	struct npu_stats st;
	struct err e = { 0 };

	f->fake.forge = forge;
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		forgery = &cases[i];
		assert_ok(nop(f, &e), &e);
	}
	npu_stats(f->n, &st);
	assert_int_equal(st.busy_ns, 1000000);
	assert_int_equal(st.dma_bytes, COMPLETION_MOST);
	assert_int_equal(st.saturated, UINT_MAX);
}

static void no_end(struct fake *f, const void *request, struct fake_answer *a)
{
	memset(a->done.text, 'x', sizeof(a->done.text));
}

static void violates(struct fake *f, const void *request, struct fake_answer *a)
{
	a->done.counters.violations = 3;
	snprintf(a->done.text, sizeof(a->done.text), "\x1b[2Jstale read\n");
}

static void test_requests(void **state)
{
	struct fixture *f = *state;
	struct npu_stats st;
	struct err e = { 0 };

	f->fake.forge = violates;
	assert_ok(nop(f, &e), &e);
	npu_stats(f->n, &st);
	assert_int_equal(st.violations, 3);
	/* The violation is printed on a terminal, so control characters are
	 * replaced. */
	assert_string_equal(st.violation, "?[2Jstale read?");
	f->fake.forge = no_end;
	assert_int_equal(nop(f, &e), -EPROTO);
	assert_non_null(
		strstr(e.text, "the answer does not end with a zero byte"));
}

static void violates_and_fails(
	struct fake *f, const void *request, struct fake_answer *a)
{
	a->done.status = -EINVAL;
	a->done.counters.violations = 1;
	snprintf(a->done.text, sizeof(a->done.text),
		"row 0: it attends to no slots and no rows (after a stale read: tandem:io)");
}

/* If a request is refused because of a stale read, the violation is reported
 * too. */
static void test_a_refusal_tells_the_violation(void **state)
{
	struct fixture *f = *state;
	struct npu_stats st;
	struct err e = { 0 };

	f->fake.forge = violates_and_fails;
	nop(f, &e);
	npu_stats(f->n, &st);
	assert_int_equal(st.violations, 1);
	assert_string_equal(st.violation,
		"row 0: it attends to no slots and no rows (after a stale read: tandem:io)");
}

/* A price (estimated time and counts of the work) is refused if it is higher
 * than any request can cost. */
static void test_prices(void **state)
{
	static const struct forgery most =
		FORGED(done.price[WIRE_PRICE_WORDS - 2], COMPLETION_MOST, NULL);
	static const struct forgery more = FORGED(
		done.price[WIRE_PRICE_WORDS - 2], COMPLETION_MOST + 1, NULL);
	struct fixture *f = *state;
	struct soc soc = { 0 };
	struct err e = { 0 };

	assert_ok(npu_price_for(f->n, &soc, &e), &e);
	f->fake.forge = forge;
	forgery = &most;
	assert_ok(nop(f, &e), &e);
	forgery = &more;
	assert_int_equal(nop(f, &e), -EPROTO);
	assert_non_null(strstr(e.text, "word 17 of the phone"));
	assert_non_null(strstr(e.text, "more than any request can take"));
}

/* ---- refusals ------------------------------------------------------------ */

static int status;
static const char *why;

static void refuses(struct fake *f, const void *request, struct fake_answer *a)
{
	fake_refuse(&a->done, status, why);
}

/* A caller that waits for an answer gets the answer's status. If the caller
 * only sent the request, the next call reports the failure. A status of the
 * device is never confused with an error code of the host. */
static void test_refusals(void **state)
{
	static const struct {
		int status;
		const char *why;
		int code;
		const char *text;
	} cases[] = {
		{ -EINVAL, "run.rows is 9", -EIO, "a request: run.rows is 9" },
		{ -ENOMEM, "no memory", -ENOMEM, "a request: no memory" },
		{ -ECANCELED, "tired", -EIO, "tired" },
		{ -ETIMEDOUT, "late", -EIO, "late" },
		{ -EOPNOTSUPP, "", -EIO,
			"(nop): status -95, Operation not supported; the text" },
	};
	struct fixture *f = *state;
	struct wire_simple msg = { WIRE_NOP, 0 };

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct wire_done done;
		struct err e = { 0 };

		status = cases[i].status;
		why = cases[i].why;
		f->fake.forge = refuses;
		assert_ok(npu_call(f->n, &msg, sizeof(msg), &done, &e), &e);
		assert_int_equal(done.status, status);
		assert_ok(npu_send(f->n, NULL, 0, &msg, sizeof(msg), NULL, &e),
			&e);
		assert_int_equal(
			npu_drain(f->n, 0, NULL, NULL, &e), cases[i].code);
		if (!strstr(e.text, cases[i].text))
			fail_msg("'%s' does not contain '%s'", e.text,
				cases[i].text);
		anew(f);
	}
}

/* A refusal to price requests or to unmap a buffer is an error of the call. For
 * the host, the buffer stays mapped. */
static void test_refused_calls(void **state)
{
	struct fixture *f = *state;
	struct soc soc = { 0 };
	struct npu_room room;
	struct err e = { 0 };

	assert_ok(npu_map(f->n, f->id[0], &f->addr[0], &e), &e);
	f->fake.forge = refuses;
	status = -EINVAL;
	why = "as ordered";
	assert_int_equal(npu_price_for(f->n, &soc, &e), -EIO);
	assert_string_equal(e.text,
		"the device refused the cost model of the phone: as ordered");
	assert_int_equal(npu_unmap(f->n, f->id[0], &e), -EIO);
	assert_string_equal(
		e.text, "the device cannot unmap tandem:a: as ordered");
	npu_room(f->n, &room);
	assert_int_equal(room.mapped, buffer_bytes(f->a));
}

/* ---- number of answers --------------------------------------------------- */

static unsigned times;

static void repeats(struct fake *f, const void *request, struct fake_answer *a)
{
	a->times = times;
}

static void test_too_many(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->fake.forge = repeats;
	times = 2;
	assert_ok(nop(f, &e), &e);
	assert_int_equal(nop(f, &e), -EPROTO);
	assert_non_null(
		strstr(e.text, "answered request 0, which is not in flight"));
}

static void test_none(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->fake.forge = repeats;
	times = 0;
	assert_int_equal(nop(f, &e), -ERR_DEVICE_LOST);
	assert_non_null(strstr(e.text, "the fake device"));
}

/* ---- addresses of mappings ----------------------------------------------- */

static uint32_t address;

static void maps_at(struct fake *f, const void *request, struct fake_answer *a)
{
	a->done.arg[WIRE_MAP_ADDR] = address;
}

static void test_addresses(void **state)
{
	static const struct {
		uint32_t addr;
		const char *text; /* NULL if the address is valid */
	} cases[] = {
		{ 0, "tandem:b at address 0x0, which is not the start of a page" },
		{ 1, "tandem:b at address 0x1, which is not the start of a page" },
		{ 0x8801, "which is not the start of a page" },
		{ WINDOW, "outside its window of 1048576 bytes" },
		{ WINDOW - 4096,
			"tandem:b (8192 bytes) at address 0xff000, outside" },
		{ 0xfffff000, "outside its window" },
		{ 0x1000,
			"tandem:b at address 0x1000, over tandem:a at 0x1000" },
		{ 0x2000, "over tandem:a at 0x1000" },
		{ 0x3000, "over tandem:a at 0x1000" },
		{ 0x4000, NULL },
		{ WINDOW - 8192, NULL },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		assert_ok(npu_map(f->n, f->id[0], &f->addr[0], &e), &e);
		assert_int_equal(f->addr[0], 0x1000);
		f->fake.forge = maps_at;
		address = cases[i].addr;
		if (!cases[i].text) {
			assert_ok(npu_map(f->n, f->id[1], &f->addr[1], &e), &e);
			assert_int_equal(f->addr[1], cases[i].addr);
		} else {
			assert_int_equal(
				npu_map(f->n, f->id[1], &f->addr[1], &e),
				-EPROTO);
			if (!strstr(e.text, cases[i].text))
				fail_msg("'%s' does not contain '%s'", e.text,
					cases[i].text);
			assert_int_equal(nop(f, &e), -EPROTO);
		}
		anew(f);
	}
}

/* Addresses in the extended region (device memory outside the window) are
 * checked as addresses in the window are. */
static void test_places(void **state)
{
	static const struct {
		uint32_t unit;
		const char *text; /* NULL if the address is valid */
	} cases[] = {
		{ 1, "tandem:b (8192 bytes) at 0x40 of its extended region" },
		{ EXTENDED / 64, "at 0x10000 of its extended region" },
		{ EXTENDED / 64 - 64, "at 0xf000 of its extended region" },
		{ UINT32_MAX, "at 0x3fffffffc0 of its extended region" },
		{ 0, "tandem:b at 0x0 of its extended region, over tandem:a" },
		{ 2 * 64, "at 0x2000 of its extended region, over tandem:a" },
		{ 3 * 64, NULL },
		{ EXTENDED / 64 - 2 * 64, NULL },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		uint32_t at;
		int ret;

		f->fake.forge = maps_at;
		address = 0;
		assert_ok(npu_map_extended(f->n, f->id[0], &at, &e), &e);
		address = cases[i].unit;
		ret = npu_map_extended(f->n, f->id[1], &at, &e);
		assert_int_equal(ret, cases[i].text ? -EPROTO : 0);
		if (cases[i].text && !strstr(e.text, cases[i].text))
			fail_msg("'%s' does not contain '%s'", e.text,
				cases[i].text);
		if (!cases[i].text)
			assert_int_equal(at, cases[i].unit);
		anew(f);
	}
}

/* If a mapping cannot fit according to the host's own records, the host does
 * not request the mapping. */
static void test_full_region(void **state)
{
	struct fixture *f = *state;
	struct npu_room room;
	struct err e = { 0 };
	unsigned before;
	uint32_t at;

	f->fake.forge = maps_at;
	/* The device maps one page after the region's beginning, so that the
	 * region has a hole before and after the mapping. */
	address = 64;
	npu_room(f->n, &room);
	assert_int_equal(room.extended, EXTENDED);
	assert_ok(npu_map_extended(f->n, f->id[0], &at, &e), &e);
	npu_room(f->n, &room);
	assert_int_equal(room.extended, EXTENDED - 4 * 4096);
	anew(f);
	f->fake.va_extended = 4096;
	anew(f);
	before = f->fake.answered;
	assert_int_equal(npu_map_extended(f->n, f->id[1], &at, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "tandem:b (0.0 MiB) does not fit"));
	assert_int_equal(f->fake.answered, before);
}

static void maps_before(
	struct fake *f, const void *request, struct fake_answer *a)
{
	a->done.status = 0; /* the fake device has few mappings */
	address -= 4096 / WIRE_EXTENDED_UNIT;
	maps_at(f, request, a);
}

/* The view of the window lists the buffers of the extended region in the order
 * of their offsets. It counts those that it has no room for. */
static void test_view(void **state)
{
	enum { N = WINDOW_VIEW_SLOTS + 2 };
	struct window_view *v = malloc(sizeof(*v));
	struct fixture *f = *state;
	struct buffer *page;
	struct err e = { 0 };
	uint32_t id, at;

	assert_ok(buffer_create(&page, "page", 4096, 0, &e), &e);
	f->fake.va_extended = (N + 3) * 4096;
	anew(f);
	f->fake.forge = maps_before;
	address = (N + 3) * 4096 / WIRE_EXTENDED_UNIT;
	for (uint32_t i = 0; i < N; i++) {
		assert_ok(npu_share(f->n, page, &id, &e), &e);
		assert_ok(npu_map_extended(f->n, id, &at, &e), &e);
		if (i)
			continue;
		npu_window(f->n, v);
		assert_int_equal(v->extents, 1);
		assert_int_equal(v->extent[0].at, (N + 2) * 4096);
		assert_int_equal(v->extent[0].bytes, 4096);
		assert_string_equal(v->extent[0].name, "tandem:page");
	}
	npu_window(f->n, v);
	assert_int_equal(v->extended, (N + 3) * 4096);
	assert_int_equal(v->extended_free, 3 * 4096);
	assert_int_equal(v->extents, N);
	for (uint32_t i = 0; i < WINDOW_VIEW_SLOTS; i++)
		assert_int_equal(v->extent[i].at, (3 + i) * 4096);
	assert_int_equal(v->used, 0);
	buffer_close(page);
	free(v);
}

static void test_too_many_buffers(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t id;

	for (uint32_t i = 2; i < WIRE_MAX_BUFFERS; i++) {
		assert_ok(npu_share(f->n, f->a, &id, &e), &e);
		assert_int_equal(id, i);
	}
	assert_int_equal(npu_share(f->n, f->a, &id, &e), -ENOSPC);
	assert_string_equal(e.text, "more than 1024 shared buffers");
}

/* After a range is unmapped, it can be mapped again. */
static void test_unmapped(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	assert_ok(npu_map(f->n, f->id[0], &f->addr[0], &e), &e);
	assert_ok(npu_unmap(f->n, f->id[0], &e), &e);
	assert_ok(npu_map(f->n, f->id[1], &f->addr[1], &e), &e);
	assert_int_equal(f->addr[1], f->addr[0]);
}

/* recv_canceled returns `canceled` times as if the wait for an answer was
 * canceled, and then receives the answer. */
static int (*recv_at_last)(void *, struct packet *, int, struct err *);
static unsigned canceled;

static int recv_canceled(
	void *device, struct packet *p, int timeout_ms, struct err *e)
{
	if (canceled)
		return canceled--, err_set(e, ECANCELED, "interrupted");
	return recv_at_last(device, p, timeout_ms, e);
}

/* Even if the wait was canceled, the host records the mapping. */
static void test_mapped_though_canceled(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	recv_at_last = f->fake.ops.recv;
	f->fake.ops.recv = recv_canceled;
	canceled = 3;
	assert_ok(npu_map(f->n, f->id[0], &f->addr[0], &e), &e);
	assert_int_equal(canceled, 0);
	canceled = 3;
	assert_ok(npu_unmap(f->n, f->id[0], &e), &e);
	assert_int_equal(canceled, 0);
	assert_ok(npu_map(f->n, f->id[1], &f->addr[1], &e), &e);
	assert_int_equal(f->addr[1], f->addr[0]);
	f->fake.ops.recv = recv_at_last;
}

static uint32_t pending;

/* Answer that the window is full, with invalid numbers. The host uses these
 * numbers only in the message, so they are no error. */
static void no_room(struct fake *f, const void *request, struct fake_answer *a)
{
	fake_refuse(&a->done, -ENOSPC, "");
	memset(a->done.arg, 0xff, sizeof(a->done.arg));
	a->done.arg[WIRE_MAP_PENDING] = pending;
}

/* If a device always announces that room will become free, the host repeats the
 * request only a limited number of times. */
static void test_room_that_never_comes(void **state)
{
	struct fixture *f = *state;
	unsigned before = f->fake.answered;
	struct err e = { 0 };

	f->fake.forge = no_room;
	pending = 1;
	assert_int_equal(npu_map(f->n, f->id[0], &f->addr[0], &e), -ENOSPC);
	pending = 0;
	assert_int_equal(f->fake.answered - before, WIRE_DEFER_MAX + 1);
}

static void test_no_room(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->fake.forge = no_room;
	assert_int_equal(npu_map(f->n, f->id[0], &f->addr[0], &e), -ENOSPC);
	assert_non_null(strstr(e.text, "tandem:a (0.0 MiB) does not fit"));
	assert_non_null(strstr(e.text, "4294967295 of 4294967295 slots"));
	f->fake.forge = NULL;
	assert_ok(npu_map(f->n, f->id[0], &f->addr[0], &e), &e);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_of_any_request),
	TEST(test_of_graphs),
	TEST(test_of_a_run),
	TEST(test_what_is_no_forgery),
	TEST(test_requests),
	TEST(test_a_refusal_tells_the_violation),
	TEST(test_prices),
	TEST(test_refusals),
	TEST(test_refused_calls),
	TEST(test_too_many),
	TEST(test_none),
	TEST(test_addresses),
	TEST(test_places),
	TEST(test_full_region),
	TEST(test_view),
	TEST(test_too_many_buffers),
	TEST(test_unmapped),
	TEST(test_mapped_though_canceled),
	TEST(test_no_room),
	TEST(test_room_that_never_comes),
};

TEST_FILE(tests)
