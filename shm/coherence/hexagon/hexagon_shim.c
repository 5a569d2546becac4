/*
 * Implements functions of the Hexagon SDK by calls of libtandem-coherence. The
 * SDK's interface has no handle for a process's memory, so the cache and its
 * buffers are global. A lock serializes the calls of libtandem-coherence. The
 * lock is released while a queue's packet callback runs, so the callback may
 * call any function.
 */
#include "shm/coherence/hexagon/tandem_hexagon.h"

#include "shm/coherence/hexagon/AEEStdErr.h"
#include "shm/coherence/hexagon/HAP_mem.h"
#include "shm/coherence/hexagon/HAP_vtcm_mgr.h"
#include "shm/coherence/hexagon/dspqueue.h"
#include "shm/coherence/hexagon/hexagon_protos.h"
#include "shm/coherence/hexagon/hexagon_types.h"
#include "shm/coherence/hexagon/qurt_memory.h"
#include "shm/coherence/hexagon/remote.h"
#include "shm/coherence/hexagon/rpcmem.h"
#include "shm/coherence/tandem_coherence.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SHARED_MAX 256
#define PAGE       4096

/* a buffer of rpcmem_alloc; its `fd` is its index in shared[] plus 1 */
struct shared {
	uint8_t *mem; /* NULL: free entry */
	size_t bytes;
	struct coherence_buffer *buffer;
	unsigned refs;
};

/* A DMA descriptor whose transfer was started. `row` has one transfer for each
 * row, or none if the bytes have already moved. */
struct running {
	struct running *next;
	hexagon_udma_descriptor_type0_t *desc;
	size_t rows;
	struct coherence_dma row[];
};

struct packet {
	struct packet *next;
	uint32_t flags, buffers, bytes;
	/* the bytes of the message follow the buffers */
	struct dspqueue_buffer buffer[];
};

struct dspqueue { /* one end of a queue */
	struct dspqueue *peer;
	bool dsp, open;
	dspqueue_callback_t packet;
	void *context;
	struct packet *first; /* first packet that this end has not read */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static struct coherence_cache *cache; /* NULL: not open */
static struct shared shared[SHARED_MAX];
/* DMA descriptors whose transfers are not waited for yet, the oldest first */
static struct running *running;
static bool polled, in_request;
static uint32_t request;

/* ---- buffers ------------------------------------------------------------- */

/* Find the buffer that contains the whole range; NULL if there is none. */
static struct shared *find(const void *ptr, size_t bytes)
{
	uintptr_t at = (uintptr_t)ptr;

	for (unsigned i = 0; i < SHARED_MAX; i++) {
		uintptr_t mem = (uintptr_t)shared[i].mem;

		if (mem && at >= mem && at - mem < shared[i].bytes &&
			bytes <= shared[i].bytes - (at - mem))
			return &shared[i];
	}
	return NULL;
}

static uint64_t offset_in(const struct shared *s, const void *ptr)
{
	return (uintptr_t)ptr - (uintptr_t)s->mem;
}

static struct shared *by_fd(int64_t fd)
{
	return fd > 0 && fd <= SHARED_MAX && shared[fd - 1].mem
		? &shared[fd - 1]
		: NULL;
}

static void drop(struct shared *s)
{
	coherence_unregister(cache, s->buffer);
	free(s->mem);
	memset(s, 0, sizeof(*s));
}

int tandem_hexagon_open(const struct coherence_config *config)
{
	int ret = -EBUSY;

	pthread_mutex_lock(&lock);
	if (!cache)
		ret = coherence_open(&cache, config);
	pthread_mutex_unlock(&lock);
	return ret;
}

uint64_t tandem_hexagon_close(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < SHARED_MAX; i++)
		if (shared[i].mem)
			drop(&shared[i]);
	for (struct running *r; (r = running);) {
		running = r->next;
		free(r);
	}
	n = coherence_violations(cache);
	coherence_close(cache);
	cache = NULL;
	in_request = false;
	request = 0;
	pthread_mutex_unlock(&lock);
	return n;
}

void rpcmem_init(void)
{
}

void rpcmem_deinit(void)
{
}

void *rpcmem_alloc2(int heap, uint32_t flags, size_t bytes)
{
	char name[COHERENCE_NAME_BYTES];
	struct shared *s = shared;
	void *mem = NULL;

	pthread_mutex_lock(&lock);
	while (s < shared + SHARED_MAX && s->mem)
		s++;
	if (!cache || !bytes || s == shared + SHARED_MAX ||
		posix_memalign(&mem, PAGE, bytes))
		goto out;
	memset(mem, 0, bytes);
	snprintf(name, sizeof(name), "rpcmem:%d", (int)(s - shared) + 1);
	s->buffer = coherence_register(cache, name, mem, bytes, 0, 0);
	if (!s->buffer) {
		free(mem);
		mem = NULL;
		goto out;
	}
	s->mem = mem;
	s->bytes = bytes;
out:
	pthread_mutex_unlock(&lock);
	return mem;
}

void *rpcmem_alloc(int heap, uint32_t flags, int bytes)
{
	return bytes < 0 ? NULL : rpcmem_alloc2(heap, flags, (size_t)bytes);
}

void rpcmem_free(void *mem)
{
	struct shared *s;

	pthread_mutex_lock(&lock);
	s = find(mem, 0);
	if (s)
		drop(s);
	pthread_mutex_unlock(&lock);
}

int rpcmem_to_fd(void *mem)
{
	struct shared *s;

	pthread_mutex_lock(&lock);
	s = find(mem, 0);
	pthread_mutex_unlock(&lock);
	return s && s->mem == mem ? (int)(s - shared) + 1 : -1;
}

int HAP_mmap_get(int fd, void **address, uint64_t *physical)
{
	struct shared *s;

	pthread_mutex_lock(&lock);
	s = by_fd(fd);
	if (s)
		*address = s->mem;
	if (s && physical)
		*physical = (uintptr_t)s->mem;
	pthread_mutex_unlock(&lock);
	return s ? AEE_SUCCESS : AEE_EBADPARM;
}

int HAP_mmap_put(int fd)
{
	return AEE_SUCCESS;
}

int fastrpc_mmap(int domain, int fd, void *address, int offset, size_t bytes,
	enum fastrpc_map_flags flags)
{
	void *mem;

	return HAP_mmap_get(fd, &mem, NULL);
}

int fastrpc_munmap(int domain, int fd, void *address, size_t bytes)
{
	return AEE_SUCCESS;
}

void *HAP_request_VTCM(unsigned bytes, unsigned single_page)
{
	void *mem;

	return posix_memalign(&mem, PAGE, bytes) ? NULL : mem;
}

int HAP_release_VTCM(void *mem)
{
	free(mem);
	return AEE_SUCCESS;
}

/* ---- accesses and maintenance -------------------------------------------- */

void tandem_hexagon_operator(const char *name, int layer)
{
	pthread_mutex_lock(&lock);
	coherence_operator(cache, name, layer);
	pthread_mutex_unlock(&lock);
}

/* Returns the address at which the device reads or writes the bytes at `ptr`:
 * for bytes of a shared buffer, their copy in the simulated cache; for other
 * memory, `ptr` itself. */
static const void *view_of(
	const void *ptr, size_t bytes, enum coherence_access access)
{
	const void *view = ptr;
	struct shared *s;

	if (!bytes)
		return ptr;
	pthread_mutex_lock(&lock);
	s = find(ptr, bytes);
	if (!s)
		coherence_local(cache, ptr, bytes, access);
	else if (access == COHERENCE_READ)
		view = coherence_read(
			cache, s->buffer, offset_in(s, ptr), bytes);
	else
		view = coherence_write(
			cache, s->buffer, offset_in(s, ptr), bytes);
	pthread_mutex_unlock(&lock);
	return view;
}

const void *tandem_hexagon_read(const void *ptr, size_t bytes)
{
	return view_of(ptr, bytes, COHERENCE_READ);
}

void *tandem_hexagon_write(void *ptr, size_t bytes)
{
	return (void *)(uintptr_t)view_of(ptr, bytes, COHERENCE_WRITE);
}

/* Clean the lines of a range of the buffer, invalidate them, or do both. */
static void maintain(const struct shared *s, uint64_t offset, size_t bytes,
	bool clean, bool invalidate)
{
	if (clean && invalidate)
		coherence_flush(cache, s->buffer, offset, bytes);
	else if (clean)
		coherence_clean(cache, s->buffer, offset, bytes);
	else if (invalidate)
		coherence_invalidate(cache, s->buffer, offset, bytes, 0, 0);
}

int qurt_mem_cache_clean(qurt_addr_t address, qurt_size_t bytes,
	qurt_mem_cache_op_t op, qurt_mem_cache_type_t type)
{
	const void *ptr = (const void *)address;
	struct shared *s;

	if ((unsigned)op > QURT_MEM_CACHE_FLUSH_INVALIDATE_ALL)
		return QURT_EINVALID;
	if (type == QURT_MEM_ICACHE)
		return QURT_EOK;
	pthread_mutex_lock(&lock);
	if (op == QURT_MEM_CACHE_FLUSH_ALL)
		coherence_clean_all(cache);
	else if (op == QURT_MEM_CACHE_FLUSH_INVALIDATE_ALL)
		coherence_flush_all(cache);
	else if (bytes && (s = find(ptr, bytes)))
		maintain(s, offset_in(s, ptr), bytes,
			op != QURT_MEM_CACHE_INVALIDATE,
			op != QURT_MEM_CACHE_FLUSH);
	pthread_mutex_unlock(&lock);
	return QURT_EOK;
}

static void maintain_line(void *ptr, bool clean, bool invalidate)
{
	struct shared *s;

	pthread_mutex_lock(&lock);
	s = find(ptr, 1);
	if (s)
		maintain(s, offset_in(s, ptr), 1, clean, invalidate);
	pthread_mutex_unlock(&lock);
}

void Q6_dccleana_A(void *ptr)
{
	maintain_line(ptr, true, false);
}

void Q6_dcinva_A(void *ptr)
{
	maintain_line(ptr, false, true);
}

void Q6_dccleaninva_A(void *ptr)
{
	maintain_line(ptr, true, true);
}

/* ---- DMA ----------------------------------------------------------------- */

/* The rows of a descriptor. Rows that are contiguous both in the source and in
 * the destination count as one row. */
struct rows {
	size_t n, bytes, from_stride, to_stride;
};

static struct rows rows_of(const hexagon_udma_descriptor_type0_t *d)
{
	const hexagon_udma_descriptor_type1_t *two =
		(const hexagon_udma_descriptor_type1_t *)(const void *)d;

	if (d->desctype == HEXAGON_UDMA_DESC_DESCTYPE_TYPE0)
		return (struct rows){ 1, d->length, 0, 0 };
	if (two->srcstride == two->roiwidth && two->dststride == two->roiwidth)
		return (struct rows){ 1, (size_t)two->roiwidth * two->roiheight,
			0, 0 };
	return (struct rows){ two->roiheight, two->roiwidth, two->srcstride,
		two->dststride };
}

/* A transfer between two buffers, or between two addresses outside all buffers,
 * moves its bytes when it is started, because libtandem-coherence supports only
 * transfers between a buffer and local memory. */
static void move_at_once(uint8_t *to, uint8_t *from, size_t bytes)
{
	struct shared *a = find(from, bytes), *b = find(to, bytes);
	uint8_t *between = malloc(bytes);

	if (a && b && between) {
		coherence_dma_read(
			cache, a->buffer, offset_in(a, from), bytes, between);
		coherence_dma_write(
			cache, b->buffer, offset_in(b, to), bytes, between);
	} else if (!a && !b) {
		memmove(to, from, bytes);
	}
	free(between);
}

void Q6_dmstart_A(void *chain)
{
	struct coherence_dma *first = NULL, **end = &first;
	struct running **last = &running;

	pthread_mutex_lock(&lock);
	while (*last)
		last = &(*last)->next;
	for (hexagon_udma_descriptor_type0_t *d = chain; d; d = d->next) {
		struct rows rows = rows_of(d);
		bool to_buffer = find(d->dst, 1) != NULL;
		bool async = (find(d->src, 1) != NULL) != to_buffer;
		struct running *r =
			calloc(1, sizeof(*r) + rows.n * sizeof(r->row[0]));

		d->dstate = HEXAGON_UDMA_DESC_DSTATE_INCOMPLETE;
		if (!r)
			break;
		r->desc = d;
		*last = r;
		last = &r->next;
		for (size_t i = 0; rows.bytes && i < rows.n; i++) {
			uint8_t *from =
				(uint8_t *)d->src + i * rows.from_stride;
			uint8_t *to = (uint8_t *)d->dst + i * rows.to_stride;
			struct shared *s =
				find(to_buffer ? to : from, rows.bytes);
			struct coherence_dma *row = &r->row[r->rows];

			if (!async)
				move_at_once(to, from, rows.bytes);
			if (!async || !s)
				continue;
			*row = (struct coherence_dma){ .buffer = s->buffer,
				.offset = offset_in(s, to_buffer ? to : from),
				.local = to_buffer ? from : to,
				.bytes = rows.bytes,
				.to_buffer = to_buffer };
			r->rows++;
			*end = row;
			end = &row->next;
		}
	}
	if (first)
		coherence_dma_start(cache, first);
	pthread_mutex_unlock(&lock);
}

void Q6_dmlink_AA(void *tail, void *chain)
{
	((hexagon_udma_descriptor_type0_t *)tail)->next = chain;
	Q6_dmstart_A(chain);
}

/* Wait for the transfers of the oldest running descriptor, and remove it. */
static void end_oldest(void)
{
	struct running *r = running;

	if (r->rows)
		coherence_dma_wait(cache, &r->row[r->rows - 1]);
	r->desc->dstate = HEXAGON_UDMA_DESC_DSTATE_COMPLETE;
	running = r->next;
	free(r);
}

int Q6_R_dmwait(void)
{
	pthread_mutex_lock(&lock);
	while (running)
		end_oldest();
	pthread_mutex_unlock(&lock);
	return 0;
}

int Q6_R_dmpoll(void)
{
	int ret;

	pthread_mutex_lock(&lock);
	if (running && polled)
		end_oldest();
	polled = running && !polled;
	ret = running != NULL;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- queues -------------------------------------------------------------- */

int dspqueue_create(int domain, uint32_t flags, uint32_t request_bytes,
	uint32_t response_bytes, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *out)
{
	struct dspqueue *q = calloc(2, sizeof(*q));

	if (!q)
		return AEE_ENOMEMORY;
	q[0] = (struct dspqueue){ .peer = q + 1,
		.open = true,
		.packet = packet,
		.context = context };
	q[1] = (struct dspqueue){ .peer = q, .dsp = true };
	*out = q;
	return AEE_SUCCESS;
}

int dspqueue_export(dspqueue_t q, uint64_t *id)
{
	*id = (uintptr_t)q->peer;
	return AEE_SUCCESS;
}

int dspqueue_import(uint64_t id, dspqueue_callback_t packet,
	dspqueue_callback_t error, void *context, dspqueue_t *out)
{
	struct dspqueue *q = (struct dspqueue *)(uintptr_t)id;
	bool waiting;

	pthread_mutex_lock(&lock);
	q->open = true;
	q->packet = packet;
	q->context = context;
	waiting = q->first != NULL;
	pthread_mutex_unlock(&lock);
	*out = q;
	if (waiting && packet)
		packet(q, AEE_SUCCESS, context);
	return AEE_SUCCESS;
}

int dspqueue_close(dspqueue_t q)
{
	int ret = AEE_EBADSTATE;

	pthread_mutex_lock(&lock);
	if (!q->dsp && q->peer->open)
		goto out;
	q->open = false;
	for (unsigned i = 0; !q->dsp && i < 2; i++)
		for (struct packet *p; (p = q[i].first);) {
			q[i].first = p->next;
			free(p);
		}
	if (!q->dsp)
		free(q);
	ret = AEE_SUCCESS;
out:
	pthread_mutex_unlock(&lock);
	return ret;
}

/* Perform the cache maintenance that the flags of a message's buffer demand of
 * this end, the sender (`sends`) or the recipient of the message. */
static void apply_flags(const struct dspqueue *q,
	const struct dspqueue_buffer *d, bool sends, const char *function)
{
	bool flush = d->flags &
		(sends ? DSPQUEUE_BUFFER_FLAG_FLUSH_SENDER
		       : DSPQUEUE_BUFFER_FLAG_FLUSH_RECIPIENT);
	bool invalidate = d->flags &
		(sends ? DSPQUEUE_BUFFER_FLAG_INVALIDATE_SENDER
		       : DSPQUEUE_BUFFER_FLAG_INVALIDATE_RECIPIENT);
	struct shared *s = by_fd(d->fd);

	if (!s)
		return; /* the buffer was freed after the message was sent */
	if (q->dsp) {
		maintain(s, d->offset, d->size, flush, invalidate);
	} else if (flush) {
		coherence_host_begin(cache, s->buffer, d->offset, d->size,
			COHERENCE_WRITE, function);
		coherence_host_end(cache, s->buffer, d->offset, d->size,
			COHERENCE_WRITE, function);
	}
}

/* Check the list of a message's buffers, fill in the sizes that are 0, and
 * count the references to each buffer. */
static int check_buffers(struct dspqueue_buffer *buffer, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct dspqueue_buffer *d = &buffer[i];
		struct shared *s = by_fd(d->fd);

		if (!s || d->offset >= s->bytes ||
			d->size > s->bytes - d->offset)
			return AEE_EBADPARM;
		if (!d->size)
			d->size = (uint32_t)(s->bytes - d->offset);
		if (d->flags & DSPQUEUE_BUFFER_FLAG_DEREF && !s->refs)
			return AEE_EBADSTATE;
		s->refs += (d->flags & DSPQUEUE_BUFFER_FLAG_REF) != 0;
		s->refs -= (d->flags & DSPQUEUE_BUFFER_FLAG_DEREF) != 0;
	}
	return AEE_SUCCESS;
}

int dspqueue_write_noblock(dspqueue_t q, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *buffer, uint32_t bytes, const uint8_t *message)
{
	size_t buffer_bytes = buffers * sizeof(*buffer);
	struct packet **end, *p;
	dspqueue_callback_t callback;
	const char *first;
	int ret;

	if (buffers > DSPQUEUE_MAX_BUFFERS)
		return AEE_EBADPARM;
	p = malloc(sizeof(*p) + buffer_bytes + bytes);
	if (!p)
		return AEE_ENOMEMORY;
	*p = (struct packet){ NULL, flags, buffers, bytes };
	if (buffers)
		memcpy(p->buffer, buffer, buffer_bytes);
	if (bytes)
		memcpy(p->buffer + buffers, message, bytes);
	pthread_mutex_lock(&lock);
	ret = check_buffers(p->buffer, buffers);
	if (ret) {
		pthread_mutex_unlock(&lock);
		free(p);
		return ret;
	}
	if (q->dsp)
		coherence_operator(cache, "dspqueue_write", -1);
	for (uint32_t i = 0; i < buffers; i++)
		apply_flags(q, &p->buffer[i], true, "dspqueue_write");
	if (q->dsp) {
		coherence_end(cache, &first);
		in_request = false;
	}
	for (end = &q->peer->first; *end;)
		end = &(*end)->next;
	*end = p;
	callback = q->peer->open ? q->peer->packet : NULL;
	pthread_cond_broadcast(&arrived);
	pthread_mutex_unlock(&lock);
	if (callback)
		callback(q->peer, AEE_SUCCESS, q->peer->context);
	return AEE_SUCCESS;
}

int dspqueue_write(dspqueue_t q, uint32_t flags, uint32_t buffers,
	struct dspqueue_buffer *buffer, uint32_t bytes, const uint8_t *message,
	uint32_t timeout_us)
{
	return dspqueue_write_noblock(
		q, flags, buffers, buffer, bytes, message);
}

/* Take the first packet of the queue, which is not empty. The caller holds the
 * lock. */
static int take(struct dspqueue *q, uint32_t *flags, uint32_t max_buffers,
	uint32_t *buffers, struct dspqueue_buffer *buffer, uint32_t max_bytes,
	uint32_t *bytes, uint8_t *message)
{
	struct packet *p = q->first;

	if (p->buffers > max_buffers || p->bytes > max_bytes)
		return AEE_EBADPARM;
	q->first = p->next;
	if (q->dsp && !in_request)
		coherence_begin(cache, ++request);
	if (q->dsp) {
		in_request = true;
		coherence_operator(cache, "dspqueue_read", -1);
	}
	for (uint32_t i = 0; i < p->buffers; i++) {
		struct shared *s = by_fd(p->buffer[i].fd);

		apply_flags(q, &p->buffer[i], false, "dspqueue_read");
		p->buffer[i].ptr = s ? s->mem + p->buffer[i].offset : NULL;
	}
	*flags = p->flags;
	*buffers = p->buffers;
	*bytes = p->bytes;
	if (p->buffers)
		memcpy(buffer, p->buffer, p->buffers * sizeof(*buffer));
	if (p->bytes)
		memcpy(message, p->buffer + p->buffers, p->bytes);
	free(p);
	return AEE_SUCCESS;
}

int dspqueue_read(dspqueue_t q, uint32_t *flags, uint32_t max_buffers,
	uint32_t *buffers, struct dspqueue_buffer *buffer, uint32_t max_bytes,
	uint32_t *bytes, uint8_t *message, uint32_t timeout_us)
{
	struct timespec until;
	int ret = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_us / 1000000;
	until.tv_nsec += (long)(timeout_us % 1000000) * 1000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&lock);
	while (!q->first && !ret)
		ret = timeout_us == DSPQUEUE_TIMEOUT_NONE
			? pthread_cond_wait(&arrived, &lock)
			: pthread_cond_timedwait(&arrived, &lock, &until);
	ret = q->first ? take(q, flags, max_buffers, buffers, buffer, max_bytes,
				 bytes, message)
		       : AEE_EEXPIRED;
	pthread_mutex_unlock(&lock);
	return ret;
}

int dspqueue_read_noblock(dspqueue_t q, uint32_t *flags, uint32_t max_buffers,
	uint32_t *buffers, struct dspqueue_buffer *buffer, uint32_t max_bytes,
	uint32_t *bytes, uint8_t *message)
{
	int ret = AEE_EWOULDBLOCK;

	pthread_mutex_lock(&lock);
	if (q->first)
		ret = take(q, flags, max_buffers, buffers, buffer, max_bytes,
			bytes, message);
	pthread_mutex_unlock(&lock);
	return ret;
}
