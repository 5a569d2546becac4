/*
 * What is done with an extent's stored bytes as they come, in order and while
 * they are hot: the checksum, and unpacking where they are a zstd frame.
 */
#ifndef FLASH_STREAM_CHECK_H
#define FLASH_STREAM_CHECK_H

#include "flash/image.h"

#include <stddef.h>
#include <stdint.h>

struct check {
	struct image_sum *sum;
	void *unpack; /* ZSTD_DCtx */
	struct image_extent x;
	uint8_t *dst;
	uint64_t fed;     /* stored bytes so far */
	size_t out;       /* bytes unpacked */
	bool frame_ended; /* zstd's */
	const char *bad;  /* what is wrong with the frame; NULL: nothing yet */
};

/* 0 or -ENOMEM. A zeroed struct may be released. */
int check_init(struct check *);
void check_release(struct check *);

/* dst [x->bytes] takes what is unpacked; of a raw extent nothing is moved. */
void check_start(struct check *, const struct image_extent *, uint8_t *dst);
void check_feed(struct check *, const uint8_t *stored, size_t n);

/*
 * All is fed: 0, or -EBADMSG with the reason in text [size]. *differs: the
 * bytes are not those that were written, and another read may give others.
 */
int check_verdict(struct check *, bool *differs, char *text, size_t size);

#endif
