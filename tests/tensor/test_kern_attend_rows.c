#include "tests/harness.h"

#include "base/checked.h"
#include "tests/tensor/attend_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A row sees (attends to) the slots of the KV cache that all rows see, and then
 * further slots: its tail. */
struct tail {
	const uint32_t *slot;
	uint32_t n;
};

/* Rows of `heads` heads each, with a gap between the rows. Each row sees the
 * first `shared` slots of the scene and then its own slots. */
struct crowd {
	struct scene s; /* has the heads of all rows */
	unsigned rows, heads;
	uint32_t shared;
	struct tail tail[KERN_ATTEND_ROWS];
	uint32_t *own; /* [rows][s.n] */
	uint64_t salt;
};

enum shape { CHAIN, TREE, ANY, ALIKE, GROUPS, SHAPES };

static uint32_t draw(uint64_t stream, uint64_t i, uint32_t below)
{
	return (uint32_t)(rng_uniform(seed, stream, i) * below);
}

/* The rows are divided into three groups. Write to own[] the slots that all
 * rows of a group see. Returns the number of these slots. */
static uint32_t group_slots(
	const struct crowd *c, unsigned group, uint32_t *own)
{
	const uint32_t *slot = c->s.slot + c->shared, left = c->s.n - c->shared;
	const uint32_t n = draw(c->salt + 50, group, left);

	for (uint32_t i = 0; i < n; i++)
		own[i] = slot[(i + group * 7) % left];
	return n;
}

/*
 * Write to the row's part of c->own the slots that row r sees after the shared
 * slots. Returns the number of these slots. CHAIN: the slots of the previous
 * row and one more; TREE: the slots of a random parent row and one more; ALIKE:
 * the same slots for all rows; ANY: random slots; GROUPS: the slots of the
 * row's group and random slots.
 */
static uint32_t own_slots(
	const struct crowd *c, enum shape shape, uint64_t salt, unsigned r)
{
	uint32_t *own = c->own + (size_t)r * c->s.n;
	const uint32_t *slot = c->s.slot + c->shared, left = c->s.n - c->shared;
	uint32_t n = 0, from = 0;

	if (shape == ALIKE)
		n = left;
	else if (shape == ANY)
		n = draw(salt, r, left) + 1;
	else if (shape == CHAIN)
		n = left - c->rows + r + 1;
	else if (shape == GROUPS) {
		from = group_slots(c, r * 3 / c->rows, own);
		n = from + draw(salt, r, left - from) + 1;
	}
	for (uint32_t i = from; i < n; i++)
		own[i] = slot[shape == ANY || shape == GROUPS
				? draw(salt + r, i, left)
				: i];
	if (shape == TREE && r) {
		const unsigned parent = draw(salt, r, r);

		n = c->tail[parent].n;
		memcpy(own, c->tail[parent].slot, n * sizeof(*own));
	}
	if (shape == TREE)
		own[n++] = slot[r];
	return n;
}

/* Arrange the slots in runs of 16 consecutive slots, as in the KV cache of a
 * sequence. Half of the scenes have such runs. */
static void lay_in_runs(struct scene *s)
{
	const uint32_t turn = s->n / 16 * 16;

	for (uint32_t i = 0; i < turn; i++)
		s->slot[i] = turn - 16 - i / 16 * 16 + i % 16;
	for (uint32_t i = turn; i < s->n; i++)
		s->slot[i] = i;
	scene_store(s);
}

/* Make a crowd that has `own` slots besides the shared slots; `own` is at least
 * the number of rows. */
static void crowd_make(struct crowd *c, unsigned rows, unsigned heads,
	unsigned dim, uint32_t shared, uint32_t own, enum shape shape,
	uint64_t salt)
{
	c->rows = rows;
	c->heads = heads;
	c->shared = shared;
	c->salt = salt;
	scene_make(&c->s, shared + own, dim, rows * heads, salt % 2);
	if (salt & 2)
		lay_in_runs(&c->s);
	c->own = malloc((size_t)rows * c->s.n * sizeof(*c->own));
	for (unsigned r = 0; r < rows; r++)
		c->tail[r] = (struct tail){ c->own + (size_t)r * c->s.n,
			own_slots(c, shape, salt, r) };
}

static void crowd_free(struct crowd *c)
{
	free(c->own);
	scene_free(&c->s);
}

static uint32_t seen(const struct crowd *c, unsigned r, uint32_t i)
{
	return i < c->shared ? c->s.slot[i] : c->tail[r].slot[i - c->shared];
}

/* Write to span[], as spans, the first `n` slots that row r sees; some of the
 * spans are empty. Returns the number of spans. */
static uint32_t spans_of(
	const struct crowd *c, unsigned r, uint32_t n, struct kern_span *span)
{
	uint32_t spans = 0;

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t slot = seen(c, r, i);
		struct kern_span *last = span + spans - 1;

		if (spans && last->slot + last->count == slot) {
			last->count++;
			continue;
		}
		if (slot % 5 == 0)
			span[spans++] = (struct kern_span){ slot, 0 };
		span[spans++] = (struct kern_span){ slot, 1 };
	}
	return spans;
}

/* The memory of a call of attend_rows: queries and outputs with gaps, the slots
 * of the rows, and scratch memory as in call() of attend_cases.h. */
struct room {
	float *q, *y, *space;
	struct kern_span *span;
	struct kern_query query[KERN_ATTEND_ROWS];
};

/* Set up the memory. The shared slots, and a random number of the other slots
 * of each row, are given as spans. The remaining slots are given as a list. */
static void room_make(struct room *m, const struct crowd *c, size_t size)
{
	const size_t row = (size_t)c->heads * c->s.dim, ld = row + GUARD;

	m->q = malloc(c->rows * ld * sizeof(*m->q));
	m->y = malloc(c->rows * ld * sizeof(*m->y));
	m->space = malloc(size * sizeof(*m->space));
	m->span = malloc(2 * (size_t)c->rows * c->s.n * sizeof(*m->span));
	for (unsigned r = 0; r < c->rows; r++) {
		const uint32_t n = c->shared + c->tail[r].n;
		const uint32_t told =
			c->shared + draw(c->salt, 900 + r, c->tail[r].n + 1);
		struct kern_span *span = m->span + 2 * (size_t)r * c->s.n;
		float *q = m->q + r * (ld - 1);

		memcpy(q, c->s.q + r * row, row * sizeof(*q));
		guards_set(m->y + r * ld + row);
		m->query[r] = (struct kern_query){ .q = q,
			.out = m->y + r * ld,
			.span = span,
			.n_spans = spans_of(c, r, told, span),
			.own = c->tail[r].slot + (told - c->shared),
			.n_own = n - told };
	}
}

static void room_free(struct room *m)
{
	free(m->q);
	free(m->y);
	free(m->space);
	free(m->span);
}

/* Call attend_rows and copy the outputs to out, [rows][heads][dim]. Returns the
 * number of slots that the kernel read. */
static uint64_t call_rows(const struct kern *kern, const struct crowd *c,
	const uint16_t *table, float *out)
{
	const unsigned dim = c->s.dim;
	const size_t row = (size_t)c->heads * dim;
	const size_t size = kern_attend_scratch(c->heads, dim);
	const size_t shift = c->s.n % 16;
	struct kern_kv kv = c->s.kv;
	struct room m;
	uint64_t slots;
	float *scratch;

	room_make(&m, c, size + shift + 2 * GUARD);
	scratch = m.space + GUARD + shift;
	kv.slot = NULL;
	kv.n = 0;
	guards_set(scratch - GUARD);
	guards_set(scratch + size);
	memset(scratch, 0xff, size * sizeof(*scratch)); /* NaN */
	slots = kern->attend_rows(m.query, c->rows, c->heads, &kv, dim,
		c->s.scale, table, scratch);
	for (unsigned r = 0; r < c->rows; r++) {
		guards_check(m.query[r].out + row, "a row");
		memcpy(out + r * row, m.query[r].out, row * sizeof(*out));
	}
	guards_check(scratch - GUARD, "before scratch");
	guards_check(scratch + size, "scratch");
	room_free(&m);
	return slots;
}

/* Compute row r alone, with all its slots in one list. */
static void call_row(const struct kern *kern, const struct crowd *c, unsigned r,
	const uint16_t *table, float *out)
{
	struct scene s = c->s;
	uint32_t n = c->shared + c->tail[r].n;
	uint32_t *slot = malloc(n * sizeof(*slot));

	for (uint32_t i = 0; i < n; i++)
		slot[i] = seen(c, r, i);
	s.kv.slot = slot;
	s.kv.n = n;
	call(kern, &s, r * c->heads, c->heads, table, out);
	free(slot);
}

/* Check with all kernels that each row gets the same bytes as if it were
 * computed alone, and that a call for several rows reads no more slots than the
 * calls for single rows together. */
static void check_crowd(
	const struct crowd *c, const uint16_t *table, const char *what)
{
	const size_t row = (size_t)c->heads * c->s.dim;
	float *got = malloc(c->rows * row * sizeof(*got));
	float *want = malloc(c->rows * row * sizeof(*want));
	uint64_t apart = 0;

	for (unsigned r = 0; r < c->rows; r++) {
		call_row(vecs[n_vecs - 1], c, r, table, want + r * row);
		apart += c->shared + c->tail[r].n;
	}
	for (size_t v = 0; v < n_vecs; v++) {
		const uint64_t slots = call_rows(vecs[v], c, table, got);

		assert_in_range(slots, c->shared + 1, apart);
		for (unsigned r = 0; r < c->rows; r++)
			if (memcmp(got + r * row, want + r * row,
				    row * sizeof(*got)))
				fail_msg("%s, %s%s: row %u of %u differs: "
					 "heads %u, dim %u, shared %u, own %u",
					vecs[v]->name, what,
					table ? " by table" : "", r, c->rows,
					c->heads, c->s.dim, c->shared,
					c->tail[r].n);
	}
	free(got);
	free(want);
}

static void test_rows(void **state)
{
	static const char *const names[] = { "chain", "tree", "any", "alike",
		"groups" };
	static uint16_t table[KERN_EXP2_ENTRIES + 1];
	static const unsigned wide[] = { 20, 32, 64, 80, 128, 256 };
	const unsigned n = harness_full() ? 120 : 60;

	kern_exp2_table(table);
	for (unsigned i = 0; i < n; i++) {
		const enum shape shape = i % SHAPES;
		const unsigned rows = draw(90, i, KERN_ATTEND_ROWS) + 1;
		const unsigned heads = draw(91, i, 8) + 1;
		const unsigned dim = wide[draw(92, i, ARRAY_LEN(wide))];
		const uint32_t shared = i % 3 ? draw(93, i, 200) : i % 2 * 64;
		const uint32_t own = rows + (i % 5 ? 0 : draw(94, i, 90));
		struct crowd c;

		crowd_make(&c, rows, heads, dim, shared, own, shape, 100 + i);
		check_crowd(&c, NULL, names[shape]);
		if (i % 3 == 0)
			check_crowd(&c, table, names[shape]);
		crowd_free(&c);
	}
}

/* Tests every number of rows and of heads, with slots such that a block ends
 * among the rows' own slots. */
static void test_rows_counts(void **state)
{
	for (unsigned rows = 1; rows <= KERN_ATTEND_ROWS; rows++)
		for (unsigned heads = 1; heads <= 8; heads++) {
			struct crowd c;

			crowd_make(&c, rows, heads, 16, 64 - rows / 2, rows,
				CHAIN, rows + heads);
			check_crowd(&c, NULL, "counts");
			crowd_free(&c);
		}
}

/* Compare `ref`, which the tests above do not use, with a vector kernel. */
static void test_rows_ref(void **state)
{
	struct crowd c;

	crowd_make(&c, 16, 3, 80, 100, 30, CHAIN, 7);
	const size_t n = (size_t)c.s.heads * c.s.dim, row = n / c.rows;
	float *got = malloc(n * sizeof(*got)),
	      *want = malloc(n * sizeof(*want));

	call_rows(ref, &c, NULL, want);
	call_rows(vecs[n_vecs - 1], &c, NULL, got);
	for (size_t i = 0; i < n; i++)
		assert_close((double)got[i], (double)want[i], 3e-6, "ref");
	for (unsigned r = 0; r < c.rows; r++) {
		call_row(ref, &c, r, NULL, got);
		assert_memory_equal(got, want + r * row, row * sizeof(*got));
	}
	free(got);
	free(want);
	crowd_free(&c);
}

/* ---- compared with double precision ---- */

/* Compute one head of a row in double, from the values stored in the cache. */
static void brute_force(const struct crowd *c, unsigned r, unsigned h,
	const uint32_t *at_slot, double *out)
{
	const unsigned dim = c->s.dim;
	const uint32_t n = c->shared + c->tail[r].n;
	const float *q = c->s.q + ((size_t)r * c->heads + h) * dim;
	double *w = malloc(n * sizeof(*w)), sum = 0, most = -INFINITY;

	for (uint32_t i = 0; i < n; i++) {
		const float *k = c->s.k + (size_t)at_slot[seen(c, r, i)] * dim;

		w[i] = 0;
		for (unsigned d = 0; d < dim; d++)
			w[i] += (double)q[d] * (double)k[d];
		w[i] *= (double)c->s.scale;
		most = fmax(most, w[i]);
	}
	memset(out, 0, dim * sizeof(*out));
	for (uint32_t i = 0; i < n; i++) {
		const float *v = c->s.v + (size_t)at_slot[seen(c, r, i)] * dim;

		w[i] = exp(w[i] - most);
		sum += w[i];
		for (unsigned d = 0; d < dim; d++)
			out[d] += w[i] * (double)v[d];
	}
	for (unsigned d = 0; d < dim; d++)
		out[d] /= sum;
	free(w);
}

/* Tests rows of every enum shape, computed by all kernels. */
static void test_rows_brute_force(void **state)
{
	for (unsigned i = 0; i < 2 * SHAPES; i++) {
		const unsigned heads = 1 + i % 3, dim = 48;
		uint32_t *at_slot;
		struct crowd c;
		double want[48];
		float *got;

		crowd_make(&c, 3 + 5 * i % 30, heads, dim, 40 * i, 33 + 20 * i,
			i % SHAPES, 300 + i);
		at_slot = malloc(c.s.n * sizeof(*at_slot));
		for (uint32_t j = 0; j < c.s.n; j++)
			at_slot[c.s.slot[j]] = j;
		got = malloc((size_t)c.rows * heads * dim * sizeof(*got));
		for (size_t v = 0; v <= n_vecs; v++) {
			call_rows(v < n_vecs ? vecs[v] : ref, &c, NULL, got);
			for (unsigned r = 0; r < c.rows; r++)
				for (unsigned h = 0; h < heads; h++) {
					const float *y =
						got + (r * heads + h) * dim;

					brute_force(&c, r, h, at_slot, want);
					for (unsigned d = 0; d < dim; d++)
						assert_close((double)y[d],
							want[d], 3e-6, "row");
				}
		}
		free(got);
		free(at_slot);
		crowd_free(&c);
	}
}

/* Shared slots that fill whole blocks (of KERN_ATTEND_BLOCK slots) are read
 * once for all rows. The other slots are read once for each row. */
static void test_rows_read(void **state)
{
	enum { ROWS = 12, SHARED = 3 * KERN_ATTEND_BLOCK, HEADS = 2, DIM = 32 };
	float *out = malloc((size_t)ROWS * HEADS * DIM * sizeof(*out));

	for (unsigned more = 0; more < 2; more++) {
		uint64_t own = 0;
		struct crowd c;

		/* the own slots of any two rows have no common prefix */
		crowd_make(&c, ROWS, HEADS, DIM, SHARED + more, 150, ANY, 2);
		for (unsigned r = 0; r < ROWS; r++) {
			c.own[(size_t)r * c.s.n] = c.s.slot[c.shared + r];
			own += c.tail[r].n + more;
		}
		for (size_t v = 0; v < n_vecs; v++)
			assert_int_equal(call_rows(vecs[v], &c, NULL, out),
				SHARED + own);
		assert_int_equal(
			call_rows(ref, &c, NULL, out), ROWS * SHARED + own);
		crowd_free(&c);
	}
	free(out);
}

/* A slot that only the last rows of a call see does not affect the outputs of
 * the other rows. */
static void test_rows_ignore_unseen_slots(void **state)
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

			/* store float32, which can hold all these values */
			crowd_make(&c, ROWS, HEADS, DIM, 70, ROWS, CHAIN, 2);
			call_rows(vecs[v], &c, NULL, want);
			at = (size_t)c.s.slot[c.s.n - SEEING] * DIM;
			for (unsigned d = 0; d < DIM; d++) {
				memcpy((uint8_t *)c.s.key.at + 4 * (at + d),
					&odd[o], 4);
				memcpy((uint8_t *)c.s.value.at + 4 * (at + d),
					&odd[o], 4);
			}
			call_rows(vecs[v], &c, NULL, got);
			assert_memory_equal(got, want, blind * sizeof(*got));
			assert_memory_not_equal(got + blind, want + blind,
				n / ROWS * sizeof(*got));
			crowd_free(&c);
		}
	free(got);
	free(want);
}

/* Tests scores beyond the range of exp, positive and negative, and equal
 * scores. */
static void test_rows_sharp(void **state)
{
	static const float scales[] = { 1000, -1000, 0 };

	for (size_t i = 0; i < ARRAY_LEN(scales); i++) {
		struct crowd c;

		crowd_make(&c, 17, 6, 32, 130, 17, CHAIN, i);
		c.s.scale = scales[i];
		check_crowd(&c, NULL, "sharp");
		crowd_free(&c);
	}
}

static const struct CMUnitTest tests[] = {
	TEST(test_rows),
	TEST(test_rows_counts),
	TEST(test_rows_ref),
	TEST(test_rows_brute_force),
	TEST(test_rows_read),
	TEST(test_rows_ignore_unseen_slots),
	TEST(test_rows_sharp),
};

TEST_FILE(tests)
