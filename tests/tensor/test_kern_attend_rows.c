#include "tests/harness.h"

#include "base/checked.h"
#include "tests/tensor/attend_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of heads heads each, a gap between them, that see the scene's first
 * `shared` slots and then their own. */
struct crowd {
	struct scene s; /* its heads are those of all rows */
	unsigned rows, heads;
	uint32_t shared;
	struct kern_tail tail[KERN_ATTEND_ROWS];
	uint32_t *own; /* [rows][s.n] */
};

enum shape { CHAIN, TREE, ANY, ALIKE, SHAPES };

static uint32_t draw(uint64_t stream, uint64_t i, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, stream, i) * below);
}

/* What row r sees behind the shared slots: of a chain all rows up to itself, of
 * a tree its ancestors and itself. */
static uint32_t own_slots(
	const struct crowd *c, enum shape shape, uint64_t salt, unsigned r)
{
	uint32_t *own = c->own + (size_t)r * c->s.n;
	const uint32_t *slot = c->s.slot + c->shared, left = c->s.n - c->shared;
	uint32_t n = 0;

	if (shape == ALIKE)
		n = left;
	else if (shape == ANY)
		n = draw(salt, r, left) + 1;
	else if (shape == CHAIN)
		n = left - c->rows + r + 1;
	for (uint32_t i = 0; i < n; i++)
		own[i] = slot[shape == ANY ? draw(salt + r, i, left) : i];
	if (shape == TREE && r) {
		const unsigned parent = draw(salt, r, r);

		n = c->tail[parent].n;
		memcpy(own, c->tail[parent].slot, n * sizeof(*own));
	}
	if (shape == TREE)
		own[n++] = slot[r];
	return n;
}

/* `own` slots that are not shared, at least one for each row. */
static void crowd_make(struct crowd *c, unsigned rows, unsigned heads,
	unsigned dim, uint32_t shared, uint32_t own, enum shape shape,
	uint64_t salt)
{
	c->rows = rows;
	c->heads = heads;
	c->shared = shared;
	scene_make(&c->s, shared + own, dim, rows * heads, salt % 2);
	c->own = malloc((size_t)rows * c->s.n * sizeof(*c->own));
	for (unsigned r = 0; r < rows; r++)
		c->tail[r] = (struct kern_tail){ c->own + (size_t)r * c->s.n,
			own_slots(c, shape, salt, r) };
}

static void crowd_free(struct crowd *c)
{
	free(c->own);
	scene_free(&c->s);
}

/* attend_rows into out, [rows][heads][dim]; the scratch as in call(). */
static void call_rows(
	const struct kern *kern, const struct crowd *c, float *out)
{
	const unsigned dim = c->s.dim;
	const size_t row = (size_t)c->heads * dim, ld = row + GUARD;
	const size_t size = kern_attend_scratch(c->heads, dim);
	const size_t shift = c->s.n % 16;
	float *q = malloc(c->rows * ld * sizeof(*q));
	float *y = malloc(c->rows * ld * sizeof(*y));
	float *space = malloc((size + shift + 2 * GUARD) * sizeof(*space));
	float *scratch = space + GUARD + shift;
	struct kern_kv kv = c->s.kv;

	kv.n = c->shared;
	guards_set(scratch - GUARD);
	guards_set(scratch + size);
	memset(scratch, 0xff, size * sizeof(*scratch)); /* NaN */
	for (unsigned r = 0; r < c->rows; r++) {
		memcpy(q + r * (ld - 1), c->s.q + r * row, row * sizeof(*q));
		guards_set(y + r * ld + row);
	}
	kern->attend_rows(y, ld, q, ld - 1, c->rows, c->heads, &kv, c->tail,
		dim, c->s.scale, scratch);
	for (unsigned r = 0; r < c->rows; r++) {
		guards_check(y + r * ld + row, "a row");
		memcpy(out + r * row, y + r * ld, row * sizeof(*y));
	}
	guards_check(scratch - GUARD, "before scratch");
	guards_check(scratch + size, "scratch");
	free(q);
	free(y);
	free(space);
}

/* Row r alone, its slots in one list. */
static void call_row(
	const struct kern *kern, const struct crowd *c, unsigned r, float *out)
{
	const struct kern_tail *tail = &c->tail[r];
	struct scene s = c->s;
	uint32_t *slot = malloc((c->shared + tail->n) * sizeof(*slot));

	memcpy(slot, c->s.slot, c->shared * sizeof(*slot));
	memcpy(slot + c->shared, tail->slot, tail->n * sizeof(*slot));
	s.kv.slot = slot;
	s.kv.n = c->shared + tail->n;
	call(kern, &s, r * c->heads, c->heads, NULL, out);
	free(slot);
}

/* Each row's bytes are those that it has alone, on every machine. */
static void check_crowd(const struct crowd *c, const char *what)
{
	const size_t row = (size_t)c->heads * c->s.dim;
	float *got = malloc(c->rows * row * sizeof(*got));
	float *want = malloc(c->rows * row * sizeof(*want));

	for (unsigned r = 0; r < c->rows; r++)
		call_row(vecs[n_vecs - 1], c, r, want + r * row);
	for (size_t v = 0; v < n_vecs; v++) {
		call_rows(vecs[v], c, got);
		for (unsigned r = 0; r < c->rows; r++)
			if (memcmp(got + r * row, want + r * row,
				    row * sizeof(*got)))
				fail_msg("%s, %s: row %u of %u differs: heads "
					 "%u, dim %u, shared %u, own %u",
					vecs[v]->name, what, r, c->rows,
					c->heads, c->s.dim, c->shared,
					c->tail[r].n);
	}
	free(got);
	free(want);
}

static void test_rows(void **state)
{
	static const char *const names[] = { "chain", "tree", "any", "alike" };
	static const unsigned wide[] = { 20, 32, 64, 80, 128, 256 };

	for (unsigned i = 0; i < 96; i++) {
		const enum shape shape = i % SHAPES;
		const unsigned rows = draw(90, i, KERN_ATTEND_ROWS) + 1;
		const unsigned heads = draw(91, i, 8) + 1;
		const unsigned dim = wide[draw(92, i, ARRAY_LEN(wide))];
		const uint32_t shared = i % 3 ? draw(93, i, 200) : i % 2 * 64;
		const uint32_t own = rows + (i % 5 ? 0 : draw(94, i, 90));
		struct crowd c;

		crowd_make(&c, rows, heads, dim, shared, own, shape, 100 + i);
		check_crowd(&c, names[shape]);
		crowd_free(&c);
	}
}

/* Every number of rows and of heads, where a block ends among the rows. */
static void test_rows_counts(void **state)
{
	for (unsigned rows = 1; rows <= KERN_ATTEND_ROWS; rows++)
		for (unsigned heads = 1; heads <= 8; heads++) {
			struct crowd c;

			crowd_make(&c, rows, heads, 16, 64 - rows / 2, rows,
				CHAIN, rows + heads);
			check_crowd(&c, "counts");
			crowd_free(&c);
		}
}

/* ref, which the bytes above do not pass by, and what should come out. */
static void test_rows_ref(void **state)
{
	struct crowd c;

	crowd_make(&c, 16, 3, 80, 100, 30, CHAIN, 7);
	const size_t n = (size_t)c.s.heads * c.s.dim, row = n / c.rows;
	float *got = malloc(n * sizeof(*got)),
	      *want = malloc(n * sizeof(*want));

	call_rows(ref, &c, want);
	call_rows(vecs[n_vecs - 1], &c, got);
	for (size_t i = 0; i < n; i++)
		assert_close((double)got[i], (double)want[i], 3e-6, "ref");
	for (unsigned r = 0; r < c.rows; r++) {
		call_row(ref, &c, r, got);
		assert_memory_equal(got, want + r * row, row * sizeof(*got));
	}
	free(got);
	free(want);
	crowd_free(&c);
}

/* What only later rows see, in the same block, is nothing to a row. */
static void test_rows_blind(void **state)
{
	static const float odd[] = { NAN, INFINITY, 3e38f };
	enum { ROWS = 20, SEEING = 3, HEADS = 6, DIM = 64 };
	const size_t n = (size_t)ROWS * HEADS * DIM;
	const size_t blind = n / ROWS * (ROWS - SEEING);
	float *got = malloc(n * sizeof(*got)),
	      *want = malloc(n * sizeof(*want));

	for (size_t o = 0; o < ARRAY_LEN(odd); o++)
		for (size_t v = 0; v < n_vecs; v++) {
			struct crowd c;
			size_t at;

			/* storage of float32, which holds all of them */
			crowd_make(&c, ROWS, HEADS, DIM, 70, ROWS, CHAIN, 2);
			call_rows(vecs[v], &c, want);
			at = (size_t)c.s.slot[c.s.n - SEEING] * DIM;
			for (unsigned d = 0; d < DIM; d++) {
				memcpy((uint8_t *)c.s.key.at + 4 * (at + d),
					&odd[o], 4);
				memcpy((uint8_t *)c.s.value.at + 4 * (at + d),
					&odd[o], 4);
			}
			call_rows(vecs[v], &c, got);
			assert_memory_equal(got, want, blind * sizeof(*got));
			assert_memory_not_equal(got + blind, want + blind,
				n / ROWS * sizeof(*got));
			crowd_free(&c);
		}
	free(got);
	free(want);
}

/* Scores beyond what exp can take, of both signs, and all the same. */
static void test_rows_sharp(void **state)
{
	static const float scales[] = { 1000, -1000, 0 };

	for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
		struct crowd c;

		crowd_make(&c, 17, 6, 32, 130, 17, CHAIN, i);
		c.s.scale = scales[i];
		check_crowd(&c, "sharp");
		crowd_free(&c);
	}
}

static const struct CMUnitTest tests[] = {
	TEST(test_rows),
	TEST(test_rows_counts),
	TEST(test_rows_ref),
	TEST(test_rows_blind),
	TEST(test_rows_sharp),
};

TEST_MAIN(tests)
