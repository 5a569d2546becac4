#include "host/cmd/inspect_window.h"

#include "host/cmd/json_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define JSON_VERSION 1
/* width in characters of the bar that shows which addresses are used */
#define BAR 64

struct stretch {
	uint64_t from, bytes;
};

/* Return the hole (free addresses) before mapping `i`; for i == v->used, the
 * hole after the last mapping. */
static struct stretch hole(const struct window_view *v, uint32_t i)
{
	const struct window_view_mapping *before = i ? &v->map[i - 1] : NULL;
	uint64_t from =
		before ? before->addr + before->span + v->page : v->page;
	uint64_t to = i < v->used ? v->map[i].addr : v->bytes;

	return (struct stretch){ from, to > from ? to - from : 0 };
}

struct room {
	uint64_t free, largest;
};

static struct room room(const struct window_view *v)
{
	struct room r = { 0 };

	for (uint32_t i = 0; i <= v->used; i++) {
		uint64_t n = hole(v, i).bytes;

		r.free += n;
		r.largest = n > r.largest ? n : r.largest;
	}
	return r;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / 0x1p20;
}

/* Print a mapping or a hole. The name comes from another process. Unprintable
 * characters are replaced, because they could affect the terminal. */
static void print_stretch(uint64_t from, uint64_t bytes, const char *name,
	const char *state, FILE *f)
{
	fprintf(f, "  0x%08" PRIx64 " %12.3f MiB  ", from, mib(bytes));
	for (; *name; name++)
		fputc(isprint((unsigned char)*name) ? *name : '?', f);
	fprintf(f, "%s\n", state);
}

static uint32_t extents_shown(const struct window_view *v)
{
	return v->extents < WINDOW_VIEW_SLOTS ? v->extents : WINDOW_VIEW_SLOTS;
}

void inspect_window_print(
	const struct window_view *v, pid_t device, uint64_t huge, FILE *f)
{
	struct room r = room(v);
	/* bytes of the mappings, except pending ones: their buffers are
	 * unmapped, but their addresses are not free yet */
	uint64_t mapped = 0;

	fputs("window", f);
	if (device)
		fprintf(f, " of tandem-npu (pid %d)", (int)device);
	fprintf(f,
		": %.1f MiB in pages of %" PRIu64
		" KiB, %u of %u slots used\n[",
		mib(v->bytes), v->page >> 10, v->used, v->slots);
	for (unsigned i = 0; i < BAR; i++) {
		uint64_t from = v->bytes / BAR * i,
			 to = v->bytes / BAR * (i + 1);
		uint64_t in_cell = 0;

		for (uint32_t k = 0; k < v->used; k++) {
			uint64_t a = v->map[k].addr, b = a + v->map[k].span;

			a = a > from ? a : from;
			b = b < to ? b : to;
			in_cell += b > a ? b - a : 0;
		}
		/*
		 * each character of the bar stands for a range of addresses;
		 * '.': all of the range is free; '#': at least 15/16 of it is
		 * used; '+': some of it is used
		 */
		fputc(!in_cell ? '.'
				: in_cell >= (to - from) - (to - from) / 16
				? '#'
				: '+',
			f);
	}
	fputs("]\n", f);
	for (uint32_t i = 0; i <= v->used; i++) {
		const struct window_view_mapping *m = &v->map[i];
		struct stretch s = hole(v, i);

		if (s.bytes)
			print_stretch(s.from, s.bytes, "free", "", f);
		if (i == v->used)
			break;
		mapped += m->pending ? 0 : m->span;
		if (m->span)
			print_stretch(m->addr, m->span, m->name,
				m->pending ? ", unmapped and not free yet" : "",
				f);
	}
	fprintf(f,
		"free %.1f MiB, largest hole %.1f MiB (each mapping takes a "
		"guard page too)\n",
		mib(r.free), mib(r.largest));
	if (v->extended)
		fprintf(f,
			"extended region, reached only by DMA: %.1f MiB, %u "
			"buffers, free %.1f MiB\n",
			mib(v->extended), v->extents, mib(v->extended_free));
	for (uint32_t i = 0; v->extended && i < extents_shown(v); i++)
		print_stretch(v->extent[i].at, v->extent[i].bytes,
			v->extent[i].name, "", f);
	if (v->extended && v->extents > extents_shown(v))
		fprintf(f, "  and %u more\n", v->extents - extents_shown(v));
	if (!device)
		return;
	fprintf(f, "%.1f of %.1f MiB that are mapped lie in huge pages\n",
		mib(huge), mib(mapped));
	fprintf(f, "%" PRIu64 " maps, %" PRIu64 " unmaps, %" PRIu64 " refused",
		v->maps, v->unmaps, v->refused);
	if (v->refused)
		fprintf(f, ", the last of them %.1f MiB", mib(v->asked));
	fputc('\n', f);
}

json_t *inspect_window_json(
	const struct window_view *v, pid_t device, uint64_t huge)
{
	json_t *maps = json_array(), *extents = json_array();
	struct room r = room(v);

	for (uint32_t i = 0; i < v->used; i++) {
		const struct window_view_mapping *m = &v->map[i];

		json_array_append_new(maps,
			json_pack("{s:o, s:I, s:I, s:I, s:b}", "name",
				json_ctext(m->name), "address",
				(json_int_t)m->addr, "bytes",
				(json_int_t)m->bytes, "span",
				(json_int_t)m->span, "pending",
				(int)m->pending));
	}
	for (uint32_t i = 0; i < extents_shown(v); i++) {
		const struct window_view_extent *x = &v->extent[i];

		json_array_append_new(extents,
			json_pack("{s:o, s:I, s:I}", "name",
				json_ctext(x->name), "at", (json_int_t)x->at,
				"bytes", (json_int_t)x->bytes));
	}
	return json_pack("{s:i, s:s, s:i, s:I, s:I, s:i, s:i, s:I, s:I, s:I, "
			 "s:I, s:I, s:I, s:I, s:o, s:{s:I, s:I, s:i, s:o}}",
		"version", JSON_VERSION, "command", "inspect", "device",
		(int)device, "window", (json_int_t)v->bytes, "page",
		(json_int_t)v->page, "slots", (int)v->slots, "slots_used",
		(int)v->used, "free", (json_int_t)r.free, "largest_hole",
		(json_int_t)r.largest, "maps", (json_int_t)v->maps, "unmaps",
		(json_int_t)v->unmaps, "refused", (json_int_t)v->refused,
		"refused_bytes", (json_int_t)v->asked, "huge_bytes",
		(json_int_t)huge, "mappings", maps, "extended", "bytes",
		(json_int_t)v->extended, "free", (json_int_t)v->extended_free,
		"buffers", (int)v->extents, "shown", extents);
}
