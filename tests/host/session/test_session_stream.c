/*
 * Sessions on a flash image, from which layers are read in each pass
 * ($TANDEM_NPU; skipped if unset). For every share of the layers in memory and
 * every way to read the streamed layers, hidden states and logits equal those
 * of the model file in memory, bit for bit. Reads are counted to the byte. Data
 * that cannot be read is an error and is never used.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/model/shapes.h"
#include "host/session/batch.h"
#include "host/session/refresh.h"
#include "host/session/session.h"
#include "host/shipped/soc_file.h"
#include "tests/harness.h"
#include "tests/host/convert/image_file.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/stream_script.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* ---- equal results ------------------------------------------------------- */

/* Bytes that a pass reads from the image if `resident` layers are in memory. */
static uint64_t stored(const struct fixture *f, uint32_t resident)
{
	static const char *const place[] = { "fffff", "mffff", "mfmff", "mfmmf",
		"mmmmf", "mmmmm" };
	uint64_t sum = 0;

	for (uint32_t l = 0; l < LAYERS; l++)
		if (place[resident][l] == 'f')
			sum += image_file_layer(&f->image, l)->stored;
	return sum;
}

/* Check the statistics: each pass must read each streamed layer once. */
static void check_counts(
	const struct fixture *f, uint32_t resident, uint64_t passes)
{
	uint64_t streamed = LAYERS - resident;
	struct session_stats st;

	session_stats(f->s, &st);
	assert_int_equal(st.passes, passes);
	assert_int_equal(st.resident_layers, resident);
	assert_int_equal(st.staging.layers_used, passes * streamed);
	assert_int_equal(st.staging.bytes_used, passes * stored(f, resident));
	/* The layers that were read but not used are at most those in the
	 * staging slots. */
	assert_in_range(st.staging.stream.extents, passes * streamed,
		(passes * streamed + f->opts.stage_slots) *
			(f->opts.stage_parts ? f->opts.stage_parts : 1));
	assert_int_equal(session_flash_how(f->s) != NULL, streamed > 0);
}

static void check_budget(
	struct fixture *f, uint32_t resident, const struct trace *want)
{
	pair_open(&f->s, f->image.model, &f->opts);
	check_script(f, want);
	check_counts(f, resident, PASSES);
	pair_close(&f->s);
}

static void test_shares(void **state)
{
	static const struct {
		double share;
		uint32_t resident;
	} budget[] = { { 0, 0 }, { 0.4, 2 }, { 0.99, 4 }, { 1, 5 } };
	static const unsigned slots[] = { 2, 3, 5, STREAM_SLOTS };
	struct fixture *f = *state;
	const struct trace *want;
	struct err e = { 0 };

	open_models(f, 0);
	want = reference(f);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	for (unsigned b = 0; b < 4; b++) {
		f->opts.dram_share = budget[b].share;
		for (unsigned s = 0; s < 4; s++) {
			f->opts.stage_slots = slots[s];
			f->opts.soc = s % 2 ? &f->soc : NULL;
			check_budget(f, budget[b].resident, want);
			f->opts.soc = s % 2 ? NULL : &f->soc;
			check_budget(f, budget[b].resident, want);
		}
	}
}

/* Each layer is read in several parts. */
static void test_parts(void **state)
{
	static const unsigned slots[] = { 2, 3, STREAM_SLOTS };
	static const enum wire_precision precision[] = { WIRE_INT8, WIRE_NPU };
	struct fixture *f = *state;
	const struct trace *want;

	open_models(f, 0);
	for (unsigned p = 0; p < 2; p++) {
		f->opts.precision = precision[p];
		want = reference(f);
		for (unsigned i = 0; i < 16; i++) {
			f->opts.dram_share = i % 2 ? 0.4 : 0;
			f->opts.stage_slots = slots[i % 3];
			f->opts.stage_parts = 1 + i / 2;
			f->opts.coherence =
				i % 5 ? COHERENCE_OFF : COHERENCE_CHECK;
			check_budget(f, i % 2 ? 2 : 0, want);
		}
	}
}

/* The memory has room for three slots of quarter layers, but not for two slots
 * of whole layers. */
static void test_quarters(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;
	struct session_stats st;
	uint64_t layer;

	open_models(f, 0);
	want = reference(f);
	layer = image_file_layer(&f->image, 0)->bytes;
	f->opts.dram_bytes = 5 * 4096 + 7 * layer / 4;
	pair_open(&f->s, f->image.model, &f->opts);
	session_stats(f->s, &st);
	assert_int_equal(st.stage_parts, 4);
	assert_int_equal(st.stage_slots, 3);
	assert_in_range(st.stage_bytes, layer / 4, layer / 2 + 2 * 4096);
	f->opts.stage_parts = 4;
	check_script(f, want);
	check_counts(f, 0, PASSES);
	pair_close(&f->s);
}

static void test_bytes(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;
	uint64_t sum = 0;

	open_models(f, 0);
	want = reference(f);
	f->opts.dram_share = 1;  /* ignored, because dram_bytes is set */
	f->opts.stage_slots = 2; /* the slots count toward the size */
	f->opts.stage_parts = 1;
	sum = 2 *
		(4096 + align_up(image_file_layer(&f->image, 0)->bytes, 4096));
	for (uint32_t l = 0; l < 2; l++) {
		f->opts.dram_bytes = sum;
		check_budget(f, l, want);
		sum += image_file_layer(&f->image, l)->bytes;
		f->opts.dram_bytes = sum - 1;
		check_budget(f, l, want);
	}
	sum = 0;
	for (uint32_t l = 0; l < LAYERS; l++)
		sum += image_file_layer(&f->image, l)->bytes;
	/* no layer is streamed, so no slots are needed */
	f->opts.dram_bytes = sum;
	check_budget(f, LAYERS, want);
	f->opts.dram_bytes = UINT64_MAX;
	check_budget(f, LAYERS, want);
}

#define READ    20 /* tokens of a prompt of two passes */
#define LAST    4  /* tokens of the prompt in its last pass */
#define CHAINED 6  /* rows of logits of the passes after the prompt */
/* so many rows of 64 values of F16 are an output matrix of 4.1 MiB */
#define BIG_VOCAB 34000

/* Compute a prompt and a chain of passes. Store in `out` the logits of the
 * prompt's last pass and, of each further pass, those of one row, or of two
 * rows in separate calls. */
static void run_chain(struct fixture *f, float *out, uint32_t n_vocab)
{
	static const int32_t token[READ] = { 1, 2 };
	struct err e = { 0 };
	uint32_t last;

	assert_ok(session_prefill(
			  f->s, SESSION_TEXT, token, READ, NULL, &last, &e),
		&e);
	assert_int_equal(last, LAST - 1);
	assert_ok(session_logits(f->s, 0, LAST, out, &e), &e);
	out += (size_t)LAST * n_vocab;
	for (unsigned i = 0; i < 4; i++) {
		assert_ok(session_continue(
				  f->s, SESSION_TEXT, token, i % 2 ? 2 : 1, &e),
			&e);
		for (uint32_t row = 0; row <= i % 2; row++, out += n_vocab)
			assert_ok(session_logits(f->s, row, 1, out, &e), &e);
		assert_ok(session_accept(f->s, SESSION_TEXT, NULL, 1, &e), &e);
	}
}

/* If the memory budget has no room for the output matrix, the matrix is
 * streamed after the layers. Predictions for a prompt, which need the matrix in
 * memory, are then refused. */
static void a_streamed_output_matrix(void **state)
{
	const uint32_t n_vocab = BIG_VOCAB;
	const size_t bytes = (LAST + CHAINED) * n_vocab * sizeof(float);
	float *want = malloc(bytes), *got = malloc(bytes);
	struct fixture *f = *state;
	const struct image_extent *output;
	struct session_stats st;
	struct err e = { 0 };
	const unsigned sweeps = 1 + CHAINED; /* number of reads of the matrix */
	uint64_t layer;

	assert_non_null(want);
	assert_non_null(got);
	f->file.n_vocab = n_vocab;
	f->file.type = DTYPE_F16;
	open_models(f, 0);
	assert_ok(soc_file_load(&f->soc, "tensor/soc/sd8gen3.soc", &e), &e);
	output = image_find(f->image.model->packed->image, IMAGE_OUTPUT, 0);
	layer = image_file_layer(&f->image, 0)->bytes;
	pair_open(&f->s, f->image.model, &f->opts);
	run_chain(f, want, n_vocab);
	pair_close(&f->s);
	for (unsigned i = 0; i < 4; i++) {
		f->opts.dram_bytes = i == 3 ? output->bytes + 4 * layer
					    : (1 + i) * (uint64_t)1 << 20;
		f->opts.soc = i == 1 || i == 2 ? &f->soc : NULL;
		/* with the prices of another model, which has no influence on
		 * the results */
		f->opts.as = i == 2 ? shape_named("qwen2.5-1.5b") : NULL;
		pair_open(&f->s, f->image.model, &f->opts);
		memset(got, 0, bytes);
		run_chain(f, got, n_vocab);
		assert_memory_equal(got, want, bytes);
		session_stats(f->s, &st);
		assert_int_equal(st.output_streamed, i < 3);
		assert_int_equal(st.staging.output_used,
			i < 3 ? sweeps * output->stored : 0);
		assert_in_range(st.resident_layers, 0, LAYERS - 1);
		pair_close(&f->s);
		f->opts.predict_top_k = 1;
		assert_int_equal(
			session_open(&f->s, f->image.model, &f->opts, &e),
			i < 3 ? -EINVAL : 0);
		session_close(f->s, NULL);
		f->s = NULL;
		f->opts.predict_top_k = 0;
	}
	free(want);
	free(got);
}

static void refused(
	struct fixture *f, const struct model *m, int code, const char *says)
{
	struct err e = { 0 };

	assert_int_equal(session_open(&f->s, m, &f->opts, &e), code);
	f->s = NULL;
	if (!strstr(e.text, says))
		fail_msg("'%s' lacks '%s'", e.text, says);
}

static void test_packed_with_zstd(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	f->file.type = DTYPE_F16; /* a type that zstd can compress */
	open_models(f, 3);
	assert_true(image_file_layer(&f->image, 0)->stored <
		image_file_layer(&f->image, 0)->bytes);
	f->opts.dram_share = 0;
	f->opts.stage_parts = 2;
	refused(f, f->image.model, -EINVAL,
		"--stage-parts 2 is not possible: the layers of this image are "
		"compressed");
	f->opts.stage_parts = 0;
	want = reference(f);
	f->opts.dram_share = 0;
	check_budget(f, 0, want);
	f->opts.dram_share = 0.6;
	f->opts.stream.block = 8192;
	check_budget(f, 3, want);
	f->opts.stream.threaded = true;
	check_budget(f, 3, want);
}

/* The results are the same for every way of reading flash. */
static void test_ways_to_read(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_models(f, 0);
	want = reference(f);
	f->opts.dram_share = 0.2;
	for (unsigned i = 0; i < 8; i++) {
		f->opts.stream = (struct stream_opts){
			.buffered = i & 1,
			.threaded = i & 2,
			.block = i & 4 ? 12288 : 0,
			.depth = i & 4 ? 2 : 0,
		};
		f->opts.stage_slots = i & 4 ? 2 : 3;
		check_budget(f, 1, want);
	}
}

static void test_coherent(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_models(f, 0);
	want = reference(f);
	for (unsigned i = 0; i < 6; i++) {
		f->opts.coherence = i & 1 ? COHERENCE_CHECK : COHERENCE_STRICT;
		f->opts.evict_seed = 7 + i;
		f->opts.stage_slots = 2 + i / 2;
		f->opts.dram_share = i / 2 * .2;
		check_budget(f, i / 2, want);
	}
}

/* One slow read does not change the estimated time of later reads. */
static void test_read_time(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;

	open_models(f, 0);
	want = reference(f);
	f->opts.dram_share = 0;
	f->opts.flash_fault = "slow=2000@8";
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 2; i++)
		check_script(f, want);
	assert_in_range(
		session_read_time(f->s), 1, 2000000000ull / (2 * PASSES + 1));
	pair_close(&f->s);
}

/* A pass that is canceled does not affect the next pass. */
static void test_cancelled(void **state)
{
	static volatile sig_atomic_t cancel;
	struct fixture *f = *state;
	const struct trace *want;
	static struct trace unused;
	struct err e = { 0 };

	open_models(f, 0);
	want = reference(f);
	f->opts.cancel = &cancel;
	f->opts.dram_share = 0.4;
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 3; i++) {
		check_script(f, want);
		cancel = 1;
		assert_int_equal(run_script(f, &unused, &e), -ECANCELED);
		cancel = 0;
	}
	check_counts(f, 2, 3 * PASSES);
	pair_close(&f->s);
}

/* ---- refusals ------------------------------------------------------------ */

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct session_opts opts = f->opts;

	open_models(f, 0);
	f->opts.dram_share = 0.5;
	refused(f, f->model, -EINVAL, "tandem convert");
	f->opts.dram_share = 1;
	f->opts.dram_bytes = 1 << 30;
	refused(f, f->model, -EINVAL, "--dram-budget");
	f->opts = opts;
	f->opts.dram_share = 0;
	f->opts.stage_slots = 6;
	/* two of the slots are for the cache and the activations */
	f->opts.va_slots = 7;
	refused(f, f->image.model, -ENOSPC, "tandem:stage5");
	refused(f, f->image.model, -ENOSPC, "--va-slots");
	f->opts.va_slots = 8; /* exactly as many as needed */
	pair_open(&f->s, f->image.model, &f->opts);
	pair_close(&f->s);
	f->opts.flash_fault = "drop@1";
	refused(f, f->image.model, -EINVAL, "drop");
	f->opts.flash_fault = NULL;
	f->opts.stream.block = 1000;
	refused(f, f->image.model, -EINVAL, "1000");
}

/* The host has no memory for the weights of streamed layers, so it cannot
 * refresh the cache. */
static void test_no_refresh(void **state)
{
	const struct refresh_opts opts = { 0 };
	struct fixture *f = *state;
	struct err e = { 0 };
	struct refresh *r;

	open_models(f, 0);
	f->image.model->causal = false;
	f->opts.dram_share = 0.5;
	pair_open(&f->s, f->image.model, &f->opts);
	assert_int_equal(refresh_open(&r, f->s, &opts, &e), -ENOTSUP);
	assert_non_null(strstr(e.text, "3 of 5 are streamed"));
	pair_close(&f->s);
}

/* The staging slots are larger than the device's window. */
static void test_small_window(void **state)
{
	struct fixture *f = *state;
	size_t layer;

	f->file.n_ff = 8192;
	open_models(f, 0);
	layer = image_file_layer(&f->image, 0)->bytes;
	assert_in_range(layer, 1 << 20, 2 << 20);
	f->opts.dram_share = 0;
	f->opts.va_window = 16 << 20;
	f->opts.stage_slots = STREAM_SLOTS;
	refused(f, f->image.model, -ENOSPC, "tandem:stage");
	refused(f, f->image.model, -ENOSPC, "16.0 MiB");
}

/* ---- faults --------------------------------------------------------- */

/*
 * Run the script several times with injected faults. In each run all rows must
 * be correct until the run ends or fails, and the error must name a layer.
 * Returns the first error, or 0 if there was none.
 */
static int faulty(struct fixture *f, const char *plan, const struct trace *want)
{
	static struct trace got;
	int first = 0;

	f->opts.flash_fault = plan;
	pair_open(&f->s, f->image.model, &f->opts);
	for (unsigned i = 0; i < 4; i++) {
		struct err e = { 0 };
		int ret = run_script(f, &got, &e);

		check_rows(&got, want);
		assert_int_equal(e.code, ret);
		if (!first && ret && !strstr(e.text, "layer "))
			fail_msg("%s: '%s' names no layer", plan, e.text);
		if (!first && ret && !strstr(e.text, f->image.path))
			fail_msg("%s: '%s' names no file", plan, e.text);
		first = first ? first : ret;
	}
	pair_close(&f->s);
	return first;
}

static void open_faulty(struct fixture *f, const struct trace **want)
{
	open_models(f, 0);
	*want = reference(f);
	f->opts.dram_share = 0.2;
	f->opts.stream.block = 32768; /* several blocks per layer */
	f->opts.stream.depth = 3;
	/* a long time limit, because the machine may be busy */
	f->opts.stream.stall_ms = 20000;
}

/* After a single fault, the read is repeated and the session does not fail. */
static void test_passing_faults(void **state)
{
	static const char *const plan[] = { "eio@3", "short@5", "flip@2",
		"eio@1,eio@2,short@4,eio@9", "flip@1,short@7,eio@20",
		"short@2,short@3,short@4" };
	struct fixture *f = *state;
	const struct trace *want;

	open_faulty(f, &want);
	for (unsigned way = 0; way < 2; way++) {
		f->opts.stream.threaded = way;
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(faulty(f, plan[i], want), 0);
	}
}

static void test_lasting_faults(void **state)
{
	static const struct {
		const char *plan;
		int code;
	} fault[] = { { "eio@3+", -EIO }, { "flip@2+", -EBADMSG },
		{ "shrink@4", -ENODATA }, { "eio@40+", -EIO },
		{ "flip@33+", -EBADMSG }, { "stall@4", -ETIMEDOUT } };
	struct fixture *f = *state;
	const struct trace *want;

	open_faulty(f, &want);
	for (unsigned slots = 2; slots <= 5; slots += 3) {
		f->opts.stage_slots = slots;
		for (unsigned i = 0; i < 6; i++) {
			bool stalls = !strncmp(fault[i].plan, "stall", 5);

			f->opts.stream.stall_ms = stalls ? 200 : 20000;
			assert_int_equal(
				faulty(f, fault[i].plan, want), fault[i].code);
		}
	}
}

/* All reads from number `read` on fail. Returns the error of a pass or, if only
 * the output matrix could not be read, of its logits. */
static int fail_from(struct fixture *f, unsigned read, bool *after_pass)
{
	static float logits[BIG_VOCAB];
	const int32_t token = 1;
	struct err e = { 0 };
	char plan[32];
	int ret;

	snprintf(plan, sizeof(plan), "eio@%u+", read);
	f->opts.flash_fault = plan;
	pair_open(&f->s, f->image.model, &f->opts);
	ret = session_continue(f->s, SESSION_TEXT, &token, 1, &e);
	*after_pass = !ret;
	if (!ret)
		ret = session_logits(f->s, 0, 1, logits, &e);
	if (ret && !strstr(e.text, *after_pass ? "output matrix" : "layer "))
		fail_msg("read %u: '%s'", read, e.text);
	pair_close(&f->s);
	return ret;
}

/* Each layer is read at once. After the streamed layers, the parts of the
 * output matrix are read. */
static void test_fault_in_the_output_matrix(void **state)
{
	struct fixture *f = *state;
	struct session_stats st;
	uint32_t streamed;
	bool after_pass;

	f->file.n_vocab = BIG_VOCAB;
	f->file.type = DTYPE_F16;
	open_models(f, 0);
	f->opts.dram_bytes = 1 << 20;
	f->opts.stage_parts = 1;
	f->opts.stream.stall_ms = 20000;
	pair_open(&f->s, f->image.model, &f->opts);
	session_stats(f->s, &st);
	pair_close(&f->s);
	assert_true(st.output_streamed);
	streamed = LAYERS - st.resident_layers;
	for (unsigned read = 1; read <= streamed + 1; read++) {
		assert_int_equal(fail_from(f, read, &after_pass), -EIO);
		assert_int_equal(after_pass, read > streamed);
	}
}

/*
 * A layer is damaged twice in succession, which is an error. There are no
 * further faults, and later passes use the remaining slots. On a busy machine,
 * three layers may be read before the first one is checked. Then the faults
 * damage different layers once each, and no pass fails. In this case the test
 * tries again.
 */
static void test_going_on(void **state)
{
	struct fixture *f = *state;
	const struct trace *want;
	static struct trace got;
	struct err e = { 0 };
	int ret = 0;

	open_faulty(f, &want);
	f->opts.stream.block = 0; /* one read per layer */
	f->opts.stream.depth = 1;
	f->opts.flash_fault = "flip@7,flip@8,flip@9";
	for (unsigned tries = 0; !ret && tries < 20; tries++) {
		if (tries)
			pair_close(&f->s);
		pair_open(&f->s, f->image.model, &f->opts);
		ret = run_script(f, &got, &e);
		check_rows(&got, want);
	}
	assert_int_equal(ret, -EBADMSG);
	for (unsigned i = 0; i < 3; i++)
		check_script(f, want);
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_shares),
	TEST(test_parts),
	TEST(test_quarters),
	TEST(test_bytes),
	TEST(a_streamed_output_matrix),
	TEST(test_packed_with_zstd),
	TEST(test_ways_to_read),
	TEST(test_coherent),
	TEST(test_read_time),
	TEST(test_cancelled),
	TEST(test_refused),
	TEST(test_no_refresh),
	TEST(test_small_window),
	TEST(test_passing_faults),
	TEST(test_lasting_faults),
	TEST(test_fault_in_the_output_matrix),
	TEST(test_going_on),
};

TEST_FILE(tests)
