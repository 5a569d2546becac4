#include "tensor/gguf_write.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "base/strbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32
/* largest length of a tensor's name that ggml accepts */
#define NAME_MAX_LEN 63

struct gguf_writer {
	struct err err; /* the first error; its `code` is 0 if there was none */
	struct newfile file;
	struct strbuf keys, declarations;
	uint64_t n_keys, n_tensors;
	size_t *bytes; /* [n_tensors] size of each declared tensor */
	/* offset of the data of the next tensor to be declared */
	uint64_t offset;
	bool began; /* true: the header has been written to the file */
	uint64_t current;
	/* number of bytes of the current tensor written so far */
	size_t written;
};

static bool failed(const struct gguf_writer *w)
{
	return w->err.code;
}

/* ---- opening and closing ---- */

int gguf_writer_open(struct gguf_writer **out, const char *path, struct err *e)
{
	struct gguf_writer *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return err_sys(e, ENOMEM, "cannot write '%s'", path);
	ret = newfile_open(&w->file, path, NEWFILE_PUBLIC, e);
	if (ret)
		gguf_writer_close(w);
	else
		*out = w;
	return ret;
}

void gguf_writer_close(struct gguf_writer *w)
{
	if (!w)
		return;
	newfile_close(&w->file);
	strbuf_release(&w->keys);
	strbuf_release(&w->declarations);
	free(w->bytes);
	free(w);
}

/* ---- fields ---- */

/* Add the low `bytes` bytes of v. These are the first bytes of v in memory,
 * because tensor/gguf.c requires a little-endian machine. */
static void add_int(struct strbuf *b, uint64_t v, size_t bytes)
{
	strbuf_add(b, &v, bytes);
}

static void add_str(struct strbuf *b, const char *data, size_t len)
{
	add_int(b, len, 8);
	strbuf_add(b, data, len);
}

static void put_name(
	struct gguf_writer *w, struct gguf_str key, enum gguf_type type)
{
	if (w->began && !failed(w))
		err_set(&w->err, EINVAL,
			"key '%.*s' was added after data of tensors had been "
			"written",
			(int)key.len, key.data);
	add_str(&w->keys, key.data, key.len);
	add_int(&w->keys, type, 4);
	w->n_keys++;
}

static void put_key(struct gguf_writer *w, const char *key, enum gguf_type type)
{
	put_name(w, (struct gguf_str){ key, strlen(key) }, type);
}

static void put_value(struct gguf_writer *w, const char *key,
	enum gguf_type type, const void *value, size_t len)
{
	put_key(w, key, type);
	strbuf_add(&w->keys, value, len);
}

static void put_array(
	struct gguf_writer *w, const char *key, enum gguf_type elem, uint64_t n)
{
	put_key(w, key, GGUF_ARRAY);
	add_int(&w->keys, elem, 4);
	add_int(&w->keys, n, 8);
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
	put_value(w, key, GGUF_U32, &v, sizeof(v));
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float v)
{
	put_value(w, key, GGUF_F32, &v, sizeof(v));
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool v)
{
	const uint8_t byte = v;

	put_value(w, key, GGUF_BOOL, &byte, sizeof(byte));
}

void gguf_put_str(struct gguf_writer *w, const char *key, const char *v)
{
	put_key(w, key, GGUF_STRING);
	add_str(&w->keys, v, strlen(v));
}

void gguf_put_strs(struct gguf_writer *w, const char *key,
	const struct gguf_str *v, uint64_t n)
{
	put_array(w, key, GGUF_STRING, n);
	for (uint64_t i = 0; i < n; i++)
		add_str(&w->keys, v[i].data, v[i].len);
}

void gguf_put_i32s(
	struct gguf_writer *w, const char *key, const int32_t *v, uint64_t n)
{
	put_array(w, key, GGUF_I32, n);
	strbuf_add(&w->keys, v, n * sizeof(*v));
}

void gguf_put_file_type(struct gguf_writer *w, enum dtype type)
{
	uint32_t number = type == DTYPE_F16 ? 1
		: type == DTYPE_Q4_0        ? 2
		: type == DTYPE_Q8_0        ? 7
		: type == DTYPE_IQ4_NL      ? 25
		: type == DTYPE_MXFP4       ? 38
		: type == DTYPE_BF16        ? 32
					    : 0;

	gguf_put_u32(w, "general.file_type", number);
	gguf_put_u32(w, "general.quantization_version", 2);
}

/* ---- tensors ---- */

static int check_declaration(struct gguf_writer *w, const char *name,
	enum dtype type, unsigned n_dims, const uint64_t *dim, size_t *bytes)
{
	const size_t len = strlen(name);

	if (w->began)
		return err_set(&w->err, EINVAL,
			"tensor '%s' was declared after data of tensors had "
			"been written",
			name);
	if (!len || len > NAME_MAX_LEN)
		return err_set(&w->err, EINVAL,
			"tensor name '%s' must have 1 to %d bytes", name,
			NAME_MAX_LEN);
	if (n_dims < 1 || n_dims > GGUF_MAX_DIMS)
		return err_set(&w->err, EINVAL,
			"tensor '%s': %u dimensions (1 to %d allowed)", name,
			n_dims, GGUF_MAX_DIMS);
	*bytes = dtype_in_gguf(type) ? dtype_row_bytes(type, dim[0]) : 0;
	for (unsigned d = 1; d < n_dims; d++) {
		if (size_mul(bytes, *bytes, dim[d]))
			*bytes = 0;
	}
	if (!*bytes)
		return err_set(&w->err, EINVAL,
			"tensor '%s': type %d does not allow this shape", name,
			type);
	return 0;
}

void gguf_put_kv(struct gguf_writer *w, const struct gguf_kv *kv)
{
	put_name(w, kv->key, kv->type);
	if (kv->type == GGUF_ARRAY) {
		add_int(&w->keys, kv->elem, 4);
		add_int(&w->keys, kv->count, 8);
	}
	strbuf_add(&w->keys, kv->value, kv->bytes);
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, enum dtype type,
	unsigned n_dims, const uint64_t *dim)
{
	size_t bytes, *list;

	if (failed(w) || check_declaration(w, name, type, n_dims, dim, &bytes))
		return;
	list = realloc(w->bytes, (w->n_tensors + 1) * sizeof(*list));
	if (!list) {
		err_sys(&w->err, ENOMEM, "cannot declare tensor '%s'", name);
		return;
	}
	w->bytes = list;
	w->bytes[w->n_tensors++] = bytes;
	add_str(&w->declarations, name, strlen(name));
	add_int(&w->declarations, n_dims, 4);
	for (unsigned d = 0; d < n_dims; d++)
		add_int(&w->declarations, dim[d], 8);
	add_int(&w->declarations, type, 4);
	add_int(&w->declarations, w->offset, 8);
	w->offset = align_up(w->offset + bytes, ALIGNMENT);
}

static void write_bytes(struct gguf_writer *w, const void *data, size_t len)
{
	const int ret = failed(w) ? 0 : fd_write_all(w->file.fd, data, len);

	if (ret)
		err_sys(&w->err, -ret, "cannot write '%s'", w->file.temporary);
}

static void write_padding(struct gguf_writer *w, uint64_t after)
{
	static const char zeros[ALIGNMENT];

	write_bytes(w, zeros, align_up(after, ALIGNMENT) - after);
}

static void begin(struct gguf_writer *w)
{
	struct strbuf head = STRBUF_INIT;

	w->began = true;
	strbuf_add(&head, "GGUF", 4);
	add_int(&head, GGUF_VERSION, 4);
	add_int(&head, w->n_tensors, 8);
	add_int(&head, w->n_keys, 8);
	if (head.failed || w->keys.failed || w->declarations.failed) {
		err_sys(&w->err, ENOMEM, "cannot write '%s'",
			w->file.temporary);
	} else {
		write_bytes(w, head.data, head.len);
		write_bytes(w, w->keys.data, w->keys.len);
		write_bytes(w, w->declarations.data, w->declarations.len);
		write_padding(w, head.len + w->keys.len + w->declarations.len);
	}
	strbuf_release(&head);
}

static int report(const struct gguf_writer *w, struct err *e)
{
	if (e && failed(w))
		*e = w->err;
	return w->err.code;
}

int gguf_write_data(
	struct gguf_writer *w, const void *data, size_t len, struct err *e)
{
	const char *p = data;

	if (!failed(w) && !w->began)
		begin(w);
	while (len && !failed(w)) {
		size_t part;

		if (w->current == w->n_tensors) {
			err_set(&w->err, EINVAL,
				"the data is %zu bytes longer than the "
				"declared tensors",
				len);
			break;
		}
		part = w->bytes[w->current] - w->written;
		part = len < part ? len : part;
		write_bytes(w, p, part);
		p += part;
		len -= part;
		w->written += part;
		if (w->written < w->bytes[w->current])
			continue;
		write_padding(w, w->written);
		w->written = 0;
		w->current++;
	}
	return report(w, e);
}

int gguf_writer_commit(struct gguf_writer *w, struct err *e)
{
	if (!failed(w) && !w->began)
		begin(w);
	if (!failed(w) && w->current < w->n_tensors)
		err_set(&w->err, EINVAL,
			"'%s': tensor %llu of %llu lacks %zu bytes",
			w->file.path, (unsigned long long)w->current,
			(unsigned long long)w->n_tensors,
			w->bytes[w->current] - w->written);
	if (!failed(w))
		newfile_commit(&w->file, &w->err);
	return report(w, e);
}
