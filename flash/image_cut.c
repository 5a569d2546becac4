#include "flash/image_cut.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "flash/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define STEP ((size_t)1 << 20)

struct cutter {
	const struct image *image;
	const struct image_extent *x;
	int fd;
	uint8_t *step; /* [STEP] the bytes of one read */
	/* whole: checksum of the old extent; own: checksum of the new extent
	 * that is being computed */
	struct image_sum *whole, *own;
	uint64_t summed; /* number of bytes added to the checksum `whole` */
};

static int cannot(const struct cutter *c, int code, struct err *e)
{
	char name[32];

	return err_sys(e, code, "cannot read %s of '%s'",
		image_extent_name(c->x->kind, c->x->index, name, sizeof(name)),
		image_path(c->image));
}

/* Read the bytes [from, to) of the old extent, and add them to the checksum
 * `own` and, if they were not added before, to `whole`. `from` is a multiple of
 * IMAGE_PAGE. */
static int sum_up(struct cutter *c, uint64_t from, uint64_t to, struct err *e)
{
	while (from < to) {
		size_t n = to - from < STEP ? (size_t)(to - from) : STEP;
		size_t again = c->summed > from ? c->summed - from : 0;
		int ret = fd_read_exact(c->fd, c->step, align_up(n, IMAGE_PAGE),
			c->x->offset + from);

		if (ret)
			return cannot(c, -ret, e);
		image_sum_add(c->own, c->step, n);
		image_sum_add(c->whole, c->step + again, n - again);
		from += n;
		c->summed = from;
	}
	return 0;
}

/* Compute the new extents. At the end, compare the checksum of the whole extent
 * with the checksum stored in the image. */
static int cut_at(struct cutter *c, const uint64_t *end, unsigned n,
	struct image_extent *out, struct err *e)
{
	char name[32];
	uint64_t sum;

	image_sum_begin(c->whole, c->x->sum);
	for (unsigned i = 0; i < n; i++) {
		uint64_t from =
			i ? end[i - 1] & ~(uint64_t)(IMAGE_PAGE - 1) : 0;
		int ret;

		image_sum_begin(c->own, IMAGE_XXH3);
		ret = sum_up(c, from, end[i], e);
		if (ret)
			return ret;
		out[i] = *c->x;
		out[i].offset += from;
		out[i].stored = out[i].bytes = end[i] - from;
		out[i].checksum = image_sum_so_far(c->own);
		out[i].sum = IMAGE_XXH3;
	}
	sum = image_sum_so_far(c->whole);
	if (sum == c->x->checksum)
		return 0;
	return err_set(e, EBADMSG,
		"'%s': %s is damaged: checksum %016llx, expected %016llx; try "
		"'tandem verify', or convert it again",
		image_path(c->image),
		image_extent_name(c->x->kind, c->x->index, name, sizeof(name)),
		(unsigned long long)sum, (unsigned long long)c->x->checksum);
}

int image_cut(const struct image *im, const struct image_extent *x,
	const uint64_t *end, unsigned n, struct image_extent *out,
	struct err *e)
{
	struct cutter c = { .image = im, .x = x, .fd = -1 };
	char why[STREAM_WHY];
	bool direct;
	int ret;

	assert(x->codec == IMAGE_RAW && end[n - 1] == x->stored);
	c.step = aligned_alloc(IMAGE_PAGE, STEP);
	c.whole = image_sum_open();
	c.own = image_sum_open();
	ret = c.step && c.whole && c.own ? 0 : cannot(&c, ENOMEM, e);
	if (!ret)
		ret = stream_file(im, false, &c.fd, &direct, why, e);
	if (!ret)
		ret = cut_at(&c, end, n, out, e);
	fd_close(&c.fd);
	image_sum_close(c.whole);
	image_sum_close(c.own);
	free(c.step);
	return ret;
}
