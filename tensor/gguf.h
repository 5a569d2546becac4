/*
 * Reads GGUF v2 and v3 from a private memory map. Opening checks every count,
 * offset, size and type against the file before using it: on success everything
 * that the accessors return lies within the map, no two tensors overlap, no key
 * or tensor name occurs twice, and every tensor has a known type and whole
 * rows. A bad file is refused with a message that names the field; an
 * allocation's size is always checked first against the bytes of the file.
 *
 * gguf_parse does no I/O, so that it can be fuzzed; it borrows `data`.
 * Everything returned points into the file and lives as long as the gguf. If
 * the file is truncated while it is mapped, the reader gets SIGBUS, which a
 * program may turn into an error message (host/cmd/cut_short.h).
 */
#ifndef TENSOR_GGUF_H
#define TENSOR_GGUF_H

#include "tensor/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct gguf;

enum gguf_type {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_TYPE_COUNT
};

struct gguf_str { /* not NUL-terminated */
	const char *data;
	size_t len;
};

struct gguf_kv {
	struct gguf_str key;
	enum gguf_type type;
	enum gguf_type elem;  /* of an array (never arrays), else `type` */
	uint64_t count;       /* elements of an array, else 1 */
	const uint8_t *value; /* first byte of the value or first element;
			       * a string begins with its 8-byte length */
	size_t bytes;         /* from there to the end of the value */
};

#define GGUF_MAX_DIMS 4
struct gguf_tensor {
	struct gguf_str name;
	unsigned n_dims;
	uint64_t dim[GGUF_MAX_DIMS]; /* dim[0] is the row length; unused: 1 */
	enum dtype type;
	uint64_t offset; /* from the start of the file */
	size_t bytes;
	const void *data; /* NULL with gguf_parse_header */
};

int gguf_open(struct gguf **out, const char *path, struct err *e);
int gguf_parse(struct gguf **out, const void *data, size_t size, struct err *e);
void gguf_close(struct gguf *);

/*
 * The bytes before the tensors' data, and a parser for such a header whose data
 * are stored elsewhere: the tensors are checked against a file of `file_size`
 * bytes, and gguf_set_data sets the data of tensor i.
 */
const void *gguf_header(const struct gguf *, size_t *size);
int gguf_parse_header(struct gguf **out, const void *data, size_t size,
	size_t file_size, struct err *e);
void gguf_set_data(struct gguf *, size_t i, const void *data);

uint32_t gguf_version(const struct gguf *);
size_t gguf_file_bytes(const struct gguf *);
size_t gguf_n_kv(const struct gguf *);
const struct gguf_kv *gguf_kv_at(const struct gguf *, size_t i);
size_t gguf_n_tensors(const struct gguf *);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *, size_t i);

/* By name; NULL when absent. */
const struct gguf_kv *gguf_find(const struct gguf *, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *, const char *name);

/*
 * Typed look-ups: 1 and *out when the key is there, 0 when it is absent
 * (*out untouched), -EINVAL with *e naming key and type when it is there
 * with another type or out of range.
 */
int gguf_u64(const struct gguf *, const char *key, uint64_t *out, struct err *);
int gguf_f64(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, bool *out, struct err *);
int gguf_str(const struct gguf *, const char *key, struct gguf_str *out,
	struct err *);

/*
 * Walk an array of strings. Start with a zeroed cursor; true and *out for
 * each element, false at the end.
 */
struct gguf_cursor {
	uint64_t index;
	size_t at;
};
bool gguf_next_str(
	const struct gguf_kv *, struct gguf_cursor *, struct gguf_str *out);

/* Element i < count of a numeric array or value, as double or int64. */
double gguf_elem_f64(const struct gguf_kv *, uint64_t i);
int64_t gguf_elem_i64(const struct gguf_kv *, uint64_t i);

const char *gguf_type_name(enum gguf_type);
bool gguf_str_is(struct gguf_str, const char *);

/* For messages: everything but printable UTF-8 is escaped; truncated with dots
 * to fit `size`, at least 16. */
const char *gguf_show(struct gguf_str, char *buf, size_t size);

#endif
