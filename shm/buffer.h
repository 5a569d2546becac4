/*
 * Shared buffers: named memfds ("tandem:kv" in /proc and strace), sealed
 * against shrinking and growing, at most 1 GiB each. The host creates and fills
 * them; the device receives the descriptor over the socket and maps it into its
 * own window, so the mapping in this file is the CPU's only.
 *
 * CPU access is enclosed in a bracket, begin and end. As with
 * DMA_BUF_IOCTL_SYNC a bracket orders nothing and copies nothing: it declares
 * an access of the CPU. Written ranges are recorded until the next request
 * makes the device invalidate them (buffer_written, buffer_written_clear). A
 * buffer that the device reads only by DMA (BUFFER_DMA) records none, because
 * DMA bypasses the device's cache. A bracket also has the name of the function
 * that opened or closed it, for reports.
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
	/* Huge pages, if available and the buffer fills at least one. */
	BUFFER_HUGE = 1 << 1,
};

enum buffer_access { BUFFER_READ = 1, BUFFER_WRITE = 2 };

/* A range that the CPU wrote; `seq` counts the buffer's writing brackets. */
struct buffer_range {
	size_t off, len;
	uint32_t seq;
	const char *by; /* the function that ended the last of them */
};

/* A bracket, as passed to a watcher; the end may have a shorter range. */
struct buffer_bracket {
	uint32_t generation; /* of the buffer */
	enum buffer_access access;
	size_t off, len;
	uint32_t seq; /* of a writing bracket */
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

/* Allocate all of the buffer's memory now rather than on first write, for a
 * buffer that will be filled; on the workers' threads or, with NULL, this one.
 */
void buffer_take_memory(struct buffer *, struct workers *);

int buffer_fd(const struct buffer *);
size_t buffer_bytes(const struct buffer *);
const char *buffer_name(const struct buffer *); /* "tandem:kv" */
uint32_t buffer_generation(const struct buffer *);
/* BUFFER_HUGE is set if huge pages are used, known after buffer_take_memory. */
unsigned buffer_flags(const struct buffer *);

/* The CPU's pointer to byte `off`; the range must lie in the buffer. */
#define buffer_begin(b, off, len, access) \
	buffer_begin_by(b, off, len, access, __func__)
#define buffer_end(b, off, len, access) \
	buffer_end_by(b, off, len, access, __func__)
/* `by` is a string literal. */
void *buffer_begin_by(struct buffer *, size_t off, size_t len,
	enum buffer_access, const char *by);
void buffer_end_by(struct buffer *, size_t off, size_t len, enum buffer_access,
	const char *by);

/* Call `watch` for every bracket from now on, on the bracket's thread. */
void buffer_set_watch(struct buffer *, const struct buffer_watch *);

/* Ranges that the CPU wrote since the last clear, merged to BUFFER_RANGES. */
unsigned buffer_written(
	const struct buffer *, const struct buffer_range **ranges);
void buffer_written_clear(struct buffer *);

/*
 * Check a peer's descriptor: 0 if it is a memfd of at least `bytes` (1 to
 * BUFFER_MAX) that is sealed against shrinking, else -errno and *e.
 */
int buffer_check_fd(int fd, uint64_t bytes, struct err *e);

#endif
