/*
 * Shapes of models (sets of layer sizes). Each shape has the number of
 * parameters that its makers publish (the number of values in the weights of
 * the released model), a width that is divisible by its heads, and widths that
 * the matrix engine accepts.
 */
#include "host/model/shapes.h"

#include "tests/harness.h"

#include <string.h>

static uint64_t layer_values(const struct shape *m)
{
	uint64_t q = (uint64_t)m->n_head * m->head_dim;
	uint64_t kv = (uint64_t)m->n_kv_head * m->head_dim;
	uint64_t n = 2 * q * m->n_embd + 2 * kv * m->n_embd;

	n += 3 * (uint64_t)m->n_ff * m->n_embd *
		(m->n_expert ? m->n_expert : 1);
	n += (uint64_t)(2 + m->n_expert) * m->n_embd;
	n += m->qkv_bias ? q + 2 * kv : 0;
	if (!m->qk_norm)
		return n;
	return n +
		(strcmp(m->arch, "olmoe") ? 2 * (uint64_t)m->head_dim : q + kv);
}

static uint64_t values(const struct shape *m)
{
	uint64_t embedding = (uint64_t)m->n_vocab * m->n_embd;

	return m->n_layer * layer_values(m) + m->n_embd +
		(m->tied ? 1 : 2) * embedding;
}

static const struct {
	const char *name;
	uint64_t values;
} published[] = {
	{ "qwen2.5-0.5b", 494032768 },
	{ "qwen2.5-1.5b", 1543714304 },
	{ "qwen2.5-3b", 3085938688 },
	{ "qwen2.5-7b", 7615616512 },
	{ "qwen3-0.6b", 596049920 },
	{ "qwen3-4b", 4022468096 },
	{ "qwen3-8b", 8190735360 },
	{ "qwen3-14b", 14768307200 },
	{ "qwen3-30b-a3b", 30532122624 },
	{ "olmoe-1b-7b", 6919161856 },
	{ "llama3.2-1b", 1235814400 },
	{ "llama3.2-3b", 3212749824 },
	{ "llama3.1-8b", 8030261248 },
	{ "llada-8b", 8015581184 },
	{ "dream-7b", 7615616512 },
};

#define PUBLISHED (sizeof(published) / sizeof(*published))

static void test_parameters(void **state)
{
	for (size_t i = 0; i < PUBLISHED; i++) {
		unsigned s = 0;

		while (s < SHAPES && strcmp(shapes[s].name, published[i].name))
			s++;
		if (s == SHAPES)
			fail_msg("there is no %s", published[i].name);
		if (values(&shapes[s]) != published[i].values)
			fail_msg("%s has %llu parameters, not %llu",
				shapes[s].name,
				(unsigned long long)values(&shapes[s]),
				(unsigned long long)published[i].values);
	}
}

static void test_sound(void **state)
{
	unsigned dense = 0;

	for (unsigned s = 0; s < SHAPES; s++) {
		const struct shape *m = &shapes[s];

		assert_string_equal(shape_names[s], m->name);
		for (unsigned k = 0; k < s; k++)
			assert_string_not_equal(m->name, shapes[k].name);
		assert_int_equal(m->n_head % m->n_kv_head, 0);
		assert_int_equal(m->n_embd % 32, 0);
		assert_int_equal(m->n_ff % 32, 0);
		assert_true(m->n_used <= m->n_expert);
		assert_int_equal(m->n_used > 0, m->n_expert > 0);
		assert_in_range(m->first_special, 1, m->n_vocab - 1);
	}
	assert_null(shape_names[SHAPES]);
	for (unsigned s = 0; dense_shape_names[s]; s++)
		dense = s + 1;
	for (unsigned s = 0; s < SHAPES; s++)
		assert_int_equal(shapes[s].n_expert > 0, s >= dense);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_parameters),
	cmocka_unit_test(test_sound),
};

TEST_FILE(tests)
