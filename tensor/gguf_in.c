#include "tensor/gguf_in.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* KEY_MAX is a limit of the GGUF format. NAME_MAX_LEN is Tandem's own limit:
 * ggml limits a tensor name to 63 bytes, but some converters write longer
 * names. */
#define KEY_MAX      65535
#define NAME_MAX_LEN 255

/* ---- error messages ---- */

int gguf_bad(struct gguf_in *in, int code, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(in->e, code, "%s: %s", in->where, text);
}

void gguf_in_where(struct gguf_in *in, const char *kind, struct gguf_str name)
{
	char shown[96];

	snprintf(in->where, sizeof(in->where), "%s '%s'", kind,
		gguf_show(name, shown, sizeof(shown)));
}

/* ---- fields ---- */

size_t gguf_in_left(const struct gguf_in *in)
{
	return in->size - in->at;
}

static int in_skip(struct gguf_in *in, uint64_t n, const char *field)
{
	if (n > gguf_in_left(in))
		return gguf_bad(in, EINVAL,
			"truncated: %s needs %llu bytes at offset %zu, the "
			"file has %zu left",
			field, (unsigned long long)n, in->at, gguf_in_left(in));
	in->at += n;
	return 0;
}

int gguf_in_take(struct gguf_in *in, void *out, size_t n, const char *field)
{
	const uint8_t *from = in->data + in->at;
	int ret = in_skip(in, n, field);

	if (!ret)
		memcpy(out, from, n);
	return ret;
}

static int in_str(struct gguf_in *in, struct gguf_str *out, const char *field)
{
	uint64_t len;
	int ret = gguf_in_take(in, &len, sizeof(len), field);

	if (ret)
		return ret;
	out->data = (const char *)in->data + in->at;
	out->len = len;
	return in_skip(in, len, field);
}

/* ---- keys and values ---- */

static const struct {
	const char *name;
	uint8_t bytes; /* bytes of a value; 0 if the size varies */
} types[GGUF_TYPE_COUNT] = {
	[GGUF_U8] = { "u8", 1 },
	[GGUF_I8] = { "i8", 1 },
	[GGUF_U16] = { "u16", 2 },
	[GGUF_I16] = { "i16", 2 },
	[GGUF_U32] = { "u32", 4 },
	[GGUF_I32] = { "i32", 4 },
	[GGUF_F32] = { "f32", 4 },
	[GGUF_BOOL] = { "bool", 1 },
	[GGUF_STRING] = { "string", 0 },
	[GGUF_ARRAY] = { "array", 0 },
	[GGUF_U64] = { "u64", 8 },
	[GGUF_I64] = { "i64", 8 },
	[GGUF_F64] = { "f64", 8 },
};

const char *gguf_type_name(enum gguf_type t)
{
	return (unsigned)t < GGUF_TYPE_COUNT ? types[t].name : "unknown";
}

static int in_type(struct gguf_in *in, enum gguf_type *out, const char *field)
{
	uint32_t t;
	int ret = gguf_in_take(in, &t, sizeof(t), field);

	if (ret)
		return ret;
	if (t >= GGUF_TYPE_COUNT)
		return gguf_bad(in, EINVAL, "unknown %s %u", field, t);
	*out = (enum gguf_type)t;
	return 0;
}

/* Read kv->count values of type kv->elem from in->at on. */
static int read_values(struct gguf_in *in, struct gguf_kv *kv)
{
	const size_t one = types[kv->elem].bytes;
	const size_t left = gguf_in_left(in);
	struct gguf_str s;
	int ret;

	kv->value = in->data + in->at;
	/* If the bytes left cannot hold `count` strings, refuse the count
	 * before reading the strings. */
	if (kv->elem == GGUF_STRING && kv->count > left / 8)
		return gguf_bad(in, EINVAL,
			"%llu strings do not fit into the %zu bytes left",
			(unsigned long long)kv->count, left);
	if (one && kv->count > left / one)
		return gguf_bad(in, EINVAL,
			"truncated: %llu values of type %s do not fit into "
			"the %zu bytes left",
			(unsigned long long)kv->count, types[kv->elem].name,
			left);
	in->at += kv->count * one;
	for (uint64_t i = 0; i < kv->count && kv->elem == GGUF_STRING; i++)
		if ((ret = in_str(in, &s, "string")))
			return ret;
	for (uint64_t i = 0; i < kv->count && kv->elem == GGUF_BOOL; i++)
		if (kv->value[i] > 1)
			return gguf_bad(in, EINVAL, "bool is %u, not 0 or 1",
				kv->value[i]);
	kv->bytes = (size_t)(in->data + in->at - kv->value);
	return 0;
}

int gguf_in_kv(struct gguf_in *in, struct gguf_kv *kv)
{
	int ret = in_str(in, &kv->key, "key");

	if (ret)
		return ret;
	if (!kv->key.len || kv->key.len > KEY_MAX)
		return gguf_bad(in, EINVAL,
			"a key has %zu bytes, must have 1 to %d", kv->key.len,
			KEY_MAX);
	gguf_in_where(in, "key", kv->key);
	ret = in_type(in, &kv->type, "value type");
	if (ret)
		return ret;
	kv->elem = kv->type;
	kv->count = 1;
	if (kv->type != GGUF_ARRAY)
		return read_values(in, kv);

	ret = in_type(in, &kv->elem, "array element type");
	if (!ret && kv->elem == GGUF_ARRAY)
		ret = gguf_bad(
			in, ENOTSUP, "arrays of arrays are not supported");
	if (!ret)
		ret = gguf_in_take(
			in, &kv->count, sizeof(kv->count), "array count");
	return ret ? ret : read_values(in, kv);
}

/* ---- declarations of tensors ---- */

/* Types that Tandem does not support. The types are listed so that an error
 * message can name them. */
static const char *const foreign_types[] = {
	[4] = "q4_2",
	[5] = "q4_3",
	[9] = "q8_1",
	[10] = "q2_k",
	[11] = "q3_k",
	[15] = "q8_k",
	[16] = "iq2_xxs",
	[17] = "iq2_xs",
	[18] = "iq3_xxs",
	[19] = "iq1_s",
	[21] = "iq3_s",
	[22] = "iq2_s",
	[23] = "iq4_xs",
	[24] = "i8",
	[25] = "i16",
	[26] = "i32",
	[27] = "i64",
	[28] = "f64",
	[29] = "iq1_m",
	[31] = "q4_0_4_4",
	[32] = "q4_0_4_8",
	[33] = "q4_0_8_8",
	[34] = "tq1_0",
	[35] = "tq2_0",
	[36] = "iq4_nl_4_4",
	[37] = "iq4_nl_4_8",
	[38] = "iq4_nl_8_8",
	[40] = "nvfp4",
	[41] = "q1_0",
	[42] = "q2_0",
};

int gguf_in_tensor(struct gguf_in *in, struct gguf_tensor *t)
{
	const struct dtype_info *info;
	const char *foreign = NULL;
	uint32_t n, type;
	int ret = in_str(in, &t->name, "tensor name");

	if (ret)
		return ret;
	if (!t->name.len || t->name.len > NAME_MAX_LEN)
		return gguf_bad(in, EINVAL,
			"a tensor's name has %zu bytes, must have 1 to %d",
			t->name.len, NAME_MAX_LEN);
	gguf_in_where(in, "tensor", t->name);
	if ((ret = gguf_in_take(in, &n, sizeof(n), "number of dimensions")))
		return ret;
	if (n < 1 || n > GGUF_MAX_DIMS)
		return gguf_bad(in, EINVAL, "%u dimensions (1 to %d allowed)",
			n, GGUF_MAX_DIMS);
	t->n_dims = n;
	for (uint32_t d = 0; d < GGUF_MAX_DIMS; d++) {
		t->dim[d] = 1;
		if (d >= n)
			continue;
		if ((ret = gguf_in_take(
			     in, &t->dim[d], sizeof(t->dim[d]), "dimension")))
			return ret;
		if (!t->dim[d])
			return gguf_bad(in, EINVAL, "dimension %u is 0", d);
	}

	if ((ret = gguf_in_take(in, &type, sizeof(type), "tensor type")))
		return ret;
	info = dtype_in_gguf(type) ? dtype_info(type) : NULL;
	if (type < ARRAY_LEN(foreign_types))
		foreign = foreign_types[type];
	if (!info)
		return gguf_bad(in, ENOTSUP,
			"type %u (%s) is not supported; use a file of another "
			"type, such as q4_k, q4_0, q8_0 or f16",
			type, foreign ? foreign : "unknown");
	if (t->dim[0] % info->block)
		return gguf_bad(in, EINVAL,
			"rows of %llu values cannot be divided into %s blocks "
			"of %u values",
			(unsigned long long)t->dim[0], info->name, info->block);
	t->type = (enum dtype)type;
	t->bytes = dtype_row_bytes(type, t->dim[0]);
	if (!t->bytes || size_mul(&t->bytes, t->bytes, t->dim[1]) ||
		size_mul(&t->bytes, t->bytes, t->dim[2]) ||
		size_mul(&t->bytes, t->bytes, t->dim[3]))
		return gguf_bad(in, EOVERFLOW, "the dimensions overflow");
	return gguf_in_take(in, &t->offset, sizeof(t->offset), "tensor offset");
}
