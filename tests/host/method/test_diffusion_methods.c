/* Pairs of diffusion methods that must generate the same text. One method of a
 * pair uses a cache, computes only a window of positions, or decodes several
 * blocks at once, and the other method does not. The tests run on a fake
 * device, and again on a real device process ($TANDEM_NPU; skipped if
 * unset). */
#include "base/checked.h"
#include "host/shipped/soc_file.h"
#include "tensor/soc/soc.h"
#include "tests/host/method/diffusion_text.h"

#include <errno.h>

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct diffusion_writer));
	dt_init(*state, harness_seed(), true);
	return 0;
}

static int setup_pair(void **state)
{
	struct diffusion_writer *w = calloc(1, sizeof(*w));

	*state = w;
	dt_init(w, harness_seed(), false);
	w->opts.coherence = COHERENCE_CHECK;
	w->opts.precision = WIRE_INT8;
	w->file.type = DTYPE_Q8_0;
	return 0;
}

static int teardown(void **state)
{
	struct diffusion_writer *w = *state;

	model_close(w->model);
	free(w);
	return 0;
}

/* Thresholds, from one that most guesses of a random model reach to one that no
 * guess reaches. */
static const char *const threshold[] = { "threshold=0.014", "threshold=0.02",
	"threshold=0.05", "threshold=1" };
static const char *const visible[] = { "visible=0.014", "visible=0.02",
	"visible=0.05", "visible=1" };
#define LEVELS 4

static unsigned passes(const struct diffusion_text *t)
{
	return (unsigned)t->session.decode_rows.passes;
}

/* ---- thresholds ---------------------------------------------------------- */

/* A higher threshold commits fewer tokens in a pass; at the highest threshold a
 * pass commits one token. */
static void test_higher_threshold_takes_more_passes(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, llada;
	unsigned before = 0;

	dt_model(w, dt_keys);
	for (unsigned i = 0; i < LEVELS; i++) {
		DT_WRITE(w, &t, "fast-dllm", "block=8", "cache=none",
			threshold[i]);
		assert_true(passes(&t) >= before);
		before = passes(&t);
	}
	DT_WRITE(w, &llada, "llada", "block=8");
	dt_same(&t, &llada);
	assert_int_equal(passes(&t), 40);
	DT_WRITE(w, &t, "fast-dllm", "block=8", "cache=none", "threshold=0");
	assert_int_equal(passes(&t), 5);
	DT_WRITE(w, &llada, "llada", "block=8", "block-steps=1");
	dt_same(&t, &llada);
}

static void test_factor(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	dt_model(w, dt_keys);
	DT_WRITE(w, &t, "fast-dllm", "block=8", "cache=none", "factor=1e-9");
	DT_WRITE(w, &other, "llada", "block=8");
	dt_same(&t, &other);
	/* A pass commits k tokens if k guesses exceed the threshold 1 -
	 * f/(k+1). With f = 9 this threshold is at most 0 for any k up to 8, so
	 * one pass commits a whole block of 8 tokens. */
	DT_WRITE(w, &t, "fast-dllm", "block=8", "cache=none", "factor=9");
	DT_WRITE(w, &other, "llada", "block=8", "block-steps=1");
	dt_same(&t, &other);
}

/* With option canvas every pass computes all masks of the answer. The order of
 * commits is that of fast-dllm with the highest threshold. A canvas that is
 * shorter than the block has no effect. */
static void test_canvas(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	dt_model(w, dt_keys);
	DT_WRITE(w, &t, "llada", "block=8", "canvas=40");
	assert_int_equal(t.session.rows, 40 * (9 + 40));
	DT_WRITE(w, &other, "fast-dllm", "block=8", "canvas=40", "cache=none",
		"threshold=1");
	dt_same(&t, &other);
	DT_WRITE(w, &t, "llada", "block=40", "canvas=7");
	DT_WRITE(w, &other, "llada", "block=40");
	dt_same(&t, &other);
}

/* ---- caches -------------------------------------------------------------- */

/* If no positions follow the block, caching the positions after it saves
 * nothing. With one pass per block, no later pass uses a cache. In both cases
 * the kind of cache does not change the text. */
static void test_caches_without_reuse_change_nothing(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text none, prefix, dual;

	dt_model(w, dt_keys);
	DT_WRITE(w, &prefix, "fast-dllm", "block=8", "cache=prefix",
		threshold[1]);
	DT_WRITE(w, &dual, "fast-dllm", "block=8", "cache=dual", threshold[1]);
	dt_same(&prefix, &dual);
	DT_WRITE(w, &none, "fast-dllm", "block=8", "cache=none", "canvas=40",
		"threshold=0");
	DT_WRITE(w, &dual, "fast-dllm", "block=8", "cache=dual", "canvas=40",
		"threshold=0");
	dt_same(&none, &dual);
	DT_WRITE(w, &prefix, "fast-dllm", "block=8", "cache=prefix",
		"canvas=40", "threshold=1");
	DT_WRITE(w, &dual, "fast-dllm", "block=8", "cache=dual", "canvas=40",
		"threshold=1");
	/* The cache dual omits the positions after the block (32, 24, 16, 8 and
	 * 0) in all of the block's 8 passes but the first. */
	assert_int_equal(prefix.session.rows - dual.session.rows,
		7 * (32 + 24 + 16 + 8));
}

/* A pass over the last rows of a text, directly after a pass over all rows with
 * the same tokens, gives the same bits for these rows. */
static void test_fresh_cache(void **state)
{
	enum { N = 30, FROM = 19 };
	struct diffusion_writer *w = *state;
	const size_t row = w->file.n_vocab;
	float *whole = malloc((N - FROM) * row * sizeof(float));
	float *some = malloc((N - FROM) * row * sizeof(float));
	struct row window[N - FROM];
	const struct rows rows = { VISIBILITY_WINDOW, N - FROM, window };
	struct session *s;
	struct err e = { 0 };

	dt_model(w, dt_keys);
	w->opts.decode_rows = N;
	pair_open(&s, w->model, &w->opts);
	assert_ok(session_continue(s, SESSION_TEXT, w->prompt, N, &e), &e);
	assert_ok(session_logits(s, FROM, N - FROM, whole, &e), &e);
	assert_ok(session_accept(s, SESSION_TEXT, NULL, FROM, &e), &e);
	for (unsigned i = 0; i < N - FROM; i++)
		window[i] = (struct row){ .token = w->prompt[FROM + i],
			.position = FROM + i };
	assert_ok(session_forward(s, &rows, NULL, &e), &e);
	assert_ok(session_logits(s, 0, N - FROM, some, &e), &e);
	assert_memory_equal(whole, some, (N - FROM) * row * sizeof(float));
	pair_close(&s);
	free(whole);
	free(some);
}

/* In a model with shifted logits, a block's first token is predicted by the row
 * before the block. A pass that computes only the block does not have that row.
 */
static void test_shifted_caches(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t;

	dt_model(w, dt_shifted_keys);
	for (unsigned i = 0; i < LEVELS; i++) {
		DT_WRITE(w, &t, "fast-dllm", "block=8", "cache=dual",
			threshold[i]);
		assert_int_equal(t.n, w->n_prompt + w->n_predict);
		for (size_t k = 0; k < t.n; k++)
			assert_int_not_equal(t.token[k], DT_MASK);
	}
	/* The first pass of a block may commit the block's first position
	 * besides the best guess, so a block takes 7 or 8 passes. */
	assert_in_range(passes(&t), 5 * 7, 5 * 8);
}

/* ---- several blocks ------------------------------------------------------ */

/*
 * The cache `delayed`. If every pass recomputes all positions, no key or value
 * is reused, so the text is that without a cache. Otherwise a pass computes
 * only masks and the tokens of the pass before: with one token per pass, the
 * k-th pass after the first over a block of 8 computes 8 - k masks and one
 * token (with shifted logits the row before a mask, too).
 */
static void test_delayed_cache(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, none;

	for (unsigned shifted = 0; shifted < 2; shifted++) {
		dt_model(w, shifted ? dt_shifted_keys : dt_keys);
		for (unsigned i = 0; i < LEVELS; i++) {
			DT_WRITE(w, &none, "fast-dllm", "block=8", "canvas=40",
				"cache=none", threshold[i]);
			DT_WRITE(w, &t, "fast-dllm", "block=8", "canvas=40",
				"cache=delayed", "refresh-every=1",
				threshold[i]);
			dt_same(&t, &none);
			assert_int_equal(t.session.rows, none.session.rows);
			DT_WRITE(w, &t, "fast-dllm", "block=8", "canvas=40",
				"cache=delayed", threshold[i]);
			assert_true(t.session.rows <= none.session.rows);
			DT_WRITE(w, &t, "fast-dllm", "block=8", "canvas=40",
				"cache=delayed", "refresh-every=3",
				threshold[i]);
			assert_true(t.session.rows <= none.session.rows);
		}
	}
	dt_model(w, dt_keys);
	DT_WRITE(w, &t, "fast-dllm", "block=8", "canvas=40", "cache=delayed",
		"threshold=1");
	assert_int_equal(passes(&t), 40);
	/* 5 whole passes; 7 passes of each block with the block's masks, one
	 * token, and the masks of later blocks */
	assert_int_equal(t.session.rows,
		5 * (9 + 40) + 5 * (28 + 7) + 7 * (32 + 24 + 16 + 8));
}

/* The method multi-block with one block at a time must equal fast-dllm without
 * a cache, which recomputes all positions. */
static void test_one_block_at_a_time(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	for (unsigned shifted = 0; shifted < 2; shifted++) {
		dt_model(w, shifted ? dt_shifted_keys : dt_keys);
		for (unsigned i = 0; i < LEVELS; i++) {
			DT_WRITE(w, &t, "multi-block", "block=8",
				"add-block-at=1", "full-block-at=1",
				"refresh-every=1", threshold[i]);
			DT_WRITE(w, &other, "fast-dllm", "block=8",
				"cache=none", threshold[i]);
			dt_same(&t, &other);
			assert_int_equal(passes(&t), passes(&other));
		}
	}
}

/* In a model trained with blocks the results are exact even with a cache, so
 * multi-block with one block at a time must equal block. */
static void check_blocks(struct diffusion_writer *w)
{
	struct diffusion_text t, other;

	for (unsigned i = 0; i < LEVELS; i++) {
		DT_WRITE(w, &t, "multi-block", "add-block-at=1",
			"full-block-at=1", threshold[i]);
		DT_WRITE(w, &other, "block", threshold[i]);
		dt_same(&t, &other);
	}
	/* Several blocks at once take no more passes than one block at a
	 * time. */
	DT_WRITE(w, &other, "multi-block", threshold[1]);
	assert_int_equal(other.n, t.n);
	DT_WRITE(w, &t, "multi-block", "add-block-at=1", threshold[1]);
	assert_true(passes(&other) <= passes(&t));
}

static void test_blocks(void **state)
{
	struct diffusion_writer *w = *state;

	dt_model(w, dt_block_keys);
	check_blocks(w);
	dt_model(w, dt_shifted_block_keys);
	check_blocks(w);
}

/* If a finished block is cached later (option cache-delay), it is recomputed
 * more often, with the same result. */
static void test_delay(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	dt_model(w, dt_shifted_block_keys);
	DT_WRITE(w, &other, "multi-block", threshold[1]);
	DT_WRITE(w, &t, "multi-block", "cache-delay=3", threshold[1]);
	dt_same(&t, &other);
	assert_true(t.session.rows > other.session.rows);
}

/* ---- llada-npu ----------------------------------------------------------- */

#define PLAIN "no-revision", "window=0", "window-from=block", "lookahead=0"

/* Without revision and lookahead, llada-npu commits exactly the guesses that
 * reach a threshold, as block and multi-block do. */
static void test_npu_is_threshold_decoding(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	for (unsigned shifted = 0; shifted < 2; shifted++) {
		dt_model(w, shifted ? dt_shifted_block_keys : dt_block_keys);
		for (unsigned i = 0; i < LEVELS; i++) {
			DT_WRITE(w, &t, "llada-npu", PLAIN, visible[i],
				"stable=1");
			DT_WRITE(w, &other, "block", threshold[i]);
			dt_same(&t, &other);
		}
	}
	dt_model(w, dt_keys);
	for (unsigned i = 0; i < LEVELS; i++) {
		DT_WRITE(w, &t, "llada-npu", "block=8", PLAIN, visible[i],
			"stable=1");
		DT_WRITE(w, &other, "multi-block", "block=8", "add-block-at=1",
			"full-block-at=1", threshold[i]);
		dt_same(&t, &other);
	}
}

/* The rows of a block attend to nothing after the block, and no row attends to
 * drafted tokens, so lookahead must not change the text. */
static void check_lookahead(struct diffusion_writer *w, const char *visibility)
{
	struct diffusion_text t, other;
	unsigned ahead = 0;

	for (unsigned i = 0; i < LEVELS; i++) {
		DT_WRITE(w, &other, "llada-npu", visibility, "lookahead=0",
			"window=0", "draft-input=mask", visible[i], "stable=1");
		DT_WRITE(w, &t, "llada-npu", visibility, "lookahead=8",
			"window=0", "draft-input=mask", visible[i], "stable=1");
		dt_same(&t, &other);
		DT_WRITE(w, &t, "llada-npu", visibility, "lookahead=4",
			"window=20", "draft-input=mask", visible[i],
			"stable=1");
		dt_same(&t, &other);
		ahead += t.session.rows > other.session.rows;
	}
	assert_true(ahead);
}

static void test_lookahead_changes_nothing(void **state)
{
	struct diffusion_writer *w = *state;

	dt_model(w, dt_block_keys);
	check_lookahead(w, "window-visibility=all");
	dt_model(w, dt_shifted_block_keys);
	check_lookahead(w, "window-visibility=all");
	dt_model(w, dt_keys);
	check_lookahead(w, "window-visibility=blocks");
}

/* With lookahead, passes have more rows. The number of rows is the same on
 * every phone. */
static void test_lookahead_on_phones(void **state)
{
	static const char *const phone[] = { NULL, "sd8gen2", "sd8gen3",
		"sd8elite" };
	struct diffusion_writer *w = *state;
	struct diffusion_text t, first, none;

	dt_model(w, dt_shifted_keys);
	for (unsigned i = 0; i < ARRAY_LEN(phone); i++) {
		struct soc soc;
		struct err e = { 0 };
		char path[64];

		snprintf(path, sizeof(path), "tensor/soc/%s.soc", phone[i]);
		if (phone[i])
			assert_ok(soc_file_load(&soc, path, &e), &e);
		w->opts.soc = phone[i] ? &soc : NULL;
		DT_WRITE(w, &none, "llada-npu", "block=8", visible[3],
			"draft-input=mask", "window=0", "lookahead=0",
			"stable=1");
		DT_WRITE(w, i ? &t : &first, "llada-npu", "block=8", visible[3],
			"draft-input=mask", "window=0", "lookahead=4",
			"stable=1");
		if (i) {
			dt_same(&t, &first);
			assert_int_equal(t.session.rows, first.session.rows);
		}
		assert_true(first.session.rows > none.session.rows);
	}
	w->opts.soc = NULL;
}

/* With each option set alone, the text is complete and has no masks. The number
 * of passes is at most the number of tokens, plus the passes that recompute
 * committed tokens. */
static void test_every_option_gives_a_text(void **state)
{
	static const char *const on[][3] = { { NULL }, { "revision-falls" },
		{ "revision-masked" }, { "window-from=unstable" },
		{ "draft-input=mask" }, { "window=0" }, { "window=20" },
		{ "lookahead=8" }, { "no-revision" } };
	struct diffusion_writer *w = *state;
	struct diffusion_text t;

	for (unsigned m = 0; m < 4; m++) {
		dt_model(w,
			m == 0           ? dt_keys
				: m == 1 ? dt_shifted_keys
				: m == 2 ? dt_block_keys
					 : dt_shifted_block_keys);
		for (unsigned i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
			const char *option[] = { "visible=0.02", "stable=0.04",
				"block=8", on[i][0], on[i][1], NULL };

			/* the block length that the model was trained with */
			if (m > 1)
				option[2] = "block=32";
			dt_write(w, "llada-npu", option, &t);
			assert_int_equal(t.n, w->n_prompt + w->n_predict);
			for (size_t k = 0; k < t.n; k++)
				assert_int_not_equal(t.token[k], DT_MASK);
			assert_in_range(passes(&t), 1, 2 * w->n_predict);
		}
	}
}

static void test_thresholds_in_order(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t;
	const char *const option[] = { "visible=0.8", "stable=0.7", NULL };

	dt_model(w, dt_keys);
	dt_try(w, "llada-npu", option, &t);
	assert_int_equal(t.ret, -EINVAL);
	assert_non_null(strstr(t.e.text, "--stable 0.7"));
	assert_non_null(strstr(t.e.text, "--visible 0.8"));
}

/* ---- positions recomputed by the host ------------------------------------ */

#define UNSURE "visible=0.014", "stable=1", "window=0", "lookahead=0"

/* With no-revision, the host has no positions to recompute, and the text is the
 * same as without refresh=host. */
static void test_refresh_is_idle(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, other;

	dt_model(w, dt_shifted_keys);
	DT_WRITE(w, &other, "llada-npu", "block=8", UNSURE, "no-revision");
	DT_WRITE(w, &t, "llada-npu", "block=8", UNSURE, "no-revision",
		"refresh=host");
	dt_same(&t, &other);
	assert_int_equal(t.stats.refreshed, 0);
}

/* The text does not depend on timing. The options refresh=drift and
 * refresh-tokens=1 reduce the number of recomputed rows. */
static void check_refresh(struct diffusion_writer *w, const char *block)
{
	struct diffusion_text t, other;

	DT_WRITE(w, &other, "llada-npu", block, UNSURE, "refresh=host");
	assert_true(other.stats.refreshed > 0);
	for (unsigned i = 1; i < 3; i++) {
		w->opts.threads = i;
		DT_WRITE(w, &t, "llada-npu", block, UNSURE, "refresh=host");
		dt_same(&t, &other);
		assert_int_equal(t.stats.refreshed, other.stats.refreshed);
		assert_true(t.session.logits_hash == other.session.logits_hash);
	}
	DT_WRITE(w, &t, "llada-npu", block, UNSURE, "refresh=host",
		"refresh-tokens=1");
	assert_in_range(t.stats.refreshed, 1, 2 * passes(&t));
	DT_WRITE(w, &t, "llada-npu", block, UNSURE, "refresh=drift",
		"refresh-drift=0");
	assert_in_range(t.stats.refreshed, 1, other.stats.refreshed);
	DT_WRITE(w, &t, "llada-npu", block, UNSURE, "refresh=host",
		"refresh-late");
	assert_int_equal(t.n, other.n);
	for (size_t i = 0; i < t.n; i++)
		assert_int_not_equal(t.token[i], DT_MASK);
}

static void test_refresh(void **state)
{
	struct diffusion_writer *w = *state;

	dt_model(w, dt_keys);
	check_refresh(w, "block=8");
	dt_model(w, dt_shifted_keys);
	check_refresh(w, "block=8");
	dt_model(w, dt_block_keys);
	check_refresh(w, "block=32");
	dt_model(w, dt_shifted_block_keys);
	check_refresh(w, "block=32");
}

/* ---- linear-spec --------------------------------------------------------- */

static void test_linear_spec(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t, plain;

	dt_model(w, dt_shifted_block_keys);
	for (unsigned i = 0; i < 12; i++) {
		w->sampling.temperature = i % 3 ? 0.4 * (i % 3) : 0;
		w->sampling.seed = i;
		w->n_predict = i < 6 ? 40 + i : i - 6;
		w->n_prompt = 1 + i;
		DT_WRITE(w, &plain, "autoregressive");
		DT_WRITE(w, &t, "linear-spec");
		dt_same(&t, &plain);
		assert_true(t.stats.accepted <= t.stats.drafted);
	}
}

/* ---- all of them --------------------------------------------------------- */

static const struct {
	const char *method;
	bool by_block;
} all[] = { { "dream", false }, { "fast-dllm", false },
	{ "multi-block", false }, { "multi-block", true },
	{ "llada-npu", false }, { "llada-npu", true }, { "block", true } };
#define ALL (sizeof(all) / sizeof(all[0]))

static const char *const *usual(unsigned i)
{
	static const char *const npu[] = { "visible=0.02", "stable=0.03",
		"block=8", NULL };
	static const char *const npu_block[] = { "visible=0.02", "stable=0.03",
		NULL };
	static const char *const sure[] = { "threshold=0.02", "block=8", NULL };
	static const char *const dream[] = { "block-steps=5", "block=8", NULL };
	static const char *const sure_block[] = { "threshold=0.02", NULL };

	if (!strcmp(all[i].method, "dream"))
		return dream;
	if (!strcmp(all[i].method, "llada-npu"))
		return all[i].by_block ? npu_block : npu;
	return all[i].by_block ? sure_block : sure;
}

/* Generate texts whose length is not a multiple of the block's length, is 0, or
 * fills the context. */
static void test_lengths(void **state)
{
	static const uint32_t n_predict[] = { 0, 1, 7, 8, 9, 33, 1000 };
	struct diffusion_writer *w = *state;
	struct diffusion_text t;

	for (unsigned i = 0; i < ALL; i++) {
		dt_model(w,
			all[i].by_block ? dt_shifted_block_keys
					: dt_shifted_keys);
		for (unsigned k = 0; k < 7; k++) {
			bool full = n_predict[k] == 1000;

			w->n_predict = n_predict[k];
			dt_write(w, all[i].method, usual(i), &t);
			assert_int_equal(t.n,
				full ? DT_CONTEXT : w->n_prompt + w->n_predict);
			assert_int_equal(t.stop,
				full ? GEN_STOP_CONTEXT : GEN_STOP_LENGTH);
		}
	}
}

static void test_settings_change_nothing(void **state)
{
	static const enum coherence level[] = { COHERENCE_OFF, COHERENCE_STRICT,
		COHERENCE_CHECK };
	struct diffusion_writer *w = *state;
	struct diffusion_text first, t;

	for (unsigned i = 0; i < ALL; i++) {
		dt_model(w,
			all[i].by_block ? dt_shifted_block_keys
					: dt_shifted_keys);
		for (unsigned k = 0; k < 3; k++) {
			w->opts.coherence = level[k];
			w->opts.threads = 1 + k % 2;
			w->opts.va_window = k == 1 ? 16ull << 20
						   : session_defaults.va_window;
			dt_write(w, all[i].method, usual(i), &t);
			if (!k)
				first = t;
			dt_same(&t, &first);
			assert_true(t.session.logits_hash ==
				first.session.logits_hash);
		}
	}
}

/* The error for a prompt that leaves no room for a block names the limit. */
static void test_no_room(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t;

	w->opts.context = 32;
	w->n_prompt = 32;
	w->n_predict = 0;
	for (unsigned i = 0; i < ALL; i++) {
		dt_model(w,
			all[i].by_block ? dt_shifted_block_keys
					: dt_shifted_keys);
		dt_write(w, all[i].method, usual(i), &t);
		assert_int_equal(t.n, 32);
	}
}

static void test_rare_options(void **state)
{
	struct diffusion_writer *w = *state;
	struct diffusion_text t;
	const char *const other[] = { "block=16", NULL };

	for (unsigned i = 0; i < ALL; i++) {
		dt_model(w,
			all[i].by_block ? dt_shifted_block_keys
					: dt_shifted_keys);
		w->sampling.top_k = 4;
		dt_try(w, all[i].method, usual(i), &t);
		assert_int_equal(t.ret, -EINVAL);
		assert_non_null(strstr(t.e.text, "--top-k"));
		assert_non_null(strstr(t.e.text, all[i].method));
		w->sampling.top_k = 0;
		if (!all[i].by_block)
			continue;
		dt_try(w, all[i].method, other, &t);
		assert_int_equal(t.ret, -EINVAL);
		assert_non_null(strstr(t.e.text, "--block 16"));
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
#define PAIR(x)                                                \
	{                                                      \
#x " on a pair", x, setup_pair, teardown, NULL \
	}
static const struct CMUnitTest tests[] = {
	TEST(test_higher_threshold_takes_more_passes),
	TEST(test_factor),
	TEST(test_canvas),
	TEST(test_caches_without_reuse_change_nothing),
	TEST(test_fresh_cache),
	TEST(test_shifted_caches),
	TEST(test_delayed_cache),
	TEST(test_one_block_at_a_time),
	TEST(test_blocks),
	TEST(test_delay),
	TEST(test_npu_is_threshold_decoding),
	TEST(test_lookahead_changes_nothing),
	TEST(test_lookahead_on_phones),
	TEST(test_every_option_gives_a_text),
	TEST(test_thresholds_in_order),
	TEST(test_refresh_is_idle),
	TEST(test_refresh),
	TEST(test_linear_spec),
	TEST(test_lengths),
	TEST(test_no_room),
	TEST(test_rare_options),
	PAIR(test_blocks),
	PAIR(test_npu_is_threshold_decoding),
	PAIR(test_lookahead_changes_nothing),
	PAIR(test_fresh_cache),
	PAIR(test_refresh),
	PAIR(test_linear_spec),
	PAIR(test_settings_change_nothing),
};

TEST_FILE(tests)
