/*
 * The oracle drafter, which has the continuation of the text. The rank of the
 * correct token among the candidates follows the oracle's distribution. The
 * share of accepted tokens at each drafted position follows a curve of
 * probabilities. The candidates depend only on the seed and the path. For other
 * texts the candidates are correct only by chance.
 */
#include "base/checked.h"
#include "base/err.h"
#include "host/draft/draft_kind.h"
#include "host/draft/drafter_oracle.h"
#include "host/model/shapes.h"
#include "tensor/soc/price.h"
#include "tensor/soc/soc.h"
#include "tests/harness.h"
#include "tests/host/draft/drafter_check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define N_VOCAB 1000
#define N_TEXT  20000

struct fixture {
	int32_t *text;
	struct drafter d;
	struct tree *t, *u;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->text = malloc(N_TEXT * sizeof(*f->text));
	check_tokens(f->text, N_TEXT, 1, N_VOCAB);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	drafter_close(&f->d);
	tree_close(f->t);
	tree_close(f->u);
	free(f->text);
	free(f);
	return 0;
}

/* A curve with these acceptance probabilities, one per drafted position. The
 * last number applies to all further positions. */
#define CURVE(...)                                      \
	(&(const struct oracle_curve){ { __VA_ARGS__ }, \
		sizeof((double[]){ __VA_ARGS__ }) / sizeof(double) })

static void open_oracle(struct fixture *f, size_t n,
	const struct oracle_curve *curve, uint64_t seed, uint32_t k)
{
	struct err e = { 0 };

	drafter_close(&f->d);
	tree_close(f->t);
	tree_close(f->u);
	f->t = check_tree(k);
	f->u = check_tree(k);
	assert_ok(drafter_oracle_open(
			  &f->d, f->text, n, curve, seed, N_VOCAB, &e),
		&e);
	assert_int_equal(f->d.batch, 1);
}

static const struct candidate *candidates(const struct tree *t, uint32_t node)
{
	return t->candidate + (size_t)node * t->k;
}

static uint32_t rank_of(const struct tree *t, uint32_t node, int32_t token)
{
	uint32_t r = 0;

	while (r < t->n_candidates[node] &&
		candidates(t, node)[r].token != token)
		r++;
	return r;
}

/* The candidates must be distinct tokens of the vocabulary, and each must have
 * the probability q of its rank. */
static void check_candidates(
	const struct tree *t, uint32_t node, double agreement)
{
	const struct candidate *c = candidates(t, node);

	for (uint32_t i = 0; i < t->n_candidates[node]; i++) {
		double q = agreement * pow(1 - agreement, i);

		assert_true(c[i].token >= 0 && c[i].token < N_VOCAB);
		assert_close((double)c[i].q, q, 1e-6 * q, "q");
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(c[i].token, c[j].token);
	}
}

/* Grow a tree of all candidates, two levels deep, by expanding node 0 and its
 * children. */
static void grow_two(
	struct fixture *f, struct tree *t, const int32_t *text, size_t n)
{
	const struct growth g = { 2, TREE_CANDIDATES, 3, n };

	check_begin(&f->d, t, text, n);
	check_grow(&f->d, t, &g);
}

/* ---- the distribution of ranks ------------------------------------------- */

/* Each rank must occur as often as expected, within 5 standard deviations of a
 * binomial distribution. */
static void check_law(struct fixture *f, double agreement, uint32_t k)
{
	uint32_t count[TREE_CANDIDATES + 1] = { 0 };
	double absent = pow(1 - agreement, k), n = N_TEXT - 1;

	open_oracle(f, N_TEXT, CURVE(agreement), check_seed() + k, k);
	/* Draft along the text with trees that are chains. */
	for (uint32_t i = 1; i < N_TEXT; i += 25) {
		check_begin(&f->d, f->t, f->text, i);
		for (uint32_t j = 0; j < 25 && i + j < N_TEXT; j++) {
			struct candidate c = { f->text[i + j], .1f };

			check_candidates(f->t, j, agreement);
			assert_int_equal(f->t->n_candidates[j], k);
			count[rank_of(f->t, j, f->text[i + j])]++;
			tree_add(f->t, j, c);
			check_expand(&f->d, f->t, &(uint32_t){ j + 1 }, 1);
		}
	}
	for (uint32_t r = 0; r <= k; r++) {
		double p = r < k ? agreement * pow(1 - agreement, r) : absent;

		assert_close(count[r] / n, p, 5 * sqrt(p * (1 - p) / n) + 1e-12,
			"share of a rank");
	}
}

static void test_ranks_obey_the_law(void **state)
{
	check_law(*state, 0.7, 6);
	check_law(*state, 0.25, TREE_CANDIDATES);
	check_law(*state, 0.05, 3);
}

/* The ranks at neighboring positions are independent. */
static void test_ranks_are_independent(void **state)
{
	struct fixture *f = *state;
	uint32_t both = 0, n = 4000;

	open_oracle(f, N_TEXT, CURVE(0.5), check_seed(), 2);
	for (uint32_t i = 1; i <= n; i++) {
		bool here;

		check_begin(&f->d, f->t, f->text, i);
		here = !rank_of(f->t, 0, f->text[i]);
		check_begin(&f->d, f->t, f->text, i + 1);
		both += here && !rank_of(f->t, 0, f->text[i + 1]);
	}
	/* Adjacent pairs of positions have one position in common, so the
	 * variance of `both` is 5/16 n and not 3/16 n. */
	assert_close(both / (double)n, 0.25, 5 * sqrt(0.3125 / n), "pairs");
}

static void test_always(void **state)
{
	struct fixture *f = *state;

	open_oracle(f, N_TEXT, CURVE(1), 9, 5);
	for (uint32_t i = 1; i < 200; i++) {
		check_begin(&f->d, f->t, f->text, i);
		assert_int_equal(f->t->n_candidates[0], 1);
		assert_int_equal(candidates(f->t, 0)->token, f->text[i]);
		assert_true(candidates(f->t, 0)->q == 1);
	}
}

/* ---- a curve by position ------------------------------------------------- */

/*
 * Draft chains of `length` tokens along texts. Each chain begins one token
 * after the accepted part of the previous chain. For each position in a chain
 * the share of right tokens, among chains whose earlier tokens are right, must
 * lie within 4 standard deviations of the curve. Ranks depend on the oracle's
 * seed and the position in the text alone, so the counts are the same in every
 * run. The texts are short, as the time of a chain grows with the text before
 * it.
 */
static void check_acceptance(
	struct fixture *f, const struct oracle_curve *curve, uint32_t length)
{
	enum { TEXTS = 40, TOKENS = N_TEXT / TEXTS };
	uint32_t drafted[ORACLE_POSITIONS] = { 0 };
	uint32_t right[ORACLE_POSITIONS] = { 0 }, i;

	for (uint32_t seed = 1; seed <= TEXTS; seed++) {
		open_oracle(f, TOKENS, curve, seed, 3);
		for (uint32_t n = 1; n + length <= TOKENS; n += i + 1) {
			check_begin(&f->d, f->t, f->text, n);
			for (i = 0; i < length; i++) {
				const struct candidate *c = candidates(f->t, i);

				assert_int_equal(f->t->n_candidates[i],
					c->q == 1 ? 1 : 3);
				drafted[i]++;
				if (c->token != f->text[n + i])
					break;
				right[i]++;
				tree_add(f->t, i, *c);
				check_expand(
					&f->d, f->t, &(uint32_t){ i + 1 }, 1);
			}
		}
	}
	for (i = 0; i < length && drafted[i]; i++) {
		double p = curve->p[i < curve->n ? i : curve->n - 1];
		double bound = 4 * sqrt(p * (1 - p) / drafted[i]);

		print_message("position %u: %u of %u are right, P %g\n", i,
			right[i], drafted[i], p);
		assert_close((double)right[i] / drafted[i], p, bound + 1e-12,
			"share of right tokens");
		/* The bound is useful only if enough chains reach the position.
		 */
		assert_true(bound < 0.1);
	}
	assert_true(i == length || !right[i - 1]);
}

static void test_acceptance_follows_the_curve(void **state)
{
	check_acceptance(*state, CURVE(0.9, 0.8, 0.6, 0.75), 8);
	check_acceptance(*state, CURVE(0.3, 1, 0.9, 0.5), 6);
	/* No token after the third position is ever right. */
	check_acceptance(*state, CURVE(0.7, 0.95, 0.9, 0), 6);
	check_acceptance(*state, CURVE(0.85), 5);
}

/* The candidates at a depth of a tree are those of an oracle that has the
 * curve's probability for this depth at all positions. This holds on the text,
 * after its end, and for other texts. */
static void test_levels_follow_the_curve(void **state)
{
	static const double p[] = { 0.7, 0.2, 1, 0, 0.4, 0.4, 0.4 };
	struct fixture *f = *state;
	struct drafter one = { 0 };
	struct err e = { 0 };
	int32_t text[70];

	open_oracle(f, 40, CURVE(0.7, 0.2, 1, 0, 0.4), 4, 6);
	for (uint32_t depth = 0; depth < ARRAY_LEN(p); depth++) {
		assert_ok(drafter_oracle_open(&one, f->text, 40,
				  CURVE(p[depth]), 4, N_VOCAB, &e),
			&e);
		for (size_t n = 33; n < 42; n++) {
			const struct growth g = { ARRAY_LEN(p), 2, 3, n };
			uint32_t nodes = 0;

			memcpy(text, f->text, sizeof(text));
			check_begin(&f->d, f->t, text, n);
			check_grow(&f->d, f->t, &g);
			for (uint32_t i = 0; i < f->t->n; i++) {
				if (f->t->depth[i] != depth)
					continue;
				check_path(f->t, i, text + n);
				check_begin(&one, f->u, text, n + depth);
				check_same_node(f->t, i, f->u, 0);
				nodes++;
			}
			assert_true(nodes > 0);
		}
		drafter_close(&one);
	}
}

static void mix(uint64_t *hash, const void *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		*hash ^= ((const unsigned char *)data)[i];
		*hash *= 0x100000001b3;
	}
}

/* FNV-1a hash of all candidates of trees after each token of a text. */
static uint64_t hash_of(struct fixture *f, const struct oracle_curve *curve)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (int32_t i = 0; i < 400; i++)
		f->text[i] = i * 37 % N_VOCAB;
	open_oracle(f, 380, curve, 11, 6);
	for (uint32_t n = 1; n < 400; n++) {
		check_begin(&f->d, f->t, f->text, n);
		for (uint32_t u = 0; u < f->t->n; u++) {
			if (u)
				check_expand(&f->d, f->t, &u, 1);
			for (uint32_t c = 0; c < f->t->n_candidates[u]; c++)
				mix(&hash, candidates(f->t, u) + c,
					offsetof(struct candidate, source));
			if (f->t->depth[u] < 4)
				check_children(f->t, u, 2);
		}
	}
	return hash;
}

/* The hashes were recorded when the oracle had a single probability and no
 * curve. With a single probability the candidates must never change. */
static void test_one_number_keeps_its_candidates(void **state)
{
	assert_int_equal(hash_of(*state, CURVE(0.3)), 0x9c1b0c2f180d9d6e);
	assert_int_equal(hash_of(*state, CURVE(0.8)), 0xf861c5306b7dd215);
	assert_int_equal(hash_of(*state, CURVE(1)), 0xe2dc871f78317621);
	assert_int_equal(
		hash_of(*state, CURVE(0.8, 0.8, 0.8)), 0xf861c5306b7dd215);
	assert_int_not_equal(
		hash_of(*state, CURVE(0.8, 0.8, 0.7)), 0xf861c5306b7dd215);
}

static void check_word(const char *word, int ret, const char *what)
{
	struct err e = { 0 };

	assert_int_equal(draft_kind_oracle.check("", word, &e), ret);
	if (!strstr(e.text, what))
		fail_msg("no '%s' in: %s", what, e.text);
}

static void test_words_are_checked(void **state)
{
	static const char *const wrong[][2] = {
		{ "", "number 1, ''" },
		{ "x", "number 1, 'x'" },
		{ "1.5", "number 1, '1.5'" },
		{ "0.9,", "number 2, ''" },
		{ ",0.9", "number 1, ''" },
		{ "0.9,,0.8", "number 2, ''" },
		{ "0.9,0.8x,0.7", "number 2, '0.8x'" },
		{ "0.9,0.8,-0.1", "number 3, '-0.1'" },
		{ "0.9,nan", "number 2, 'nan'" },
		{ "0.9;0.8", "number 1, '0.9;0.8'" },
	};
	char word[3 * ORACLE_POSITIONS + 4] = "0.5";

	check_word("0.8", 0, "");
	check_word("0", 0, "");
	check_word("-0,1,0.25,1e-3", 0, "");
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		check_word(wrong[i][0], -EINVAL, wrong[i][1]);
		check_word(wrong[i][0], -EINVAL, "--draft oracle");
		check_word(wrong[i][0], -EINVAL, "try for example oracle:0.8");
	}
	for (size_t i = 1; i < ORACLE_POSITIONS; i++)
		memcpy(word + 3 * i, ",.5", 4);
	check_word(word, 0, "");
	memcpy(word + 3 * ORACLE_POSITIONS, ",.6", 4);
	check_word(word, -EINVAL, "'.6' is number 65, but at most 64");
}

/* ---- paths --------------------------------------------------------- */

static void test_order_makes_no_difference(void **state)
{
	struct fixture *f = *state;

	open_oracle(f, 60, CURVE(0.6), 3, 4);
	for (uint32_t n = 50; n < 65; n++) {
		const struct growth a = { 3, 3, 1, n }, b = { 3, 3, 9, 99 };

		check_begin(&f->d, f->t, f->text, n);
		check_grow(&f->d, f->t, &a);
		check_begin(&f->d, f->u, f->text + n % 3, 9);
		check_begin(&f->d, f->u, f->text, n);
		check_grow(&f->d, f->u, &b);
		check_same_tree(f->t, f->u);
	}
}

/* A node has the same candidates as the root of a tree that begins after the
 * node's path. */
static void test_nodes_are_texts(void **state)
{
	struct fixture *f = *state;
	int32_t text[70];

	/* texts that end before and after the end of the oracle's text */
	for (size_t n = 38; n < 43; n++) {
		open_oracle(f, 40, CURVE(0.5), 4, 6);
		memcpy(text, f->text, sizeof(text));
		grow_two(f, f->t, text, n);
		for (uint32_t i = 0; i < f->t->n; i++) {
			uint32_t below = check_path(f->t, i, text + n);

			if (below == 2)
				continue;
			check_candidates(f->t, i, 0.5);
			check_begin(&f->d, f->u, text, n + below);
			check_same_node(f->t, i, f->u, 0);
		}
	}
}

/* Open an oracle that has the first `known` tokens of f->text. Store the
 * oracle's candidates after the n tokens of `text` in t. */
static void look(struct fixture *f, struct tree *t, size_t known, uint64_t seed,
	const int32_t *text, size_t n)
{
	struct err e = { 0 };

	drafter_close(&f->d);
	assert_ok(drafter_oracle_open(
			  &f->d, f->text, known, CURVE(0.3), seed, N_VOCAB, &e),
		&e);
	check_begin(&f->d, t, text, n);
	check_candidates(t, 0, 0.3);
	assert_int_equal(t->n_candidates[0], TREE_CANDIDATES);
}

/* Number of candidates that the roots of a and b have in common. */
static uint32_t shared(const struct tree *a, const struct tree *b)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < a->n_candidates[0]; c++)
		n += rank_of(b, 0, candidates(a, 0)[c].token) <
			b->n_candidates[0];
	return n;
}

/*
 * The candidates must differ for another text, at the end of the text, and with
 * another seed. In these cases the text's next token is a candidate only by
 * chance, with a probability of about 1/60.
 */
static void test_off_the_text(void **state)
{
	enum { N = 150, CHANCE = N * TREE_CANDIDATES / 20 };
	uint32_t left = 0, apart = 0, ended = 0, seeds = 0, hits = 0;
	struct fixture *f = *state;
	int32_t text[N + 3];

	f->t = check_tree(TREE_CANDIDATES);
	f->u = check_tree(TREE_CANDIDATES);
	for (uint32_t n = 0; n < N; n++) {
		memcpy(text, f->text, sizeof(text));
		look(f, f->t, N_TEXT, 5, text, n + 2);
		look(f, f->u, n + 2, 5, text, n + 2);
		ended += shared(f->t, f->u);
		hits += rank_of(f->u, 0, text[n + 2]) < TREE_CANDIDATES;
		look(f, f->t, n + 2, 6, text, n + 2);
		seeds += shared(f->t, f->u);
		look(f, f->t, N_TEXT, 5, text, n + 2);
		text[n] = (text[n] + 1) % N_VOCAB;
		look(f, f->u, N_TEXT, 5, text, n + 2);
		left += shared(f->t, f->u);
		hits += rank_of(f->u, 0, text[n + 2]) < TREE_CANDIDATES;
		text[n] = (text[n] + 1) % N_VOCAB;
		look(f, f->t, N_TEXT, 5, text, n + 2);
		apart += shared(f->t, f->u);
	}
	assert_in_range(left, 1, CHANCE);
	assert_in_range(apart, 1, CHANCE);
	assert_in_range(ended, 1, CHANCE);
	assert_in_range(seeds, 1, CHANCE);
	assert_in_range(hits, 0, 2 * N / 10);
}

/* A tree with a smaller maximum number of candidates (k) gets the first of the
 * candidates that a tree with a larger maximum gets. */
static void test_k_makes_no_difference(void **state)
{
	struct fixture *f = *state;
	struct tree *few = check_tree(3);

	open_oracle(f, 100, CURVE(0.4), 8, TREE_CANDIDATES);
	for (uint32_t n = 1; n < 110; n++) {
		check_begin(&f->d, few, f->text, n);
		check_begin(&f->d, f->t, f->text, n);
		assert_memory_equal(few->candidate, f->t->candidate,
			3 * sizeof(struct candidate));
	}
	tree_close(few);
}

/* The smallest possible vocabulary has only one token more than a node has
 * candidates. */
static void test_small_vocabulary(void **state)
{
	struct fixture *f = *state;
	struct err e = { 0 };

	for (uint32_t i = 0; i < 100; i++)
		f->text[i] %= 17;
	f->t = check_tree(TREE_CANDIDATES);
	assert_ok(drafter_oracle_open(
			  &f->d, f->text, 100, CURVE(0.01), 1, 17, &e),
		&e);
	for (uint32_t n = 1; n < 110; n++) {
		check_begin(&f->d, f->t, f->text, n);
		assert_int_equal(f->t->n_candidates[0], TREE_CANDIDATES);
		check_candidates(f->t, 0, 0.01);
	}
}

static void test_refusals(void **state)
{
	static const double wrong[] = { -.001, -1, 1.001, NAN, INFINITY };
	struct fixture *f = *state;
	struct err e = { 0 };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		for (uint32_t n = 1; n <= 2; n++) {
			struct oracle_curve curve = { { .5, .5 }, n };

			curve.p[n - 1] = wrong[i];
			assert_int_equal(drafter_oracle_open(&f->d, f->text, 9,
						 &curve, 1, N_VOCAB, &e),
				-EINVAL);
		}
	for (uint32_t n = 0; n <= ORACLE_POSITIONS + 1;
		n += ORACLE_POSITIONS + 1)
		assert_int_equal(drafter_oracle_open(&f->d, f->text, 9,
					 &(struct oracle_curve){ { 0 }, n }, 1,
					 N_VOCAB, &e),
			-EINVAL);
	assert_int_equal(
		drafter_oracle_open(&f->d, f->text, 9, CURVE(1), 1, 16, &e),
		-EINVAL);
	f->text[4] = N_VOCAB;
	assert_int_equal(drafter_oracle_open(
				 &f->d, f->text, 9, CURVE(1), 1, N_VOCAB, &e),
		-EINVAL);
	assert_non_null(strstr(e.text, "token 1000"));
	assert_ok(drafter_oracle_open(
			  &f->d, f->text, 4, CURVE(1), 1, N_VOCAB, &e),
		&e);
}

/* ---- estimated time ------------------------------------------------------ */

static uint64_t took(struct fixture *f)
{
	struct price p = { 0 };

	f->d.price(f->d.arg, &p);
	return p.total_ps;
}

/* Phone time of a pass in picoseconds. Reading and writing bytes takes all the
 * time. The bytes are those of seven matrices in each of two layers and of the
 * output matrix, 34 bytes per 32 weights, and those of the input and output
 * rows of each product. */
static uint64_t a_pass(const struct soc *soc, uint32_t rows)
{
	const uint64_t shape[][2] = { { 32, 32 }, { 16, 32 }, { 16, 32 },
		{ 32, 32 }, { 64, 32 }, { 64, 32 }, { 32, 64 } };
	double ps = 0;

	for (unsigned i = 0; i < 2 * ARRAY_LEN(shape) + 1; i++) {
		uint64_t n = i < 14 ? shape[i % 7][0] : 100;
		uint64_t k = i < 14 ? shape[i % 7][1] : 32;
		double bytes = (double)(n * k * 34 / 32 + 4 * rows * (n + k));

		ps += bytes * 1e12 / soc->cpu_bytes_per_s;
	}
	return (uint64_t)ps;
}

/* Without a shape (a set of layer sizes) whose time is estimated, the oracle
 * takes no time. With such a shape, it takes the time of one pass for each
 * node, or for each batch of nodes, and no node is counted twice. */
static void test_priced(void **state)
{
	struct fixture *f = *state;
	const struct soc soc = { .cpu_bytes_per_s = 1e9,
		.cpu_flops_per_s = 1e16 };
	const struct shape shape = { .n_vocab = 100,
		.n_layer = 2,
		.n_embd = 32,
		.n_head = 2,
		.n_kv_head = 1,
		.head_dim = 16,
		.n_ff = 64 };

	open_oracle(f, 100, CURVE(.9), 1, 4);
	assert_null(f->d.price);
	for (uint32_t batch = 1; batch <= 4; batch += 3) {
		const uint32_t node[] = { 1, 2, 3, 4 };
		uint64_t rest =
			batch == 1 ? 4 * a_pass(&soc, 1) : a_pass(&soc, 4);

		drafter_oracle_price_as(&f->d, &soc, &shape,
			(struct shape_type){ DTYPE_F32, DTYPE_F32 }, batch);
		check_begin(&f->d, f->t, f->text, 10);
		assert_close((double)took(f), (double)a_pass(&soc, 1), 20,
			"of the root");
		for (uint32_t i = 0; i < 4; i++)
			tree_add(f->t, 0, f->t->candidate[i]);
		check_expand(&f->d, f->t, node, 4);
		assert_close((double)took(f), (double)rest, 80, "of nodes");
		assert_int_equal(took(f), 0);
	}
}

#define TEST(x) cmocka_unit_test_setup_teardown(x, setup, teardown)
static const struct CMUnitTest tests[] = {
	TEST(test_ranks_obey_the_law),
	TEST(test_ranks_are_independent),
	TEST(test_always),
	TEST(test_acceptance_follows_the_curve),
	TEST(test_levels_follow_the_curve),
	TEST(test_one_number_keeps_its_candidates),
	TEST(test_words_are_checked),
	TEST(test_order_makes_no_difference),
	TEST(test_nodes_are_texts),
	TEST(test_off_the_text),
	TEST(test_k_makes_no_difference),
	TEST(test_small_vocabulary),
	TEST(test_refusals),
	TEST(test_priced),
};

TEST_FILE(tests)
