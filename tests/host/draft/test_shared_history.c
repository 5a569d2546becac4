/*
 * Drafters of several requests share one index of the history. Each drafter
 * must draft the same tokens as a drafter with its own index, whichever drafter
 * adds new records to the index, and also in the middle of a text.
 */
#include "base/checked.h"
#include "host/draft/draft_kind.h"
#include "tests/host/draft/copied_text.h"
#include "tests/host/draft/opened_kind.h"
#include "tests/host/text/history_file.h"

#include <string.h>

#define ALPHABET 6
#define RECORD   30
#define TEXT     60
#define MATCH    8
#define ROUNDS   6
#define NODES    24

static struct drafter open_with(const struct draft_kind *k, struct history *h,
	const struct drafter *like)
{
	static const struct opt_values values; /* unset, so defaults apply */
	const struct draft_site site = {
		.values = &values, .word = "", .history = h, .like = like
	};
	struct drafter d;
	struct err e = { 0 };

	assert_ok(k->open(&d, &site, &e), &e);
	return d;
}

static void draft(
	const struct drafter *d, struct tree *t, const int32_t *text, size_t n)
{
	const struct build_limits limits = { NODES, 10 };
	struct build b = { 0 };
	struct err e = { 0 };

	assert_ok(d->begin(d->arg, t, text, n, &e), &e);
	build_opt_begin(&b, t, &limits, 0);
	assert_ok(build_run(&b, d, &e), &e);
}

/* Add a record to the history. The record contains the last MATCH of the n
 * tokens of `text`; its other tokens are drawn by copied_text. */
static void add_record(
	struct history *h, const int32_t *text, size_t n, uint32_t stream)
{
	int32_t id[RECORD];
	const struct history_record r = {
		.id = id, .n_prompt = 1, .n = RECORD
	};
	struct err e = { 0 };

	copied_text(id, RECORD, ALPHABET, stream);
	memcpy(id + 4, text + n - MATCH, MATCH * sizeof(*id));
	assert_ok(history_append(h, &r, 1, &e), &e);
}

static void test_shared(void **state)
{
	static const struct draft_kind *const kinds[] = { &draft_kind_sam,
		&draft_kind_suffix, &draft_kind_rest };
	const struct draft_kind *k = kinds[*(const unsigned *)*state];
	struct drafter sharing[3];
	int32_t text[TEXT], other[TEXT];
	struct tree *got, *want;
	struct history *h;
	struct err e = { 0 };
	uint32_t drafted = 0;

	history_fresh();
	h = history_opened(1 << 20);
	for (unsigned i = 0; i < 3; i++)
		sharing[i] = open_with(k, h, i ? &sharing[0] : NULL);
	assert_ok(tree_open(&got, NODES, 4, &e), &e);
	assert_ok(tree_open(&want, NODES, 4, &e), &e);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		copied_text(text, TEXT, ALPHABET, 100 * round);
		/* One drafter begins another text each time, and reads the new
		 * records of the history; the two others continue one text. */
		for (uint32_t n = 40; n <= 48; n++) {
			const uint32_t stream = 100 * round + 10 * (n - 39);

			copied_text(other, TEXT, ALPHABET, stream);
			add_record(h, text, n, stream + 5);
			for (unsigned i = 0; i < 3; i++) {
				const struct drafter *d =
					&sharing[(round + i) % 3];
				const int32_t *of = i ? text : other;
				struct drafter own = open_with(k, h, NULL);

				draft(d, got, of, n);
				draft(&own, want, of, n);
				assert_int_equal(got->n, want->n);
				assert_memory_equal(got->token, want->token,
					got->n * sizeof(*got->token));
				assert_memory_equal(got->parent, want->parent,
					got->n * sizeof(*got->parent));
				drafted += got->n - 1;
				drafter_close(&own);
			}
		}
	}
	assert_true(drafted > 100);
	for (unsigned i = 3; i--;)
		drafter_close(&sharing[i]);
	tree_close(got);
	tree_close(want);
	history_close(h);
}

static unsigned which[] = { 0, 1, 2 };

static const struct CMUnitTest tests[] = {
	{ "sam", test_shared, NULL, NULL, &which[0] },
	{ "suffix", test_shared, NULL, NULL, &which[1] },
	{ "rest", test_shared, NULL, NULL, &which[2] },
};

TEST_FILE(tests)
