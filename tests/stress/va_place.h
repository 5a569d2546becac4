/*
 * A device process with its address window and extended region, and the model
 * of both (tests/stress/first_fit.h): the steps of `tandem-stress va`, each
 * compared with the model.
 *
 * Functions return 0, STRESS_BROKEN if the two differ, or -errno of a failure
 * of the machine. The caller that opens it owns it. One thread.
 */
#ifndef TESTS_STRESS_VA_PLACE_H
#define TESTS_STRESS_VA_PLACE_H

#include "tests/stress/first_fit.h"
#include "tests/stress/stress.h"

#define VA_BUFFERS 160u
#define VA_PAGE    4096ull
#define VA_PREFIX  "stress" /* prefix of the buffers' names */

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
	bool mapped, placed; /* in the window; in the region */
};

struct va_place {
	struct stress_run *run;
	struct npu *npu; /* NULL: not open */
	struct first_fit window, region;
	struct va_buffer buffer[VA_BUFFERS];
	unsigned n_buffers;
	unsigned fds; /* that the device had before any buffer */
	/* A request was refused, as expected: the host sends no more. */
	bool over;
	/* A buffer of the region was unmapped, which hosts never do: from then
	 * on the region is not in the host's account. */
	bool freed;
};

struct va_size {
	uint32_t pages, slots, coherence, defer, region_pages;
};

/* Zeroed but for `run`. */
int va_open(struct va_place *, const struct va_size *);
void va_close(struct va_place *);

/* A new buffer, or the nth of those that are not mapped. */
int va_map_new(struct va_place *, uint64_t pages);
int va_map_again(struct va_place *, unsigned nth);
/* The same by a single request, even if it is refused. */
int va_ask_once(struct va_place *, unsigned nth);
int va_unmap(struct va_place *, unsigned nth);

/* Into the region: a new buffer, or the nth of those that do not lie there,
 * mapped or not; and out of it. */
int va_place_new(struct va_place *, uint64_t pages);
int va_place_again(struct va_place *, unsigned nth);
int va_free(struct va_place *, unsigned nth);

/* Requests that name bytes of the nth piece, of the two pages after it, or at
 * the start if there is no piece; also for pieces of the region. */
enum va_end { VA_END_FREE, VA_END_AT, VA_END_PAST };

struct va_range {
	uint32_t nth, page, from, bytes;
	enum va_end end; /* AT: the range ends with its piece; PAST: one
			  * byte later; FREE: it begins after its piece */
};
int va_touch(struct va_place *, const struct va_range *);
int va_reach(struct va_place *, const struct va_range *, bool weights,
	bool invalidated);

/* Check all accounts: the host's, the device's view, and the kernel's lists of
 * the process's mappings and descriptors. */
int va_look(struct va_place *);

#endif
