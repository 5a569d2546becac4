#include "flash/image_parts.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "flash/image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image_parts {
	const struct image *image;
	struct image_extent x;
	size_t part, n;
	/* [n] checksums of the parts, of kind XXH3, the fastest kind */
	uint64_t sum[];
};

static size_t bytes_of(const struct image_parts *p, size_t i)
{
	uint64_t left = p->x.stored - i * p->part;

	return left < p->part ? (size_t)left : p->part;
}

static int bad(const struct image_parts *p, int code, size_t i,
	const char *what, struct err *e)
{
	char name[32];

	return err_set(e, code, "'%s': %s, at offset %llu: %s",
		image_path(p->image),
		image_extent_name(p->x.kind, p->x.index, name, sizeof(name)),
		(unsigned long long)(p->x.offset + i * p->part), what);
}

static int read_part(
	const struct image_parts *p, size_t i, void *dst, struct err *e)
{
	int ret = fd_read_exact(image_fd(p->image), dst, bytes_of(p, i),
		p->x.offset + i * p->part);

	if (ret == -ENODATA)
		return bad(p, ENODATA, i,
			"the file has become shorter since it was opened", e);
	return ret ? bad(p, -ret, i, strerror(-ret), e) : 0;
}

/* Read all parts once, in order, to check the extent and to compute the
 * checksums of the parts. */
static int sum_parts(struct image_parts *p, void *step, struct image_sum *whole,
	struct err *e)
{
	char name[32];
	uint64_t sum;

	image_sum_begin(whole, p->x.sum);
	for (size_t i = 0; i < p->n; i++) {
		int ret = read_part(p, i, step, e);

		if (ret)
			return ret;
		image_sum_add(whole, step, bytes_of(p, i));
		p->sum[i] = image_sum_of(IMAGE_XXH3, step, bytes_of(p, i));
	}
	sum = image_sum_so_far(whole);
	if (sum == p->x.checksum)
		return 0;
	return err_set(e, EBADMSG,
		"'%s': %s: the checksum is %016llx, expected %016llx: the file "
		"is damaged; convert the model again",
		image_path(p->image),
		image_extent_name(p->x.kind, p->x.index, name, sizeof(name)),
		(unsigned long long)sum, (unsigned long long)p->x.checksum);
}

int image_parts_open(struct image_parts **out, const struct image *im,
	const struct image_extent *x, size_t part, struct err *e)
{
	size_t n = (size_t)((x->stored + part - 1) / part);
	struct image_parts *p = malloc(sizeof(*p) + n * sizeof(p->sum[0]));
	struct image_sum *whole = image_sum_open();
	void *step = malloc(part);
	int ret;

	assert(x->codec == IMAGE_RAW);
	if (p)
		*p = (struct image_parts){ im, *x, part, n };
	ret = p && whole && step
		? sum_parts(p, step, whole, e)
		: err_set(e, ENOMEM, "'%s': no memory to check it in parts",
			  image_path(im));
	image_sum_close(whole);
	free(step);
	if (ret)
		free(p);
	else
		*out = p;
	return ret;
}

void image_parts_close(struct image_parts *p)
{
	free(p);
}

int image_parts_read(
	const struct image_parts *p, size_t i, void *dst, struct err *e)
{
	int ret;

	assert(i < p->n);
	ret = read_part(p, i, dst, e);
	if (ret || image_sum_of(IMAGE_XXH3, dst, bytes_of(p, i)) == p->sum[i])
		return ret;
	return bad(
		p, EBADMSG, i, "the file was changed after it was opened", e);
}

int image_parts_copy(const struct image_parts *p, uint64_t at, size_t len,
	void *dst, void *scratch, struct err *e)
{
	uint8_t *to = dst;

	assert(range_within(at, len, p->x.stored));
	while (len) {
		size_t i = (size_t)(at / p->part), skip = at % p->part;
		size_t some = bytes_of(p, i) - skip;
		int ret = image_parts_read(p, i, scratch, e);

		if (ret)
			return ret;
		some = some < len ? some : len;
		memcpy(to, (uint8_t *)scratch + skip, some);
		to += some;
		at += some;
		len -= some;
	}
	return 0;
}
