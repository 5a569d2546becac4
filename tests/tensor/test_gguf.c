#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "tests/tensor/gguf_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- good files ---- */

static void check_numbers(const struct gguf *g)
{
	static const struct {
		const char *key;
		double f;
		int64_t i;
	} want[] = {
		{ "u8", 200, 200 },
		{ "i8", -56, -56 },
		{ "u16", 65535, 65535 },
		{ "i16", -1, -1 },
		{ "u32", 4294967295.0, 4294967295 },
		{ "i32", -1, -1 },
		{ "u64", 18446744073709551615.0, INT64_MAX },
		{ "i64", -1, -1 },
		{ "f32", 1.5, 1 },
		{ "f64", -2.5, -2 },
		{ "bool", 1, 1 },
		{ "string", 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct gguf_kv *kv = gguf_find(g, want[i].key);

		assert_non_null(kv);
		assert_true(gguf_str_is(kv->key, want[i].key));
		assert_string_equal(gguf_type_name(kv->type), want[i].key);
		assert_int_equal(kv->count, 1);
		assert_int_equal(kv->elem, kv->type);
		assert_true(gguf_elem_f64(kv, 0) == want[i].f);
		assert_int_equal(gguf_elem_i64(kv, 0), want[i].i);
	}
}

static void check_lookups(const struct gguf *g)
{
	struct err e = { 0 };
	uint64_t u = 7;
	double f = 7;
	bool b = false;
	struct gguf_str s = { 0 };

	assert_int_equal(gguf_u64(g, "u64", &u, &e), 1);
	assert_true(u == UINT64_MAX);
	assert_int_equal(gguf_u64(g, "u8", &u, &e), 1);
	assert_int_equal(u, 200);
	assert_int_equal(gguf_u64(g, "none", &u, &e), 0);
	assert_int_equal(u, 200);
	assert_int_equal(gguf_u64(g, "i8", &u, &e), -EINVAL);
	assert_non_null(strstr(e.text, "'i8': -56 is negative"));
	assert_int_equal(gguf_u64(g, "f32", &u, &e), -EINVAL);
	assert_non_null(strstr(e.text, "'f32' has type f32"));
	assert_int_equal(gguf_u64(g, "bool", &u, &e), -EINVAL);
	assert_int_equal(gguf_u64(g, "strings", &u, &e), -EINVAL);
	assert_int_equal(gguf_f64(g, "f64", &f, &e), 1);
	assert_true(f == -2.5);
	assert_int_equal(gguf_f64(g, "u32", &f, &e), -EINVAL);
	assert_int_equal(gguf_bool(g, "bool", &b, &e), 1);
	assert_true(b);
	assert_int_equal(gguf_bool(g, "u8", &b, &e), -EINVAL);
	assert_int_equal(gguf_str(g, "string", &s, &e), 1);
	assert_int_equal(s.len, 4);
	assert_memory_equal(s.data, "a\0b\xff", 4);
	assert_int_equal(gguf_str(g, "strings", &s, &e), -EINVAL);
	assert_int_equal(gguf_str(g, "u8", &s, NULL), -EINVAL);
}

static void check_strings(const struct gguf *g)
{
	static const char *const want[] = { "one", "", "three" };
	const struct gguf_kv *kv = gguf_find(g, "strings");
	struct gguf_cursor c = { 0, 0 };
	struct gguf_str s;

	assert_int_equal(kv->type, GGUF_ARRAY);
	assert_int_equal(kv->elem, GGUF_STRING);
	assert_int_equal(kv->count, 3);
	for (int i = 0; i < 3; i++) {
		assert_true(gguf_next_str(kv, &c, &s));
		assert_true(gguf_str_is(s, want[i]));
	}
	assert_false(gguf_next_str(kv, &c, &s));
	assert_int_equal(c.at, kv->bytes);
	c = (struct gguf_cursor){ 0, 0 };
	assert_false(gguf_next_str(gguf_find(g, "u8"), &c, &s));
}

static void check_tensors(const struct gguf *g, const uint8_t *file)
{
	const struct gguf_tensor *a = gguf_tensor(g, "early");
	const struct gguf_tensor *b = gguf_tensor(g, "late");

	assert_int_equal(gguf_n_tensors(g), 2);
	assert_ptr_equal(gguf_tensor_at(g, 0), b);
	assert_null(gguf_tensor_at(g, 2));
	assert_null(gguf_tensor(g, "earl"));
	assert_null(gguf_tensor(g, "early "));
	assert_int_equal(a->n_dims, 2);
	assert_int_equal(a->dim[0], 3);
	assert_int_equal(a->dim[1], 2);
	assert_int_equal(a->dim[2], 1);
	assert_int_equal(a->bytes, 24);
	assert_int_equal(a->type, DTYPE_F32);
	assert_int_equal(b->bytes, 36);
	assert_int_equal(b->offset, a->offset + 32);
	assert_ptr_equal(a->data, file + a->offset);
	assert_int_equal(*(const uint8_t *)a->data, 0);
	assert_int_equal(*(const uint8_t *)b->data, 32);
}

static void test_good(void **state)
{
	for (uint32_t version = 2; version <= 3; version++) {
		struct strbuf b = STRBUF_INIT;
		struct gguf *g = NULL;
		struct err e = { 0 };
		void *copy;

		good_file(&b, version);
		assert_ok(parse(&b, &g, &copy, &e), &e);
		assert_int_equal(gguf_version(g), version);
		assert_int_equal(gguf_file_bytes(g), b.len);
		assert_int_equal(gguf_n_kv(g), 13);
		assert_null(gguf_kv_at(g, 13));
		assert_true(gguf_str_is(gguf_kv_at(g, 12)->key, "strings"));
		assert_null(gguf_find(g, "u3"));
		check_numbers(g);
		check_lookups(g);
		check_strings(g);
		check_tensors(g, copy);
		gguf_close(g);
		free(copy);
		strbuf_release(&b);
	}
}

static void test_no_tensors(void **state)
{
	struct strbuf b = STRBUF_INIT;
	struct gguf *g = NULL;
	struct err e = { 0 };
	void *copy;

	header(&b, 3, 0, 1);
	key(&b, "a", GGUF_ARRAY), u32(&b, GGUF_U16), u64(&b, 0);
	assert_ok(parse(&b, &g, &copy, &e), &e);
	assert_int_equal(gguf_n_tensors(g), 0);
	assert_int_equal(gguf_find(g, "a")->count, 0);
	assert_null(gguf_tensor(g, "a"));
	gguf_close(g);
	gguf_close(NULL);
	free(copy);
	strbuf_release(&b);
}

static void test_show(void **state)
{
	static const struct {
		const char *text, *want;
	} shown[] = {
		{ "plain", "plain" },
		{ "a\177\033", "a\\x7f\\x1b" },
		{ "\304\240e", "\304\240e" },               /* U+0120 */
		{ "\342\202\254", "\342\202\254" },         /* U+20AC */
		{ "\360\237\230\200", "\360\237\230\200" }, /* U+1F600 */
		{ "\302\233", "\\xc2\\x9b" },               /* a C1 control */
		{ "\300\200", "\\xc0\\x80" },               /* overlong */
		{ "\355\240\200", "\\xed\\xa0\\x80" },      /* surrogate */
		{ "\342\202", "\\xe2\\x82" },               /* cut short */
		{ "\377", "\\xff" },
		{ "0123456789abcdefg", "012345678..." },
		{ "01234567\360\237\230\200", "01234567\360\237\230\200" },
		{ "", "" },
	};
	char buf[16];

	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		const struct gguf_str s = { shown[i].text,
			strlen(shown[i].text) };

		assert_string_equal(gguf_show(s, buf, 16), shown[i].want);
	}
	assert_string_equal(
		gguf_show((struct gguf_str){ "a\0b", 3 }, buf, 16), "a\\x00b");
}

/* A file with 100,000 keys and tensors, sorted or not, is opened and searched
 * in reasonable time. */
static void test_many(void **state)
{
	struct strbuf b = STRBUF_INIT;
	struct gguf *g = NULL;
	struct err e = { 0 };
	const unsigned n = 100000;
	char name[32];
	void *copy;

	header(&b, 3, n, n);
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "k%u", i * 7919u % n);
		key(&b, name, GGUF_U32), u32(&b, i * 7919u % n);
	}
	for (unsigned i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "t%u", i * 7919u % n);
		tensor(&b, name, 8, 1, DTYPE_F32, i * 32ull);
	}
	data(&b, n * 32, 32);
	assert_ok(parse(&b, &g, &copy, &e), &e);
	for (unsigned i = 0; i < n; i++) {
		uint64_t v = 0;

		snprintf(name, sizeof(name), "k%u", i);
		assert_int_equal(gguf_u64(g, name, &v, &e), 1);
		assert_int_equal(v, i);
		snprintf(name, sizeof(name), "t%u", i);
		assert_non_null(gguf_tensor(g, name));
	}
	gguf_close(g);
	free(copy);
	strbuf_release(&b);
}

/* ---- opening ---- */

static void open_refused(const char *path, const char *says)
{
	struct gguf *g = NULL;
	struct err e = { 0 };
	const int ret = gguf_open(&g, path, &e);

	if (!ret || ret != e.code)
		fail_msg("%s: returned %d, code %d", path, ret, e.code);
	if (!strstr(e.text, says) || !strstr(e.text, path))
		fail_msg("%s: the message is '%s'", path, e.text);
}

static void test_open(void **state)
{
	const char *dir = harness_tmp();
	char path[4200];
	FILE *f;

	open_refused(dir, "not a regular file");
	snprintf(path, sizeof(path), "%s/none", dir);
	open_refused(path, "No such file");
	f = fopen(path, "w");
	open_refused(path, "is empty");
	fputs("GGUF", f);
	fclose(f);
	open_refused(path, "header: truncated: version");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_good),
	cmocka_unit_test(test_no_tensors),
	cmocka_unit_test(test_show),
	cmocka_unit_test(test_many),
	cmocka_unit_test(test_open),
};

TEST_FILE(tests)
