/*
 * Calls gguf_parse with arbitrary bytes. Everything that the accessors of an
 * accepted file return must lie within the file, so this target reads the ends
 * of every key, value and tensor, and decodes elements and blocks (TOUCH_MAX).
 */
#include "tests/fuzz/fuzz.h"

#include "tensor/gguf.h"

#include <stdlib.h>
#include <string.h>

/* Decode at most this many elements at each end of an array of numbers, and at
 * most this many blocks at the end of a tensor. */
#define TOUCH_MAX 64

static volatile uint64_t sink;

static void touch(const void *p, size_t len)
{
	const volatile uint8_t *b = p;

	if (len)
		sink += b[0] + b[len - 1];
}

static void touch_value(const struct gguf_kv *kv)
{
	const uint64_t last = kv->count - 1;
	struct gguf_cursor c = { 0, 0 };
	struct gguf_str s;
	uint64_t n = 0;

	touch(kv->key.data, kv->key.len);
	touch(kv->value, kv->bytes);
	while (gguf_next_str(kv, &c, &s)) {
		touch(s.data, s.len);
		n++;
	}
	if (kv->elem == GGUF_STRING) {
		if (n != kv->count || c.at != kv->bytes)
			abort();
		return;
	}
	for (uint64_t i = 0; i < kv->count && i < TOUCH_MAX; i++) {
		sink += (uint64_t)gguf_elem_i64(kv, i);
		sink += gguf_elem_f64(kv, i) > 0;
		sink += (uint64_t)gguf_elem_i64(kv, last - i);
	}
}

/* A look-up by name must find the same entry as a look-up by index, whatever
 * the type of the entry. */
static void look_up(const struct gguf *g, const struct gguf_kv *kv)
{
	char name[256];
	struct gguf_str s;
	uint64_t u;
	double f;
	bool b;

	if (kv->key.len >= sizeof(name) || memchr(kv->key.data, 0, kv->key.len))
		return;
	memcpy(name, kv->key.data, kv->key.len);
	name[kv->key.len] = '\0';
	if (gguf_find(g, name) != kv)
		abort();
	gguf_u64(g, name, &u, NULL);
	gguf_f64(g, name, &f, NULL);
	gguf_bool(g, name, &b, NULL);
	if (gguf_str(g, name, &s, NULL) == 1)
		touch(s.data, s.len);
}

static void touch_tensor(const struct gguf_tensor *t)
{
	const struct dtype_info *info = dtype_info(t->type);
	const size_t blocks = t->bytes / info->bytes;
	float out[256];
	char shown[16];

	touch(t->data, t->bytes);
	gguf_show(t->name, shown, sizeof(shown));
	for (size_t i = 0; i < blocks && i < TOUCH_MAX; i++) {
		info->to_f32(out,
			(const uint8_t *)t->data +
				(blocks - 1 - i) * info->bytes,
			info->block);
		sink += out[0] > 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gguf *g;

	if (gguf_parse(&g, data, size, NULL))
		return 0;
	for (size_t i = 0; i < gguf_n_kv(g); i++) {
		touch_value(gguf_kv_at(g, i));
		look_up(g, gguf_kv_at(g, i));
	}
	for (size_t i = 0; i < gguf_n_tensors(g); i++)
		touch_tensor(gguf_tensor_at(g, i));
	gguf_close(g);
	return 0;
}

/* ---- seeds: one small file for each tensor type, half of them with a tensor
 * of three dimensions ---- */

struct out {
	uint8_t *data;
	size_t at, cap;
};

static void put(struct out *o, const void *p, size_t n)
{
	if (n > o->cap - o->at)
		return;
	memcpy(o->data + o->at, p, n);
	o->at += n;
}

static void put_u32(struct out *o, uint32_t v)
{
	put(o, &v, sizeof(v));
}

static void put_u64(struct out *o, uint64_t v)
{
	put(o, &v, sizeof(v));
}

static void put_str(struct out *o, const char *s)
{
	put_u64(o, strlen(s));
	put(o, s, strlen(s));
}

static void put_keys(struct out *o)
{
	static const char values[8] = { 1, 0, 1, 1, 0, 1, 0, 0 };

	for (uint32_t t = GGUF_U8; t < GGUF_TYPE_COUNT; t++) {
		if (t == GGUF_STRING || t == GGUF_ARRAY)
			continue;
		put_str(o, gguf_type_name(t));
		put_u32(o, GGUF_ARRAY);
		put_u32(o, t);
		put_u64(o,
			t == GGUF_U8 || t == GGUF_I8 || t == GGUF_BOOL ? 8
				: t == GGUF_U16 || t == GGUF_I16       ? 4
				: t == GGUF_U64 || t == GGUF_I64 ||
					t == GGUF_F64
				? 1
				: 2);
		put(o, values, sizeof(values));
	}
	put_str(o, "strings");
	put_u32(o, GGUF_ARRAY);
	put_u32(o, GGUF_STRING);
	put_u64(o, 2);
	put_str(o, "");
	put_str(o, "two");
	put_str(o, "general.alignment");
	put_u32(o, GGUF_U32);
	put_u32(o, 64);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	static const enum dtype types[] = { DTYPE_F32, DTYPE_F16, DTYPE_BF16,
		DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1,
		DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_NL, DTYPE_MXFP4 };
	struct out o = { buf, 0, cap };
	uint64_t offset = 0, matrices = 1 + i / 2 % 2;

	if (i >= sizeof(types) / sizeof(*types))
		return 0;
	put(&o, "GGUF", 4);
	put_u32(&o, 2 + i % 2);
	put_u64(&o, 2);
	put_u64(&o, GGUF_TYPE_COUNT);
	put_keys(&o);
	for (int t = 0; t < 2; t++) {
		put_str(&o, t ? "second" : "first");
		put_u32(&o, matrices > 1 ? 3 : 2);
		put_u64(&o, 256);
		put_u64(&o, 1);
		if (matrices > 1)
			put_u64(&o, matrices);
		put_u32(&o, types[i]);
		put_u64(&o, offset);
		offset = (matrices * dtype_row_bytes(types[i], 256) + 63) / 64 *
			64;
	}
	while (o.at % 64)
		put(&o, "", 1);
	for (uint64_t j = 0; j < 2 * offset; j++)
		put(&o, &(uint8_t){ (uint8_t)(j * 37) }, 1);
	return o.at;
}
