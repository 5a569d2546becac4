/*
 * Shared buffers: named memfds ("tandem:kv" in /proc and strace), sealed
 * against shrinking and growing, at most 1 GiB each. The host creates and
 * fills them; the device gets the descriptor over the socket and maps it
 * into its own window, so this file's mapping is the CPU's view only.
 *
 * CPU access is bracketed by begin and end. As with DMA_BUF_IOCTL_SYNC a
 * bracket orders nothing and copies nothing: it states what the CPU does.
 * What was written is noted, range by range, until the next request has
 * told the device to invalidate it (buffer_written, buffer_written_clear).
 * A buffer that the device reads by DMA only (BUFFER_DMA) notes nothing,
 * because DMA sees memory as it is. A bracket also knows the function that
 * opened or closed it, which reports name.
 *
 * One thread at a time per buffer.
 */
#ifndef SHM_BUFFER_H
#define SHM_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct buffer;
struct err;
struct workers;

#define BUFFER_MAX      ((size_t)1 << 30)
#define BUFFER_NAME_MAX 32 /* with the NUL */
#define BUFFER_RANGES   192

enum buffer_flags {
	BUFFER_DMA = 1 << 0, /* the device never caches it */
	/* Huge pages if the system has them and it fills at least one. */
	BUFFER_HUGE = 1 << 1,
};

enum buffer_access { BUFFER_READ = 1, BUFFER_WRITE = 2 };

/* A range the CPU wrote; `seq` counts the writing brackets of the buffer. */
struct buffer_range {
	size_t off, len;
	uint32_t seq;
	const char *by; /* the function that ended the last of them */
};

/* A bracket, to whoever watches; its end may be shorter than its begin. */
struct buffer_bracket {
	uint32_t generation; /* of the buffer */
	enum buffer_access access;
	size_t off, len;
	uint32_t seq; /* of a writing one */
	const char *by;
};
struct buffer_watch {
	void (*begun)(void *arg, const struct buffer_bracket *);
	void (*ended)(void *arg, const struct buffer_bracket *);
	void *arg;
};

/* `name` without the "tandem:" prefix; bytes are rounded up to pages. */
int buffer_create(struct buffer **out, const char *name, size_t bytes,
	unsigned flags, struct err *);
void buffer_close(struct buffer *);

/* Take all of its memory now rather than as it is first written, on the
 * workers' threads or, with NULL, on this one: for what will be filled. */
void buffer_take_memory(struct buffer *, struct workers *);

int buffer_fd(const struct buffer *);
size_t buffer_bytes(const struct buffer *);
const char *buffer_name(const struct buffer *); /* "tandem:kv" */
uint32_t buffer_generation(const struct buffer *);
unsigned buffer_flags(const struct buffer *); /* BUFFER_HUGE: was got, once its
					       * memory was taken */

/* The CPU's pointer to byte `off`; the range must lie in the buffer. */
#define buffer_begin(b, off, len, access) \
	buffer_begin_by(b, off, len, access, __func__)
#define buffer_end(b, off, len, access) \
	buffer_end_by(b, off, len, access, __func__)
/* `by` lives as long as the program. */
void *buffer_begin_by(struct buffer *, size_t off, size_t len,
	enum buffer_access, const char *by);
void buffer_end_by(struct buffer *, size_t off, size_t len, enum buffer_access,
	const char *by);

/* From now on `watch` is told of every bracket, by the thread that has it. */
void buffer_set_watch(struct buffer *, const struct buffer_watch *);

/* What the CPU wrote since the last clear, merged; at most BUFFER_RANGES. */
unsigned buffer_written(
	const struct buffer *, const struct buffer_range **ranges);
void buffer_written_clear(struct buffer *);

/*
 * A descriptor that came from a peer: 0 if it is a memfd of at least `bytes`
 * (1 to BUFFER_MAX) that is sealed against shrinking, else -errno and *e.
 */
int buffer_check_fd(int fd, uint64_t bytes, struct err *e);

#endif
