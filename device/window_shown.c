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
	err_sys(e, errno, "cannot map the window's view");
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

/* ---- what is shown ------------------------------------------------------- */

/* W1 -> W2: who sees one of these words sees the turn that it is of. */
#define PUT(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELEASE)

static void put_words(void *to, const void *from, size_t bytes)
{
	const uint32_t *word = from;
	uint32_t *out = to;

	for (size_t i = 0; i < bytes / sizeof(*word); i++)
		PUT(out[i], word[i]);
}

static void show_extent(struct window_view_extent *to, const struct extent *n)
{
	struct window_view_extent x = { .at = n->at, .bytes = n->share.bytes };

	memcpy(x.name, n->share.name, sizeof(n->share.name));
	put_words(to, &x, sizeof(x));
}

static void show_extended(struct window_view *v, const struct extended *x)
{
	uint64_t free = x->bytes;

	for (unsigned i = 0; i < x->used; i++) {
		free -= x->order[i].span;
		if (i < WINDOW_VIEW_SLOTS)
			show_extent(&v->extent[i], &x->order[i]);
	}
	PUT(v->extended, x->bytes);
	PUT(v->extended_free, free);
	PUT(v->extents, x->used);
}

static void show_mapping(
	struct window_view_mapping *to, const struct mapping *m)
{
	struct window_view_mapping x = { .addr = m->addr,
		.pending = m->due > 0,
		.bytes = m->share.bytes,
		.span = m->span };

	_Static_assert(sizeof(x.name) == sizeof(m->share.name), "the same");
	memcpy(x.name, m->share.name, sizeof(x.name));
	put_words(to, &x, sizeof(x));
}

static void show(struct window_view *v, const struct window *w)
{
	PUT(v->bytes, w->bytes);
	PUT(v->page, w->page);
	PUT(v->slots, w->slots);
	PUT(v->used, w->used);
	PUT(v->maps, w->maps);
	PUT(v->unmaps, w->unmaps);
	PUT(v->refused, w->refused);
	PUT(v->asked, w->refused_bytes);
	for (unsigned i = 0; i < w->used; i++)
		show_mapping(&v->map[i], w->order[i]);
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
	atomic_store_explicit(&v->turn, turn + 1, memory_order_relaxed);
	show(v, w);
	atomic_store_explicit(&v->turn, turn + 2, memory_order_release);
}
