/*
 * Visibility of rows ($TANDEM_NPU; skipped if unset): which rows each row
 * attends to. Passes have trees, windows (consecutive positions) or blocks of
 * several sequences. Between passes, sequences are forked, truncated and
 * rewritten, and rows are accepted, in random order. The results are compared
 * with a reference transformer (reference_model.h). The test models every
 * computed row as a point that sees a list of points.
 */
#include "base/err.h"
#include "base/rng.h"
#include "host/model/model.h"
#include "host/session/session.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/model/reference_model.h"
#include "tests/host/session/pair.h"
#include "tests/host/session/session_fixture.h"

#include <math.h>

#define VOCAB   96
#define POINTS  600
#define LONG    80 /* maximum length of a sequence */
#define MANY    6
#define IN_PASS 30
#define BLOCK   5

/* A sequence as a list of the points that are cached at its positions. */
struct plain {
	bool open;
	uint32_t length, point[LONG];
};

/* The pass that is being built. */
struct pass {
	struct rows rows;
	struct row row[IN_PASS];
	uint32_t first; /* the point of row 0 */
};

struct script {
	struct fixture *f;
	enum visibility visibility; /* visibility of the pass */
	bool mixed; /* choose trees or blocks at random for each pass */
	uint64_t stream, draws;
	struct plain plain[MANY];
	struct pass pass;
	/* All points of the script. */
	uint32_t n;
	int32_t token[POINTS];
	unsigned position[POINTS];
	uint8_t sees[POINTS][POINTS];
	float logits[POINTS][VOCAB];
	unsigned rewritten, blocks, forked;
};

static uint32_t below(struct script *t, uint32_t n)
{
	return (uint32_t)(rng_uniform(seed() + 40, t->stream, t->draws++) * n);
}

/* ---- points ------------------------------------------------------------ */

static void add_row(struct script *t, struct row row)
{
	struct pass *p = &t->pass;

	row.token = (int32_t)below(t, VOCAB);
	t->token[p->first + p->rows.n] = row.token;
	t->position[p->first + p->rows.n] = row.position;
	p->row[p->rows.n++] = row;
}

/* The point at a position of a sequence, which is a row of this pass or else a
 * cached point. */
static uint32_t point_at(const struct script *t, uint32_t id, uint32_t at)
{
	for (uint32_t i = 0; i < t->pass.rows.n; i++)
		if (t->pass.row[i].sequence == id &&
			t->pass.row[i].position == at)
			return t->pass.first + i;
	assert_in_range(at, 0, t->plain[id].length - 1);
	return t->plain[id].point[at];
}

/* Length of a sequence including its rows in the pass. */
static uint32_t end_of(const struct script *t, uint32_t id)
{
	uint32_t end = t->plain[id].length;

	for (uint32_t i = 0; i < t->pass.rows.n; i++) {
		const struct row *r = &t->pass.row[i];

		if (r->sequence == id && r->position >= end)
			end = r->position + 1;
	}
	return end;
}

static void see_tree(struct script *t, uint32_t i)
{
	const struct row *row = &t->pass.row[i];
	uint8_t *sees = t->sees[t->pass.first + i];
	int32_t r = (int32_t)i, root = r;

	for (; r >= 0; r = t->pass.row[r].parent) {
		sees[t->pass.first + (uint32_t)r] = 1;
		root = r;
	}
	for (uint32_t at = 0; at < t->pass.row[root].position; at++)
		sees[t->plain[row->sequence].point[at]] = 1;
}

static void see_until(struct script *t, uint32_t i, uint32_t end)
{
	uint32_t id = t->pass.row[i].sequence;

	for (uint32_t at = 0; at < end; at++)
		t->sees[t->pass.first + i][point_at(t, id, at)] = 1;
}

static void note_visibility(struct script *t)
{
	for (uint32_t i = 0; i < t->pass.rows.n; i++) {
		const struct row *row = &t->pass.row[i];

		if (t->visibility == VISIBILITY_TREE)
			see_tree(t, i);
		else if (t->visibility == VISIBILITY_BLOCK)
			see_until(t, i, row->end);
		else
			see_until(t, i, end_of(t, row->sequence));
	}
}

/* ---- passes -------------------------------------------------------------- */

/* Add a row of a tree. It is a root, sometimes at a position within the cached
 * text, or a child of any row of the sequence. */
static void tree_row(struct script *t, uint32_t id)
{
	struct row row = {
		.sequence = id, .position = t->plain[id].length, .parent = -1
	};
	uint32_t r = below(t, t->pass.rows.n + 1);

	if (r < t->pass.rows.n && t->pass.row[r].sequence == id) {
		row.parent = (int32_t)r;
		row.position = t->pass.row[r].position + 1;
	} else if (!below(t, 4)) {
		row.position = below(t, row.position + 1);
	}
	add_row(t, row);
}

/* Add the next row of a window, which begins at a random position, sometimes
 * after a gap. */
static void window_row(struct script *t, uint32_t id, uint32_t *next)
{
	const struct plain *p = &t->plain[id];
	struct row row = { .sequence = id };

	if (*next == UINT32_MAX)
		*next = p->length -
			below(t, p->length < 12 ? p->length + 1 : 13);
	else if (!below(t, 5))
		*next += *next + 1 < p->length;
	row.position = (*next)++;
	if (row.position < LONG)
		add_row(t, row);
}

/* Set the end of each row's block. Blocks have BLOCK positions; only the last
 * one of a sequence may be shorter. */
static void end_blocks(struct script *t)
{
	for (uint32_t i = 0; i < t->pass.rows.n; i++) {
		struct row *row = &t->pass.row[i];
		uint32_t end = (row->position / BLOCK + 1) * BLOCK;
		uint32_t most = end_of(t, row->sequence);

		row->end = end < most ? end : most;
		t->blocks += end < most;
	}
}

static void keep_windows(struct script *t)
{
	for (uint32_t i = 0; i < t->pass.rows.n; i++) {
		const struct row *row = &t->pass.row[i];
		struct plain *p = &t->plain[row->sequence];

		if (row->position < p->length) {
			p->point[row->position] = t->pass.first + i;
			t->rewritten++;
		}
	}
}

/* Accept a random number of a sequence's first rows. */
static void accept_first(struct script *t, uint32_t id)
{
	struct plain *p = &t->plain[id];
	uint32_t n = 0, keep;
	struct err e = { 0 };

	for (uint32_t i = 0; i < t->pass.rows.n; i++)
		n += t->pass.row[i].sequence == id;
	keep = below(t, n + 1);
	assert_ok(session_accept(t->f->s, id, NULL, keep, &e), &e);
	for (uint32_t i = 0; i < t->pass.rows.n && keep; i++) {
		const struct row *row = &t->pass.row[i];

		if (row->sequence != id)
			continue;
		keep--;
		p->point[row->position] = t->pass.first + i;
		if (row->position >= p->length)
			p->length = row->position + 1;
	}
}

/* Accept the longest path that begins with a root directly after the sequence's
 * cached text. */
static void accept_path(struct script *t, uint32_t id)
{
	struct plain *p = &t->plain[id];
	uint32_t path[IN_PASS], n = 0, length = p->length;
	int32_t above = -1;
	struct err e = { 0 };

	for (uint32_t i = 0; i < t->pass.rows.n; i++) {
		const struct row *row = &t->pass.row[i];

		if (row->sequence != id || row->parent != above ||
			row->position != length + n || !below(t, 4))
			continue;
		path[n++] = i;
		above = (int32_t)i;
	}
	for (uint32_t k = 0; k < n; k++)
		p->point[p->length++] = t->pass.first + path[k];
	assert_ok(session_accept(t->f->s, id, path, n, &e), &e);
}

static void run_pass(struct script *t)
{
	struct pass *p = &t->pass;
	struct err e = { 0 };

	note_visibility(t);
	p->rows.visibility = t->visibility;
	p->rows.row = p->row;
	assert_ok(session_forward(t->f->s, &p->rows, NULL, &e), &e);
	assert_ok(
		session_logits(t->f->s, 0, p->rows.n, t->logits[p->first], &e),
		&e);
	t->n += p->rows.n;
	if (t->visibility != VISIBILITY_TREE)
		keep_windows(t);
	for (uint32_t id = 0; id < MANY; id++) {
		bool there = false;

		for (uint32_t i = 0; i < p->rows.n; i++)
			there |= p->row[i].sequence == id;
		if (!there || !below(t, 6))
			continue;
		if (t->visibility == VISIBILITY_TREE)
			accept_path(t, id);
		else
			accept_first(t, id);
	}
}

/* Compute a pass with rows of all open sequences that are not full, in random
 * order. */
static void one_pass(struct script *t)
{
	uint32_t next[MANY], rows = 1 + below(t, IN_PASS);

	memset(next, 0xff, sizeof(next));
	if (t->mixed)
		t->visibility =
			below(t, 2) ? VISIBILITY_TREE : VISIBILITY_BLOCK;
	t->pass.rows.n = 0;
	t->pass.first = t->n;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t id = below(t, MANY);

		if (!t->plain[id].open || t->plain[id].length + rows > LONG)
			continue;
		if (t->visibility == VISIBILITY_TREE)
			tree_row(t, id);
		else
			window_row(t, id, &next[id]);
	}
	if (t->visibility == VISIBILITY_BLOCK)
		end_blocks(t);
	if (t->pass.rows.n)
		run_pass(t);
}

/* ---- sequences -------------------------------------------------------------
 */

static void change(struct script *t)
{
	uint32_t id = below(t, MANY), other, length;
	struct plain *p = &t->plain[id];
	struct err e = { 0 };

	if (!p->open) {
		assert_ok(session_add(t->f->s, &other, &e), &e);
		t->plain[other] = (struct plain){ .open = true };
	} else if (below(t, 3)) {
		if (session_fork(t->f->s, id, &other, &e))
			return; /* all sequences are open */
		t->plain[other] = *p;
		t->forked++;
	} else if (below(t, 2)) {
		length = below(t, LONG);
		session_truncate(t->f->s, id, length);
		p->length = length < p->length ? length : p->length;
	} else {
		session_remove(t->f->s, id);
		p->open = false;
	}
}

static void check(struct script *t, double bound)
{
	struct fixture *f = t->f;
	uint8_t *sees = calloc(t->n, t->n);
	double *want = calloc((size_t)t->n * VOCAB, sizeof(*want)), most = 0;

	for (uint32_t i = 0; i < t->n; i++)
		memcpy(sees + (size_t)i * t->n, t->sees[i], t->n);
	ref_logits_seen(f->model->gguf, &f->file, t->token, t->position, sees,
		t->n, want);
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t v = 0; v < VOCAB; v++)
			most = fmax(most,
				fabs((double)t->logits[i][v] -
					want[i * VOCAB + v]));
	print_message("%u rows, %u forks, %u rewritten, %u in blocks, largest "
		      "difference %g\n",
		t->n, t->forked, t->rewritten, t->blocks, most);
	assert_close(most, 0, bound, "difference");
	free(sees);
	free(want);
}

static void put_mask(struct gguf_writer *w)
{
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", 1);
}

static void put_block_length(struct gguf_writer *w)
{
	put_mask(w);
	gguf_put_u32(w, "diffusion.block_length", BLOCK);
}

static void run_script(struct fixture *f, enum visibility visibility,
	bool mixed, uint64_t stream)
{
	struct script *t = calloc(1, sizeof(*t));

	*t = (struct script){ .f = f,
		.visibility = visibility,
		.mixed = mixed,
		.stream = stream };
	f->opts.precision = WIRE_F32;
	f->opts.sequences = MANY;
	f->opts.slots = 1024;
	f->opts.coherence = COHERENCE_CHECK;
	if (visibility != VISIBILITY_TREE) {
		f->file.arch = "llada";
		f->file.keys = mixed ? put_block_length : put_mask;
	}
	open_session(f);
	t->plain[SESSION_TEXT].open = true;
	while (t->n + IN_PASS <= POINTS) {
		one_pass(t);
		change(t);
		change(t);
	}
	check(t, 5e-5);
	assert_in_range(t->forked, 1, POINTS);
	if (visibility != VISIBILITY_TREE)
		assert_in_range(t->rewritten, 50, POINTS);
	if (visibility == VISIBILITY_BLOCK)
		assert_in_range(t->blocks, 50, POINTS);
	free(t);
	pair_close(&f->s);
}

static void test_trees(void **state)
{
	for (uint64_t i = 0; i < 3; i++)
		run_script(*state, VISIBILITY_TREE, false, 10 + i);
}

static void test_windows(void **state)
{
	for (uint64_t i = 0; i < 3; i++)
		run_script(*state, VISIBILITY_WINDOW, false, 20 + i);
}

static void test_blocks(void **state)
{
	for (uint64_t i = 0; i < 3; i++)
		run_script(*state, VISIBILITY_BLOCK, false, 30 + i);
}

/* Compute passes of trees and of blocks. The rows of a block do not attend to
 * later blocks. */
static void test_trees_and_blocks(void **state)
{
	for (uint64_t i = 0; i < 3; i++)
		run_script(*state, VISIBILITY_BLOCK, true, 50 + i);
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_trees),
	TEST(test_windows),
	TEST(test_blocks),
	TEST(test_trees_and_blocks),
};

TEST_FILE(tests)
