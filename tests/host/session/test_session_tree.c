/*
 * Token trees in sessions on a real device process ($TANDEM_NPU; skipped if
 * unset). The rows of a tree, and the cache after a path is accepted, equal
 * those of plain decoding byte for byte. Invalid trees and paths are refused.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <unistd.h>

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
		/* The parent is -1 (for another root) or any earlier node, most
		 * often a near one. */
		t->parent[i] = i - 1 -
			(int)(pow(rng_uniform(seed(), stream + 1, (uint64_t)i),
				      2) *
				(i + .99));
}

/* Store the path from a root to `row` in `path`. Returns its length. */
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

/* Check in every row of a tree that the hidden states have the bytes of plain
 * decoding of the row's path. */
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

		session_truncate(f->s, SESSION_TEXT, 21);
		decode_path(f, &t, path, n);
		same_bytes(session_hidden(f->s, 0), hidden + i * f->file.n_embd,
			width, "hidden state of row", i);
	}
	free(hidden);
	pair_close(&f->s);
}

static void test_tree_row_is_chain_row(void **state)
{
	struct fixture *f = *state;

	for (unsigned p = 0; p < WIRE_PRECISION_COUNT; p++)
		check_tree(f, (enum wire_precision)p);
}

/* Returns the host's descriptor of the cache's memfd, which is found by its
 * name in /proc. */
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

/* Returns the first n slots of the keys and values of all layers. The caller
 * frees them. */
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

/* After a path is accepted, the cached keys and values equal those of plain
 * decoding byte for byte. */
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
			/* the longest path whose rows have to move */
			n = depth;
			memcpy(path, p, sizeof(p));
		}
	}
	assert_in_range(n, 3, TREE_MAX);
	prefill(f, prompt, 10);
	forward(f, t.token, t.parent, t.n);
	accept(f, path, n);
	assert_int_equal(session_length(f->s, SESSION_TEXT), 10 + n);
	compacted = read_cache(f, 10 + n, &bytes);
	/* The device must also read the rows that the CPU moved. */
	forward(f, t.token, NULL, 5);
	hidden = malloc(f->file.n_embd * sizeof(float));
	memcpy(hidden, session_hidden(f->s, 4), f->file.n_embd * 4);
	session_truncate(f->s, SESSION_TEXT, 0);
	prefill(f, prompt, 10);
	decode_path(f, &t, path, n);
	plain = read_cache(f, 10 + n, &again);
	assert_int_equal(bytes, again);
	assert_memory_equal(compacted, plain, bytes);
	forward(f, t.token, NULL, 5);
	next = 4;
	same_bytes(session_hidden(f->s, next), hidden, f->file.n_embd * 4,
		"hidden state after a compacted path", next);
	free(compacted);
	free(plain);
	free(hidden);
	pair_close(&f->s);
}

static void test_compaction_seen_by_a_strict_device(void **state)
{
	struct fixture *f = *state;

	f->opts.coherence = COHERENCE_CHECK; /* closing fails on violations */
	f->opts.precision = WIRE_F16_KV16;
	/* with so many layers, the CPU writes more ranges of bytes than a
	 * buffer records */
	f->file.n_layer = 20;
	test_compaction(state);
}

/* Accepting a chain moves no rows, so the device has nothing to invalidate. */
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
	/* Two passes invalidate twice as many lines as one pass, for the batch
	 * and the hidden states, and no lines of the cache. */
	assert_int_equal(b.invalidated_lines - a.invalidated_lines,
		2 * (a.invalidated_lines));
	pair_close(&f->s);
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
		assert_int_equal(session_accept(f->s, SESSION_TEXT, bad[i].path,
					 bad[i].n, &e),
			-EINVAL);
	assert_int_equal(session_length(f->s, SESSION_TEXT), 0);
	accept(f, (const uint32_t[]){ 0, 2, 3 }, 3);
	/* The second accept of the same pass fails, because its rows have
	 * moved. */
	assert_int_equal(session_accept(f->s, SESSION_TEXT,
				 (const uint32_t[]){ 0 }, 1, &e),
		-EINVAL);
	pair_close(&f->s);
}

static void refuses(struct fixture *f, const int32_t *token,
	const int32_t *parent, uint32_t n, const char *text)
{
	struct err e = { 0 };

	assert_int_equal(pair_tree(f->s, token, parent, n, NULL, &e), -EINVAL);
	if (!strstr(e.text, text))
		fail_msg("'%s' lacks '%s'", e.text, text);
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
	};
	static const int32_t many[999];

	open_session(f);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuses(f, bad[i].token, bad[i].parent, bad[i].n, bad[i].text);
	refuses(f, many, NULL, 999, "999 rows");
	pair_close(&f->s);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_tree_row_is_chain_row),
	TEST(test_compaction),
	TEST(test_compaction_seen_by_a_strict_device),
	TEST(test_chain_moves_nothing),
	TEST(test_bad_paths),
	TEST(test_bad_trees),
};

TEST_FILE(tests)
