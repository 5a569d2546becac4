#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/dtype.h"
#include "tests/tensor/gguf_build.h"

#include <errno.h>
#include <stdio.h>

static void refused(const char *what, struct strbuf *b, const char *says)
{
	struct gguf *g = NULL;
	struct err e = { 0 };
	void *copy;
	const int ret = parse(b, &g, &copy, &e);

	if (!ret || ret != e.code || g)
		fail_msg("%s: returned %d, code %d", what, ret, e.code);
	if (!strstr(e.text, says))
		fail_msg("%s: the message '%s' does not say '%s'", what, e.text,
			says);
	free(copy);
	strbuf_release(b);
}

static void bad_magic(struct strbuf *b)
{
	strbuf_add(b, "GGML\3\0\0\0", 8);
}
static void bad_big_endian(struct strbuf *b)
{
	header(b, 0x03000000, 0, 0);
}
static void bad_version_1(struct strbuf *b)
{
	header(b, 1, 0, 0);
}
static void bad_version_4(struct strbuf *b)
{
	header(b, 4, 0, 0);
}
static void bad_keys_2_60(struct strbuf *b)
{
	header(b, 3, 0, 1ull << 60);
	data(b, 64, 1);
}
static void bad_tensors_2_60(struct strbuf *b)
{
	header(b, 3, 1ull << 60, 0);
	data(b, 64, 1);
}
static void bad_no_keys(struct strbuf *b)
{
	header(b, 3, 0, 1);
}
static void bad_key_length(struct strbuf *b)
{
	header(b, 3, 0, 1);
	u64(b, UINT64_MAX - 8);
	data(b, 64, 1);
}
static void bad_key_empty(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "", GGUF_U8), u64(b, 0);
}
static void bad_type(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", 13), u64(b, 0);
}
static void bad_elem_type(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_ARRAY), u32(b, 99), u64(b, 0);
}
static void bad_nested(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_ARRAY), u32(b, GGUF_ARRAY), u64(b, 1), u64(b, 0);
}
static void bad_array_2_60(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_ARRAY), u32(b, GGUF_F64), u64(b, 1ull << 61);
}
static void bad_strings_2_60(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_ARRAY), u32(b, GGUF_STRING), u64(b, 1ull << 61);
}
static void bad_string(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_STRING), u64(b, 1000), u64(b, 0);
}
static void bad_bool(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_BOOL), u8(b, 2);
}
static void bad_bools(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "k", GGUF_ARRAY), u32(b, GGUF_BOOL), u64(b, 3);
	u8(b, 0), u8(b, 1), u8(b, 255);
}
static void bad_twin_keys(struct strbuf *b)
{
	header(b, 3, 0, 3);
	key(b, "twin", GGUF_U8), u8(b, 1);
	key(b, "other", GGUF_U8), u8(b, 1);
	key(b, "twin", GGUF_U32), u32(b, 1);
}
static void alignment(struct strbuf *b, uint32_t a)
{
	header(b, 3, 0, 1);
	key(b, "general.alignment", GGUF_U32), u32(b, a);
}
static void bad_alignment_0(struct strbuf *b)
{
	alignment(b, 0);
}
static void bad_alignment_4(struct strbuf *b)
{
	alignment(b, 4);
}
static void bad_alignment_48(struct strbuf *b)
{
	alignment(b, 48);
}
static void bad_alignment_2_31(struct strbuf *b)
{
	alignment(b, 1u << 31);
}
static void bad_alignment_type(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "general.alignment", GGUF_U64), u64(b, 32);
}
static void bad_name_long(struct strbuf *b)
{
	char name[257];

	memset(name, 'n', 256);
	name[256] = '\0';
	header(b, 3, 1, 0);
	tensor(b, name, 8, 1, DTYPE_F32, 0);
	data(b, 32, 32);
}
static void dims(
	struct strbuf *b, uint32_t n, const uint64_t *dim, uint32_t type)
{
	header(b, 3, 1, 0);
	str(b, "t");
	u32(b, n);
	for (uint32_t d = 0; d < n; d++)
		u64(b, dim[d]);
	u32(b, type);
	u64(b, 0);
	data(b, 64, 32);
}
static void bad_dims_0(struct strbuf *b)
{
	dims(b, 0, NULL, DTYPE_F32);
}
static void bad_dims_5(struct strbuf *b)
{
	dims(b, 5, (const uint64_t[5]){ 1, 1, 1, 1, 1 }, DTYPE_F32);
}
static void bad_dims_2_31(struct strbuf *b)
{
	header(b, 3, 1, 0);
	str(b, "t");
	u32(b, 1u << 31);
	data(b, 64, 1);
}
static void bad_dim_zero(struct strbuf *b)
{
	dims(b, 2, (const uint64_t[2]){ 4, 0 }, DTYPE_F32);
}
static void bad_dim_overflow(struct strbuf *b)
{
	dims(b, 2, (const uint64_t[2]){ 1ull << 32, 1ull << 32 }, DTYPE_F16);
}
static void bad_row_overflow(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 1ull << 62 }, DTYPE_F32);
}
static void bad_row_blocks(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 48 }, DTYPE_Q4_0);
}
static void bad_iq4_xs(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 256 }, 23);
}
static void bad_tensor_type(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 256 }, 4096);
}
static void bad_tensor_ours(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 256 }, DTYPE_NF4);
}
static void bad_tensor_removed(struct strbuf *b)
{
	dims(b, 1, (const uint64_t[1]){ 256 }, 4);
}
static void bad_offset_odd(struct strbuf *b)
{
	header(b, 3, 1, 0);
	tensor(b, "t", 4, 1, DTYPE_F32, 16);
	data(b, 64, 32);
}
static void bad_offset_outside(struct strbuf *b)
{
	header(b, 3, 1, 0);
	tensor(b, "t", 4, 1, DTYPE_F32, 64);
	data(b, 64, 32);
}
static void bad_offset_2_63(struct strbuf *b)
{
	header(b, 3, 1, 0);
	tensor(b, "t", 4, 1, DTYPE_F32, 0xffffffffffffffe0);
	data(b, 64, 32);
}
static void bad_last_byte(struct strbuf *b)
{
	header(b, 3, 1, 0);
	tensor(b, "t", 4, 1, DTYPE_F32, 32);
	data(b, 47, 32);
}
static void bad_no_data(struct strbuf *b)
{
	header(b, 3, 1, 0);
	tensor(b, "t", 4, 1, DTYPE_F32, 0);
}
static void bad_overlap(struct strbuf *b)
{
	header(b, 3, 3, 0);
	tensor(b, "second", 8, 4, DTYPE_F32, 32);
	tensor(b, "third", 8, 1, DTYPE_F32, 128);
	tensor(b, "first", 8, 1, DTYPE_F32, 0);
	data(b, 192, 32);
}
static void bad_same_place(struct strbuf *b)
{
	header(b, 3, 2, 0);
	tensor(b, "a", 8, 1, DTYPE_F32, 0);
	tensor(b, "b", 8, 1, DTYPE_F32, 0);
	data(b, 64, 32);
}
static void bad_twin_tensors(struct strbuf *b)
{
	header(b, 3, 2, 0);
	tensor(b, "twin", 8, 1, DTYPE_F32, 0);
	tensor(b, "twin", 8, 1, DTYPE_F32, 32);
	data(b, 64, 32);
}
static void bad_escape(struct strbuf *b)
{
	header(b, 3, 0, 1);
	key(b, "red\033[31m\n", 77), u64(b, 0);
}

#define BAD(name, says)           \
	{                         \
#name, name, says \
	}

static void test_bad(void **state)
{
	static const struct {
		const char *name;
		void (*make)(struct strbuf *);
		const char *says;
	} bad[] = {
		BAD(bad_magic, "bad magic 47 47 4d 4c"),
		BAD(bad_big_endian, "big-endian GGUF file (version 3)"),
		BAD(bad_version_1, "version 1 is not supported (2 and 3 are)"),
		BAD(bad_version_4, "version 4 is not supported (2 and 3 are)"),
		BAD(bad_keys_2_60, "key count of 1152921504606846976"),
		BAD(bad_tensors_2_60, "tensor count of 1152921504606846976"),
		BAD(bad_no_keys, "key count of 1"),
		BAD(bad_key_length, "key 0: truncated: key"),
		BAD(bad_key_empty, "key 0: a key has 0 bytes"),
		BAD(bad_type, "key 'k': unknown value type 13"),
		BAD(bad_elem_type, "key 'k': unknown array element type 99"),
		BAD(bad_nested, "key 'k': arrays of arrays"),
		BAD(bad_array_2_60, "key 'k': truncated: 2305843009213693952"),
		BAD(bad_strings_2_60, "key 'k': 2305843009213693952 strings"),
		BAD(bad_string, "key 'k': truncated: string needs 1000"),
		BAD(bad_bool, "key 'k': bool is 2"),
		BAD(bad_bools, "key 'k': bool is 255"),
		BAD(bad_twin_keys, "key 'twin': duplicate"),
		BAD(bad_alignment_0, "'general.alignment': alignment 0"),
		BAD(bad_alignment_4, "'general.alignment': alignment 4"),
		BAD(bad_alignment_48, "'general.alignment': alignment 48"),
		BAD(bad_alignment_2_31, "alignment 2147483648"),
		BAD(bad_alignment_type, "'general.alignment': type is u64"),
		BAD(bad_name_long, "tensor 0: a tensor's name has 256 bytes"),
		BAD(bad_dims_0, "tensor 't': 0 dimensions"),
		BAD(bad_dims_5, "tensor 't': 5 dimensions"),
		BAD(bad_dims_2_31, "tensor 't': 2147483648 dimensions"),
		BAD(bad_dim_zero, "tensor 't': dimension 1 is 0"),
		BAD(bad_dim_overflow, "tensor 't': the dimensions overflow"),
		BAD(bad_row_overflow, "tensor 't': the dimensions overflow"),
		BAD(bad_row_blocks,
			"rows of 48 values cannot be divided into q4_0"),
		BAD(bad_iq4_xs, "tensor 't': type 23 (iq4_xs)"),
		BAD(bad_tensor_type, "tensor 't': type 4096 (unknown)"),
		BAD(bad_tensor_ours, "tensor 't': type 384 (unknown)"),
		BAD(bad_tensor_removed, "tensor 't': type 4 (q4_2)"),
		BAD(bad_offset_odd, "tensor 't': offset 16 is not a multiple"),
		BAD(bad_offset_outside, "tensor 't': data (16 bytes at 64"),
		BAD(bad_offset_2_63, "tensor 't': data (16 bytes at 184467"),
		BAD(bad_last_byte, "tensor 't': data (16 bytes at 32"),
		BAD(bad_no_data, "tensor 't': data (16 bytes at 0"),
		BAD(bad_overlap,
			"'third': its data overlaps the data of tensor "
			"'second'"),
		BAD(bad_same_place, "overlaps"),
		BAD(bad_twin_tensors, "tensor 'twin': duplicate"),
		BAD(bad_escape, "key 'red\\x1b[31m\\x0a': unknown"),
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct strbuf b = STRBUF_INIT;

		bad[i].make(&b);
		refused(bad[i].name, &b, bad[i].says);
	}
}

/* GGUF has tensor types that this reader does not support. For each of them the
 * error message names the type, and types to use instead. */
static void test_foreign_types(void **state)
{
	for (uint32_t type = 0; type < 43; type++) {
		struct strbuf b = STRBUF_INIT;
		char says[64];
		struct err e = { 0 };
		struct gguf *g = NULL;
		void *copy;

		if (dtype_info(type))
			continue;
		dims(&b, 1, (const uint64_t[1]){ 256 }, type);
		assert_int_equal(parse(&b, &g, &copy, &e), -ENOTSUP);
		snprintf(says, sizeof(says), "tensor 't': type %u (", type);
		if (!strstr(e.text, says) || strstr(e.text, "(unknown)") ||
			!strstr(e.text, "such as q4_k, q4_0, q8_0 or f16"))
			fail_msg("type %u: %s", type, e.text);
		free(copy);
		strbuf_release(&b);
	}
}

/* A file cut short anywhere is refused, and a change of any byte never crashes
 * the reader. */
static void test_cut_anywhere(void **state)
{
	struct strbuf b = STRBUF_INIT;

	good_file(&b, 3);
	for (size_t len = 0; len < b.len; len++) {
		struct strbuf cut = STRBUF_INIT;

		strbuf_add(&cut, b.data, len);
		refused("cut file", &cut, "");
	}
	for (size_t i = 0; i < b.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			struct gguf *g = NULL;
			void *copy;

			b.data[i] = (char)(b.data[i] ^ 1 << bit);
			if (!parse(&b, &g, &copy, NULL))
				gguf_close(g);
			free(copy);
			b.data[i] = (char)(b.data[i] ^ 1 << bit);
		}
	strbuf_release(&b);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_bad),
	cmocka_unit_test(test_foreign_types),
	cmocka_unit_test(test_cut_anywhere),
};

TEST_FILE(tests)
