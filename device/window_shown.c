#include "device/window_shown.h"

#include "base/err.h"
#include "base/fd.h"
#include "device/extended.h"
#include "device/window.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int window_shown_open(struct window_view **out, int *fd, struct err *e)
{
	struct window_view *v;

	*fd = memfd_create(WINDOW_VIEW_NAME, MFD_CLOEXEC);
	if (*fd < 0)
		return err_sys(e, errno, "cannot create a memfd");
	if (ftruncate(*fd, sizeof(*v)))
		goto fail;
	v = mmap(NULL, sizeof(*v), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (v == MAP_FAILED)
		goto fail;
	v->magic = WINDOW_VIEW_MAGIC;
	v->version = 2;
	*out = v;
	return 0;
fail:
	err_sys(e, errno, "cannot map what is shown of the window");
	fd_close(fd);
	return e ? e->code : -ENOMEM;
}

void window_shown_close(struct window_view *v, int *fd)
{
	if (!v)
		return;
	munmap(v, sizeof(*v));
	fd_close(fd);
}

static void show_extended(struct window_view *v, const struct extended *x)
{
	v->extended = v->extended_free = x->bytes;
	v->extents = x->used;
	for (unsigned i = 0; i < x->used; i++) {
		const struct extent *n = &x->order[i];

		v->extended_free -= n->span;
		if (i >= WINDOW_VIEW_SLOTS)
			continue;
		v->extent[i] = (struct window_view_extent){ .at = n->at,
			.bytes = n->share.bytes };
		memcpy(v->extent[i].name, n->share.name, sizeof(n->share.name));
	}
}

static void show(struct window_view *v, const struct window *w)
{
	v->bytes = w->bytes;
	v->page = w->page;
	v->slots = w->slots;
	v->used = w->used;
	v->maps = w->maps;
	v->unmaps = w->unmaps;
	v->refused = w->refused;
	v->asked = w->refused_bytes;
	for (unsigned i = 0; i < w->used; i++) {
		const struct mapping *m = w->order[i];

		v->map[i] = (struct window_view_mapping){ .addr = m->addr,
			.pending = m->due > 0,
			.bytes = m->share.bytes,
			.span = m->span };
		_Static_assert(sizeof(v->map[i].name) == sizeof(m->share.name),
			"the same");
		memcpy(v->map[i].name, m->share.name, sizeof(m->share.name));
	}
	if (w->extended)
		show_extended(v, w->extended);
}

void window_shown_update(struct window_view *v, const struct window *w)
{
	uint32_t turn;

	if (!v)
		return;
	/* Odd before anything is written, even behind all of it. */
	turn = atomic_load_explicit(&v->turn, memory_order_relaxed);
	atomic_store(&v->turn, turn + 1);
	atomic_thread_fence(memory_order_seq_cst);
	show(v, w);
	atomic_store(&v->turn, turn + 2);
}
