/* The cache of the experts of a model, which are read from flash when a layer
 * needs them: the bytes in the cache's slots (one expert each), the reads and
 * their statistics, eviction, the times on a simulated phone, and faults of
 * flash. */
#include "host/memory/experts.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/rng.h"
#include "base/workers.h"
#include "host/convert/synth.h"
#include "host/model/shapes.h"
#include "host/npu/phone.h"
#include "host/trace/trace.h"
#include "host/trace/trace_sum.h"
#include "shm/buffer.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS  3
#define EXPERTS 8
#define ALL     (LAYERS * EXPERTS)
#define STRIP   ((size_t)1 << 20)

struct fixture {
	/* file: the model as a GGUF file; image: the same model as a flash
	 * image */
	struct model *file;
	struct image_file image;
	struct workers *workers;
	struct experts *x;
	struct flash_fault *fault;
	uint8_t *want[ALL]; /* the bytes of each expert */
	size_t bytes;       /* bytes of one expert */
};

/* Make the expected bytes: pack the experts of the GGUF file one by one. */
static void make_want(struct fixture *f)
{
	struct wire_tensor w[WIRE_T_COUNT];

	for (uint32_t i = 0; i < ALL; i++) {
		uint32_t l = i / EXPERTS;

		f->bytes = experts_tensors(f->file, LAYOUT_TILES, STRIP, l, w);
		f->want[i] = calloc(1, f->bytes);
		assert_non_null(f->want[i]);
		for (unsigned t = WIRE_T_GATE; t < WIRE_T_COUNT; t++) {
			const struct gguf_tensor *g = f->file->layer[l][t];

			layout_pack(f->workers, w[t].type,
				f->want[i] + w[t].offset,
				(struct layout_source){ g->type,
					(const char *)g->data +
						i % EXPERTS *
							(g->bytes / EXPERTS) },
				w[t].rows, w[t].cols);
		}
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct shape shape = *shape_named("tiny-moe");
	const struct synth_opts o = { &shape, DTYPE_Q4_0, DTYPE_Q8_0, 5 };
	struct err e = { 0 };
	char path[4300];

	assert_non_null(f);
	shape.n_layer = LAYERS;
	shape.n_expert = EXPERTS;
	shape.n_used = 2;
	shape.n_ff = 96;
	snprintf(path, sizeof(path), "%s/moe.gguf", harness_tmp());
	assert_ok(synth_write(path, &o, &e), &e);
	assert_ok(model_open(&f->file, path, NULL, NULL, &e), &e);
	image_file_open(&f->image, f->file, 0);
	assert_ok(workers_open(&f->workers, 2, &e), &e);
	make_want(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	experts_close(f->x);
	free(f->fault);
	for (uint32_t i = 0; i < ALL; i++)
		free(f->want[i]);
	workers_close(f->workers);
	image_file_remove(&f->image);
	model_close(f->file);
	free(f);
	return 0;
}

static int open_with(struct fixture *f, struct experts_opts o, const char *plan,
	struct err *e)
{
	const struct progress_sink quiet = { 0 };

	experts_close(f->x);
	f->x = NULL;
	free(f->fault);
	f->fault = NULL;
	if (plan)
		assert_ok(flash_fault_parse(&f->fault, plan, e), e);
	o.model = o.model ? o.model : f->image.model;
	o.layout = LAYOUT_TILES;
	o.strip_max = STRIP;
	o.stream.fault = f->fault;
	return experts_open(&f->x, &o, f->workers, &quiet, e);
}

static void open_cache(struct fixture *f, struct experts_opts o)
{
	struct err e = { 0 };

	assert_ok(open_with(f, o, NULL, &e), &e);
}

static struct experts_stats stats_of(const struct fixture *f)
{
	struct experts_stats st;

	experts_stats(f->x, &st);
	return st;
}

/* ---- running layers ---- */

static void assert_expert(
	struct fixture *f, uint32_t layer, const struct expert_place *at)
{
	struct buffer *b = experts_buffer(f->x, at->buffer);

	assert_in_range(at->expert, 0, EXPERTS - 1);
	assert_memory_equal(buffer_begin(b, at->offset, f->bytes, BUFFER_READ),
		f->want[layer * EXPERTS + at->expert], f->bytes);
	buffer_end(b, at->offset, f->bytes, BUFFER_READ);
}

/* The experts whose bits are set in `set`, in ascending order. */
static uint32_t list(unsigned set, uint32_t expert[EXPERTS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < EXPERTS; i++)
		if (set & 1u << i)
			expert[n++] = i;
	return n;
}

static void begin(struct fixture *f, uint32_t layer, unsigned set)
{
	uint32_t expert[EXPERTS], n = list(set, expert);
	struct err e = { 0 };

	assert_ok(experts_begin(f->x, layer, expert, n, &e), &e);
}

static void ahead(struct fixture *f, uint32_t layer, unsigned set)
{
	uint32_t expert[EXPERTS], n = list(set, expert);

	experts_ahead(f->x, layer, expert, n);
}

/* Take all experts of the most recent begin() of the layer, up to `room` at a
 * time, and release each immediately. Returns the set of these experts. */
static unsigned take_all(struct fixture *f, uint32_t layer, uint32_t room)
{
	struct expert_place at[EXPERTS];
	struct err e = { 0 };
	unsigned seen = 0;
	uint32_t n;

	for (;;) {
		assert_ok(experts_take(f->x, 0, at, room, &n, &e), &e);
		if (!n)
			return seen;
		assert_in_range(n, 1, room);
		for (uint32_t k = 0; k < n; k++) {
			assert_expert(f, layer, &at[k]);
			assert_false(seen & 1u << at[k].expert);
			seen |= 1u << at[k].expert;
			experts_done(f->x, at[k].slot, 0);
		}
	}
}

static void run(struct fixture *f, uint32_t layer, unsigned set)
{
	begin(f, layer, set);
	assert_int_equal(take_all(f, layer, 3), set);
}

/* ---- all in memory ---- */

static void all_experts_are_loaded(void **state)
{
	struct fixture *f = *state;
	const struct model *of[] = { f->file, f->image.model };

	for (unsigned i = 0; i < ARRAY_LEN(of); i++) {
		open_cache(f,
			(struct experts_opts){ .model = of[i], .slots = 99 });
		assert_int_equal(experts_buffers(f->x), 1);
		assert_string_equal(experts_how(f->x), "");
		assert_int_equal(experts_not_finite(f->x), 0);
		for (uint32_t l = 0; l < LAYERS; l++)
			run(f, l, 0xff);
		ahead(f, 0, 0xff);
		assert_int_equal(stats_of(f).used, ALL);
		assert_int_equal(stats_of(f).found, ALL);
		assert_int_equal(stats_of(f).read, 0);
		assert_int_equal(stats_of(f).stream.reads, 0);
	}
}

static void loading_fails_with_the_name_of_the_expert(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	assert_int_equal(open_with(f, (struct experts_opts){ .slots = ALL },
				 "eio@9+", &e),
		-EIO);
	assert_non_null(strstr(e.text, "m.tdm"));
	assert_non_null(strstr(e.text, "expert 8"));
	f->x = NULL;
}

static void experts_of_a_model_file_must_all_fit(void **state)
{
	struct fixture *f = *state;
	struct experts_opts o = { .model = f->file, .slots = ALL - 1 };
	struct err e = { 0 };

	assert_int_equal(open_with(f, o, NULL, &e), -EINVAL);
	assert_non_null(strstr(e.text, "23 of 24"));
	assert_non_null(strstr(e.text, "tandem convert"));
	f->x = NULL;
}

static void an_expert_must_fit_into_a_buffer(void **state)
{
	struct fixture *f = *state;
	const struct gguf_tensor *layer[LAYERS][WIRE_T_COUNT];
	struct gguf_tensor big = *f->file->layer[1][WIRE_T_GATE];
	struct model m = *f->file;
	struct err e = { 0 };

	memcpy(layer, m.layer, sizeof(layer));
	big.type = DTYPE_Q4_0;
	big.dim[0] = big.dim[1] = 1 << 16;
	layer[1][WIRE_T_GATE] = &big;
	m.layer = layer;
	assert_int_equal(
		open_with(f, (struct experts_opts){ .model = &m, .slots = ALL },
			NULL, &e),
		-EFBIG);
	assert_non_null(strstr(e.text, "an expert has 2304 MiB of weights"));
	assert_non_null(strstr(e.text, "at most 1024 MiB"));
	f->x = NULL;
}

/* However many descriptors are missing, the error names the cause and nothing
 * stays open. */
static void opening_needs_descriptors(void **state)
{
	struct fixture *f = *state;
	unsigned n = 0, fds = harness_fds();
	struct err e = { 0 };
	int ret;

	for (;; n++) {
		harness_limit_fds(n);
		ret = open_with(
			f, (struct experts_opts){ .slots = 3 }, NULL, &e);
		harness_limit_fds(UINT_MAX);
		if (!ret)
			break;
		assert_int_equal(ret, -EMFILE);
		assert_non_null(strstr(e.text, "Too many open files"));
		assert_int_equal(harness_fds(), fds);
		f->x = NULL;
	}
	/* one for the buffer and one for the file */
	assert_in_range(n, 2, 10);
}

/* ---- reads ---- */

/* The trace has the reads that the statistics count. */
static void reads_are_traced(void **state)
{
	struct fixture *f = *state;
	struct experts_opts o = { .slots = 4, .stream.depth = 2 };
	struct experts_stats st;
	struct timeline line;
	struct trace_sum sum;
	struct err e = { 0 };
	char path[4300];

	snprintf(path, sizeof(path), "%s/trace", harness_tmp());
	assert_ok(trace_open(&o.trace, path, 0, &e), &e);
	open_cache(f, o);
	run(f, 0, 0x0f);
	run(f, 1, 0x33);
	st = stats_of(f);
	experts_close(f->x);
	f->x = NULL;
	assert_ok(trace_close(o.trace, &e), &e);
	assert_ok(timeline_read_file(&line, path, &e), &e);
	assert_ok(trace_sum(&sum, &line, &e), &e);
	assert_in_range(st.stream.reads, 8, 1000);
	assert_int_equal(sum.flash_reads, st.stream.reads);
	/* The trace counts whole pages. */
	assert_in_range(sum.flash_bytes, st.stream.bytes,
		st.stream.bytes + st.stream.reads * IMAGE_PAGE);
	timeline_release(&line);
}

/* An absent expert is read, and one that is in memory is not. */
static void statistics_are_exact(void **state)
{
	struct fixture *f = *state;
	struct experts_stats st;
	uint64_t stored;

	open_cache(f, (struct experts_opts){ .slots = 8 });
	run(f, 0, 0x0f);
	st = stats_of(f);
	assert_int_equal(st.used, 4);
	assert_int_equal(st.found, 0);
	assert_int_equal(st.read, 4);
	run(f, 1, 0x03);
	run(f, 0, 0x07);
	st = stats_of(f);
	assert_int_equal(st.used, 9);
	assert_int_equal(st.found, 3);
	assert_int_equal(st.read, 6);

	/* Three of these experts are absent and only two slots are free, so one
	 * expert is evicted. */
	ahead(f, 1, 0x1f);
	assert_int_equal(stats_of(f).read_ahead, 3);
	run(f, 1, 0x04);
	assert_int_equal(stats_of(f).found_ahead, 1);
	assert_int_equal(stats_of(f).read, 9);

	/* Of two experts read ahead, one is used and the other is evicted. */
	open_cache(f, (struct experts_opts){ .slots = 2 });
	ahead(f, 0, 0x03);
	run(f, 0, 0x02);
	run(f, 1, 0x10);
	st = stats_of(f);
	stored = st.unused_bytes;
	assert_int_equal(st.used, 2);
	assert_int_equal(st.found_ahead, 1);
	assert_int_equal(st.read, 3);
	assert_int_equal(st.read_ahead, 2);
	assert_int_equal(st.unused, 1);
	assert_in_range(stored, f->bytes - 63, f->bytes);
	assert_int_equal(st.stream.extents, 3);
}

/* Experts that are used often stay in memory; experts that were used less often
 * but more recently are evicted. */
static void often_used_experts_stay(void **state)
{
	struct fixture *f = *state;
	uint64_t reads = 0;

	open_cache(f, (struct experts_opts){ .slots = 4 });
	for (unsigned i = 0; i < 6; i++) {
		run(f, 0, 0x01);
		run(f, 1, 0x01);
	}
	for (unsigned i = 1; i < 6; i++)
		run(f, 2, 1u << i);
	assert_int_equal(stats_of(f).read, 7);
	run(f, 0, 0x01);
	run(f, 1, 0x01);
	assert_int_equal(stats_of(f).read, 7);

	/* After long disuse the experts that were used often are evicted. */
	for (unsigned i = 0; i < 60; i++) {
		run(f, 1, 0xc0);
		run(f, 2, 0xc0);
		reads = i == 40 ? stats_of(f).read : reads;
	}
	assert_int_equal(stats_of(f).read, reads);
}

/* A pass uses more experts than there are slots. The later passes must
 * nevertheless find, on average, at least 4 of their experts in the 12
 * slots. */
static void a_pass_larger_than_memory_finds_experts(void **state)
{
	struct fixture *f = *state;

	open_cache(f, (struct experts_opts){ .slots = 12 });
	for (unsigned pass = 0; pass < 10; pass++)
		for (uint32_t l = 0; l < LAYERS; l++)
			run(f, l, 0xff);
	assert_int_equal(stats_of(f).used, 10 * ALL);
	assert_in_range(stats_of(f).found, 9 * 4, 9 * 12);
}

/* If all slots are in use, the caller has to release an expert before it can
 * take another one. */
static void full_slots_are_reported(void **state)
{
	struct expert_place at[EXPERTS], more;
	struct fixture *f = *state;
	struct err e = { 0 };
	uint32_t n = 0, some;

	open_cache(f, (struct experts_opts){ .slots = 2 });
	begin(f, 0, 0x1f);
	while (n < 2) {
		assert_ok(experts_take(f->x, 0, at + n, 9, &some, &e), &e);
		n += some;
	}
	assert_int_equal(experts_take(f->x, 0, &more, 1, &some, &e), -EAGAIN);
	assert_int_equal(some, 0);
	assert_expert(f, 0, &at[0]);
	assert_expert(f, 0, &at[1]);
	experts_done(f->x, at[1].slot, 0);
	assert_ok(experts_take(f->x, 0, &more, 1, &some, &e), &e);
	assert_int_equal(some, 1);
	assert_int_equal(more.slot, at[1].slot);
	assert_expert(f, 0, &at[0]);
	experts_done(f->x, at[0].slot, 0);
	experts_done(f->x, more.slot, 0);
	assert_int_equal(take_all(f, 0, 1) | 1u << at[0].expert |
			1u << at[1].expert | 1u << more.expert,
		0x1f);
}

/* ---- random calls ---- */

static const struct stream_opts modes[] = {
	{ 0 },
	{ .threaded = true },
	{ .buffered = true, .depth = 1 },
	{ .block = IMAGE_PAGE, .depth = 3 },
};

struct held {
	struct expert_place at[ALL];
	uint32_t layer[ALL];
	uint32_t n;
};

static void done_with(struct fixture *f, struct held *h, uint32_t i)
{
	assert_expert(f, h->layer[i], &h->at[i]);
	experts_done(f->x, h->at[i].slot, 0);
	h->n--;
	h->at[i] = h->at[h->n];
	h->layer[i] = h->layer[h->n];
}

static void take_some(struct fixture *f, struct held *h, uint32_t layer,
	unsigned *left, uint32_t room)
{
	struct err e = { 0 };
	uint32_t n;
	int ret = experts_take(f->x, 0, h->at + h->n, room, &n, &e);

	if (ret == -EAGAIN) {
		assert_true(h->n);
		return;
	}
	assert_ok(ret, &e);
	assert_true(n || !*left);
	for (; n; n--) {
		const struct expert_place *at = &h->at[h->n];

		assert_true(*left & 1u << at->expert);
		*left &= ~(1u << at->expert);
		assert_expert(f, layer, at);
		for (uint32_t i = 0; i < h->n; i++)
			assert_true(h->at[i].slot != at->slot ||
				(h->layer[i] == layer &&
					h->at[i].expert == at->expert));
		h->layer[h->n++] = layer;
	}
}

/* Make random calls. Sometimes the experts of a begun layer are never taken, or
 * are kept in use while other layers run. All experts have their bytes when
 * they are taken and when they are released. */
static void random_calls(struct fixture *f, uint32_t slots, uint64_t seed)
{
	struct held h = { .n = 0 };
	uint32_t layer = 0;
	unsigned left = 0;

	for (uint64_t i = 0; i < 400; i++) {
		unsigned dice = (unsigned)(rng_uniform(seed, i, 0) * 100);
		unsigned set = (unsigned)(rng_uniform(seed, i, 1) *
			(rng_uniform(seed, i, 2) < 0.5 ? 16 : 256));
		uint32_t any = (uint32_t)(rng_uniform(seed, i, 3) * 8);

		if (dice < 20 && h.n + EXPERTS <= ALL) {
			layer = any < 7 ? (layer + 1) % LAYERS : any % LAYERS;
			begin(f, layer, set);
			left = set;
		} else if (dice < 60 && h.n + EXPERTS <= ALL) {
			take_some(f, &h, layer, &left, 1 + any);
		} else if (dice < 85 && h.n) {
			done_with(f, &h, any % h.n);
		} else if (dice < 95) {
			ahead(f, (layer + 1) % LAYERS, set);
		} else {
			experts_read_on(f->x);
		}
	}
	while (h.n)
		done_with(f, &h, 0);
	assert_int_equal(take_all(f, layer, 2), left);
	assert_true(stats_of(f).used >= stats_of(f).found);
	assert_true(stats_of(f).read >= stats_of(f).read_ahead);
	assert_true(stats_of(f).read_ahead >= stats_of(f).unused);
}

static void slots_have_the_right_bytes(void **state)
{
	static const uint32_t slots[] = { 2, 3, 5, 9, 16, ALL - 1, ALL };
	uint64_t seed = harness_seed();

	for (unsigned i = 0; i < ARRAY_LEN(slots); i++)
		for (unsigned k = 0; k < ARRAY_LEN(modes); k++) {
			open_cache(*state,
				(struct experts_opts){ .slots = slots[i],
					.stream = modes[k] });
			random_calls(*state, slots[i], seed + 10 * i + k);
		}
}

/* ---- a simulated phone ---- */

#define MS ((uint64_t)1000000000) /* in ps */

/* Flash takes 1 ms to begin a read, and 2 ms to transfer an expert. */
static struct soc phone_of(uint64_t bytes, double flash_ahead)
{
	return (struct soc){ .flash_read_s = 1e-3,
		.flash_bytes_per_s = (double)bytes / 2e-3,
		.flash_queue = 32,
		.flash_ahead = flash_ahead };
}

static void reads_have_times_on_the_phone(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone_of(1000, 1);
	struct phone_time time = { 0 };
	struct expert_place at[EXPERTS];
	struct err e = { 0 };
	uint32_t n;

	open_cache(f,
		(struct experts_opts){ .slots = 8,
			.soc = &soc,
			.time = &time,
			.priced_bytes = 1000 });
	begin(f, 0, 0x07);
	for (unsigned i = 1; i <= 3; i++) {
		assert_ok(experts_take(f->x, 0, at, 8, &n, &e), &e);
		assert_int_equal(n, 1);
		assert_int_equal(at[0].expert, i - 1);
		assert_int_equal(time.cpu_ps, (1 + 2 * i) * MS);
		experts_done(f->x, at[0].slot, time.cpu_ps + 10 * MS);
	}
	assert_int_equal(stats_of(f).wait_ps, 7 * MS);

	/* Experts that are in memory are taken at once. */
	run(f, 0, 0x07);
	assert_int_equal(time.cpu_ps, 7 * MS);
	assert_int_equal(stats_of(f).found, 3);

	/* A read ahead overlaps other work. */
	ahead(f, 1, 0x01);
	time.cpu_ps += 2 * MS;
	begin(f, 1, 0x03);
	assert_ok(experts_take(f->x, time.cpu_ps, at, 8, &n, &e), &e);
	assert_int_equal(n, 1);
	assert_int_equal(time.cpu_ps, 10 * MS);
	experts_done(f->x, at[0].slot, 0);
	take_all(f, 1, 8);
	assert_int_equal(time.cpu_ps, 12 * MS);
	assert_int_equal(stats_of(f).wait_ps, 10 * MS);
	assert_int_equal(stats_of(f).found_ahead, 1);
	assert_int_equal(time.price.counts.flash_bytes, 5 * 1000);

	/* Three experts are needed, and there are two slots. The read of the
	 * third expert begins when a slot is free. */
	open_cache(f,
		(struct experts_opts){ .slots = 2,
			.soc = &soc,
			.time = &time,
			.priced_bytes = 1000 });
	time = (struct phone_time){ 0 };
	begin(f, 0, 0x07);
	time.cpu_ps = 9 * MS;
	assert_ok(experts_take(f->x, 0, at, 8, &n, &e), &e);
	assert_int_equal(n, 2);
	experts_done(f->x, at[0].slot, 20 * MS);
	experts_done(f->x, at[1].slot, 20 * MS);
	take_all(f, 0, 8);
	assert_int_equal(time.cpu_ps, 23 * MS);
}

/* On a phone that cannot read ahead, a read begins only when the work before
 * the read has ended. */
static void a_phone_may_not_read_ahead(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone_of(1000, 0);
	struct phone_time time = { 0 };
	struct expert_place at[EXPERTS];
	struct err e = { 0 };
	uint32_t n;

	open_cache(f,
		(struct experts_opts){ .slots = 8,
			.soc = &soc,
			.time = &time,
			.priced_bytes = 1000 });
	ahead(f, 0, 0x01);
	time.cpu_ps = 50 * MS;
	begin(f, 0, 0x01);
	assert_ok(experts_take(f->x, 60 * MS, at, 8, &n, &e), &e);
	assert_int_equal(n, 1);
	assert_int_equal(time.cpu_ps, 63 * MS);
}

/* The times do not depend on how fast this machine reads. */
static void times_are_the_same_in_every_run(void **state)
{
	struct fixture *f = *state;
	struct soc soc = phone_of(f->bytes, 1);
	uint64_t first = 0, seed = harness_seed();

	for (unsigned k = 0; k < ARRAY_LEN(modes); k++) {
		struct phone_time time = { 0 };

		open_cache(f,
			(struct experts_opts){ .slots = 7,
				.stream = modes[k],
				.soc = &soc,
				.time = &time });
		random_calls(f, 7, seed);
		assert_true(time.cpu_ps);
		assert_true(!k || time.cpu_ps == first);
		first = time.cpu_ps;
		experts_close(f->x);
		f->x = NULL;
	}
}

/* ---- faults ---- */

/* Take the experts of a layer one by one until an expert cannot be read.
 * Returns the error. */
static int take_until(
	struct fixture *f, uint32_t layer, unsigned *left, struct err *e)
{
	struct expert_place at;
	uint32_t n = 1;
	int ret = 0;

	while (!ret && n) {
		ret = experts_take(f->x, 0, &at, 1, &n, e);
		if (ret || !n)
			continue;
		assert_expert(f, layer, &at);
		*left &= ~(1u << at.expert);
		experts_done(f->x, at.slot, 0);
	}
	return ret;
}

/* Whichever read fails, the error names the file and the expert, and the expert
 * can be read afterwards. */
static void a_failed_read_can_be_repeated(void **state)
{
	static const struct {
		const char *verb;
		unsigned reads; /* number of successive reads that fail */
		int ret;
		const char *says;
	} faults[] = {
		{ "eio", 4, -EIO, "cannot read at" },
		{ "flip", 6, -EBADMSG, "try 'tandem verify'" },
		{ "stall", 1, -ETIMEDOUT, "was not answered" },
		{ "short", 1, 0, NULL },
		{ "eio", 1, 0, NULL },
		{ "flip", 1, 0, NULL },
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < ARRAY_LEN(faults); i++)
		for (unsigned at = 1; at <= 6; at++) {
			struct experts_opts o = { .slots = 3,
				.stream = { .depth = 1 } };
			unsigned left = 0x17, errors = 0;
			struct err e = { 0 };
			char plan[100] = "";
			int ret;

			for (unsigned k = 0; k < faults[i].reads; k++) {
				size_t len = strlen(plan);

				snprintf(plan + len, sizeof(plan) - len,
					"%s%s@%u", k ? "," : "", faults[i].verb,
					at + k);
			}
			o.stream.stall_ms =
				faults[i].ret == -ETIMEDOUT ? 50 : 0;
			assert_ok(open_with(f, o, plan, &e), &e);
			if (at > 4)
				run(f, 1, 0x0f);
			begin(f, 0, left);
			while ((ret = take_until(f, 0, &left, &e))) {
				assert_int_equal(ret, faults[i].ret);
				assert_non_null(strstr(e.text, "m.tdm"));
				assert_non_null(strstr(e.text, "expert "));
				assert_non_null(strstr(e.text, faults[i].says));
				assert_true(left);
				errors++;
			}
			assert_int_equal(left, 0);
			assert_int_equal(!!errors, !!faults[i].ret);
			assert_in_range(errors, 0, 4);
		}
}

/* A failed read ahead is not reported: the expert is read when it is needed. */
static void a_failed_read_ahead_is_repeated(void **state)
{
	struct fixture *f = *state;
	struct experts_opts o = { .slots = 3, .stream = { .depth = 1 } };
	struct err e = { 0 };

	assert_ok(open_with(f, o, "eio@1,eio@2,eio@3,eio@4", &e), &e);
	ahead(f, 1, 0x01);
	while (stats_of(f).stream.retries < 3)
		experts_read_on(f->x);
	run(f, 0, 0x07);
	run(f, 1, 0x01);
	assert_int_equal(stats_of(f).found_ahead, 0);
}

/* Once a read has found that the file has become shorter, every later read
 * fails too, until the cache is closed. */
static void a_shorter_file_is_reported(void **state)
{
	struct fixture *f = *state;
	struct experts_opts o = { .slots = 3, .stream = { .depth = 1 } };
	struct err e = { 0 };
	unsigned left = 0x0f;

	assert_ok(open_with(f, o, "shrink@2", &e), &e);
	begin(f, 0, left);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(take_until(f, 0, &left, &e), -ENODATA);
		assert_non_null(strstr(e.text, "has become shorter"));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(
		all_experts_are_loaded, setup, teardown),
	cmocka_unit_test_setup_teardown(
		loading_fails_with_the_name_of_the_expert, setup, teardown),
	cmocka_unit_test_setup_teardown(
		experts_of_a_model_file_must_all_fit, setup, teardown),
	cmocka_unit_test_setup_teardown(
		an_expert_must_fit_into_a_buffer, setup, teardown),
	cmocka_unit_test_setup_teardown(
		opening_needs_descriptors, setup, teardown),
	cmocka_unit_test_setup_teardown(reads_are_traced, setup, teardown),
	cmocka_unit_test_setup_teardown(statistics_are_exact, setup, teardown),
	cmocka_unit_test_setup_teardown(
		often_used_experts_stay, setup, teardown),
	cmocka_unit_test_setup_teardown(
		a_pass_larger_than_memory_finds_experts, setup, teardown),
	cmocka_unit_test_setup_teardown(
		full_slots_are_reported, setup, teardown),
	cmocka_unit_test_setup_teardown(
		slots_have_the_right_bytes, setup, teardown),
	cmocka_unit_test_setup_teardown(
		reads_have_times_on_the_phone, setup, teardown),
	cmocka_unit_test_setup_teardown(
		a_phone_may_not_read_ahead, setup, teardown),
	cmocka_unit_test_setup_teardown(
		times_are_the_same_in_every_run, setup, teardown),
	cmocka_unit_test_setup_teardown(
		a_failed_read_can_be_repeated, setup, teardown),
	cmocka_unit_test_setup_teardown(
		a_failed_read_ahead_is_repeated, setup, teardown),
	cmocka_unit_test_setup_teardown(
		a_shorter_file_is_reported, setup, teardown),
};
TEST_FILE(tests)
