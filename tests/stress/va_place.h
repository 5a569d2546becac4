/*
 * A device process with its address window and its extended region (memory that
 * only DMA can read), and the model of both (tests/stress/first_fit.h). The
 * functions are the steps of `tandem-stress va`; each compares the device with
 * the model.
 *
 * The functions return 0, STRESS_BROKEN if device and model differ, or a
 * negative errno for a failure of the machine. The caller of va_open owns the
 * struct. Only one thread may use the struct.
 */
#ifndef TESTS_STRESS_VA_PLACE_H
#define TESTS_STRESS_VA_PLACE_H

#include "tests/stress/first_fit.h"
#include "tests/stress/stress.h"

#define VA_BUFFERS 160u
#define VA_PAGE    4096ull
#define VA_PREFIX  "stress" /* prefix of the names of buffers */

enum va_tally {
	VA_MAPS,
	VA_UNMAPS,
	VA_REFUSED,
	VA_LATE, /* refused while unmaps were deferred */
	VA_PLACED,
	VA_FREED,
	VA_TOUCHES,
	VA_OUTSIDE,
	VA_TEXTS,
	VA_TEXTS_REFUSED,
};

struct npu;
struct buffer;

struct va_buffer {
	struct buffer *buffer;
	uint32_t id;
	uint64_t pages;
	/* mapped in the window; placed in the extended region */
	bool mapped, placed;
};

struct va_place {
	struct stress_run *run;
	struct npu *npu; /* NULL if not open */
	struct first_fit window, region;
	struct va_buffer buffer[VA_BUFFERS];
	unsigned n_buffers;
	/* number of descriptors of the device before any buffer is shared */
	unsigned fds;
	/* true: a request was refused, as expected, and the host sends no
	 * further request */
	bool over;
	/* true: a buffer was removed from the extended region, which a real
	 * host never does. The host's count of the region's free bytes is then
	 * wrong and is not checked. */
	bool freed;
};

struct va_size {
	uint32_t pages, slots, coherence, defer, region_pages;
};

/* Start a device. Before the call, all members except `run` are zero. */
int va_open(struct va_place *, const struct va_size *);
void va_close(struct va_place *);

/* Map a new buffer, or the nth of the buffers that are not mapped. */
int va_map_new(struct va_place *, uint64_t pages);
int va_map_again(struct va_place *, unsigned nth);
/* Like va_map_again, but send a single request, even if it is refused. */
int va_ask_once(struct va_place *, unsigned nth);
int va_unmap(struct va_place *, unsigned nth);

/* Place a buffer in the extended region: a new one, or the nth of the buffers
 * that are not in the region (mapped in the window or not). va_free removes the
 * nth buffer from the region. */
int va_place_new(struct va_place *, uint64_t pages);
int va_place_again(struct va_place *, unsigned nth);
int va_free(struct va_place *, unsigned nth);

/*
 * Send a request that refers to bytes of the nth piece (a buffer's pages in the
 * window or in the extended region, struct first_fit_piece) or of the two pages
 * after this piece. If there is no piece, the request refers to bytes at the
 * start of the window or region. va_touch refers to the window; va_reach can
 * also refer to the extended region.
 */
enum va_end { VA_END_FREE, VA_END_AT, VA_END_PAST };

struct va_range {
	uint32_t nth, page, from, bytes;
	/* AT: the range ends at the end of its piece; PAST: one byte after the
	 * end of its piece; FREE: anywhere */
	enum va_end end;
};
int va_touch(struct va_place *, const struct va_range *);
int va_reach(struct va_place *, const struct va_range *, bool weights,
	bool invalidated);

/* Compare the model with the host's records, the device's window view, and the
 * kernel's lists of the device's mappings and descriptors. */
int va_look(struct va_place *);

#endif
