#include "flash/stream_impl.h"

#include "base/checked.h"
#include "base/fd.h"
#include "base/hugemem.h"
#include "flash/image.h"
#include "shm/buffer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

/* ---- the file ---- */

/* Open the file again through its descriptor, not by name: the name may now
 * refer to another file. */
static int reopen(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC | flags);
}

int stream_file(const struct image *im, bool buffered, int *fd, bool *direct,
	char *why, struct err *e)
{
	int error = 0;
	void *page;

	*why = 0;
	*direct = false;
	if (!buffered) {
		*fd = reopen(image_fd(im), O_DIRECT);
		/* Some file systems accept the O_DIRECT flag but refuse the
		 * reads. */
		page = aligned_alloc(IMAGE_PAGE, IMAGE_PAGE);
		if (*fd < 0)
			error = errno;
		else if (!page)
			error = ENOMEM;
		else if (pread(*fd, page, IMAGE_PAGE, 0) < 0 && errno == EINVAL)
			error = EINVAL;
		free(page);
		*direct = !error;
		if (*direct)
			return 0;
		fd_close(fd);
		snprintf(why, STREAM_WHY, "%s", strerror(error));
	}
	*fd = reopen(image_fd(im), 0);
	if (*fd < 0) /* duplicate the descriptor if /proc is not mounted */
		*fd = fcntl(image_fd(im), F_DUPFD_CLOEXEC, 0);
	return *fd >= 0
		? 0
		: err_sys(e, errno, "cannot stream '%s'", image_path(im));
}

/* ---- opening ---- */

static bool any_zstd(const struct image *im)
{
	for (size_t i = 0; i < image_n_extents(im); i++)
		if (image_extent_at(im, i)->codec == IMAGE_ZSTD)
			return true;
	return false;
}

static void note_refusal(struct stream *s, const char *what, const char *why)
{
	size_t n = strlen(s->refused);

	snprintf(s->refused + n, sizeof(s->refused) - n, "; %s: %s", what, why);
}

int stream_open(struct stream **out, const struct image *im,
	const struct stream_opts *o, struct err *e)
{
	char why[STREAM_WHY];
	struct stream *s;
	int ret;

	if (o->block % IMAGE_PAGE || o->block > STREAM_BLOCK_MAX)
		return err_set(e, EINVAL,
			"reads of %zu bytes are not possible: the size must "
			"be a multiple of %d, at most %zu bytes",
			o->block, IMAGE_PAGE, STREAM_BLOCK_MAX);
	if (o->depth > STREAM_DEPTH_MAX)
		return err_set(e, EINVAL,
			"%u reads in flight at a time are too many: at most "
			"%d are possible",
			o->depth, STREAM_DEPTH_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_sys(e, ENOMEM, "cannot stream '%s'", image_path(im));
	s->image = im;
	s->opts = *o;
	s->fd = -1;
	s->stall_ns = o->stall_ms * (uint64_t)1000000;
	s->fault.plan = o->fault;
	s->fault.end = UINT64_MAX;
	ret = stream_file(im, o->buffered, &s->fd, &s->direct, why, e);
	if (ret)
		goto fail;
	if (*why)
		note_refusal(s, "no O_DIRECT", why);

	/* Set the defaults. The measured block size applies only to O_DIRECT
	 * with io_uring. If the measurement fails, the block size stays the
	 * default, and the later reads report the error. */
	s->block = o->block ? o->block : STREAM_BLOCK_DEFAULT;
	if (!o->block && s->direct && !o->threaded)
		stream_tune(im, &s->block, NULL);
	s->whole = !o->depth && (s->direct || o->threaded) && !any_zstd(im);
	s->depth = o->depth ? o->depth
		: s->whole  ? STREAM_DEPTH_MAX
			    : STREAM_DEPTH_DEFAULT;

	if (!o->threaded) {
		s->uring = !reader_open_uring(
			&s->reader, s->fd, s->depth, !s->direct, why);
		if (!s->uring)
			note_refusal(s, "no io_uring", why);
	}
	if (!s->uring && (ret = reader_open_thread(&s->reader, s->fd))) {
		ret = err_sys(e, -ret,
			"cannot start a thread to read '%s' (no memory, or "
			"the limit of ulimit -u is reached)",
			image_path(im));
		goto fail;
	}
	stream_say_how(s);
	*out = s;
	return 0;
fail:
	stream_close(s);
	return ret;
}

bool stream_close(struct stream *s)
{
	bool abandon;

	if (!s)
		return true;
	abandon = s->reader && !stream_take_back(s);
	if (s->reader)
		s->reader->ops->close(s->reader, abandon);
	for (unsigned i = 0; i < s->n_slots; i++) {
		struct slot *slot = &s->slot[i];

		if (slot->state == SLOT_READING)
			buffer_end(slot->buffer, slot->off, slot->written,
				BUFFER_WRITE);
		image_sum_close(slot->check.sum);
		ZSTD_freeDCtx(slot->check.unpack);
	}
	if (abandon)
		/* do not free the memory below: a read may still write to it */
		return false;
	fd_close(&s->fd);
	free(s->bounce);
	free(s->piece);
	free(s->slot);
	free(s);
	return true;
}

int stream_add_slot(struct stream *s, struct buffer *b, size_t off,
	size_t bytes, struct err *e)
{
	struct slot *slot;

	assert(!s->started);
	if (!bytes || off % IMAGE_PAGE || bytes % IMAGE_PAGE ||
		!range_within(off, bytes, buffer_bytes(b)))
		return err_set(e, EINVAL,
			"%zu bytes at offset %zu of buffer '%s' (%zu bytes) "
			"cannot be a staging slot, which must consist of whole "
			"pages",
			bytes, off, buffer_name(b), buffer_bytes(b));
	slot = reallocarray(s->slot, s->n_slots + 1, sizeof(*slot));
	if (!slot)
		return err_sys(e, ENOMEM, "cannot add a staging slot");
	s->slot = slot;
	slot += s->n_slots;
	*slot = (struct slot){ .buffer = b, .off = off, .bytes = bytes };
	slot->check.sum = image_sum_open();
	if (!slot->check.sum)
		return err_sys(e, ENOMEM, "cannot check extents");
	slot->base = buffer_begin(b, off, bytes, BUFFER_READ);
	buffer_end(b, off, bytes, BUFFER_READ);
	if (!s->n_slots || slot[-1].buffer != b || slot[-1].off > off)
		s->areas++;
	slot->area = s->areas - 1;
	s->n_slots++;
	return 0;
}

/* ---- starting ---- */

/* The number of blocks that fill all slots together. */
static size_t blocks_of_slots(const struct stream *s)
{
	size_t n = 0;

	for (unsigned i = 0; i < s->n_slots; i++)
		n += (s->slot[i].bytes + s->block - 1) / s->block;
	return n;
}

/* Register with the kernel, for reads by io_uring, the memory of the slots and
 * the memory for the compressed bytes of zstd extents. */
static void register_areas(struct stream *s, size_t bounce)
{
	struct iovec *area = calloc(s->areas + 1, sizeof(*area));
	struct rlimit r = { 0, 0 };
	char why[STREAM_WHY];
	size_t bytes = bounce;
	int ret = -ENOMEM;

	for (unsigned i = 0; i < s->n_slots && area; i++) {
		const struct slot *slot = &s->slot[i];
		struct iovec *of = &area[slot->area];
		uint8_t *end = slot->base + slot->bytes;

		if (!of->iov_base)
			of->iov_base = slot->base;
		of->iov_len = (size_t)(end - (uint8_t *)of->iov_base);
		bytes += slot->bytes;
	}
	if (area) {
		area[s->areas] = (struct iovec){ s->bounce, bounce };
		ret = s->reader->ops->add_areas(
			s->reader, area, s->areas + !!bounce);
	}
	free(area);
	s->registered = !ret;
	if (!ret)
		return;
	getrlimit(RLIMIT_MEMLOCK, &r);
	/* RLIMIT_MEMLOCK limits the memory that all processes of the user
	 * together may lock. */
	if (ret == -ENOMEM && r.rlim_cur != RLIM_INFINITY)
		snprintf(why, sizeof(why),
			"%zu KiB%s are more than RLIMIT_MEMLOCK, %llu KiB, "
			"allows",
			bytes >> 10,
			bytes <= r.rlim_cur
				? " in addition to what this user has "
				  "locked already"
				: "",
			(unsigned long long)r.rlim_cur >> 10);
	else
		snprintf(why, sizeof(why), "%s", strerror(-ret));
	note_refusal(s, "memory not registered", why);
}

int stream_start(struct stream *s, struct err *e)
{
	size_t bounce = 0;

	if (!s->piece) {
		/* If depth and block are computed from the slots' sizes
		 * (`whole`), enlarge the blocks until the reads of all slots
		 * can be in flight at once. */
		while (s->whole && s->n_slots <= STREAM_DEPTH_MAX &&
			blocks_of_slots(s) > STREAM_DEPTH_MAX &&
			s->block <= STREAM_BLOCK_MAX / 2)
			s->block *= 2;
		if (s->whole && blocks_of_slots(s) <= STREAM_DEPTH_MAX)
			s->depth = (unsigned)blocks_of_slots(s);
		s->n_pieces = s->depth + (s->whole ? 0 : STREAM_AHEAD);
		s->piece = calloc(s->n_pieces, sizeof(*s->piece));
	}
	if (!s->piece) {
		s->n_pieces = 0;
		return err_sys(
			e, ENOMEM, "cannot stream '%s'", image_path(s->image));
	}
	if (any_zstd(s->image)) {
		bounce = s->n_pieces * s->block;
		s->bounce = hugemem_alloc(bounce);
		if (!s->bounce)
			return err_sys(e, ENOMEM,
				"cannot allocate %zu MiB to decompress '%s'",
				bounce >> 20, image_path(s->image));
	}
	s->started = true;
	if (s->uring)
		register_areas(s, bounce);
	stream_say_how(s);
	return 0;
}

/* ---- text of stream_how ---- */

static const char *registered(const struct stream *s)
{
	if (!s->uring || (!s->reader->file && !s->registered))
		return "";
	if (!s->registered)
		return ", registered file";
	return s->reader->file ? ", registered file and memory"
			       : ", registered memory";
}

static const char *pages(const struct stream *s)
{
	unsigned huge = 0;

	for (unsigned i = 0; i < s->n_slots; i++)
		huge += !!(buffer_flags(s->slot[i].buffer) & BUFFER_HUGE);
	if (!s->n_slots)
		return "";
	if (huge)
		return huge == s->n_slots ? ", huge pages"
					  : ", huge pages in part";
	return ", small pages";
}

void stream_say_how(struct stream *s)
{
	bool mib = !(s->block % ((size_t)1 << 20));

	snprintf(s->how, sizeof(s->how), "%s, %s%s%s; %zu %s x %u%s",
		s->uring ? "io_uring" : "a thread",
		s->direct ? "O_DIRECT" : "page cache", registered(s), pages(s),
		s->block >> (mib ? 20 : 10), mib ? "MiB" : "KiB", s->depth,
		s->refused);
}

const char *stream_how(const struct stream *s)
{
	return s->how;
}
