/*
 * Reads GGUF files of version 2 and 3 from a private memory map. Opening checks
 * every count, offset, size and type against the file before using it. After a
 * successful open everything that the accessors return lies within the map. No
 * two tensors overlap, and no key or tensor name occurs twice. Every tensor has
 * a known type, and its row length is a multiple of the type's block. A bad
 * file is refused with a message that names the field. The size of each
 * allocation is checked against the size of the file before the allocation.
 *
 * gguf_parse does no I/O, so that it can be fuzzed. gguf_parse does not copy
 * `data`, which must exist until gguf_close. All pointers that the accessors
 * return point into the file and are valid until gguf_close. If another process
 * truncates the file while it is mapped, an access raises SIGBUS, which a
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
	/* type of an array's elements, which is never an array type; if the
	 * value is not an array, the same as `type` */
	enum gguf_type elem;
	uint64_t count; /* number of elements of an array, else 1 */
	/* first byte of the value or, for an array, of its first element. A
	 * string begins with its length in 8 bytes */
	const uint8_t *value;
	size_t bytes; /* bytes from `value` to the end of the value */
};

/* The GGUF version that Tandem writes. Tandem also reads version 2. */
#define GGUF_VERSION  3

#define GGUF_MAX_DIMS 4
struct gguf_tensor {
	struct gguf_str name;
	unsigned n_dims;
	/* dim[0] is the row length; unused dimensions are 1 */
	uint64_t dim[GGUF_MAX_DIMS];
	enum dtype type;
	/* offset of the tensor's data from the start of the file */
	uint64_t offset;
	size_t bytes;
	/* address of the tensor's data; NULL after gguf_parse_header */
	const void *data;
};

int gguf_open(struct gguf **out, const char *path, struct err *e);
int gguf_parse(struct gguf **out, const void *data, size_t size, struct err *e);
void gguf_close(struct gguf *);

/*
 * Read `bytes` bytes of tensor data at `at`, an address from struct
 * gguf_tensor, from the file into `room`. Returns `room`, or `at` if the bytes
 * are not those of an open file, or reading fails. Reading is faster than the
 * first access to a mapping, which takes a page fault for each page: on a
 * virtual machine whose hypervisor shadows page tables, about five times as
 * fast.
 */
const void *gguf_read(
	const struct gguf *, const void *at, size_t bytes, void *room);

/*
 * gguf_header returns the bytes of the file before the tensors' data.
 * gguf_parse_header parses such a header if the tensors' data are stored
 * elsewhere. gguf_parse_header checks the tensors' offsets against a file of
 * `file_size` bytes. gguf_set_data then sets the address of the data of tensor
 * i.
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

/* Find a key or a tensor by its name. Returns NULL if the file has no such key
 * or tensor. */
const struct gguf_kv *gguf_find(const struct gguf *, const char *key);
const struct gguf_tensor *gguf_tensor(const struct gguf *, const char *name);

/*
 * Look up a key of a given type. Returns 1 and sets *out if the key exists;
 * returns 0 and leaves *out unchanged if the key does not exist; returns
 * -EINVAL with a message that names the key and its type if the value has
 * another type or is out of range.
 */
int gguf_u64(const struct gguf *, const char *key, uint64_t *out, struct err *);
int gguf_f64(const struct gguf *, const char *key, double *out, struct err *);
int gguf_bool(const struct gguf *, const char *key, bool *out, struct err *);
int gguf_str(const struct gguf *, const char *key, struct gguf_str *out,
	struct err *);
/* Make a missing key an error. `found` is the result of gguf_u64, gguf_f64,
 * gguf_bool or gguf_str for this key. Returns 0 if the key exists, otherwise
 * -EINVAL. */
int gguf_need(int found, const char *key, struct err *);

/* Iterate over an array of strings. Start with a zeroed cursor. Returns true
 * and sets *out for each element, and false after the last. */
struct gguf_cursor {
	uint64_t index;
	size_t at;
};
bool gguf_next_str(
	const struct gguf_kv *, struct gguf_cursor *, struct gguf_str *out);

/* Get element i (below `count`) of a numeric array, or a single number (i is
 * 0), as double or int64. Returns 0 for a string. */
double gguf_elem_f64(const struct gguf_kv *, uint64_t i);
int64_t gguf_elem_i64(const struct gguf_kv *, uint64_t i);

const char *gguf_type_name(enum gguf_type);
bool gguf_str_is(struct gguf_str, const char *);
bool gguf_str_begins(struct gguf_str, const char *prefix);

/*
 * Write a string to `buf` for use in a message, and return `buf`. Bytes that
 * are not printable UTF-8 are escaped, and a string that is too long ends with
 * dots. `size` is at least 16.
 */
const char *gguf_show(struct gguf_str, char *buf, size_t size);

#endif
