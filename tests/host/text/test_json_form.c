/*
 * The JSON texts that a form (the grammar of a schema) allows, compared with an
 * independent validator. The allowed tokens are compared with the form itself,
 * byte by byte.
 */
#include "tests/harness.h"

#include "base/err.h"
#include "host/text/generation.h"
#include "host/text/json_form.h"
#include "host/text/sampler.h"
#include "host/text/token_trie.h"
#include "tests/host/text/json_check.h"
#include "tests/host/text/tok_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTE0 3 /* token of the byte 0 */
#define END   2

static struct tokenizer *tokenizer;
static struct token_trie *trie;

/* Open a vocabulary of bytes and of tokens that span several JSON tokens. */
static int setup(void **state)
{
	static const char *const words[] = { "{\"", "\":", "\",\"", "\"}", "},",
		"]}", "true", "false", "null", "\":\"", "\"\"", "[[", "]]",
		"name", "\"name", "na", "\xc3\xa9\xc3\xa9", "\xf0\x9f", "12",
		"0.5", ",1", "\\u00", "\\\"", "{}", "\":true,\"",
		"\xe2\x96\x81\xe2\x96\x81\"", "e5", "-1" };
	struct err e = { 0 };
	struct vocab v;

	vocab_spm(&v);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		vocab_add(&v, words[i], 1, -1.0f);
	tokenizer = open_vocab(&v);
	assert_ok(token_trie_open(&trie, tokenizer, &e), &e);
	return 0;
}

static int teardown(void **state)
{
	token_trie_close(trie);
	tokenizer_close(tokenizer);
	return 0;
}

static struct json_form *opened(const char *schema)
{
	struct json_form *f;
	struct err e = { 0 };

	assert_ok(json_form_open(&f, schema, trie, &e), &e);
	return f;
}

/* Whether the form accepts the bytes, one by one, and the text may end after
 * them. */
static bool accepts(struct json_form *f, const char *text)
{
	struct json_front place;
	float logits[VOCAB_MAX] = { 0 };

	json_begin(json_form_machine(f), &place);
	for (const char *p = text; *p; p++)
		if (!json_form_take(
			    f, &place, BYTE0 + (int32_t)(unsigned char)*p))
			return false;
	return json_form_mask(f, &place, logits, trie->n_vocab)[END] == 0;
}

/* ---- by hand ------------------------------------------------------------- */

static const struct {
	const char *schema;
	const char *good[12], *bad[16];
} cases[] = {
	{ "{}",
		{ "null", " {}", "[ 1, \"a\" ]", "-0.5e-3",
			"\"\\u00e9\\ud83c\\udf0a\"", "{\"a\":{\"a\":[[]]}}",
			"12" },
		{ "", "nul", "{,}", "[1,]", "01", "1.", "\"\\ud800\"",
			"\"\\udc00\"", "\"\\u0000\"", "\"\x01\"", "\"\xff\"",
			"\"\xc0\x80\"", "1 ", "\"\xed\xa0\x80\"" } },
	{ "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}",
		{ "-3", "0", "-0", "7", "99", "100", "120", "-1" },
		{ "-4", "121", "1.0", "1e1", "-", "200", "-30", "00" } },
	{ "{\"type\":\"integer\",\"exclusiveMinimum\":9,"
	  "\"exclusiveMaximum\":2001}",
		{ "10", "99", "2000", "999" },
		{ "9", "1", "2001", "0", "-10" } },
	{ "{\"type\":\"number\",\"minimum\":0.25,\"maximum\":1}",
		{ "0.25", "0.3", "1", "1.0", "0.999999" },
		{ "0.2", "0", "1.1", "0.24", "2", "1e0", "-1", "0.2499" } },
	{ "{\"type\":\"number\",\"exclusiveMaximum\":-1.5}",
		{ "-2", "-1.6", "-1.500001" }, { "-1.5", "-1", "0", "1" } },
	{ "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
		{ "\"ab\"", "\"\xc3\xa9\xe4\xb8\xad\"",
			"\"\\n\\ud83c\\udf0aa\"" },
		{ "\"a\"", "\"abcd\"", "\"\\ud83c\\udf0a\"" } },
	{ "{\"type\":[\"null\",\"boolean\"]}", { "null", "true", "false" },
		{ "0", "\"\"", "[]" } },
	{ "{\"enum\":[1,\"a\\\"b\",\"a\",null,{\"k\":[1,2]}]}",
		{ "1", "\"a\\\"b\"", "\"a\"", "null", "{\"k\":[1,2]}",
			"{ \"k\" : [ 1 , 2 ] }" },
		{ "2", "\"b\"", "{\"k\":[1]}", "{\"k\":[1,2,3]}", "{}",
			"{\"k\":[2,1]}" } },
	{ "{\"enum\":[1,\"a\",2.5],\"type\":\"integer\"}", { "1" },
		{ "\"a\"", "2.5" } },
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},"
	  "\"ab\":{\"type\":\"null\"}},\"required\":[\"a\"],"
	  "\"additionalProperties\":false}",
		{ "{\"a\":1}", "{\"ab\":null,\"a\":1}",
			"{\"a\":1,\"ab\":null}" },
		{ "{}", "{\"ab\":null}", "{\"a\":1,\"a\":2}", "{\"a\":null}",
			"{\"a\":1,\"b\":1}", "{\"a\":1,}",
			"{\"\":1,\"a\":1}" } },
	/* If names could be written with escapes, "\u0061" would equal "a"
	 * without being recognized as "a". */
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
	  "\"additionalProperties\":{\"type\":\"null\"}}",
		{ "{}", "{\"a\":1,\"b\":null}", "{\"aa\":null,\"\":null}" },
		{ "{\"a\":null}", "{\"b\":1}", "{\"\\u0061\":null}" } },
	{ "{\"type\":\"object\",\"required\":[\"x\"]}",
		{ "{\"x\":[1]}", "{\"y\":1,\"x\":2}" }, { "{}", "{\"y\":1}" } },
	{ "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},"
	  "\"minItems\":1,\"maxItems\":2}",
		{ "[true]", "[true, false]" },
		{ "[]", "[true,true,true]", "[1]" } },
	{ "{\"type\":\"array\",\"items\":false}", { "[]", "[ ]" }, { "[1]" } },
	{ "{\"anyOf\":[{\"type\":\"integer\",\"maximum\":5},"
	  "{\"type\":\"integer\",\"minimum\":9},{\"const\":\"x\"}]}",
		{ "5", "9", "\"x\"", "-20" }, { "6", "8", "\"y\"" } },
	{ "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\","
	  "\"properties\":{\"next\":{\"anyOf\":[{\"type\":\"null\"},"
	  "{\"$ref\":\"#/$defs/n\"}]}},\"required\":[\"next\"]}}}",
		{ "{\"next\":null}", "{\"next\":{\"next\":null}}" },
		{ "{\"next\":1}", "{\"next\":{}}", "null" } },
	/* a reference to a name with a slash and a tilde, and to an element of
	 * a list */
	{ "{\"$ref\":\"#/$defs/a~1b~0\",\"$defs\":{\"a/b~\":"
	  "{\"type\":\"null\"}}}",
		{ "null" }, { "1", "\"\"" } },
	{ "{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"array\",\"items\":"
	  "{\"$ref\":\"#/anyOf/0\"}}]}",
		{ "null", "[]", "[null,null]" }, { "[[]]", "[1]" } },
	{ "{\"title\":\"t\",\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}",
		{ "[]", "[[],[[]]]" }, { "[1]" } },
};

static void test_cases(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json_form *f = opened(cases[i].schema);

		for (unsigned k = 0; cases[i].good[k]; k++)
			if (!accepts(f, cases[i].good[k]))
				fail_msg("%s refuses %s", cases[i].schema,
					cases[i].good[k]);
		for (unsigned k = 0; cases[i].bad[k]; k++)
			if (accepts(f, cases[i].bad[k]))
				fail_msg("%s takes %s", cases[i].schema,
					cases[i].bad[k]);
		json_form_close(f);
	}
}

/* Values nested deeper than JSON_LEVELS, and more white space than allowed, are
 * refused. */
static void test_limits(void **state)
{
	struct json_form *f = opened("{\"items\":{\"$ref\":\"#\"}}");
	char deep[2 * JSON_LEVELS + 3] = { 0 };

	memset(deep, '[', JSON_LEVELS);
	memset(deep + JSON_LEVELS, ']', JSON_LEVELS);
	assert_true(accepts(f, deep));
	memset(deep, '[', JSON_LEVELS + 1);
	memset(deep + JSON_LEVELS + 1, ']', JSON_LEVELS + 1);
	assert_false(accepts(f, deep));
	assert_true(accepts(f, "[                    ]"));
	assert_false(accepts(f, "[                     ]"));
	assert_true(accepts(f, "123456789012345678"));
	assert_false(accepts(f, "1234567890123456789"));
	json_form_close(f);
}

static const struct {
	const char *schema, *reason;
} refused[] = {
	{ "{", "not valid JSON: line 1" },
	{ "{\"type\":\"string\",\"pattern\":\"a\"}",
		"#: the keyword 'pattern'" },
	{ "{\"properties\":{\"a\":{\"multipleOf\":2}}}",
		"#/properties/a: the keyword 'multipleOf'" },
	{ "{\"anyOf\":[{},{\"items\":{\"not\":{}}}]}",
		"#/anyOf/1/items: the keyword 'not'" },
	{ "{\"type\":\"text\"}", "type is 'text'" },
	{ "{\"$ref\":\"http://x/y\"}", "only refer to parts of the schema" },
	{ "{\"$ref\":\"#/$defs/x\"}", "the schema has no such part" },
	{ "{\"anyOf\":[{\"$ref\":\"#/anyOf/x\"}]}",
		"#/anyOf/0: $ref is '#/anyOf/x', but the schema has no" },
	{ "{\"anyOf\":[{\"$ref\":\"#/anyOf/1\"}]}",
		"#/anyOf/0: $ref is '#/anyOf/1', but the schema has no" },
	{ "{\"anyOf\":[]}", "#/anyOf: anyOf is not a list of schemas" },
	{ "{\"anyOf\":{}}", "#/anyOf: anyOf is not a list of schemas" },
	{ "{\"anyOf\":[{}],\"type\":\"null\"}", "" },
	{ "{\"anyOf\":[{}],\"minLength\":1}", "with other keywords" },
	{ "{\"enum\":[1],\"minimum\":0}",
		"enum and const can be combined with type" },
	{ "{\"enum\":[1],\"type\":\"string\"}", "no value of enum" },
	{ "{\"enum\":[1],\"const\":1}", "enum and const cannot be combined" },
	{ "{\"enum\":1}", "enum is not a list" },
	{ "{\"minLength\":3,\"maxLength\":2}", "minLength is more" },
	{ "{\"minItems\":-1}", "minItems is not an integer" },
	{ "{\"type\":\"integer\",\"minimum\":5,\"maximum\":4}", "no integer" },
	{ "{\"type\":\"number\",\"minimum\":0.00000001}", "multiple of" },
	{ "{\"type\":\"integer\",\"minimum\":\"5\"}",
		"minimum is not a number" },
	{ "{\"properties\":[]}", "properties is not an object" },
	{ "{\"required\":\"a\"}", "required is not a list" },
	{ "{\"required\":[1]}", "an element other than a string" },
	{ "{\"required\":[\"a\\u0001\"]}",
		"a property's name has a control character" },
	{ "{\"properties\":{\"\\u001f\":{}}}",
		"#/properties: a property's name has a control character" },
	{ "{\"required\":[\"a\"],\"additionalProperties\":false}",
		"'a' is required" },
	{ "{\"items\":false,\"minItems\":1}", "items is false" },
	{ "{\"$ref\":\"#\"}", "no value with at most 32 levels" },
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},"
	  "\"required\":[\"a\"]}",
		"no value with at most 32 levels" },
	{ "{\"items\":{\"type\":[]}}", "type is an empty list" },
	{ "false", "which allows no value" },
	{ "3", "must be an object or true" },
};

static void test_refused(void **state)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct json_form *f;
		struct err e = { 0 };
		int ret = json_form_open(&f, refused[i].schema, trie, &e);

		if (ret != -EINVAL || !strstr(e.text, refused[i].reason))
			fail_msg("%s gives %d: %s", refused[i].schema, ret,
				e.text);
	}
}

/* Open the form of the schema BEFORE VALUE,...,VALUE AFTER with n values, each
 * of which is its number between the marks `mark`. The schema must be refused
 * for this reason, or accepted if `reason` is NULL. */
static void check_long(const char *before, const char *mark, const char *after,
	unsigned n, const char *reason)
{
	struct strbuf schema = STRBUF_INIT;
	struct json_form *f;
	struct err e = { 0 };
	int ret;

	strbuf_addf(&schema, "%s", before);
	for (unsigned i = 0; i < n; i++)
		strbuf_addf(&schema, "%s%s%u%s", i ? "," : "", mark, i, mark);
	strbuf_addf(&schema, "%s", after);
	ret = json_form_open(&f, schema.data, trie, &e);
	if (!reason) {
		assert_ok(ret, &e);
		json_form_close(f);
	} else if (ret != -EINVAL || !strstr(e.text, reason)) {
		fail_msg("%u values give %d: %s", n, ret, e.text);
	}
	strbuf_release(&schema);
}

/* The longest lists that a schema may have, and longer lists. */
static void test_long_lists(void **state)
{
	static const char parts[] = "has more than 65536 parts";

	check_long("{\"type\":\"object\",\"required\":[", "\"", "]}",
		JSON_PROPERTIES, NULL);
	check_long("{\"type\":\"object\",\"required\":[", "\"", "]}",
		JSON_PROPERTIES + 1,
		"#: the schema names more than 64 properties");
	check_long("{\"enum\":[", "\"", "]}", UINT16_MAX, NULL);
	check_long("{\"enum\":[", "\"", "]}", UINT16_MAX + 1,
		"#: enum has more than 65535 strings");
	/* Each number is a part. The list and the schema are 2 more. */
	check_long("{\"enum\":[", "", "]}", 65534, NULL);
	check_long("{\"enum\":[", "", "]}", 65535, parts);
	check_long("{\"enum\":[", "", "]}", 65536, parts);
}

/* A vocabulary that lacks a byte cannot write every text, so it is refused. */
static void test_bytes(void **state)
{
	struct token_trie *t;
	struct json_form *f;
	struct tokenizer *tok;
	struct err e = { 0 };
	struct vocab v;

	vocab_spm(&v);
	v.type[BYTE0 + 'q'] = 3;
	tok = open_vocab(&v);
	assert_ok(token_trie_open(&t, tok, &e), &e);
	assert_int_equal(json_form_open(&f, "{}", t, &e), -EINVAL);
	assert_non_null(strstr(e.text, "byte 0x71"));
	token_trie_close(t);
	tokenizer_close(tok);
}

/* ---- random schemas ------------------------------------------------------ */

/* Draw a schema that some value fits, and open its form. Stores the form and
 * the schema's text. */
static json_t *draw_form(struct draw *d, struct json_form **f, char **text)
{
	for (;;) {
		json_t *s = draw_root(d);
		struct err e = { 0 };
		int ret;

		*text = json_dumps(s, JSON_COMPACT);
		ret = json_form_open(f, *text, trie, &e);
		if (!ret)
			return s;
		if (!strstr(e.text, "no value with at most") &&
			!strstr(e.text, "satisfies minimum and maximum"))
			fail_msg("%s: %s", *text, e.text);
		free(*text);
		json_decref(s);
	}
}

/* Random values that are drawn independently of the schema are accepted if and
 * only if they fit it. */
static void test_documents(void **state)
{
	struct draw d = { harness_seed() };
	unsigned taken = 0, refusals = 0;

	for (unsigned i = 0; i < 1500; i++) {
		struct json_form *f;
		char *schema;
		json_t *s = draw_form(&d, &f, &schema);

		for (unsigned k = 0; k < 40; k++) {
			json_t *v = draw_value(&d, 3);
			char *text = json_dumps(v,
				JSON_ENCODE_ANY |
					(k % 2 ? JSON_COMPACT
					       : JSON_INDENT(1)));
			bool fits = check_fits(s, s, v);

			if (accepts(f, text) != fits)
				fail_msg("%s %s %s", schema,
					fits ? "refuses" : "takes", text);
			taken += fits;
			refusals += !fits;
			free(text);
			json_decref(v);
		}
		json_form_close(f);
		json_decref(s);
		free(schema);
	}
	print_message("%u taken, %u refused\n", taken, refusals);
	assert_true(taken > 1000 && refusals > 1000);
}

/* A token must be allowed if and only if its bytes can continue the text. */
static void check_mask(struct json_form *f, const struct json_front *place,
	const float *row, const char *schema, const struct strbuf *text)
{
	for (int32_t id = 0; id < (int32_t)trie->n_vocab; id++) {
		struct json_front next = *place;

		if (tokenizer_is_eog(tokenizer, id))
			continue;
		if (json_form_take(f, &next, id) != isfinite(row[id]))
			fail_msg("%s: token %d after %s is %s", schema, id,
				text->data ? text->data : "",
				isfinite(row[id]) ? "let" : "not let");
	}
}

/* Tokens are let or not let at any distance from the minimum and from the
 * maximum length of a string, also if the distance is more than the longest
 * token. */
static void test_long_strings(void **state)
{
	static const char schema[] =
		"{\"type\":\"string\",\"minLength\":300,\"maxLength\":900}";
	struct json_form *f = opened(schema);
	struct strbuf text = STRBUF_INIT;
	float logits[VOCAB_MAX] = { 0 };
	struct json_front place;

	json_begin(json_form_machine(f), &place);
	strbuf_add(&text, "\"", 1);
	assert_true(json_form_take(f, &place, BYTE0 + '"'));
	for (unsigned n = 0;; n++) {
		const float *row =
			json_form_mask(f, &place, logits, trie->n_vocab);

		assert_int_equal(isfinite(row[BYTE0 + 'a']) != 0, n < 900);
		assert_int_equal(isfinite(row[BYTE0 + '"']) != 0, n >= 300);
		if (n % 50 < 2 || n % 50 > 48)
			check_mask(f, &place, row, schema, &text);
		if (n == 900)
			break;
		strbuf_add(&text, "a", 1);
		assert_true(json_form_take(f, &place, BYTE0 + 'a'));
	}
	strbuf_release(&text);
	json_form_close(f);
}

/* Draw random logits in which tokens that end JSON values are likelier, so that
 * texts end. */
static void draw_logits(struct draw *d, float *logits)
{
	for (uint32_t i = 0; i < trie->n_vocab; i++)
		logits[i] = (float)draw_below(d, 1000) / 100;
	for (const char *p = "\"}]"; *p; p++)
		logits[BYTE0 + *p] += 4;
	logits[END] += 4;
}

static int keep_text(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

/* Generate one text. Returns true if the text ended by itself. */
static bool write_text(struct draw *d, struct json_form *f, struct strbuf *text,
	const char *schema, bool look)
{
	struct sampler_opts so = sampler_defaults;
	struct generation_opts o = { .tokenizer = tokenizer,
		.n_vocab = trie->n_vocab,
		.n_predict = 120,
		.context = 1000,
		.form = f,
		.sink = keep_text,
		.arg = text };
	static const int32_t prompt[] = { 1, BYTE0 + 'x' };
	struct generation *g;
	struct json_front place;
	struct err e = { 0 };
	bool whole;

	so.temperature = 1;
	so.seed = draw_below(d, 1u << 30);
	assert_ok(sampler_open(&o.sampler, &so, o.n_vocab, &e), &e);
	assert_ok(generation_open(&g, &o, prompt, 2, &e), &e);
	json_begin(json_form_machine(f), &place);
	while (!gen_done(g)) {
		float logits[VOCAB_MAX];
		int32_t id;

		draw_logits(d, logits);
		if (look)
			check_mask(f, &place,
				json_form_mask(f, &place, logits, o.n_vocab),
				schema, text);
		id = gen_next(g, logits);
		if (!tokenizer_is_eog(tokenizer, id))
			json_form_take(f, &place, id);
	}
	gen_flush(g);
	whole = gen_stop_reason(g) == GEN_STOP_EOS;
	if (!whole)
		assert_int_equal(gen_stop_reason(g), GEN_STOP_LENGTH);
	generation_close(g);
	sampler_close(o.sampler);
	return whole;
}

/* Every text that ends is JSON that fits the schema. */
static void test_requests(void **state)
{
	struct draw d = { harness_seed() };
	unsigned whole = 0;

	for (unsigned i = 0; i < 600; i++) {
		struct json_form *f;
		char *schema;
		json_t *s = draw_form(&d, &f, &schema);

		for (unsigned k = 0; k < 5; k++) {
			struct strbuf text = STRBUF_INIT;
			json_error_t error;
			json_t *v;

			if (!write_text(&d, f, &text, schema, !k && i < 200)) {
				strbuf_release(&text);
				continue;
			}
			v = json_loadb(
				text.data, text.len, JSON_DECODE_ANY, &error);
			if (!v)
				fail_msg("%s gives %s: %s", schema, text.data,
					error.text);
			if (!check_fits(s, s, v))
				fail_msg("%s gives %s", schema, text.data);
			whole++;
			json_decref(v);
			strbuf_release(&text);
		}
		json_form_close(f);
		json_decref(s);
		free(schema);
	}
	print_message("%u texts\n", whole);
	assert_true(whole > 1500);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_cases, setup, teardown),
	cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
	cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	cmocka_unit_test_setup_teardown(test_long_lists, setup, teardown),
	cmocka_unit_test_setup_teardown(test_long_strings, setup, teardown),
	cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
	cmocka_unit_test_setup_teardown(test_documents, setup, teardown),
	cmocka_unit_test_setup_teardown(test_requests, setup, teardown),
};
TEST_FILE(tests)
