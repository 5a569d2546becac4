#include "tensor/gguf.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "tensor/gguf_in.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	"GGUF is read in place: this program needs a little-endian machine");

#define ALIGN_DEFAULT 32
#define ALIGN_MAX     (1u << 20)

struct gguf {
	const uint8_t *data;
	size_t size; /* bytes of the file */
	/* bytes of the header (keys and tensor declarations) */
	size_t header_size;
	/* the open file, which is mapped at `data`; -1: the caller owns the
	 * data
	 */
	int fd;
	bool header_only;
	uint32_t version;
	uint64_t alignment;
	size_t n_kv, n_tensors;
	struct gguf_kv *kv;
	struct gguf_tensor *tensor;
	uint32_t *kv_order;     /* indices of kv, sorted by key */
	uint32_t *tensor_order; /* indices of tensor, sorted by name */
};

/* ---- indices sorted by name or offset ---- */

static int str_cmp(struct gguf_str a, struct gguf_str b)
{
	int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return c ? c : (a.len > b.len) - (a.len < b.len);
}

/* An array of struct gguf_kv or of struct gguf_tensor. Both structs begin with
 * the name. */
struct named {
	const void *first;
	size_t size; /* bytes of an element of the array */
};

static struct gguf_str name_at(const struct named *v, uint32_t i)
{
	struct gguf_str name;

	memcpy(&name, (const char *)v->first + i * v->size, sizeof(name));
	return name;
}

static int by_name(const void *a, const void *b, void *named)
{
	return str_cmp(name_at(named, *(const uint32_t *)a),
		name_at(named, *(const uint32_t *)b));
}

static int by_offset(const void *a, const void *b, void *tensor)
{
	const struct gguf_tensor *v = tensor;
	uint64_t x = v[*(const uint32_t *)a].offset;
	uint64_t y = v[*(const uint32_t *)b].offset;

	return (x > y) - (x < y);
}

static void sort(uint32_t *order, size_t n,
	int (*cmp)(const void *, const void *, void *), void *arg)
{
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, n, sizeof(*order), cmp, arg);
}

/* ---- reading a file ---- */

static int read_count(
	struct gguf_in *in, size_t *out, size_t least, const char *field)
{
	uint64_t n;
	int ret = gguf_in_take(in, &n, sizeof(n), field);

	if (ret)
		return ret;
	if (n > gguf_in_left(in) / least || n > UINT32_MAX)
		return gguf_bad(in, EINVAL,
			"%s of %llu is more than a file of %zu bytes can hold",
			field, (unsigned long long)n, in->size);
	*out = n;
	return 0;
}

static int read_header(struct gguf *g, struct gguf_in *in)
{
	char magic[4];
	int ret = gguf_in_take(in, magic, sizeof(magic), "magic");

	if (ret)
		return ret;
	if (memcmp(magic, "GGUF", 4))
		return gguf_bad(in, EINVAL,
			"bad magic %02x %02x %02x %02x: not a GGUF file",
			(uint8_t)magic[0], (uint8_t)magic[1], (uint8_t)magic[2],
			(uint8_t)magic[3]);
	ret = gguf_in_take(in, &g->version, sizeof(g->version), "version");
	if (ret)
		return ret;
	if (g->version && !(g->version & 0xffff))
		return gguf_bad(in, ENOTSUP,
			"big-endian GGUF file (version %u); convert it to "
			"little-endian",
			__builtin_bswap32(g->version));
	if (g->version != 2 && g->version != GGUF_VERSION)
		return gguf_bad(in, ENOTSUP,
			"version %u is not supported (2 and 3 are); convert the "
			"model again, with a current converter",
			g->version);
	if ((ret = read_count(
		     in, &g->n_tensors, GGUF_TENSOR_MIN, "tensor count")) ||
		(ret = read_count(in, &g->n_kv, GGUF_KV_MIN, "key count")))
		return ret;
	/* Allocate one element more than needed, because calloc may return NULL
	 * for a count of 0. */
	g->kv = calloc(g->n_kv + 1, sizeof(*g->kv));
	g->kv_order = calloc(g->n_kv + 1, sizeof(*g->kv_order));
	g->tensor = calloc(g->n_tensors + 1, sizeof(*g->tensor));
	g->tensor_order = calloc(g->n_tensors + 1, sizeof(*g->tensor_order));
	if (!g->kv || !g->kv_order || !g->tensor || !g->tensor_order)
		return gguf_bad(in, ENOMEM,
			"no memory for %zu keys and %zu tensors", g->n_kv,
			g->n_tensors);
	return 0;
}

/* Read all keys, sort their indices by name, and read the alignment if one of
 * the keys gives it. */
static int read_keys(struct gguf *g, struct gguf_in *in)
{
	struct named keys = { g->kv, sizeof(*g->kv) };
	const struct gguf_kv *kv;
	uint32_t a = ALIGN_DEFAULT;
	int ret;

	for (size_t i = 0; i < g->n_kv; i++) {
		snprintf(in->where, sizeof(in->where), "key %zu", i);
		if ((ret = gguf_in_kv(in, &g->kv[i])))
			return ret;
	}
	sort(g->kv_order, g->n_kv, by_name, &keys);
	for (size_t i = 1; i < g->n_kv; i++) {
		kv = &g->kv[g->kv_order[i]];
		if (str_cmp(g->kv[g->kv_order[i - 1]].key, kv->key))
			continue;
		gguf_in_where(in, "key", kv->key);
		return gguf_bad(in, EINVAL, "duplicate key");
	}
	kv = gguf_find(g, "general.alignment");
	snprintf(in->where, sizeof(in->where), "key 'general.alignment'");
	if (kv && kv->type != GGUF_U32)
		return gguf_bad(in, EINVAL, "type is %s, not u32",
			gguf_type_name(kv->type));
	if (kv)
		memcpy(&a, kv->value, sizeof(a));
	if (!is_pow2(a) || a < 8 || a > ALIGN_MAX)
		return gguf_bad(in, EINVAL,
			"alignment %u is not a power of two from 8 to %u", a,
			ALIGN_MAX);
	g->alignment = a;
	return 0;
}

static int read_tensors(struct gguf *g, struct gguf_in *in)
{
	struct named tensors = { g->tensor, sizeof(*g->tensor) };
	const struct gguf_tensor *a, *b;
	uint32_t *order = g->tensor_order;
	char shown[96];
	uint64_t start;
	int ret;

	for (size_t i = 0; i < g->n_tensors; i++) {
		snprintf(in->where, sizeof(in->where), "tensor %zu", i);
		if ((ret = gguf_in_tensor(in, &g->tensor[i])))
			return ret;
	}
	g->header_size = in->at;
	start = align_up(in->at, g->alignment);
	/* Turn the tensors' offsets in the data section, which begins at
	 * `start`, into offsets in the file. */
	for (size_t i = 0; i < g->n_tensors; i++) {
		struct gguf_tensor *t = &g->tensor[i];

		gguf_in_where(in, "tensor", t->name);
		if (t->offset % g->alignment)
			return gguf_bad(in, EINVAL,
				"offset %llu is not a multiple of the "
				"alignment %llu",
				(unsigned long long)t->offset,
				(unsigned long long)g->alignment);
		if (start > g->size ||
			!range_within(t->offset, t->bytes, g->size - start))
			return gguf_bad(in, EINVAL,
				"data (%zu bytes at %llu in the data section, "
				"which starts at %llu) lies outside the file "
				"of %zu bytes: is it truncated?",
				t->bytes, (unsigned long long)t->offset,
				(unsigned long long)start, g->size);
		t->offset += start;
		t->data = g->header_only ? NULL : g->data + t->offset;
	}
	/* Refuse tensors whose data overlap, then tensors with the same name.
	 */
	sort(order, g->n_tensors, by_offset, g->tensor);
	for (size_t i = 1; i < g->n_tensors; i++) {
		a = &g->tensor[order[i - 1]], b = &g->tensor[order[i]];
		if (b->offset - a->offset >= a->bytes)
			continue;
		gguf_in_where(in, "tensor", b->name);
		return gguf_bad(in, EINVAL,
			"its data overlaps the data of "
			"tensor '%s'",
			gguf_show(a->name, shown, sizeof(shown)));
	}
	sort(order, g->n_tensors, by_name, &tensors);
	for (size_t i = 1; i < g->n_tensors; i++) {
		a = &g->tensor[order[i - 1]], b = &g->tensor[order[i]];
		if (str_cmp(a->name, b->name))
			continue;
		gguf_in_where(in, "tensor", b->name);
		return gguf_bad(in, EINVAL, "duplicate tensor name");
	}
	return 0;
}

static int parse(struct gguf **out, struct gguf_in in, size_t file_size,
	bool header_only)
{
	struct gguf *g = calloc(1, sizeof(*g));
	int ret;

	if (!g)
		return err_sys(in.e, ENOMEM, "cannot read a GGUF file");
	g->fd = -1;
	g->data = in.data;
	g->size = file_size;
	g->header_only = header_only;
	snprintf(in.where, sizeof(in.where), "header");
	if ((ret = read_header(g, &in)) || (ret = read_keys(g, &in)) ||
		(ret = read_tensors(g, &in)))
		gguf_close(g);
	else
		*out = g;
	return ret;
}

int gguf_parse(struct gguf **out, const void *data, size_t size, struct err *e)
{
	return parse(out, (struct gguf_in){ data, size, .e = e }, size, false);
}

int gguf_parse_header(struct gguf **out, const void *data, size_t size,
	size_t file_size, struct err *e)
{
	return parse(
		out, (struct gguf_in){ data, size, .e = e }, file_size, true);
}

int gguf_open(struct gguf **out, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;
	void *map = MAP_FAILED;
	size_t size = 0;
	struct stat st;

	if (fd < 0)
		return err_sys(e, errno, "cannot open '%s'", path);
	if (fstat(fd, &st)) {
		ret = err_sys(e, errno, "cannot stat '%s'", path);
	} else if (!S_ISREG(st.st_mode)) {
		ret = err_set(e, EINVAL, "'%s' is not a regular file", path);
	} else if (st.st_size <= 0) { /* mmap refuses a length of 0 */
		ret = err_set(e, EINVAL, "'%s' is empty", path);
	} else {
		size = (size_t)st.st_size;
		map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
		ret = map == MAP_FAILED
			? err_sys(e, errno, "cannot map '%s'", path)
			: 0;
	}
	if (!ret) {
		ret = gguf_parse(out, map, size, e);
		if (ret) {
			munmap(map, size);
			err_in(e, "'%s'", path);
		}
	}
	if (ret) {
		fd_close(&fd);
		return ret;
	}
	(*out)->fd = fd;
	return 0;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	if (g->fd >= 0)
		munmap((void *)(uintptr_t)g->data, g->size);
	fd_close(&g->fd);
	free(g->kv);
	free(g->kv_order);
	free(g->tensor);
	free(g->tensor_order);
	free(g);
}

const void *gguf_read(
	const struct gguf *g, const void *at, size_t bytes, void *room)
{
	const uintptr_t from = (uintptr_t)at - (uintptr_t)g->data;

	return g->fd >= 0 && from < g->size && bytes <= g->size - from &&
			!fd_read_exact(g->fd, room, bytes, (int64_t)from)
		? room
		: at;
}

/* ---- accessors ---- */

uint32_t gguf_version(const struct gguf *g)
{
	return g->version;
}

size_t gguf_file_bytes(const struct gguf *g)
{
	return g->size;
}

const void *gguf_header(const struct gguf *g, size_t *size)
{
	*size = g->header_size;
	return g->data;
}

void gguf_set_data(struct gguf *g, size_t i, const void *data)
{
	assert(g->header_only && i < g->n_tensors);
	g->tensor[i].data = data;
}

size_t gguf_n_kv(const struct gguf *g)
{
	return g->n_kv;
}

const struct gguf_kv *gguf_kv_at(const struct gguf *g, size_t i)
{
	return i < g->n_kv ? &g->kv[i] : NULL;
}

size_t gguf_n_tensors(const struct gguf *g)
{
	return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
	return i < g->n_tensors ? &g->tensor[i] : NULL;
}

static const void *find(const struct named *v, const uint32_t *order, size_t n,
	const char *name)
{
	const struct gguf_str want = { name, strlen(name) };
	size_t low = 0, high = n;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;
		const int c = str_cmp(want, name_at(v, order[mid]));

		if (!c)
			return (const char *)v->first + order[mid] * v->size;
		if (c < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

const struct gguf_kv *gguf_find(const struct gguf *g, const char *key)
{
	const struct named keys = { g->kv, sizeof(*g->kv) };

	return find(&keys, g->kv_order, g->n_kv, key);
}

const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name)
{
	const struct named tensors = { g->tensor, sizeof(*g->tensor) };

	return find(&tensors, g->tensor_order, g->n_tensors, name);
}
