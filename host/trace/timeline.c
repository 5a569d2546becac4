#include "host/trace/timeline.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/trace/perfetto.h"
#include "host/trace/timeline_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- events -------------------------------------------------------------- */

struct event {
	uint64_t type, track, at, name, category;
	int64_t value;
	uint64_t flow;
	bool flow_ends;
	/* index of the event's first argument + 1; 0 if the event has none */
	size_t arg;
};

static int read_argument(struct reading *r, struct proto_in in, struct event *v)
{
	struct timeline_arg a = { .next = v->arg };
	struct proto_field f;
	uint64_t iid = 0;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_ARG_NAME_IID)
			iid = f.value;
		else if (f.number == PF_ARG_UINT || f.number == PF_ARG_INT)
			a.value = f.value;
	}
	if (!ret)
		ret = timeline_named(r, &r->argument, iid, &a.name);
	if (!ret)
		ret = TIMELINE_GROW(r, arg, n_arg);
	if (ret)
		return ret;
	r->t->arg[r->t->n_arg++] = a;
	v->arg = r->t->n_arg;
	return 0;
}

static int read_event(struct reading *r, struct proto_in in, struct event *v)
{
	struct proto_field f;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		switch (f.number) {
		case PF_TYPE:
			v->type = f.value;
			break;
		case PF_TRACK_UUID:
			v->track = f.value;
			break;
		case PF_NAME_IID:
			v->name = f.value;
			break;
		case PF_CATEGORY_IID:
			v->category = f.value;
			break;
		case PF_COUNTER_VALUE:
			v->value = (int64_t)f.value;
			break;
		case PF_FLOW:
		case PF_FLOW_END:
			v->flow = f.value;
			v->flow_ends = f.number == PF_FLOW_END;
			break;
		case PF_ARGUMENT:
			ret = read_argument(r, f.bytes, v);
			if (ret)
				return ret;
			break;
		}
	}
	return ret;
}

static int add_slice(struct reading *r, const struct event *v,
	struct timeline_track *x, bool instant)
{
	struct timeline *t = r->t;
	struct timeline_slice s = { .track = (uint32_t)(x - t->track),
		.depth = x->depth,
		.instant = instant,
		.unfinished = !instant,
		.begin = v->at,
		.end = v->at,
		.below = x->top,
		.arg = v->arg };
	uint32_t kind = 0;
	int ret = timeline_named(r, &r->event, v->name, &s.name);

	if (!ret)
		ret = timeline_named(r, &r->category, v->category, &kind);
	if (!ret)
		ret = TIMELINE_GROW(r, slice, n_slice);
	if (ret)
		return ret;
	if (x->depth >= TIMELINE_DEPTH || t->n_slice >= UINT32_MAX)
		return err_set(r->e, EBADMSG, "slices are nested too deeply");
	s.kind = TRACE_KIND_OTHER;
	for (unsigned i = 0; i < TRACE_KINDS; i++)
		if (!strcmp(trace_kinds[i], t->text[kind]))
			s.kind = i;
	t->slice[t->n_slice++] = s;
	if (instant)
		return 0;
	x->top = (uint32_t)t->n_slice;
	x->depth++;
	x->deepest = x->depth > x->deepest ? x->depth : x->deepest;
	t->unfinished++;
	return 0;
}

static int take_event(struct reading *r, const struct event *v)
{
	struct timeline_track *x = timeline_find_track(r->t, v->track);
	int ret;
	struct timeline_slice *s;
	size_t last;

	if (!x)
		return err_set(r->e, EBADMSG,
			"an event is on a track that "
			"was not declared");
	if (v->at < x->last)
		return err_set(r->e, EBADMSG,
			"an event is earlier than the previous event of its "
			"track");
	x->last = v->at;

	if (!timeline_is_phone(x->role)) {
		if (!r->t->begin || x->last < r->t->begin)
			r->t->begin = x->last;
		if (x->last > r->t->end)
			r->t->end = x->last;
	}

	if ((v->type == PF_COUNTER) != (x->role == TIMELINE_COUNTER))
		return err_set(r->e, EBADMSG,
			"an event and its track differ in kind (counter or "
			"slices)");
	switch (v->type) {
	case PF_SLICE_BEGIN:
	case PF_INSTANT:
		ret = add_slice(r, v, x, v->type == PF_INSTANT);

		if (ret)
			return ret;
		if (!v->flow || v->type == PF_SLICE_END ||
			v->type == PF_COUNTER)
			return 0;
		if (TIMELINE_GROW(r, flow, n_flow))
			return -ENOMEM;
		r->t->flow[r->t->n_flow++] = (struct timeline_flow){ v->flow,
			r->t->n_slice - 1, v->flow_ends };
		return 0;
	case PF_SLICE_END:

		if (!x->top)
			return err_set(r->e, EBADMSG,
				"a slice ends that has not "
				"begun");
		s = &r->t->slice[x->top - 1];
		s->end = v->at;
		s->unfinished = false;
		s->until = r->t->n_slice;

		/* The arguments of the slice's end event precede those of its
		 * begin event in the list. */
		last = v->arg;
		if (last) {
			while (r->t->arg[last - 1].next)
				last = r->t->arg[last - 1].next;
			r->t->arg[last - 1].next = s->arg;
			s->arg = v->arg;
		}

		x->top = s->below;
		x->depth--;
		r->t->unfinished--;
		return 0;

	case PF_COUNTER:
		if (TIMELINE_GROW(r, point, n_point))
			return -ENOMEM;
		r->t->point[r->t->n_point++] =
			(struct timeline_point){ (uint32_t)(x - r->t->track),
				v->at, v->value };
		return 0;
	default:
		return err_set(r->e, EBADMSG, "an event has no type");
	}
}

/* ---- packets ------------------------------------------------------------- */

static int read_packet(struct reading *r, struct proto_in in)
{
	struct proto_in event = { 0 };
	struct event v = { 0 };
	struct proto_field f;
	int ret;

	/* Process the event after the loop, because the packet's names and
	 * tracks may follow the fields of the event. */
	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_TIMESTAMP)
			v.at = f.value;
		else if (f.number == PF_INTERNED_DATA)
			ret = timeline_read_names(r, f.bytes);
		else if (f.number == PF_TRACK_DESCRIPTOR)
			ret = timeline_read_track(r, f.bytes);
		else if (f.number == PF_TRACK_EVENT)
			event = f.bytes;
		if (ret < 0)
			return ret;
	}
	if (ret || !event.at)
		return ret;
	ret = read_event(r, event, &v);
	return ret ? ret : take_event(r, &v);
}

static int read_all(struct reading *r, const uint8_t *bytes, size_t n)
{
	struct proto_in in = { bytes, n };
	struct proto_field f;
	int ret;

	for (;;) {
		size_t at = n - in.left;

		ret = proto_next(&in, &f);
		if (ret == -ENODATA || (ret == -EBADMSG && n - at < 16)) {
			r->t->cut_short = r->t->packets > 0;
			if (r->t->cut_short)
				return 0;
		}
		if (!ret)
			return 0;
		if (ret < 0 || f.number != PF_TRACE_PACKET)
			return err_set(r->e, EBADMSG,
				"at byte %zu there is no packet of a Perfetto "
				"trace",
				at);
		ret = read_packet(r, f.bytes);
		if (ret)
			return err_in(r->e, "packet at byte %zu", at);
		r->t->packets++;
	}
}

/* ---- the whole file ------------------------------------------------------ */

static int check_ours(struct reading *r)
{
	const struct timeline *t = r->t;

	for (size_t i = 0; i < t->n_track; i++)
		if (t->track[i].role == TIMELINE_PROCESS &&
			!strcmp(t->track[i].name, "tandem"))
			return 0;
	return err_set(r->e, EBADMSG,
		"not a trace that Tandem wrote; 'tandem run --trace FILE' "
		"makes one");
}

int timeline_read(
	struct timeline *out, const void *bytes, size_t n, struct err *e)
{
	struct reading r = { .t = out, .e = e };
	int ret;

	*out = (struct timeline){ 0 };
	ret = read_all(&r, bytes, n);
	if (!ret)
		ret = check_ours(&r);
	free(r.category.text);
	free(r.event.text);
	free(r.argument.text);
	if (ret)
		timeline_release(out);
	for (size_t i = 0; i < out->n_slice; i++) {
		struct timeline_slice *s = &out->slice[i];
		const struct timeline_track *x = &out->track[s->track];

		if (!s->unfinished)
			continue;
		s->end = timeline_is_phone(x->role) ? x->last : out->end;
		s->until = out->n_slice;
	}
	return ret;
}

int timeline_read_file(struct timeline *out, const char *path, struct err *e)
{
	char *data;
	size_t n;
	int ret = fd_read_file(path, TIMELINE_FILE_MAX, &data, &n, e);

	if (ret)
		return ret;
	ret = timeline_read(out, data, n, e);
	free(data);
	return ret ? err_in(e, "'%s'", path) : 0;
}

void timeline_release(struct timeline *t)
{
	for (size_t i = 0; i < t->n_text; i++)
		free(t->text[i]);
	for (size_t i = 0; i < t->n_track; i++)
		free(t->track[i].name);
	free(t->text);
	free(t->track);
	free(t->slice);
	free(t->arg);
	free(t->point);
	free(t->flow);
	*t = (struct timeline){ 0 };
}

uint64_t timeline_arg(const struct timeline *t, const struct timeline_slice *s,
	const char *name)
{
	for (size_t i = s->arg; i; i = t->arg[i - 1].next)
		if (!strcmp(t->text[t->arg[i - 1].name], name))
			return t->arg[i - 1].value;
	return 0;
}

bool timeline_is_phone(enum timeline_role role)
{
	return role >= TIMELINE_PHONE_CPU && role <= TIMELINE_PHONE_COPY;
}

bool timeline_is_device(enum timeline_role role)
{
	return role == TIMELINE_DEVICE || role == TIMELINE_DMA;
}
