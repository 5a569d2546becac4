#include "tensor/gguf.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool gguf_str_is(struct gguf_str s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.data, text, s.len);
}

bool gguf_str_begins(struct gguf_str s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.len >= n && !memcmp(s.data, prefix, n);
}

/*
 * Returns the number of bytes of the UTF-8 character at p; 0 if the character
 * is a control character (C0 or C1), which a terminal would execute, or if the
 * bytes are not valid UTF-8 (for example a surrogate or an overlong form).
 */
static size_t printable(const unsigned char *p, size_t left)
{
	static const uint32_t least[5] = { 0, 0x20, 0xa0, 0x800, 0x10000 };
	const size_t n = p[0] < 0x80 ? 1
		: p[0] >= 0xf0       ? 4
		: p[0] >= 0xe0       ? 3
				     : 2;
	uint32_t code = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	if (n > left || (p[0] & 0xc0) == 0x80 || p[0] >= 0xf8 || p[0] == 0x7f)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || code >> 11 == 0xd800 >> 11)
		return 0;
	return n;
}

const char *gguf_show(struct gguf_str s, char *buf, size_t size)
{
	const unsigned char *p = (const unsigned char *)s.data;
	size_t at = 0, n;

	for (size_t i = 0; i < s.len; i += n) {
		/* Keep room for one escape sequence (or the dots) and the NUL.
		 */
		if (at + 8 > size) {
			memcpy(buf + at, "...", 3);
			at += 3;
			break;
		}
		n = printable(p + i, s.len - i);
		memcpy(buf + at, p + i, n);
		at += n;
		if (n)
			continue;
		n = 1;
		at += (size_t)snprintf(buf + at, size - at, "\\x%02x", p[i]);
	}
	buf[at] = '\0';
	return buf;
}

/* ---- numbers ---- */

union scalar {
	uint64_t u;
	int64_t i;
	double f;
};

enum kind { KIND_UNSIGNED, KIND_SIGNED, KIND_FLOAT, KIND_NONE };

#define AS(ctype, field)                                             \
	do {                                                         \
		ctype v_;                                            \
		memcpy(&v_, kv->value + i * sizeof(v_), sizeof(v_)); \
		out->field = v_;                                     \
	} while (0)

/* Values in the file are unaligned, so each value is copied. */
static enum kind elem_read(
	const struct gguf_kv *kv, uint64_t i, union scalar *out)
{
	switch (kv->elem) {
	case GGUF_U8:
	case GGUF_BOOL:
		AS(uint8_t, u);
		return KIND_UNSIGNED;
	case GGUF_U16:
		AS(uint16_t, u);
		return KIND_UNSIGNED;
	case GGUF_U32:
		AS(uint32_t, u);
		return KIND_UNSIGNED;
	case GGUF_U64:
		AS(uint64_t, u);
		return KIND_UNSIGNED;
	case GGUF_I8:
		AS(int8_t, i);
		return KIND_SIGNED;
	case GGUF_I16:
		AS(int16_t, i);
		return KIND_SIGNED;
	case GGUF_I32:
		AS(int32_t, i);
		return KIND_SIGNED;
	case GGUF_I64:
		AS(int64_t, i);
		return KIND_SIGNED;
	case GGUF_F32:
		AS(float, f);
		return KIND_FLOAT;
	case GGUF_F64:
		AS(double, f);
		return KIND_FLOAT;
	default:
		return KIND_NONE;
	}
}

double gguf_elem_f64(const struct gguf_kv *kv, uint64_t i)
{
	union scalar v;

	switch (elem_read(kv, i, &v)) {
	case KIND_UNSIGNED:
		return (double)v.u;
	case KIND_SIGNED:
		return (double)v.i;
	case KIND_FLOAT:
		return v.f;
	default:
		return 0;
	}
}

int64_t gguf_elem_i64(const struct gguf_kv *kv, uint64_t i)
{
	union scalar v;

	switch (elem_read(kv, i, &v)) {
	case KIND_UNSIGNED:
		return v.u > INT64_MAX ? INT64_MAX : (int64_t)v.u;
	case KIND_SIGNED:
		return v.i;
	case KIND_FLOAT:
		if (v.f >= 0x1p63)
			return INT64_MAX;
		if (v.f < -0x1p63)
			return INT64_MIN;
		return v.f == v.f ? (int64_t)v.f : 0;
	default:
		return 0;
	}
}

/* ---- typed look-ups ---- */

static int wrong_type(const struct gguf_kv *kv, const char *want, struct err *e)
{
	char shown[96];

	return err_set(e, EINVAL, "key '%s' has type %s; type %s was expected",
		gguf_show(kv->key, shown, sizeof(shown)),
		gguf_type_name(kv->type), want);
}

int gguf_u64(
	const struct gguf *g, const char *key, uint64_t *out, struct err *e)
{
	const struct gguf_kv *kv = gguf_find(g, key);
	union scalar v;

	if (!kv)
		return 0;
	if (kv->type == GGUF_ARRAY || kv->type == GGUF_BOOL)
		return wrong_type(kv, "an integer", e);
	switch (elem_read(kv, 0, &v)) {
	case KIND_SIGNED:
		if (v.i < 0)
			return err_set(e, EINVAL, "key '%s': %lld is negative",
				key, (long long)v.i);
		/* fallthrough */
	case KIND_UNSIGNED:
		*out = v.u;
		return 1;
	default:
		return wrong_type(kv, "an integer", e);
	}
}

int gguf_f64(const struct gguf *g, const char *key, double *out, struct err *e)
{
	const struct gguf_kv *kv = gguf_find(g, key);

	if (!kv)
		return 0;
	if (kv->type != GGUF_F32 && kv->type != GGUF_F64)
		return wrong_type(kv, "a float", e);
	*out = gguf_elem_f64(kv, 0);
	return 1;
}

int gguf_bool(const struct gguf *g, const char *key, bool *out, struct err *e)
{
	const struct gguf_kv *kv = gguf_find(g, key);

	if (!kv)
		return 0;
	if (kv->type != GGUF_BOOL)
		return wrong_type(kv, "bool", e);
	*out = *kv->value;
	return 1;
}

int gguf_str(const struct gguf *g, const char *key, struct gguf_str *out,
	struct err *e)
{
	const struct gguf_kv *kv = gguf_find(g, key);
	struct gguf_cursor c = { 0, 0 };

	if (!kv)
		return 0;
	if (kv->type != GGUF_STRING)
		return wrong_type(kv, "string", e);
	return gguf_next_str(kv, &c, out);
}

int gguf_need(int found, const char *key, struct err *e)
{
	if (!found)
		return err_set(e, EINVAL, "key '%s' is missing", key);
	return found < 0 ? found : 0;
}

bool gguf_next_str(
	const struct gguf_kv *kv, struct gguf_cursor *c, struct gguf_str *out)
{
	uint64_t len;

	if (kv->elem != GGUF_STRING || c->index >= kv->count)
		return false;
	memcpy(&len, kv->value + c->at, sizeof(len));
	out->data = (const char *)kv->value + c->at + sizeof(len);
	out->len = len;
	c->at += sizeof(len) + len;
	c->index++;
	return true;
}
