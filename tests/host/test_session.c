/*
 * Sessions on a real device process (TANDEM_NPU; skipped without): what rows,
 * trees, the cache and placement must give, whatever the cutting.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session.h"
#include "tests/harness.h"
#include "tests/host/model_file.h"
#include "tests/host/reference_model.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define TREE_MAX 40

struct fixture {
	struct model_file file;
	struct model *model;
	struct session_opts opts;
	struct session *s;
};

static void need_device(void)
{
	const char *npu = getenv("TANDEM_NPU");

	if (!npu || access(npu, X_OK)) {
		print_message("skipped: TANDEM_NPU names no device program\n");
		skip();
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->file = model_file_tiny;
	f->opts = session_defaults;
	f->opts.threads = 1;
	f->opts.prefill_chunk = 16;
	f->opts.decode_rows = TREE_MAX;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	session_close(f->s, NULL);
	model_close(f->model);
	free(f);
	return 0;
}

static void open_session(struct fixture *f)
{
	struct err e = { 0 };

	need_device();
	if (!f->model)
		f->model = model_file_open(&f->file);
	assert_ok(session_open(&f->s, f->model, &f->opts, &e), &e);
}

static void close_session(struct fixture *f)
{
	struct err e = { 0 };

	assert_ok(session_close(f->s, &e), &e);
	f->s = NULL;
}

static uint64_t seed(void)
{
	static uint64_t value; /* asked for once: it is printed */

	return value ? value : (value = harness_seed());
}

static void tokens(const struct fixture *f, uint64_t stream, int32_t *t, int n)
{
	for (int i = 0; i < n; i++)
		t[i] = (int32_t)(rng_uniform(seed() + 9, stream, (uint64_t)i) *
			f->file.n_vocab);
}

static uint32_t prefill(struct fixture *f, const int32_t *t, size_t n)
{
	struct err e = { 0 };
	uint32_t last;

	assert_ok(session_prefill(f->s, t, n, &last, &e), &e);
	return last;
}

static void forward(
	struct fixture *f, const int32_t *t, const int32_t *parent, uint32_t n)
{
	struct token_tree tree = { n, t, parent };
	struct err e = { 0 };

	assert_ok(session_forward(f->s, &tree, &e), &e);
}

static void accept(struct fixture *f, const uint32_t *path, uint32_t n)
{
	struct err e = { 0 };

	assert_ok(session_accept(f->s, path, n, &e), &e);
}

static void same_bytes(
	const void *a, const void *b, size_t n, const char *what, unsigned at)
{
	const float *x = a, *y = b;

	for (size_t i = 0; i < n / sizeof(*x); i++)
		if (memcmp(&x[i], &y[i], sizeof(*x)) != 0)
			fail_msg("%s %u: value %zu is %.9g, not %.9g", what, at,
				i, (double)x[i], (double)y[i]);
}

/* ---- against the definition ---------------------------------------- */

static void check_reference(
	struct fixture *f, enum wire_precision precision, double bound)
{
	enum { N = 40 };
	double *want;
	float *got;
	int32_t t[N];
	struct err e = { 0 };

	f->opts.precision = precision;
	open_session(f);
	tokens(f, 1, t, N);
	want = calloc((size_t)N * f->file.n_vocab, sizeof(*want));
	got = calloc(f->file.n_vocab, sizeof(*got));
	ref_logits(f->model->gguf, &f->file, t, N, want);
	/* 16 by the prefill graph, then in uneven pieces. */
	for (uint32_t at = 0, n; at < N; at += n) {
		uint32_t path[TREE_MAX];

		n = at ? 1 + at % 5 : 16;
		n = n > N - at ? N - at : n;
		forward(f, t + at, NULL, n);
		for (uint32_t i = 0; i < n; i++) {
			path[i] = i;
			assert_ok(session_logits(f->s, i, got, &e), &e);
			for (uint32_t v = 0; v < f->file.n_vocab; v++)
				assert_close(got[v],
					want[(at + i) * f->file.n_vocab + v],
					bound, "logit");
		}
		accept(f, path, n);
	}
	free(want);
	free(got);
	close_session(f);
}

static void test_llama_is_the_definition(void **state)
{
	struct fixture *f = *state;

	check_reference(f, WIRE_F32, 2e-5);
	check_reference(f, WIRE_F16_KV_F32, 5e-3);
	check_reference(f, WIRE_F16, 1e-2);
}

static void test_llama3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.rope_freqs = true;
	f->file.n_layer = 7; /* more than blocks: some have two */
	check_reference(f, WIRE_F32, 1e-4);
}

static void test_qwen2_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen2";
	f->file.bias = f->file.tied = true;
	check_reference(f, WIRE_F32, 2e-5);
}

static void test_qwen3_is_the_definition(void **state)
{
	struct fixture *f = *state;

	f->file.arch = "qwen3";
	f->file.qk_norm = true;
	f->file.head_dim = 16;
	f->file.n_kv_head = 1;
	f->file.type = DTYPE_Q8_0;
	check_reference(f, WIRE_F32, 2e-5);
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 1);
}

/* The largest difference of n rows that see one another from the definition. */
static double llada_error(struct fixture *f, const int32_t *t, uint32_t n)
{
	uint32_t n_vocab = f->file.n_vocab;
	double *want = calloc((size_t)n * n_vocab, sizeof(*want)), most = 0;
	float *got = calloc(n_vocab, sizeof(*got));
	struct err e = { 0 };

	ref_logits(f->model->gguf, &f->file, t, n, want);
	forward(f, t, NULL, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_ok(session_logits(f->s, i, got, &e), &e);
		for (uint32_t v = 0; v < n_vocab; v++)
			most = fmax(most,
				fabs((double)got[v] - want[i * n_vocab + v]));
	}
	free(want);
	free(got);
	return most;
}

/* Also where a row's mask is longer than a word. */
static void test_llada_is_the_definition(void **state)
{
	static const uint32_t n[] = { 1, 2, 40, 64, 65, 100 };
	static const struct {
		enum wire_precision precision;
		double bound;
	} level[] = { { WIRE_F32, 2e-5 }, { WIRE_F16_KV_F32, 1e-2 },
		{ WIRE_F16, 2e-2 } };
	struct fixture *f = *state;
	int32_t t[100];

	f->file.arch = "llada";
	f->file.keys = put_mask;
	f->opts.decode_rows = 100;
	tokens(f, 20, t, 100);
	for (unsigned l = 0; l < 3; l++) {
		double most = 0;

		f->opts.precision = level[l].precision;
		open_session(f);
		for (unsigned i = 0; i < 6; i++)
			most = fmax(most, llada_error(f, t, n[i]));
		print_message("largest difference %g\n", most);
		assert_close(most, 0, level[l].bound, "difference");
		close_session(f);
	}
}

static void test_llada_has_no_trees(void **state)
{
	struct fixture *f = *state;
	struct token_tree t = { 2, (const int32_t[]){ 3, 4 },
		(const int32_t[]){ -1, 0 } };
	struct err e = { 0 };

	f->file.arch = "llada";
	f->file.keys = put_mask;
	open_session(f);
	assert_ptr_equal(session_model(f->s), f->model);
	assert_int_equal(session_forward(f->s, &t, &e), -EINVAL);
	assert_non_null(strstr(e.text, "see one another"));
	t.parent = NULL;
	assert_ok(session_forward(f->s, &t, &e), &e);
	close_session(f);
}

/* ---- trees --------------------------------------------------------- */

struct random_tree {
	uint32_t n;
	int32_t token[TREE_MAX], parent[TREE_MAX];
};

static void grow(
	const struct fixture *f, struct random_tree *t, uint64_t stream)
{
	t->n = TREE_MAX;
	tokens(f, stream, t->token, TREE_MAX);
	for (int i = 0; i < TREE_MAX; i++)
		/* From -1 (another root) to i-1, near ones more often. */
		t->parent[i] = i - 1 -
			(int)(pow(rng_uniform(seed(), stream + 1, (uint64_t)i),
				      2) *
				(i + .99));
}

/* The rows from a root down to `row`; returns how many. */
static uint32_t path_to(
	const struct random_tree *t, uint32_t row, uint32_t path[TREE_MAX])
{
	uint32_t n = 0;

	for (int32_t r = (int32_t)row; r >= 0; r = t->parent[r])
		path[n++] = (uint32_t)r;
	for (uint32_t i = 0; i < n / 2; i++) {
		uint32_t p = path[i];

		path[i] = path[n - 1 - i];
		path[n - 1 - i] = p;
	}
	return n;
}

static void decode_path(struct fixture *f, const struct random_tree *t,
	const uint32_t *path, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		forward(f, &t->token[path[i]], NULL, 1);
		accept(f, (const uint32_t[]){ 0 }, 1);
	}
}

/* E0: a tree's row has the bytes that plain decoding of its path gives. */
static void check_tree(struct fixture *f, enum wire_precision precision)
{
	size_t width = f->file.n_embd * sizeof(float);
	int32_t prompt[21];
	struct random_tree t;
	float *hidden;

	f->opts.precision = precision;
	open_session(f);
	tokens(f, 2, prompt, 21);
	grow(f, &t, 3);
	prefill(f, prompt, 21);
	forward(f, t.token, t.parent, t.n);
	hidden = malloc(t.n * width);
	for (uint32_t i = 0; i < t.n; i++)
		memcpy(hidden + i * f->file.n_embd, session_hidden(f->s, i),
			width);
	for (uint32_t i = 0; i < t.n; i += 3) {
		uint32_t path[TREE_MAX], n = path_to(&t, i, path);

		session_truncate(f->s, 21);
		decode_path(f, &t, path, n);
		same_bytes(session_hidden(f->s, 0), hidden + i * f->file.n_embd,
			width, "hidden state of row", i);
	}
	free(hidden);
	close_session(f);
}

static void test_tree_row_is_chain_row(void **state)
{
	struct fixture *f = *state;

	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++)
		check_tree(f, (enum wire_precision)p);
}

/* Our end of the cache's memfd, by its name in /proc. */
static int open_cache(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *de;
	int found = -1;

	assert_non_null(d);
	while ((de = readdir(d))) {
		char link[512], text[512] = "";

		snprintf(link, sizeof(link), "/proc/self/fd/%s", de->d_name);
		if (readlink(link, text, sizeof(text) - 1) > 0 &&
			strstr(text, "memfd:tandem:kv"))
			found = (int)strtol(de->d_name, NULL, 10);
	}
	closedir(d);
	assert_true(found >= 0);
	return found;
}

/* The first `n` slots of all layers' keys and values; to be freed. */
static uint8_t *read_cache(struct fixture *f, uint32_t n, size_t *bytes)
{
	struct session_stats st;
	size_t half, slot, halves = 2 * f->file.n_layer;
	uint8_t *all;
	int fd = open_cache();

	session_stats(f->s, &st);
	half = st.kv_bytes / halves;
	slot = half / session_context(f->s);
	*bytes = halves * n * slot;
	all = malloc(*bytes);
	for (size_t i = 0; i < halves; i++)
		assert_int_equal(pread(fd, all + i * n * slot, n * slot,
					 (off_t)(i * half)),
			n * slot);
	return all;
}

/* E0: after accepting a path, the cache is the plain decoder's. */
static void test_compaction(void **state)
{
	struct fixture *f = *state;
	uint32_t path[TREE_MAX], n = 0, next;
	uint8_t *compacted, *plain;
	size_t bytes, again;
	int32_t prompt[10];
	struct random_tree t;
	float *hidden;

	open_session(f);
	tokens(f, 4, prompt, 10);
	grow(f, &t, 5);
	for (uint32_t i = 0; i < t.n; i++) {
		uint32_t p[TREE_MAX], depth = path_to(&t, i, p);

		if (depth > n && p[depth - 1] != depth - 1) {
			n = depth; /* the deepest that has to move */
			memcpy(path, p, sizeof(p));
		}
	}
	assert_in_range(n, 3, TREE_MAX);
	prefill(f, prompt, 10);
	forward(f, t.token, t.parent, t.n);
	accept(f, path, n);
	assert_int_equal(session_length(f->s), 10 + n);
	compacted = read_cache(f, 10 + n, &bytes);
	/* And the device sees what the CPU moved. */
	forward(f, t.token, NULL, 5);
	hidden = malloc(f->file.n_embd * sizeof(float));
	memcpy(hidden, session_hidden(f->s, 4), f->file.n_embd * 4);
	session_truncate(f->s, 0);
	prefill(f, prompt, 10);
	decode_path(f, &t, path, n);
	plain = read_cache(f, 10 + n, &again);
	assert_int_equal(bytes, again);
	assert_memory_equal(compacted, plain, bytes);
	forward(f, t.token, NULL, 5);
	next = 4;
	same_bytes(session_hidden(f->s, next), hidden, f->file.n_embd * 4,
		"hidden state behind a compacted path", next);
	free(compacted);
	free(plain);
	free(hidden);
	close_session(f);
}

static void test_compaction_seen_by_a_strict_device(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_CHECK; /* closing fails on violations */
	f->opts.precision = WIRE_F16;
	f->file.n_layer = 20; /* more ranges than a buffer notes */
	test_compaction(state);
}

/* A chain leaves nothing to move and nothing for the device to forget. */
static void test_chain_moves_nothing(void **state)
{
	struct fixture *f = *state;
	struct session_stats a, b;
	int32_t t[8];

	open_session(f);
	tokens(f, 6, t, 8);
	prefill(f, t, 8);
	session_stats(f->s, &a);
	forward(f, t, NULL, 8);
	accept(f, (const uint32_t[]){ 0, 1, 2, 3 }, 4);
	forward(f, t, NULL, 8);
	session_stats(f->s, &b);
	/* Twice the batch and the hidden states, and no line more. */
	assert_int_equal(b.invalidated_lines - a.invalidated_lines,
		2 * (a.invalidated_lines));
	close_session(f);
}

static void test_bad_paths(void **state)
{
	struct fixture *f = *state;
	static const int32_t token[] = { 1, 2, 3, 4 };
	static const int32_t parent[] = { -1, 0, 0, 2 };
	static const struct {
		uint32_t n, path[3];
	} bad[] = { { 1, { 1 } }, { 2, { 0, 3 } }, { 3, { 0, 2, 2 } },
		{ 2, { 0, 4 } } };
	struct err e = { 0 };

	open_session(f);
	forward(f, token, parent, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(
			session_accept(f->s, bad[i].path, bad[i].n, &e),
			-EINVAL);
	assert_int_equal(session_length(f->s), 0);
	accept(f, (const uint32_t[]){ 0, 2, 3 }, 3);
	/* Once: the rows have moved. */
	assert_int_equal(
		session_accept(f->s, (const uint32_t[]){ 0 }, 1, &e), -EINVAL);
	close_session(f);
}

static void test_bad_trees(void **state)
{
	struct fixture *f = *state;
	static const struct {
		int32_t token[2], parent[2];
		uint32_t n;
		const char *text;
	} bad[] = {
		{ { 1, 96 }, { -1, 0 }, 2, "token 96" },
		{ { -1, 1 }, { -1, 0 }, 2, "token -1" },
		{ { 1, 1 }, { -1, 1 }, 2, "parent 1" },
		{ { 1, 1 }, { -2, 0 }, 2, "parent -2" },
		{ { 1, 1 }, { -1, 0 }, 0, "0 rows" },
		{ { 1, 1 }, { -1, 0 }, 999, "999 rows" },
	};

	open_session(f);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct token_tree t = { bad[i].n, bad[i].token, bad[i].parent };
		struct err e = { 0 };

		assert_int_equal(session_forward(f->s, &t, &e), -EINVAL);
		if (!strstr(e.text, bad[i].text))
			fail_msg("'%s' lacks '%s'", e.text, bad[i].text);
	}
	close_session(f);
}

/* ---- the cache ----------------------------------------------------- */

static void test_truncate(void **state)
{
	struct fixture *f = *state;
	size_t width = f->file.n_embd * sizeof(float);
	float first[512];
	int32_t t[30];

	open_session(f);
	tokens(f, 7, t, 30);
	prefill(f, t, 30);
	session_truncate(f->s, 12);
	assert_int_equal(session_length(f->s), 12);
	forward(f, t + 20, NULL, 3);
	memcpy(first, session_hidden(f->s, 2), width);
	session_truncate(f->s, 0);
	prefill(f, t, 12);
	forward(f, t + 20, NULL, 3);
	same_bytes(session_hidden(f->s, 2), first, width, "row", 2);
	session_truncate(f->s, 400); /* not longer */
	assert_int_equal(session_length(f->s), 12);
	close_session(f);
}

static void test_full_context(void **state)
{
	struct fixture *f = *state;
	struct token_tree one = { 1, (const int32_t[]){ 3 }, NULL };
	struct err e = { 0 };
	int32_t t[20];
	uint32_t last;

	f->opts.context = 19;
	open_session(f);
	assert_int_equal(session_context(f->s), 19);
	tokens(f, 8, t, 20);
	assert_int_equal(session_prefill(f->s, t, 20, &last, &e), -ENOSPC);
	assert_non_null(strstr(e.text, "--ctx"));
	session_truncate(f->s, 0);
	prefill(f, t, 19);
	assert_int_equal(session_forward(f->s, &one, &e), -ENOSPC);
	assert_int_equal(session_length(f->s), 19);
	close_session(f);
}

/* A graph has no more rows than a batch may. */
static void test_rows_of_a_graph(void **state)
{
	static const struct {
		uint32_t context, decode_rows, max_rows;
	} want[] = { { 40, 1024, 40 }, { 40, 30, 30 }, { 10, 1024, 16 },
		{ 0, 1024, 256 } };
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		f->opts.context = want[i].context;
		f->opts.decode_rows = want[i].decode_rows;
		open_session(f);
		assert_int_equal(session_max_rows(f->s), want[i].max_rows);
		close_session(f);
	}
}

static void test_context_of_a_model(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	open_session(f);
	assert_int_equal(session_context(f->s), 256);
	close_session(f);
	f->opts.context_need = 30;
	open_session(f);
	assert_int_equal(session_context(f->s), 30);
	close_session(f);
	f->opts.context = 1u << 26;
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EFBIG);
	assert_non_null(strstr(e.text, "try --ctx"));
	assert_non_null(strstr(e.text, "--precision f16-kv16"));
	f->opts.precision = WIRE_F16; /* asked for already */
	assert_int_equal(session_open(&f->s, f->model, &f->opts, &e), -EFBIG);
	assert_null(strstr(e.text, "--precision"));
	f->s = NULL;
}

/* ---- logits -------------------------------------------------------- */

static void test_logits_on_demand(void **state)
{
	struct fixture *f = *state;
	float all[8][96], one[96];
	struct session_stats st;
	struct err e = { 0 };
	uint64_t hash;
	int32_t t[8];

	open_session(f);
	tokens(f, 10, t, 8);
	forward(f, t, NULL, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_ok(session_logits(f->s, i, all[i], &e), &e);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, 8);
	hash = st.logits_hash;
	for (uint32_t i = 8; i-- > 0;) {
		assert_ok(session_logits(f->s, i, one, &e), &e);
		same_bytes(one, all[i], sizeof(one), "logits of row", i);
	}
	session_stats(f->s, &st);
	assert_int_equal(st.logits_rows, 16);
	assert_int_not_equal(st.logits_hash, hash);
	assert_int_equal(session_logits(f->s, 8, one, &e), -EINVAL);
	close_session(f);

	/* The hash is of the rows: the same again, the same hash. */
	open_session(f);
	forward(f, t, NULL, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_ok(session_logits(f->s, i, one, &e), &e);
	session_stats(f->s, &st);
	assert_int_equal(st.logits_hash, hash);
	close_session(f);
}

/* ---- placement ----------------------------------------------------- */

/* Hash of the logits of a fixed run. */
static uint64_t run_hash(struct fixture *f, struct session_stats *st)
{
	float *row = malloc(f->file.n_vocab * sizeof(*row));
	struct err e = { 0 };
	int32_t t[24];

	open_session(f);
	tokens(f, 11, t, 24);
	assert_ok(session_logits(f->s, prefill(f, t, 20), row, &e), &e);
	for (int i = 20; i < 24; i++) {
		prefill(f, t + i, 1);
		assert_ok(session_logits(f->s, 0, row, &e), &e);
	}
	session_stats(f->s, st);
	close_session(f);
	free(row);
	return st->logits_hash;
}

static void test_few_slots(void **state)
{
	struct fixture *f = *state;
	struct session_stats wide, narrow;
	uint64_t want;

	f->file.n_layer = 6;
	want = run_hash(f, &wide);
	assert_int_equal(wide.blocks, 6);
	assert_int_equal(wide.maps, 8);
	assert_int_equal(wide.unmaps, 0);
	f->opts.va_slots = 5; /* of six blocks three fit */
	assert_int_equal(run_hash(f, &narrow), want);
	/* At the start 3; then of a cycle of 6 with 3 places, 4 or 3 miss. */
	assert_in_range(narrow.maps, 2 + 3 + 6 * 3, 2 + 3 + 6 * 4);
	f->opts.va_slots = 3;
	assert_int_equal(run_hash(f, &narrow), want);
	assert_int_equal(narrow.maps, 2 + 6 * 6);
}

/* 38 MiB of weights through a window of 16. */
static void test_small_window(void **state)
{
	struct fixture *f = *state;
	struct session_stats wide, narrow;
	uint64_t want;

	f->file.n_embd = 512;
	f->file.n_head = 8;
	f->file.head_dim = 64;
	f->file.n_ff = 1536;
	f->file.type = DTYPE_F16;
	f->file.n_layer = 6;
	f->opts.context = 64;
	want = run_hash(f, &wide);
	assert_int_equal(wide.blocks, 6);
	assert_true(wide.weight_bytes > 32 << 20);
	f->opts.va_window = 16 << 20;
	assert_int_equal(run_hash(f, &narrow), want);
	assert_true(narrow.bytes_mapped <= 16 << 20);
	assert_true(narrow.unmaps > 0);
}

static void test_block_larger_than_the_window(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->file.n_layer = 1;
	f->file.n_embd = 1024;
	f->file.n_head = 16;
	f->file.head_dim = 64;
	f->file.n_ff = 4096;
	f->file.type = DTYPE_F16; /* 2 * (2.5 + 12) MiB */
	f->opts.va_window = 16 << 20;
	f->opts.context = 64;
	need_device();
	f->model = model_file_open(&f->file);
	if (!session_open(&f->s, f->model, &f->opts, &e)) {
		struct token_tree t = { 1, (const int32_t[]){ 1 }, NULL };

		assert_true(session_forward(f->s, &t, &e) < 0);
	}
	assert_non_null(strstr(e.text, "tandem:weights0"));
	assert_non_null(strstr(e.text, "16.0 MiB"));
	assert_non_null(strstr(e.text, "--va-window"));
}

/* ---- the end of things --------------------------------------------- */

static void test_cancel(void **state)
{
	struct fixture *f = *state;
	static volatile sig_atomic_t cancel;
	struct token_tree t = { 1, (const int32_t[]){ 1 }, NULL };
	struct err e = { 0 };

	f->opts.cancel = &cancel;
	open_session(f);
	forward(f, t.token, NULL, 1);
	cancel = 1;
	assert_int_equal(session_forward(f->s, &t, &e), -ECANCELED);
	cancel = 0;
	close_session(f);
}

/* The only child this process has. */
static pid_t child_pid(void)
{
	char path[64], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	if (!f || !fgets(text, sizeof(text), f))
		skip();
	fclose(f);
	return (int)strtol(text, NULL, 10);
}

static void test_device_killed(void **state)
{
	struct fixture *f = *state;
	struct token_tree t = { 1, (const int32_t[]){ 1 }, NULL };
	struct err e = { 0 };
	uint64_t began;
	pid_t pid;

	open_session(f);
	forward(f, t.token, NULL, 1);
	pid = child_pid();
	kill(pid, SIGKILL);
	began = clock_ns();
	assert_int_equal(session_forward(f->s, &t, &e), -EPIPE);
	assert_in_range((clock_ns() - began) / 1000000, 0, 1000);
	assert_non_null(strstr(e.text, "killed by signal 9"));
	session_close(f->s, NULL);
	f->s = NULL;
	assert_int_equal(kill(pid, 0), -1); /* reaped */
}

static void test_no_such_device(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	f->model = model_file_open(&f->file);
	f->opts.device = "/nonexistent/socket";
	assert_true(session_open(&f->s, f->model, &f->opts, &e) < 0);
	assert_non_null(strstr(e.text, "/nonexistent/socket"));
	f->opts.device = NULL;
	setenv("TANDEM_NPU", "/nonexistent/npu", 1);
	assert_true(session_open(&f->s, f->model, &f->opts, &e) < 0);
	assert_non_null(strstr(e.text, "/nonexistent/npu"));
	f->s = NULL;
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_llama_is_the_definition),
	TEST(test_llama3_is_the_definition),
	TEST(test_qwen2_is_the_definition),
	TEST(test_qwen3_is_the_definition),
	TEST(test_llada_is_the_definition),
	TEST(test_llada_has_no_trees),
	TEST(test_tree_row_is_chain_row),
	TEST(test_compaction),
	TEST(test_compaction_seen_by_a_strict_device),
	TEST(test_chain_moves_nothing),
	TEST(test_bad_paths),
	TEST(test_bad_trees),
	TEST(test_truncate),
	TEST(test_full_context),
	TEST(test_rows_of_a_graph),
	TEST(test_context_of_a_model),
	TEST(test_logits_on_demand),
	TEST(test_few_slots),
	TEST(test_small_window),
	TEST(test_block_larger_than_the_window),
	TEST(test_cancel),
	TEST(test_device_killed),
	TEST(test_no_such_device),
};

TEST_MAIN(tests)
