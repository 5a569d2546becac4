#include "tests/harness.h"

#include "base/checked.h"
#include "base/err.h"
#include "tensor/gguf.h"
#include "tensor/gguf_write.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- write, then read ---- */

static size_t files_in(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void put_keys(struct gguf_writer *w)
{
	static const struct gguf_str strs[] = { { "x", 1 }, { "", 0 },
		{ "y\0z", 3 } };

	gguf_put_str(w, "general.architecture", "llama");
	gguf_put_u32(w, "number", 42);
	gguf_put_f32(w, "float", 1e-5f);
	gguf_put_bool(w, "yes", true);
	gguf_put_strs(w, "strs", strs, 3);
	gguf_put_i32s(w, "ints", (const int32_t[]){ -1, 2, INT32_MIN }, 3);
}

static void check_keys(const struct gguf *g)
{
	struct err e = { 0 };
	struct gguf_cursor c = { 0, 0 };
	struct gguf_str s;
	uint64_t u = 0;
	double f = 0;
	bool b = false;

	assert_int_equal(gguf_n_kv(g), 6);
	assert_int_equal(gguf_str(g, "general.architecture", &s, &e), 1);
	assert_true(gguf_str_is(s, "llama"));
	assert_int_equal(gguf_u64(g, "number", &u, &e), 1);
	assert_int_equal(u, 42);
	assert_int_equal(gguf_f64(g, "float", &f, &e), 1);
	assert_true((float)f == 1e-5f);
	assert_int_equal(gguf_bool(g, "yes", &b, &e), 1);
	assert_true(b);
	for (int i = 0; i < 3; i++)
		assert_true(gguf_next_str(gguf_find(g, "strs"), &c, &s));
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.data, "y\0z", 3);
	assert_int_equal(gguf_find(g, "ints")->count, 3);
	assert_int_equal(gguf_elem_i64(gguf_find(g, "ints"), 2), INT32_MIN);
}

static void test_write(void **state)
{
	static const uint64_t odd[3] = { 5, 3, 2 }, row[1] = { 32 };
	const char *dir = harness_tmp();
	struct gguf_writer *w = NULL;
	struct gguf *g = NULL;
	struct err e = { 0 };
	char path[4200];
	uint8_t bytes[124 + 34], room[34];
	const void *data;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 3);
	snprintf(path, sizeof(path), "%s/out.gguf", dir);
	assert_ok(gguf_writer_open(&w, path, &e), &e);
	put_keys(w);
	gguf_put_tensor(w, "a", DTYPE_F32, 3, odd);
	gguf_put_tensor(w, "b", DTYPE_Q8_0, 1, row);
	/* write 120 bytes of tensor a and 34 bytes of tensor b, in pieces that
	 * cross the border between them */
	assert_ok(gguf_write_data(w, bytes, 1, &e), &e);
	assert_ok(gguf_write_data(w, bytes + 1, 0, &e), &e);
	assert_ok(gguf_write_data(w, bytes + 1, 120 + 10, &e), &e);
	assert_ok(gguf_write_data(w, bytes + 131, 23, &e), &e);
	assert_int_equal(access(path, F_OK), -1);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
	assert_int_equal(files_in(dir), 1);

	assert_ok(gguf_open(&g, path, &e), &e);
	assert_int_equal(gguf_version(g), 3);
	check_keys(g);
	assert_memory_equal(gguf_tensor(g, "a")->data, bytes, 120);
	assert_memory_equal(gguf_tensor(g, "b")->data, bytes + 120, 34);
	assert_int_equal(gguf_tensor(g, "a")->n_dims, 3);
	assert_int_equal(gguf_tensor(g, "a")->dim[1], 3);
	assert_int_equal(gguf_tensor(g, "b")->offset % 32, 0);
	assert_int_equal(gguf_file_bytes(g) % 32, 0);
	/* from the file, and from the mapping if the file has become short */
	data = gguf_tensor(g, "b")->data;
	assert_ptr_equal(gguf_read(g, data, 34, room), room);
	assert_memory_equal(room, bytes + 120, 34);
	assert_ptr_equal(gguf_read(g, bytes, 34, room), bytes);
	assert_int_equal(truncate(path, 200), 0);
	assert_ptr_equal(gguf_read(g, data, 34, room), data);
	gguf_close(g);
}

/* Check that the commit returns the first failure and that no file is left. */
static void writer_refused(
	void (*misuse)(struct gguf_writer *), const char *says)
{
	const char *dir = harness_tmp();
	struct gguf_writer *w = NULL;
	struct err e = { 0 };
	char path[4200];

	snprintf(path, sizeof(path), "%s/out.gguf", dir);
	assert_ok(gguf_writer_open(&w, path, &e), &e);
	misuse(w);
	if (gguf_writer_commit(w, &e) >= 0 || !strstr(e.text, says))
		fail_msg("the message is '%s', not '%s'", e.text, says);
	gguf_writer_close(w);
	assert_int_equal(files_in(dir), 0);
}

static const uint64_t eight[2] = { 8, 1 };

static void misuse_short(struct gguf_writer *w)
{
	gguf_put_tensor(w, "t", DTYPE_F32, 1, eight);
	gguf_write_data(w, "abc", 3, NULL);
}
static void misuse_long(struct gguf_writer *w)
{
	gguf_put_tensor(w, "t", DTYPE_F16, 1, eight);
	gguf_write_data(w, "0123456789abcdef!", 17, NULL);
}
static void misuse_late(struct gguf_writer *w)
{
	gguf_put_tensor(w, "t", DTYPE_F16, 1, eight);
	gguf_write_data(w, "0123456789abcdef", 16, NULL);
	gguf_put_tensor(w, "late", DTYPE_F16, 1, eight);
}
static void misuse_late_key(struct gguf_writer *w)
{
	gguf_write_data(w, "", 0, NULL);
	gguf_put_u32(w, "late", 1);
}
static void misuse_shape(struct gguf_writer *w)
{
	gguf_put_tensor(w, "t", DTYPE_Q4_0, 1, eight);
	gguf_put_tensor(w, "late", DTYPE_F16, 0, eight);
}
static void misuse_name(struct gguf_writer *w)
{
	gguf_put_tensor(w,
		"a-name-of-sixty-four-bytes-is-one-too-many-for-other-programs-xx",
		DTYPE_F32, 1, eight);
}

static void test_write_misuse(void **state)
{
	writer_refused(misuse_short, "tensor 0 of 1 lacks 29 bytes");
	writer_refused(misuse_long, "1 bytes longer");
	writer_refused(misuse_late, "'late' was declared after");
	writer_refused(misuse_late_key, "'late' was added after");
	writer_refused(misuse_shape, "tensor 't': type");
	writer_refused(misuse_name, "must have 1 to 63 bytes");
}

static void test_write_open(void **state)
{
	const char *dir = harness_tmp();
	struct gguf_writer *w = NULL;
	struct err e = { 0 };
	char path[4200], link[4300];

	assert_int_equal(gguf_writer_open(&w, dir, &e), -EINVAL);
	assert_non_null(strstr(e.text, "not a regular file"));
	snprintf(path, sizeof(path), "%s/none/x", dir);
	assert_int_equal(gguf_writer_open(&w, path, &e), -ENOENT);
	assert_null(w);

	/* Without a commit an old file does not change; a symbolic link is
	 * followed. */
	snprintf(path, sizeof(path), "%s/old", dir);
	snprintf(link, sizeof(link), "%s/link", dir);
	FILE *f = fopen(path, "w");
	fputs("old", f);
	fclose(f);
	assert_int_equal(symlink("old", link), 0);
	assert_ok(gguf_writer_open(&w, link, &e), &e);
	gguf_writer_close(w);
	assert_int_equal(files_in(dir), 2);
	assert_ok(gguf_writer_open(&w, link, &e), &e);
	assert_ok(gguf_writer_commit(w, &e), &e);
	gguf_writer_close(w);
	struct stat st;
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 32);
}

/* ---- files of other programs ---- */

static struct gguf *open_data(const char *name)
{
	char buf[4096];
	struct gguf *g = NULL;
	struct err e = { 0 };

	assert_ok(gguf_open(&g, harness_data(name, buf, sizeof(buf)), &e), &e);
	return g;
}

static void test_real_models(void **state)
{
	static const struct {
		const char *name;
		enum dtype down;
		/* largest allowed relative error of the weights, compared with
		 * the weights of the f32 file */
		double error;
	} files[] = {
		{ "models/stories260K-pad192-f32.gguf", DTYPE_F32, 0 },
		{ "models/stories260K-pad192-q8_0.gguf", DTYPE_Q8_0, 0.01 },
		{ "models/stories260K-pad192-q4_0.gguf", DTYPE_Q4_0, 0.15 },
	};
	struct gguf *plain = open_data(files[0].name);
	float a[192 * 64], b[192 * 64];

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct gguf *g = open_data(files[i].name);
		const struct gguf_tensor *t =
			gguf_tensor(g, "blk.0.ffn_down.weight");
		double error = 0, power = 0;

		assert_non_null(t);
		assert_int_equal(t->type, files[i].down);
		assert_int_equal(t->dim[0], 192);
		assert_int_equal(t->dim[1], 64);
		dtype_info(t->type)->to_f32(a, t->data, 192 * 64);
		memcpy(b, gguf_tensor(plain, "blk.0.ffn_down.weight")->data,
			sizeof(b));
		for (int j = 0; j < 192 * 64; j++) {
			error += pow((double)a[j] - b[j], 2);
			power += pow((double)b[j], 2);
		}
		if (!(sqrt(error / power) <= files[i].error))
			fail_msg("%s: relative error %g", files[i].name,
				sqrt(error / power));
		gguf_close(g);
	}
	gguf_close(plain);
}

/* The tensors of the file have the same bytes as this project's quantizer
 * writes. */
static void test_real_quantization(void **state)
{
	static const struct {
		const char *name;
		enum dtype type;
	} files[] = {
		{ "models/stories260K-pad192-q8_0.gguf", DTYPE_Q8_0 },
		{ "models/stories260K-pad192-q4_0.gguf", DTYPE_Q4_0 },
	};
	struct gguf *plain = open_data("models/stories260K-pad192-f32.gguf");
	uint8_t *row = malloc(1 << 20);
	unsigned seen = 0;

	for (size_t f = 0; f < ARRAY_LEN(files); f++) {
		struct gguf *g = open_data(files[f].name);

		for (size_t i = 0; i < gguf_n_tensors(g); i++) {
			const struct gguf_tensor *t = gguf_tensor_at(g, i);
			const struct gguf_tensor *p;
			char name[64];

			if (t->type != files[f].type)
				continue;
			snprintf(name, sizeof(name), "%.*s", (int)t->name.len,
				t->name.data);
			p = gguf_tensor(plain, name);
			assert_non_null(p);
			dtype_info(t->type)->from_f32(
				row, p->data, t->dim[0] * t->dim[1]);
			if (memcmp(row, t->data, t->bytes))
				fail_msg("%s: other bytes in %s", files[f].name,
					name);
			seen++;
		}
		gguf_close(g);
	}
	if (seen < 60)
		fail_msg("only %u quantized tensors", seen);
	free(row);
	gguf_close(plain);
}

static void test_real_vocabularies(void **state)
{
	static const struct {
		const char *name;
		size_t tokens;
		size_t at;
		const char *text;
	} files[] = {
		{ "tokenizers/ggml-vocab-llama-spm.gguf", 32000, 2, "</s>" },
		{ "tokenizers/ggml-vocab-qwen2.gguf", 0, 0, "!" },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct gguf *g = open_data(files[i].name);
		const struct gguf_kv *kv =
			gguf_find(g, "tokenizer.ggml.tokens");
		struct gguf_cursor c = { 0, 0 };
		struct gguf_str s;
		uint64_t n = 0;

		assert_non_null(kv);
		while (gguf_next_str(kv, &c, &s)) {
			if (n++ == files[i].at)
				assert_true(gguf_str_is(s, files[i].text));
		}
		assert_int_equal(n, kv->count);
		assert_int_equal(c.at, kv->bytes);
		if (files[i].tokens)
			assert_int_equal(n, files[i].tokens);
		gguf_close(g);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_write),
	cmocka_unit_test(test_write_misuse),
	cmocka_unit_test(test_write_open),
	cmocka_unit_test(test_real_models),
	cmocka_unit_test(test_real_quantization),
	cmocka_unit_test(test_real_vocabularies),
};

TEST_FILE(tests)
