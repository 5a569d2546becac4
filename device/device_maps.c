#include "device/device_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "device/cache.h"
#include "shm/buffer.h"
#include "tensor/soc/price.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void device_forget_share(struct shared *s)
{
	fd_close(&s->fd);
	free(s->why);
	s->why = NULL;
}

void device_share(struct device *d, const struct wire_share *share, int fd)
{
	struct shared *s;
	struct err e;
	int ret;

	if (share->buffer >= WIRE_MAX_BUFFERS) {
		fd_close(&fd);
		return;
	}
	s = &d->shared[share->buffer];
	device_forget_share(s);
	s->share = *share;
	/* Error messages contain the buffer's name, which the peer chose: make
	 * the name printable. */
	s->share.name[sizeof(s->share.name) - 1] = '\0';
	err_plain(s->share.name);
	if (s->share.flags & ~WIRE_SHARE_DMA)
		ret = err_set(&e, EINVAL, "share: flags 0x%x have unknown bits",
			s->share.flags);
	else if (fd < 0)
		ret = err_set(&e, EBADF,
			"share: its descriptor did not arrive: the host sent "
			"none, or the device has too many open files (see "
			"ulimit -n)");
	else
		ret = buffer_check_fd(fd, s->share.bytes, &e);
	if (!ret) {
		s->fd = fd;
		return;
	}
	fd_close(&fd);
	s->why = strdup(e.text);
}

static int check_map(
	const struct device *d, const struct wire_map *m, struct err *e)
{
	const struct shared *s;
	bool held;

	if (m->where > WIRE_IN_EXTENDED)
		return err_set(e, EINVAL, "map: unknown 'where' %u", m->where);
	if (m->buffer >= WIRE_MAX_BUFFERS)
		return err_set(e, EINVAL,
			"map: buffer number %u must be below %d", m->buffer,
			WIRE_MAX_BUFFERS);
	s = &d->shared[m->buffer];
	if (s->why)
		return err_set(e, EINVAL, "map: buffer %u (%s): %s", m->buffer,
			s->share.name, s->why);
	if (s->fd < 0)
		return err_set(e, ENOENT, "map: buffer %u was never shared",
			m->buffer);
	if (m->generation != s->share.generation)
		return err_set(e, ESTALE,
			"map: buffer %u (%s): the request names generation "
			"%u, but generation %u is shared",
			m->buffer, s->share.name, m->generation,
			s->share.generation);
	held = m->where == WIRE_IN_EXTENDED
		? extended_holds(&d->extended, m->buffer, m->generation) != NULL
		: window_holds(&d->window, m->buffer, m->generation) != NULL;
	if (held)
		return err_set(e, EEXIST,
			"map: buffer %u (%s) is mapped already", m->buffer,
			s->share.name);
	return 0;
}

static uint32_t clamp32(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

/* Sleep until the map or unmap has taken the configured minimum time. */
static void take_time(const struct device *d, uint64_t began)
{
	uint64_t until = began + d->config.va_map_us * 1000ull, now;

	while (d->config.va_map_us && (now = clock_ns()) < until) {
		struct timespec rest = { .tv_nsec = (long)(until - now) };

		nanosleep(&rest, NULL);
	}
}

/* Report the free space of the window or of the extended region in units of
 * `unit` bytes, because the number of bytes may exceed 32 bits. */
static void report_space(
	const struct window_space *space, unsigned unit, struct wire_done *done)
{
	done->arg[WIRE_MAP_ASKED] = clamp32(space->wanted / unit);
	done->arg[WIRE_MAP_FREE] = clamp32(space->free / unit);
	done->arg[WIRE_MAP_LARGEST] = clamp32(space->largest / unit);
	done->arg[WIRE_MAP_SLOTS_USED] = space->used;
	done->arg[WIRE_MAP_SLOTS] = space->slots;
}

int device_map(struct device *d, const struct packet *p, struct wire_done *done,
	struct err *e)
{
	uint64_t began = clock_ns(), at = 0;
	struct window_space space = { 0 };
	struct mapping *m = NULL;
	struct wire_map map;
	const struct shared *s;
	struct price price;
	int ret;

	memcpy(&map, p->msg, sizeof(map));
	ret = check_map(d, &map, e);
	if (ret)
		return ret;
	s = &d->shared[map.buffer];
	if (map.where == WIRE_IN_EXTENDED) {
		/* Finish the current coherence report now: it may point at a
		 * buffer's name in the array of the extended region, and
		 * extended_map shifts the elements of this array. */
		cache_operator(d->cache, "map", -1);
		ret = extended_map(
			&d->extended, &s->share, s->fd, &at, &space, e);
		report_space(&space, WIRE_EXTENDED_UNIT, done);
		done->arg[WIRE_MAP_ADDR] = (uint32_t)(at / WIRE_EXTENDED_UNIT);
		window_report(&d->window);
	} else {
		ret = window_map(&d->window, &s->share, s->fd, &m, &space, e);
		if (!ret && (ret = cache_attach(d->cache, m, e))) {
			window_unmap(&d->window, m);
			m = NULL;
		}
		if (m)
			done->arg[WIRE_MAP_ADDR] = m->addr;
		else
			done->arg[WIRE_MAP_PENDING] = space.pending;
		report_space(&space, 1, done);
	}
	if (!ret && d->exec.soc) {
		price_map(d->exec.soc, s->share.bytes, &price);
		price_add(&d->exec.price, &price);
	}
	take_time(d, began);
	return ret;
}

int device_unmap_extended(struct device *d, uint32_t addr, struct err *e)
{
	uint64_t began = clock_ns();
	int ret;

	cache_operator(d->cache, "unmap", -1);
	ret = extended_unmap(
		&d->extended, (uint64_t)addr * WIRE_EXTENDED_UNIT, e);
	if (ret)
		return err_in(e, "unmap");
	window_report(&d->window);
	take_time(d, began);
	return 0;
}

int device_unmap(struct device *d, uint32_t addr, struct err *e)
{
	struct mapping *m = window_at(&d->window, addr);
	uint64_t began = clock_ns();

	if (!m)
		return err_set(e, EFAULT,
			"unmap: address 0x%x: no mapping starts there", addr);
	cache_detach(d->cache, m);
	window_unmap(&d->window, m);
	take_time(d, began);
	return 0;
}
