/*
 * The phone time (simulated time) of sessions on a flash image, from which
 * layers are read in each pass ($TANDEM_NPU; skipped if unset). The phone time
 * must equal that of a small simulation, to the picosecond. If all layers are
 * in memory, the phone time must equal the sum of the times of its parts.
 */
#include "base/err.h"
#include "host/model/shapes.h"
#include "host/session/batch.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/price.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/model/model_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/stream_fixture.h"

/* A simulation in which each engine (CPU, NPU, flash) does one thing at a
 * time. */
struct simulation {
	uint64_t cpu, npu, flash;
	uint64_t ready[64]; /* end of each read, in order */
	unsigned begun, used, streamed;
	/* [LAYERS]: m if the layer is in memory, f if it is on flash */
	const char *place;
	unsigned queue;         /* reads that flash handles at a time */
	uint64_t before;        /* time to the first byte of a read */
	uint64_t layer[LAYERS]; /* time to read each streamed layer */
};

static void begin_read(struct simulation *m, uint64_t from)
{
	uint64_t issued = from, first;

	if (m->begun >= m->queue && m->ready[m->begun - m->queue] > from)
		issued = m->ready[m->begun - m->queue];
	first = issued + m->before;
	m->flash = m->flash > first ? m->flash : first;
	m->flash += m->layer[m->begun % m->streamed] - m->before;
	m->ready[m->begun++] = m->flash;
}

/*
 * Simulate a pass, layer after layer. The first layer takes `first` on the NPU,
 * every other layer takes `next`. The request of a streamed layer waits until
 * the layer has been read. The staging slot (buffer) of a streamed layer is
 * free when the layer ends, and a further read can begin then.
 */
static void pass(struct simulation *m, uint64_t first, uint64_t next)
{
	uint64_t end[LAYERS];

	for (unsigned l = 0; l < LAYERS; l++) {
		bool streamed = m->place[l] == 'f';
		uint64_t ready = streamed ? m->ready[m->used++] : 0;

		m->cpu = m->cpu > ready ? m->cpu : ready;
		m->npu = m->npu > m->cpu ? m->npu : m->cpu;
		m->npu += l ? next : first;
		end[l] = m->npu;
		if (l && m->place[l - 1] == 'f')
			begin_read(m, end[l - 1]);
	}
	m->cpu = m->npu;
	if (m->place[LAYERS - 1] == 'f')
		begin_read(m, end[LAYERS - 1]);
}

/* Phone time of a pass of one row. The row is not accepted, so all passes are
 * equal. */
static uint64_t phone_pass(struct fixture *f)
{
	const int32_t token = 3;
	uint64_t before = session_phone_ps(f->s);
	struct err e = { 0 };

	assert_ok(session_continue(f->s, SESSION_TEXT, &token, 1, &e), &e);
	return session_phone_ps(f->s) - before;
}

/* Phone time of a pass of a model with n layers, all in memory. Each layer is a
 * block. */
static uint64_t resident_pass(struct fixture *f, uint32_t n)
{
	struct model_file file = f->file;
	struct model *m;
	uint64_t ps;

	file.n_layer = n;
	m = model_file_open(&file);
	pair_open(&f->s, m, &f->opts);
	ps = phone_pass(f);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(phone_pass(f), ps);
	pair_close(&f->s);
	model_close(m);
	return ps;
}

static void simulate(
	struct fixture *f, const char *place, uint64_t first, uint64_t next)
{
	struct simulation m = {
		.place = place,
		.queue = (unsigned)f->soc.flash_queue,
		.before = (uint64_t)(f->soc.flash_read_s * 1e12 + .5),
	};
	struct price host = { .cpu_ps = 1, .total_ps = first * 40 };

	for (unsigned l = 0; l < LAYERS; l++) {
		struct price p;

		price_flash(
			&f->soc, image_file_layer(&f->image, l)->stored, &p);
		if (place[l] == 'f')
			m.layer[m.streamed++] = p.total_ps;
	}
	for (unsigned i = 0; i < f->opts.stage_slots && m.streamed; i++)
		begin_read(&m, 0);
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t flash = m.flash;

		if (i == 5) { /* flash reads ahead during this work */
			session_add_work_of(f->s, TRACE_PHONE_WORK, &host);
			m.cpu += host.total_ps;
		}
		assert_int_equal(session_ahead(f->s),
			m.streamed && flash > m.cpu ? flash - m.cpu : 0);
		phone_pass(f);
		pass(&m, first, next);
		if (session_phone_ps(f->s) != m.cpu)
			fail_msg("%s, %u slots, pass %u: %llu ps, not %llu",
				place, f->opts.stage_slots, i,
				(unsigned long long)session_phone_ps(f->s),
				(unsigned long long)m.cpu);
	}
	pair_close(&f->s);
}

static void test_timeline(void **state)
{
	static const unsigned slots[] = { 2, 3, 5, 9 };
	static const char *const place[2][LAYERS + 1] = {
		{ "fffff", "mffff", "mmfff", "mmmff", "mmmmf", "mmmmm" },
		{ "fffff", "mffff", "mfmff", "mfmmf", "mmmmf", "mmmmm" },
	};
	struct fixture *f = *state;
	uint64_t first, next, whole;
	struct err e = { 0 };

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	whole = resident_pass(f, LAYERS);
	next = whole - resident_pass(f, LAYERS - 1);
	first = whole - (LAYERS - 1) * next;
	assert_int_equal(resident_pass(f, 2), first + next);
	for (unsigned i = 0; i < 4; i++) {
		f->opts.stage_slots = slots[i];
		for (unsigned budget = 0; budget <= LAYERS; budget++) {
			f->opts.dram_share = .2 * budget + .01;
			f->opts.resident_runs = 1;
			simulate(f, place[0][budget], first, next);
			f->opts.resident_runs = 2;
			simulate(f, place[1][budget], first, next);
		}
	}
}

/* Several reads at a time hide the start-up time of each read, as long as there
 * are slots for them. No read takes less time than the transfer of its bytes.
 * session_read_time leaves out the hidden time. */
static void test_queue(void **state)
{
	struct fixture *f = *state;
	uint64_t first, next, whole, bytes, begin;
	struct err e = { 0 };
	struct price read;

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	whole = resident_pass(f, LAYERS);
	next = whole - resident_pass(f, LAYERS - 1);
	first = whole - (LAYERS - 1) * next;
	f->opts.dram_share = 0;
	for (unsigned queue = 1; queue <= 64; queue *= 2) {
		f->soc.flash_queue = queue;
		f->opts.stage_slots = 2 + queue % 5;
		simulate(f, "fffff", first, next);
	}
	price_flash(&f->soc, image_file_layer(&f->image, 0)->stored, &read);
	begin = (uint64_t)(f->soc.flash_read_s * 1e12 + .5);
	bytes = read.total_ps - begin;
	f->opts.stage_slots = 3;
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 1; i < 5; i++)
		assert_true(phone_pass(f) < 2 * begin + LAYERS * bytes + whole);
	assert_true(session_phone_ps(f->s) >= 4 * LAYERS * bytes);
	assert_int_equal(session_read_time(f->s), LAYERS * bytes);
	pair_close(&f->s);
	f->soc.flash_queue = 1;
	pair_open(&f->s, f->image.model, &f->opts);
	assert_int_equal(session_read_time(f->s), LAYERS * read.total_ps);
	pair_close(&f->s);
}

/* Without reading ahead, a pass alternates between reading and computing. Flash
 * is idle after the pass, so reads do not overlap with the host's work between
 * passes. */
static void test_turns(void **state)
{
	struct fixture *f = *state;
	struct price host = { .cpu_ps = 1, .total_ps = 12345 }, read;
	struct err e = { 0 };
	uint64_t whole;

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	f->soc.flash_ahead = 0;
	whole = resident_pass(f, LAYERS);
	price_flash(&f->soc, image_file_layer(&f->image, 0)->stored, &read);
	for (unsigned slots = 2; slots < 5; slots++) {
		f->opts.stage_slots = slots;
		for (unsigned kept = 0; kept < LAYERS; kept++) {
			uint64_t reads = (LAYERS - kept) * read.total_ps;

			f->opts.dram_share = .2 * kept + .01;
			pair_open(&f->s, f->image.model, &f->opts);
			assert_int_equal(session_read_time(f->s), reads);
			for (unsigned i = 0; i < 3; i++) {
				assert_int_equal(session_ahead(f->s), 0);
				assert_int_equal(phone_pass(f), whole + reads);
				session_add_work_of(
					f->s, TRACE_PHONE_WORK, &host);
			}
			pair_close(&f->s);
		}
	}
}

/* Reading a part of a layer ahead shortens the wait for the layer by that
 * part's time. */
static void test_some_ahead(void **state)
{
	struct fixture *f = *state;
	uint64_t last = 0, whole;
	struct err e = { 0 };
	struct price read;

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	/* Flash is so fast that the computation could hide all reads. */
	f->soc.flash_bytes_per_s = 1e12;
	whole = resident_pass(f, LAYERS);
	f->opts.dram_share = 0;
	price_flash(&f->soc, image_file_layer(&f->image, 0)->stored, &read);
	for (unsigned tenths = 0; tenths < 10; tenths++) {
		uint64_t took, want = LAYERS * read.total_ps / 10;

		f->soc.flash_ahead = tenths / 10.;
		want = whole + want * (10 - tenths);
		pair_open(&f->s, f->image.model, &f->opts);
		phone_pass(f);
		took = phone_pass(f);
		pair_close(&f->s);
		assert_true(!last || took <= last);
		assert_true(took >= want - LAYERS);
		last = took;
	}
}

/* If the priced shape (the layer sizes for which time is computed) equals that
 * of the running model, a pass has the same phone time as without a priced
 * shape. */
static void test_as_what_runs(void **state)
{
	struct fixture *f = *state;
	const struct shape same = { .name = "the same",
		.arch = "llama",
		.n_vocab = VOCAB,
		.n_layer = LAYERS,
		.n_embd = WIDTH,
		.n_head = f->file.n_head,
		.n_kv_head = f->file.n_kv_head,
		.head_dim = f->file.head_dim,
		.n_ff = f->file.n_ff };
	struct err e = { 0 };

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->opts.soc = &f->soc;
	for (unsigned kept = 0; kept <= LAYERS; kept++) {
		uint64_t own[4];

		f->opts.dram_share = .2 * kept + .01;
		for (unsigned as = 0; as < 2; as++) {
			f->opts.as = as ? &same : NULL;
			pair_open(&f->s, f->image.model, &f->opts);
			for (unsigned i = 0; i < 4; i++) {
				uint64_t ps = phone_pass(f);

				if (as)
					assert_int_equal(ps, own[i]);
				own[i] = ps;
			}
			pair_close(&f->s);
		}
	}
}

struct spent {
	uint64_t passes_ps, logits_ps, total_ps;
	struct session_stats stats;
};

/* Run twelve passes, alternately of one row and of eight, and compute the
 * logits of each row. Returns the time spent. */
static struct spent spend(struct fixture *f)
{
	static float logits[8 * VOCAB];
	struct spent s = { 0 };
	int32_t token[8];
	struct err e = { 0 };

	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 12; i++) {
		uint32_t n = i % 2 ? 8 : 1;
		uint64_t from = session_phone_ps(f->s), mid;

		for (unsigned k = 0; k < 8; k++)
			token[k] = token_at(9, i * 8 + k);
		assert_ok(
			session_continue(f->s, SESSION_TEXT, token, n, &e), &e);
		mid = session_phone_ps(f->s);
		assert_ok(session_logits(f->s, 0, n, logits, &e), &e);
		s.passes_ps += mid - from;
		s.logits_ps += session_phone_ps(f->s) - mid;
		assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 1, &e), &e);
	}
	s.total_ps = session_phone_ps(f->s);
	session_stats(f->s, &s.stats);
	assert_int_equal(s.stats.price.total_ps, s.total_ps);
	pair_close(&f->s);
	return s;
}

/* With everything in memory no work overlaps, so the time is the sum of its
 * parts. With nothing in memory a pass takes at least the time of its reads and
 * of its NPU work. */
static void test_sum_of_parts(void **state)
{
	struct fixture *f = *state;
	struct spent all, none, again;
	struct price one, eight, flash;
	struct err e = { 0 };
	uint64_t read;

	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	f->soc.flash_queue = 1; /* reads run one at a time */
	f->opts.soc = &f->soc;
	f->opts.stream.threaded = true;
	all = spend(f);
	assert_int_equal(price_cpu_matmul(&f->soc, 1, VOCAB, WIDTH,
				 f->model->output->type, &one),
		0);
	assert_int_equal(price_cpu_matmul(&f->soc, 8, VOCAB, WIDTH,
				 f->model->output->type, &eight),
		0);
	assert_int_equal(all.logits_ps, 6 * (one.total_ps + eight.total_ps));
	assert_int_equal(all.total_ps, all.passes_ps + all.logits_ps);
	assert_int_equal(all.stats.price.flash_ps, 0);

	f->opts.dram_share = 0;
	none = spend(f);
	again = spend(f);
	assert_memory_equal(
		&none.stats.price, &again.stats.price, sizeof(struct price));
	price_flash(&f->soc, image_file_layer(&f->image, 0)->stored, &flash);
	/* time of the reads of all used layers */
	read = 12 * LAYERS * flash.total_ps;
	assert_true(none.total_ps >= read);
	assert_true(none.total_ps >= all.total_ps);
	assert_true(none.total_ps <= all.total_ps + read);
	assert_int_equal(none.stats.price.counts.flash_bytes,
		(12 * LAYERS + f->opts.stage_slots) *
			image_file_layer(&f->image, 0)->stored);
	/* Apart from the reads, the work is the same with all layers in memory
	 * and with none. */
	assert_int_equal(none.stats.price.matrix_ps, all.stats.price.matrix_ps);
	assert_int_equal(none.stats.price.cpu_ps, all.stats.price.cpu_ps);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_timeline),
	TEST(test_queue),
	TEST(test_turns),
	TEST(test_some_ahead),
	TEST(test_as_what_runs),
	TEST(test_sum_of_parts),
};

TEST_FILE(tests)
