#include "flash/stream_check.h"

#include <errno.h>
#include <stdio.h>
#include <zstd.h>

int check_init(struct check *c)
{
	c->sum = image_sum_open();
	c->unpack = ZSTD_createDCtx();
	if (c->sum && c->unpack)
		return 0;
	check_release(c);
	return -ENOMEM;
}

void check_release(struct check *c)
{
	image_sum_close(c->sum);
	ZSTD_freeDCtx(c->unpack);
	c->sum = NULL;
	c->unpack = NULL;
}

void check_start(struct check *c, const struct image_extent *x, uint8_t *dst)
{
	image_sum_begin(c->sum, x->sum);
	ZSTD_DCtx_reset(c->unpack, ZSTD_reset_session_only);
	c->x = *x;
	c->dst = dst;
	c->fed = 0;
	c->out = 0;
	c->frame_ended = false;
	c->bad = NULL;
}

/* A step that neither takes nor gives has no more place to give to. */
static void unpack(struct check *c, const uint8_t *stored, size_t n)
{
	ZSTD_outBuffer out = { c->dst, c->x.bytes, c->out };
	ZSTD_inBuffer in = { stored, n, 0 };

	while (in.pos < in.size && !c->bad) {
		size_t taken = in.pos, given = out.pos, ret;

		if (c->frame_ended) {
			c->bad = "bytes follow its end";
			break;
		}
		ret = ZSTD_decompressStream(c->unpack, &out, &in);
		if (ZSTD_isError(ret))
			c->bad = ZSTD_getErrorName(ret);
		else if (!ret)
			c->frame_ended = true;
		else if (in.pos == taken && out.pos == given)
			c->bad = "it holds more than the extent";
	}
	c->out = out.pos;
}

void check_feed(struct check *c, const uint8_t *stored, size_t n)
{
	image_sum_add(c->sum, stored, n);
	if (c->x.codec == IMAGE_ZSTD && !c->bad)
		unpack(c, stored, n);
	c->fed += n;
}

int check_verdict(struct check *c, bool *differs, char *text, size_t size)
{
	uint64_t sum = image_sum_so_far(c->sum);

	*differs = sum != c->x.checksum;
	if (*differs) {
		snprintf(text, size, "checksum %016llx, not %016llx",
			(unsigned long long)sum,
			(unsigned long long)c->x.checksum);
		return -EBADMSG;
	}
	if (c->x.codec == IMAGE_RAW)
		return 0;
	if (!c->bad && (!c->frame_ended || c->out != c->x.bytes))
		c->bad = "it ends early";
	if (c->bad)
		snprintf(text, size, "the zstd frame: %s", c->bad);
	return c->bad ? -EBADMSG : 0;
}
