/* Compares the host's records, the device's window view and the kernel's lists
 * with the model of the window and the extended region. */
#include "tests/stress/va_place.h"

#include "host/doctor/window_look.h"
#include "host/npu/npu.h"
#include "ipc/wire.h"
#include "shm/buffer.h"
#include "tests/stress/va_maps.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the host's account and the device's view ---------------------------- */

static bool same_window(const struct window_view *w, const struct first_fit *m)
{
	bool same = w->used == m->n && w->slots == m->slots &&
		w->bytes == m->pages * VA_PAGE;

	for (unsigned i = 0; same && i < m->n; i++)
		same = w->map[i].addr == m->piece[i].at * VA_PAGE &&
			w->map[i].span == m->piece[i].pages * VA_PAGE &&
			w->map[i].pending == (m->piece[i].due > 0);
	return same;
}

static bool same_region(const struct window_view *w, const struct first_fit *m)
{
	bool same = w->extents == m->n && w->extended == m->pages * VA_PAGE &&
		w->extended_free == first_fit_room(m, 1).free * VA_PAGE;

	for (unsigned i = 0; same && i < m->n; i++)
		same = w->extent[i].at == m->piece[i].at * VA_PAGE &&
			w->extent[i].bytes == m->piece[i].pages * VA_PAGE;
	return same;
}

/*
 * Compare the host's record with the model. The host counts the space of
 * unmapped buffers as free. The host's largest hole and number of free slots
 * must therefore equal those that the model has after all deferred unmaps have
 * taken effect.
 */
static int check_host(
	struct va_place *p, struct window_view *w, struct first_fit *settled)
{
	struct first_fit_room r;
	struct npu_room room;

	first_fit_settled(&p->window, settled);
	npu_window(p->npu, w);
	npu_room(p->npu, &room);
	r = first_fit_room(settled, 1);
	if (!same_window(w, settled) || room.largest != r.largest * VA_PAGE ||
		room.slots != settled->slots - settled->n)
		return stress_broken(p->run,
			"the host's record of the window is wrong: largest "
			"hole %llu bytes, %u slots left",
			(unsigned long long)room.largest, room.slots);
	if (p->freed ||
		(same_region(w, &p->region) &&
			room.extended ==
				first_fit_room(&p->region, 1).largest *
					VA_PAGE))
		return 0;
	return stress_broken(p->run,
		"the host's record of the extended region is wrong: %u "
		"buffers, %llu bytes free, largest hole %llu bytes",
		w->extents, (unsigned long long)w->extended_free,
		(unsigned long long)room.extended);
}

static int check_shown(struct va_place *p, struct window_view *w)
{
	pid_t device;
	int ret = window_look(npu_pid(p->npu), w, &device, p->run->e);

	if (ret)
		return ret;
	if (!same_window(w, &p->window) || !same_region(w, &p->region))
		return stress_broken(p->run,
			"the device's window view is wrong: %u of %u slots "
			"used, %u buffers in the extended region",
			w->used, w->slots, w->extents);
	return 0;
}

/* ---- the kernel ---------------------------------------------------------- */

/*
 * The address at which the device process maps a piece of the window, relative
 * to a common base: three times the window address, rounded up to a multiple of
 * the huge page size if the piece fills at least one huge page.
 */
static uint64_t seen_at(const struct first_fit_piece *m)
{
	uint64_t huge = 2ull << 20, at = 3 * m->at * VA_PAGE;

	if (m->pages * VA_PAGE < huge)
		return at;
	return (at + huge - 1) / huge * huge;
}

/* Check one buffer: it must be mapped at its place relative to the common base,
 * and a guard must follow it. */
static int check_mapping(struct va_place *p, const struct process_maps *maps,
	const struct first_fit_piece *m, uint64_t *base)
{
	const char *name = buffer_name(p->buffer[m->buffer].buffer);
	uint64_t bytes, at;

	if (!process_maps_find(maps, name, &at, &bytes) ||
		(*base && at - seen_at(m) != *base) ||
		bytes != m->pages * VA_PAGE)
		return stress_broken(p->run,
			"%s is not mapped at the address or with the size that "
			"the device reported",
			name);
	*base = at - seen_at(m);
	if (process_maps_guards(maps, *base, VA_PAGE) &&
		process_maps_guards(maps, at + bytes, VA_PAGE))
		return 0;
	return stress_broken(p->run,
		"page 0 or the page after %s is not a guard "
		"page",
		name);
}

/* Check that the space of buffers whose unmap is deferred is inaccessible. */
static int check_pending(
	struct va_place *p, const struct process_maps *maps, uint64_t base)
{
	for (unsigned i = 0; base && i < p->window.n; i++) {
		const struct first_fit_piece *m = &p->window.piece[i];

		if (m->due &&
			!process_maps_guards(maps, base + seen_at(m),
				(m->pages + 1) * VA_PAGE))
			return stress_broken(p->run,
				"%s was unmapped, but its pages are still "
				"accessible",
				buffer_name(p->buffer[m->buffer].buffer));
	}
	return 0;
}

/* Send a map request, without effect, for a buffer that was never shared. After
 * its completion the device has processed all earlier messages. */
static int await_shares(struct va_place *p)
{
	struct wire_map msg = { .op = WIRE_MAP,
		.buffer = WIRE_MAX_BUFFERS - 1 };
	struct wire_done done;
	int ret = npu_call(p->npu, &msg, sizeof(msg), &done, p->run->e);

	if (ret || done.status == -ENOENT)
		return ret;
	return stress_broken(p->run,
		"a map of a buffer that was never shared is answered with "
		"status %d",
		done.status);
}

/* Check the number of the device's descriptors: those at the start, one for
 * each buffer, and one more for each buffer in the extended region. */
static int check_fds(struct va_place *p, const struct process_maps *maps)
{
	unsigned fds = process_maps_fds(maps);
	unsigned want = p->fds + p->n_buffers + p->region.n;

	if (fds == want)
		return 0;
	return stress_broken(p->run,
		"the device has %u descriptors, not %u, with %u buffers, %u of "
		"them in its extended region",
		fds, want, p->n_buffers, p->region.n);
}

/* Check the number of mappings: one for each buffer in the window whose unmap
 * is not deferred, and none for the extended region or for anything else. */
static int check_number(struct va_place *p, const struct process_maps *maps)
{
	unsigned mapped = process_maps_count(maps, "tandem:" VA_PREFIX);
	unsigned want = first_fit_there(&p->window);

	if (mapped == want)
		return 0;
	return stress_broken(
		p->run, "%u buffers are mapped, not %u", mapped, want);
}

static int check_kernel(struct va_place *p)
{
	struct process_maps *maps = NULL;
	uint64_t base = 0;
	int ret = p->over ? 0 : await_shares(p);

	if (!ret)
		ret = process_maps_read(&maps, npu_pid(p->npu), p->run->e);
	for (unsigned i = 0; i < p->window.n && !ret; i++)
		if (!p->window.piece[i].due)
			ret = check_mapping(
				p, maps, &p->window.piece[i], &base);
	if (!ret)
		ret = check_pending(p, maps, base);
	if (!ret)
		ret = check_number(p, maps);
	if (!ret && !p->over)
		ret = check_fds(p, maps);
	process_maps_free(maps);
	return ret;
}

int va_look(struct va_place *p)
{
	struct first_fit *settled = malloc(sizeof(*settled));
	struct window_view *w = malloc(sizeof(*w));
	int ret = 0;

	if (!settled || !w)
		ret = err_set(p->run->e, ENOMEM, "no memory for a window");
	if (!ret)
		ret = check_host(p, w, settled);
	if (!ret)
		ret = check_shown(p, w);
	if (!ret)
		ret = check_kernel(p);
	free(settled);
	free(w);
	return ret;
}
