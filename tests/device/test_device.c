/* Sends single packets to a device. A malformed packet is refused with an error
 * that names the field, and leaves the device unchanged. */
#include "tests/harness.h"

#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/device/rig.h"

#include <errno.h>
#include <string.h>

static struct wire_ref refs[5 + 2 * BUFFER_RANGES];
static unsigned n_refs;
static struct wire_graph_run run;

/* Open a rig (rig.h) and prepare a valid run of 4 rows in the rig's io buffer,
 * in refs[] (the ranges of buffers that the run uses) and in `run`. */
static void prepare_with(struct rig *r, const struct rig_opts *o)
{
	float in[4 * 64] = { 1, 2, 3 };
	struct rig_batch b;

	rig_open(r, o);
	rig_chain(&b, 0, 4);
	rig_put(r, &b, in);
	n_refs = rig_refs(r, refs);
	run = (struct wire_graph_run){ WIRE_GRAPH_RUN, RIG_GRAPH, 4, 1, 1, 0 };
}

static void prepare(struct rig *r)
{
	const struct rig_opts o = { .seed = 1, .precision = WIRE_F16_KV16 };

	prepare_with(r, &o);
}

static int send_run(struct rig *r)
{
	return rig_send(r, refs, n_refs, &run, sizeof(run));
}

static void wants(struct rig *r, int ret, int code, const char *text)
{
	if (ret != code || !strstr(r->done.text, text))
		fail_msg("%d '%s', wanted %d '%s'", ret, r->done.text, code,
			text);
}

static void names_a_bad_op(void **state)
{
	struct wire_simple s = { 77, 0 };
	uint64_t big[4] = { WIRE_NOP };
	struct rig r;

	prepare(&r);
	wants(&r, rig_send(&r, NULL, 0, &s, sizeof(s)), -EINVAL, "op 77");
	assert_int_equal(r.done.op, 77);
	wants(&r, rig_send(&r, NULL, 0, &s, 4), -EINVAL, "op 77");
	s.op = 0;
	wants(&r, rig_send(&r, NULL, 0, &s, 8), -EINVAL, "op 0");
	wants(&r, rig_send(&r, NULL, 0, big, sizeof(big)), -EMSGSIZE,
		"nop: the message has 32 bytes");
	s.op = WIRE_GRAPH_RUN;
	wants(&r, rig_send(&r, NULL, 0, &s, sizeof(s)), -EMSGSIZE,
		"graph run: the message has 8 bytes");
	s.op = WIRE_GRAPH_LOAD;
	wants(&r, rig_send(&r, NULL, 0, &s, sizeof(s)), -EMSGSIZE,
		"graph load: the message has 8 bytes");
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

/* Check that the run is refused with this error if `field` of ref i is v. */
#define REF_REFUSES(r, i, field, v, code, text)    \
	do {                                       \
		struct wire_ref was = refs[i];     \
		refs[i].field = (v);               \
		wants(r, send_run(r), code, text); \
		refs[i] = was;                     \
	} while (0)

static void names_a_bad_ref(void **state)
{
	struct rig r;

	prepare(&r);
	REF_REFUSES(&r, 0, role, 6, -EINVAL, "ref 0 (?): role 6");
	REF_REFUSES(&r, 1, flags, 8, -EINVAL, "ref 1 (kv): flags 0x8");
	REF_REFUSES(&r, 1, addr, 0, -EFAULT, "ref 1 (kv): address 0x0");
	REF_REFUSES(&r, 1, addr, refs[1].addr - 64, -EFAULT, "ref 1 (kv)");
	REF_REFUSES(&r, 1, len, refs[1].len + 1, -EFAULT,
		"beyond the end of tandem:kv");
	REF_REFUSES(&r, 1, len, 0, -EINVAL, "length 0");
	REF_REFUSES(&r, 1, len, 64, -EINVAL, "ref 1 (kv): the length is 64");
	REF_REFUSES(
		&r, 0, len, 64, -EINVAL, "ref 0 (weights): the length is 64");
	REF_REFUSES(&r, 2, len, 64, -EINVAL, "ref 2 (rows): the length is 64");
	REF_REFUSES(&r, 3, len, 1023, -EINVAL, "ref 3 (hidden_in): the length");
	REF_REFUSES(
		&r, 4, len, 1023, -EINVAL, "ref 4 (hidden_out): the length");
	REF_REFUSES(&r, 0, addr, refs[0].addr + 32, -EFAULT, "beyond the end");
	REF_REFUSES(&r, 3, addr, refs[3].addr + 2, -EINVAL,
		"ref 3 (hidden_in): address");
	REF_REFUSES(&r, 2, addr, refs[2].addr + 4, -EINVAL, "multiple of 8");
	REF_REFUSES(&r, 4, addr, r.weights_at, -EACCES,
		"ref 4 (hidden_out): address");
	REF_REFUSES(&r, 3, role, WIRE_REF_ROWS, -EINVAL,
		"ref 3 (rows): an earlier buffer reference (ref) has the "
		"same role");
	REF_REFUSES(&r, 4, role, WIRE_REF_SYNC, -EINVAL,
		"buffer reference (ref) with role hidden_out");
	/* Sync refs (ranges that the CPU wrote) are checked as well. */
	REF_REFUSES(&r, 5, addr, 0xfffff000, -EFAULT, "ref 5 (sync)");
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

#define RUN_REFUSES(r, field, v, code, text)       \
	do {                                       \
		struct wire_graph_run was = run;   \
		run.field = (v);                   \
		wants(r, send_run(r), code, text); \
		run = was;                         \
	} while (0)

static void names_a_bad_run(void **state)
{
	struct rig r;

	prepare(&r);
	RUN_REFUSES(&r, graph, 4096, -EINVAL, "graph number 4096");
	RUN_REFUSES(&r, graph, 8, -ENOENT, "no graph 8");
	RUN_REFUSES(&r, rows, 0, -EINVAL, "rows is 0");
	RUN_REFUSES(&r, rows, 33, -EINVAL, "rows is 33");
	RUN_REFUSES(&r, n_spans, 4097, -EINVAL, "n_spans is 4097");
	RUN_REFUSES(&r, mask_words, 0, -EINVAL, "mask_words is 0");
	RUN_REFUSES(&r, mask_words, 17, -EINVAL, "mask_words is 17");
	RUN_REFUSES(&r, flags, 8, -EINVAL,
		"flags 0x8 have unknown bits; known are 0x7");
	RUN_REFUSES(&r, flags, WIRE_RUN_MORE, -EINVAL,
		"flags 0x4 announce more experts, but graph 7 is not");
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

static void bad_rows(struct rig *r, const struct rig_batch *b, const char *text)
{
	float in[4 * 64] = { 0 };

	wants(r, rig_run(r, b, in, NULL), -EINVAL, text);
}

static void names_a_bad_row(void **state)
{
	struct rig_batch b, ok;
	float in[4 * 64] = { 0 };
	struct rig r;

	prepare(&r);
	rig_chain(&ok, 4, 4);
	b = ok;
	b.row[2].slot = RIG_SLOTS;
	bad_rows(&r, &b, "row 2: slot 128");
	b = ok;
	b.row[2].slot = b.row[1].slot;
	bad_rows(&r, &b, "row 2: another row has the same slot 5");
	b = ok;
	b.row[1].first_span = 1;
	bad_rows(&r, &b, "row 1: first_span 1");
	b = ok;
	b.row[1].n_spans = UINT32_MAX;
	bad_rows(&r, &b, "row 1: first_span 0 and n_spans 4294967295");
	b = ok;
	b.span[0].slot = 125;
	bad_rows(&r, &b, "span 0: slot 125 and count 4");
	b = ok;
	b.span[0].count = UINT32_MAX;
	bad_rows(&r, &b, "span 0");
	b = ok;
	b.mask[3] |= 16;
	bad_rows(&r, &b, "row 3: its mask has bits beyond the ");
	b = ok;
	b.mask[0] = 0;
	b.row[0].n_spans = 0;
	bad_rows(&r, &b, "row 0: it attends to no slots and no rows");
	/* The two spans of row 3 have 160 slots together, and the cache has
	 * only 128. */
	b = ok;
	b.n_spans = 2;
	b.span[0] = b.span[1] = (struct wire_span){ 0, 80 };
	b.row[3].n_spans = 2;
	bad_rows(&r, &b, "row 3: it attends to 164 slots");
	assert_int_equal(rig_run(&r, &ok, in, NULL), 0);
	rig_close(&r);
}

static void maps_and_unmaps(void **state)
{
	struct wire_share s = { .op = WIRE_SHARE, .buffer = 9, .bytes = 4096 };
	struct rig r;
	uint32_t kv;

	prepare(&r);
	wants(&r, rig_map(&r, 1024, 0), -EINVAL, "buffer number 1024");
	wants(&r, rig_map(&r, 5, 0), -ENOENT, "buffer 5 was never shared");
	wants(&r, rig_map(&r, 1, 99), -ESTALE, "generation 99");
	wants(&r, rig_map(&r, 1, buffer_generation(r.kv)), -EEXIST,
		"tandem:kv) is mapped already");
	memset(s.name, 'x', sizeof(s.name));
	s.name[0] = '\n';
	device_share(r.dev, &s, open("/dev/null", O_RDONLY | O_CLOEXEC));
	wants(&r, rig_map(&r, 9, 0), -EINVAL, "map: buffer 9 (?xxx");
	s.flags = 6;
	device_share(r.dev, &s, open("/dev/null", O_RDONLY | O_CLOEXEC));
	wants(&r, rig_map(&r, 9, 0), -EINVAL,
		"share: flags 0x6 have unknown bits");
	s.buffer = WIRE_MAX_BUFFERS; /* no such buffer number: ignored */
	device_share(r.dev, &s, open("/dev/null", O_RDONLY | O_CLOEXEC));
	wants(&r, rig_simple(&r, WIRE_UNMAP, 0), -EFAULT, "address 0x0");
	wants(&r, rig_simple(&r, WIRE_UNMAP, r.kv_at + 4096), -EFAULT,
		"no mapping starts there");
	assert_int_equal(rig_simple(&r, WIRE_UNMAP, r.kv_at), 0);
	wants(&r, send_run(&r), -EFAULT, "ref 1 (kv)");
	assert_int_equal(rig_map(&r, 1, buffer_generation(r.kv)), 0);
	kv = r.done.arg[WIRE_MAP_ADDR];
	assert_int_equal(kv, r.kv_at); /* where the unmapped buffer was */
	assert_int_equal(r.done.arg[WIRE_MAP_SLOTS_USED], 3);
	assert_int_equal(r.done.arg[WIRE_MAP_SLOTS], 16);
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

static void a_full_window_reports_its_space(void **state)
{
	struct buffer *b;
	struct err e = { 0 };
	struct rig r;

	prepare(&r);
	assert_ok(buffer_create(&b, "big", 20 << 20, 0, &e), &e);
	rig_share(&r, 9, b);
	wants(&r, rig_map(&r, 9, buffer_generation(b)), -ENOSPC,
		"window: 20975616 bytes requested");
	assert_int_equal(r.done.arg[WIRE_MAP_ADDR], 0);
	assert_int_equal(r.done.arg[WIRE_MAP_ASKED], 20975616);
	assert_in_range(r.done.arg[WIRE_MAP_FREE], 1, 16 << 20);
	assert_int_equal(r.done.arg[WIRE_MAP_SLOTS_USED], 3);
	buffer_close(b);
	rig_close(&r);
}

static void graphs_are_loaded_and_dropped(void **state)
{
	struct rig r;

	prepare(&r);
	wants(&r, rig_send(&r, NULL, 0, r.load, sizeof(r.load)), -EEXIST,
		"graph 7 exists");
	wants(&r, rig_simple(&r, WIRE_GRAPH_DROP, 6), -ENOENT, "no graph 6");
	wants(&r, rig_simple(&r, WIRE_GRAPH_DROP, 1u << 31), -EINVAL,
		"graph number 2147483648");
	assert_int_equal(rig_simple(&r, WIRE_GRAPH_DROP, RIG_GRAPH), 0);
	wants(&r, send_run(&r), -ENOENT, "no graph 7");
	assert_int_equal(rig_send(&r, NULL, 0, r.load, sizeof(r.load)), 0);
	assert_int_equal(r.done.op, WIRE_GRAPH_LOAD);
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

/* A graph that is being loaded counts as held; a graph whose load failed does
 * not. */
static void graphs_are_counted(void **state)
{
	static const uint32_t id[] = { 9, 8, RIG_GRAPH };
	struct wire_graph_load *g;
	uint32_t kib;
	struct rig r;

	prepare(&r);
	assert_int_equal(r.done.op, WIRE_GRAPH_LOAD);
	g = (void *)r.load;
	kib = (g->weights_bytes + 1023) >> 10;
	assert_int_equal(r.done.arg[WIRE_GRAPHS_HELD], 1);
	assert_int_equal(r.done.arg[WIRE_GRAPHS_MOST], 1);
	assert_int_equal(r.done.arg[WIRE_GRAPHS_KIB], kib);
	for (uint32_t i = 0; i < 2; i++) {
		g->graph = id[i];
		assert_int_equal(
			rig_send(&r, NULL, 0, r.load, sizeof(r.load)), 0);
		assert_int_equal(r.done.arg[WIRE_GRAPHS_HELD], i + 2);
	}
	wants(&r, rig_send(&r, NULL, 0, r.load, sizeof(r.load)), -EEXIST,
		"exists");
	wants(&r, rig_simple(&r, WIRE_GRAPH_DROP, 5), -ENOENT, "no graph");
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(rig_simple(&r, WIRE_GRAPH_DROP, id[i]), 0);
		assert_int_equal(r.done.arg[WIRE_GRAPHS_HELD], 2 - i);
		assert_int_equal(r.done.arg[WIRE_GRAPHS_MOST], 3);
		assert_in_range(
			r.done.arg[WIRE_GRAPHS_MOST_KIB], 3 * kib - 2, 3 * kib);
	}
	assert_int_equal(r.done.arg[WIRE_GRAPHS_KIB], 0);
	rig_close(&r);
}

/* A graph that is being loaded cannot be run, dropped or loaded again until
 * device_loaded has returned its completion. */
static void a_loading_graph_is_busy(void **state)
{
	struct packet p;
	struct rig r;
	uint32_t seq = 0;

	prepare(&r);
	((struct wire_graph_load *)(void *)r.load)->graph = 9;
	p = (struct packet){ 1000, 0, NULL, r.load, sizeof(r.load) };
	assert_false(device_dispatch(r.dev, &p, &r.done));
	assert_int_equal(device_loading(r.dev), 1);
	run.graph = 9;
	wants(&r, send_run(&r), -EBUSY, "graph 9 is still loading");
	wants(&r, rig_simple(&r, WIRE_GRAPH_DROP, 9), -EBUSY, "still loading");
	wants(&r, rig_send(&r, NULL, 0, r.load, sizeof(r.load)), -EBUSY,
		"still loading");
	assert_true(device_loaded(r.dev, true, &seq, &r.done));
	assert_int_equal(seq, 1000);
	assert_int_equal(r.done.status, 0);
	assert_false(device_loaded(r.dev, true, &seq, &r.done));
	assert_int_equal(send_run(&r), 0);
	rig_close(&r);
}

/* A request that fails still invalidates the cache lines of its refs. */
static void failed_requests_invalidate(void **state)
{
	struct rig_opts o = { .seed = 1, .coherence = COHERENCE_CHECK };
	struct rig_batch b;
	float in[4 * 64] = { 0 }, out[4 * 64];
	struct rig r;

	rig_open(&r, &o);
	rig_chain(&b, 0, 4);
	assert_int_equal(rig_run(&r, &b, in, out), 0);
	b.row[0].n_spans = 5;
	in[0] = 1;
	assert_int_equal(rig_run(&r, &b, in, out), -EINVAL);
	b.row[0].n_spans = 0;
	in[1] = 1;
	assert_int_equal(rig_run(&r, &b, in, out), 0);
	if (r.n_reports)
		fail_msg("%s", r.report[0]);
	rig_close(&r);
}

/* Without a phone's profile no cost is computed. With a profile, the cost is
 * that of a pass over all rows of the graph, however few rows the run has. */
static void prices_for_the_phone_of_the_profile(void **state)
{
	const size_t whole = sizeof(struct wire_soc) + sizeof(struct soc);
	struct soc soc = rig_some_phone(), bad = soc;
	struct price four, two;
	float in[2 * 64] = { 1 };
	char more[40];
	struct rig_batch b;
	struct rig r;

	snprintf(more, sizeof(more), "soc: count is %zu", SOC_COUNT + 1);
	prepare(&r);
	assert_int_equal(send_run(&r), 0);
	for (unsigned i = 0; i < WIRE_PRICE_WORDS; i++)
		assert_int_equal(r.done.price[i], 0);
	wants(&r, rig_send_soc(&r, &soc, SOC_COUNT, whole - 8), -EMSGSIZE,
		"soc: ");
	wants(&r, rig_send_soc(&r, &soc, SOC_COUNT + 1, whole), -EINVAL, more);
	bad.clock_hz = 0;
	wants(&r, rig_send_soc(&r, &bad, SOC_COUNT, whole), -ERANGE,
		"clock_hz");
	assert_int_equal(send_run(&r), 0);
	assert_int_equal(r.done.price[0], 0);

	assert_int_equal(rig_send_soc(&r, &soc, SOC_COUNT, whole), 0);
	assert_int_equal(send_run(&r), 0);
	memcpy(&four, r.done.price, sizeof(four));
	assert_true(four.total_ps > 0 && four.counts.matrix_tiles > 0);
	assert_true(four.counts.maintenance_bytes > 0);
	rig_chain(&b, 0, 2);
	rig_put(&r, &b, in);
	n_refs = rig_refs(&r, refs);
	run.rows = 2;
	assert_int_equal(send_run(&r), 0);
	memcpy(&two, r.done.price, sizeof(two));
	assert_int_equal(two.counts.matrix_tiles, four.counts.matrix_tiles);
	assert_int_equal(two.counts.dma_bytes, four.counts.dma_bytes);
	rig_close(&r);
}

/*
 * With cached rings, the counters of a request include the maintenance for its
 * two packets: for the request's index and bytes, for the index that releases
 * the request, and for the completion's bytes and index.
 */
static void counts_the_maintenance_of_cached_rings(void **state)
{
	for (unsigned contract = 1; contract <= 2; contract++) {
		struct rig_opts o = { .seed = 1,
			.precision = WIRE_F16_KV16,
			.contract = contract };
		struct wire_counters off, on;
		uint64_t request = sizeof(struct wire_header) + sizeof(run);
		struct rig r;

		prepare_with(&r, &o);
		request += n_refs * sizeof(refs[0]);
		assert_int_equal(send_run(&r), 0);
		off = r.done.counters;
		rig_close(&r);
		o.cached_rings = true;
		prepare_with(&r, &o);
		assert_int_equal(send_run(&r), 0);
		on = r.done.counters;
		assert_int_equal(on.invalidated_lines - off.invalidated_lines,
			contract == 1 ? 1 + (request + 63) / 64 : 0);
		/* The completion ends after its counters, at byte 96: two
		 * lines. Each of the two indices is one line. */
		assert_int_equal(on.cleaned_lines - off.cleaned_lines,
			contract == 1 ? 2 + 2 : 0);
		assert_int_equal(on.whole_calls - off.whole_calls,
			contract == 1 ? 0 : 5);
		rig_close(&r);
	}
}

/* A device that cannot be opened says why and leaves nothing open. */
static void refuses_unusable_configurations(void **state)
{
	static struct wire_trace no_trace;
	const struct device_config usual = { .threads = 1,
		.va_window = 16 << 20 };
	struct device_config c[] = { usual, usual, usual };
	static const struct {
		int code;
		const char *says;
	} why[] = {
		{ -EPROTO, "trace.magic 0x00000000" },
		{ -EINVAL, "257 mapping slots" },
		{ -EINVAL, "coherence level 99" },
	};

	c[0].trace = &no_trace;
	c[0].trace_bytes = sizeof(no_trace);
	c[1].va_slots = 257;
	c[2].coherence.level = 99;
	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		struct device *d = NULL;
		struct err e = { 0 };
		unsigned fds = harness_fds();

		assert_int_equal(device_open(&d, &c[i], &e), why[i].code);
		if (!strstr(e.text, why[i].says))
			fail_msg("'%s' does not say '%s'", e.text, why[i].says);
		assert_null(d);
		assert_int_equal(harness_fds(), fds);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(refuses_unusable_configurations),
	cmocka_unit_test(names_a_bad_op),
	cmocka_unit_test(names_a_bad_ref),
	cmocka_unit_test(names_a_bad_run),
	cmocka_unit_test(names_a_bad_row),
	cmocka_unit_test(maps_and_unmaps),
	cmocka_unit_test(a_full_window_reports_its_space),
	cmocka_unit_test(graphs_are_loaded_and_dropped),
	cmocka_unit_test(graphs_are_counted),
	cmocka_unit_test(a_loading_graph_is_busy),
	cmocka_unit_test(failed_requests_invalidate),
	cmocka_unit_test(prices_for_the_phone_of_the_profile),
	cmocka_unit_test(counts_the_maintenance_of_cached_rings),
};

TEST_FILE(tests)
