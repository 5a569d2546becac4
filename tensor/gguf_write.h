/*
 * Writes GGUF files of version 3: first the keys, then the declarations of the
 * tensors, then the tensors' data in the same order. Keys and declarations are
 * kept in memory; data is written directly. The file has a temporary name in
 * the same folder until gguf_writer_commit syncs and renames the file. A crash
 * or a full disk therefore leaves no partial file under the final name.
 * gguf_writer_close without a commit removes the temporary file.
 *
 * Errors are sticky: after a failure every call does nothing, and the commit
 * returns the first error.
 */
#ifndef TENSOR_GGUF_WRITE_H
#define TENSOR_GGUF_WRITE_H

#include "tensor/dtype.h"
#include "tensor/gguf.h"

struct gguf_writer;

int gguf_writer_open(struct gguf_writer **out, const char *path, struct err *);
void gguf_writer_close(struct gguf_writer *);

void gguf_put_u32(struct gguf_writer *, const char *key, uint32_t);
void gguf_put_f32(struct gguf_writer *, const char *key, float);
void gguf_put_bool(struct gguf_writer *, const char *key, bool);
void gguf_put_str(struct gguf_writer *, const char *key, const char *);
void gguf_put_strs(struct gguf_writer *, const char *key,
	const struct gguf_str *, uint64_t n);
void gguf_put_i32s(
	struct gguf_writer *, const char *key, const int32_t *, uint64_t n);

/* Write the keys general.quantization_version and general.file_type. The file
 * type is llama.cpp's number for a file whose matrices mostly have the given
 * type. */
void gguf_put_file_type(struct gguf_writer *, enum dtype);

/* Copy a key and its value from another file. */
void gguf_put_kv(struct gguf_writer *, const struct gguf_kv *);

/* Declare a tensor of n_dims dimensions. dim[0] is the row length. */
void gguf_put_tensor(struct gguf_writer *, const char *name, enum dtype,
	unsigned n_dims, const uint64_t *dim);

/*
 * Write data of the next declared tensor, in one or more calls. The tensor ends
 * when all its bytes are written; padding to the alignment is then added.
 * Returns 0 or a negative errno.
 */
int gguf_write_data(
	struct gguf_writer *, const void *data, size_t len, struct err *);

/* Sync and rename the file after all data has been written. Returns 0 or a
 * negative errno. */
int gguf_writer_commit(struct gguf_writer *, struct err *);

#endif
