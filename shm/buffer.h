/*
 * Shared buffers: named memfds ("tandem:kv" in /proc and strace), sealed
 * against shrinking and growing, at most 1 GiB each. The host creates and fills
 * the buffers. The device receives each descriptor over a socket and maps the
 * memory into its address window (the memory that the device can address,
 * device/window.h), so buffer.c maps a buffer only for the host's CPU.
 *
 * The host encloses each access of the CPU in a bracket: a call of buffer_begin
 * and a call of buffer_end. Like DMA_BUF_IOCTL_SYNC, a bracket declares the
 * access; a bracket does not order or copy anything. The written ranges are
 * recorded (buffer_written) until the next request asks the device to
 * invalidate them (buffer_written_clear). For a buffer that the device reads
 * only by DMA (BUFFER_DMA) no ranges are recorded, because DMA bypasses the
 * device's cache. A bracket also records, for reports, the name of the function
 * that opened or closed it.
 *
 * Only one thread at a time may use a buffer.
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
	/* the device reads the buffer only by DMA, never through its cache */
	BUFFER_DMA = 1 << 0,
	/* Use huge pages if they are available and the buffer is at least one
	 * huge page long. */
	BUFFER_HUGE = 1 << 1,
};

enum buffer_access { BUFFER_READ = 1, BUFFER_WRITE = 2 };

/* A range that the CPU wrote. `seq` is the number of the last bracket
 * (buffer_begin to buffer_end) that wrote bytes of the range. */
struct buffer_range {
	size_t off, len;
	uint32_t seq;
	const char *by; /* name of the function that ended bracket `seq` */
};

/* A bracket (a call of buffer_begin and a call of buffer_end, which enclose an
 * access of the CPU), as passed to a watch function. The range at buffer_end
 * may be shorter than the range at buffer_begin. */
struct buffer_bracket {
	/* number of the buffer, different for each buffer that this process
	 * creates */
	uint32_t generation;
	enum buffer_access access;
	size_t off, len;
	/* number of the bracket, counted over the writing brackets of the
	 * buffer; valid only for a writing bracket */
	uint32_t seq;
	const char *by;
};
struct buffer_watch {
	void (*begun)(void *arg, const struct buffer_bracket *);
	void (*ended)(void *arg, const struct buffer_bracket *);
	void *arg;
};

/* Create a buffer. `name` does not include the prefix "tandem:"; `bytes` is
 * rounded up to whole pages. Returns 0 or a negative errno. */
int buffer_create(struct buffer **out, const char *name, size_t bytes,
	unsigned flags, struct err *);
void buffer_close(struct buffer *);

/* Allocate all memory of the buffer now, instead of page by page at the first
 * write. Useful for a buffer of which most will be filled. The threads of the
 * pool allocate the memory; if the pool is NULL, the calling thread allocates
 * it. */
void buffer_take_memory(struct buffer *, struct workers *);

int buffer_fd(const struct buffer *);
size_t buffer_bytes(const struct buffer *);
const char *buffer_name(const struct buffer *); /* "tandem:kv" */
uint32_t buffer_generation(const struct buffer *);
/* The flags of buffer_create, except that BUFFER_HUGE is set only if the buffer
 * really has huge pages. BUFFER_HUGE is valid only after buffer_take_memory. */
unsigned buffer_flags(const struct buffer *);

/* buffer_begin begins a bracket around an access of the CPU to the range [off,
 * off + len), and buffer_end ends the bracket. buffer_begin returns the CPU's
 * pointer to byte `off`. The range must lie in the buffer. */
#define buffer_begin(b, off, len, access) \
	buffer_begin_by(b, off, len, access, __func__)
#define buffer_end(b, off, len, access) \
	buffer_end_by(b, off, len, access, __func__)
/* Like buffer_begin and buffer_end; `by`, a string literal, is the name of the
 * accessing function. */
void *buffer_begin_by(struct buffer *, size_t off, size_t len,
	enum buffer_access, const char *by);
void buffer_end_by(struct buffer *, size_t off, size_t len, enum buffer_access,
	const char *by);

/* From now on, call watch->begun at the beginning and watch->ended at the end
 * of every bracket (buffer_begin to buffer_end), on the thread that uses the
 * buffer. */
void buffer_set_watch(struct buffer *, const struct buffer_watch *);

/* Get the ranges that the CPU wrote since the last call of
 * buffer_written_clear. If there are more than BUFFER_RANGES ranges, the
 * nearest ranges are merged. Returns the number of ranges. */
unsigned buffer_written(
	const struct buffer *, const struct buffer_range **ranges);
void buffer_written_clear(struct buffer *);

/*
 * Check a descriptor that a peer sent. Returns 0 if the descriptor is a memfd
 * of at least `bytes` bytes (1 to BUFFER_MAX) that is sealed against shrinking,
 * else a negative errno with a message in *e.
 */
int buffer_check_fd(int fd, uint64_t bytes, struct err *e);

#endif
