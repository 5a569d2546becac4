#include "host/trace/timeline_impl.h"

#include "base/err.h"
#include "host/trace/perfetto.h"

#include <errno.h>
#include <string.h>

#define IID_MAX 65536

/* ---- common -------------------------------------------------------------- */

int timeline_next(struct reading *r, struct proto_in *in, struct proto_field *f)
{
	int ret = proto_next(in, f);

	return ret < 0 ? err_set(r->e, EBADMSG,
				 "a field has an invalid "
				 "encoding")
		       : ret;
}

/* ---- interned names ------------------------------------------------------ */

static int intern(struct reading *r, struct interned *table, struct proto_in in)
{
	struct proto_in name = { 0 };
	struct proto_field f;
	uint64_t iid = 0;
	char *copy;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_IID)
			iid = f.value;
		else if (f.number == PF_IID_NAME)
			name = f.bytes;
	}
	if (ret)
		return ret;
	if (!iid || iid >= IID_MAX || !name.at)
		return err_set(r->e, EBADMSG,
			"a name has no number by which "
			"events refer to it");
	if (iid >= table->n) {
		uint32_t *more =
			reallocarray(table->text, iid + 1, sizeof(*more));

		if (!more)
			return err_set(r->e, ENOMEM, "no memory for the trace");
		memset(more + table->n, 0,
			(iid + 1 - table->n) * sizeof(*more));
		table->text = more;
		table->n = iid + 1;
	}
	copy = strndup((const char *)name.at, name.left);
	if (!copy || TIMELINE_GROW(r, text, n_text)) {
		free(copy);
		return err_set(r->e, ENOMEM, "no memory for the trace");
	}
	err_plain(copy);
	r->t->text[r->t->n_text++] = copy;
	table->text[iid] = (uint32_t)r->t->n_text;
	return 0;
}

int timeline_read_names(struct reading *r, struct proto_in in)
{
	struct proto_field f;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_CATEGORIES)
			ret = intern(r, &r->category, f.bytes);
		else if (f.number == PF_EVENT_NAMES)
			ret = intern(r, &r->event, f.bytes);
		else if (f.number == PF_ARGUMENT_NAMES)
			ret = intern(r, &r->argument, f.bytes);
		if (ret < 0)
			return ret;
	}
	return ret;
}

int timeline_named(struct reading *r, const struct interned *table,
	uint64_t iid, uint32_t *out)
{
	if (iid >= table->n || !table->text[iid])
		return err_set(r->e, EBADMSG,
			"an event refers to a name that "
			"was not declared");
	*out = table->text[iid] - 1;
	return 0;
}

/* ---- tracks -------------------------------------------------------------- */

struct timeline_track *timeline_find_track(struct timeline *t, uint64_t uuid)
{
	for (size_t i = t->n_track; i-- > 0;)
		if (t->track[i].uuid == uuid)
			return &t->track[i];
	return NULL;
}

static int read_process(struct reading *r, struct proto_in in,
	struct timeline_track *out, struct proto_in *name)
{
	struct proto_field f;
	int ret;

	out->role = TIMELINE_PROCESS;
	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_PROCESS_PID)
			out->pid = f.value;
		else if (f.number == PF_PROCESS_NAME)
			*name = f.bytes;
	}
	return ret;
}

static int read_thread(struct reading *r, struct proto_in in,
	struct timeline_track *out, struct proto_in *name)
{
	struct proto_field f;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_THREAD_PID)
			out->pid = f.value;
		else if (f.number == PF_THREAD_TID)
			out->tid = f.value;
		else if (f.number == PF_THREAD_NAME)
			*name = f.bytes;
	}
	return ret;
}

static enum timeline_role role_of(
	struct timeline *t, const struct timeline_track *x)
{
	static const struct {
		const char *name;
		enum timeline_role role;
	} known[] = {
		{ "texts", TIMELINE_TEXTS },
		{ "requests", TIMELINE_REQUESTS },
		{ "flash", TIMELINE_FLASH },
		{ "window", TIMELINE_WINDOW },
		{ "phone CPU", TIMELINE_PHONE_CPU },
		{ "phone NPU", TIMELINE_PHONE_NPU },
		{ "phone loader", TIMELINE_PHONE_LOADER },
		{ "phone flash", TIMELINE_PHONE_FLASH },
		{ "phone copies", TIMELINE_PHONE_COPY },
	};
	const struct timeline_track *of = timeline_find_track(t, x->parent);

	if (x->role)
		return x->role;
	if (of && !strcmp(of->name, "tandem-npu"))
		return strcmp(x->name, "DMA") ? TIMELINE_DEVICE : TIMELINE_DMA;
	if (x->tid)
		return TIMELINE_THREAD;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(x->name, known[i].name))
			return known[i].role;
	return TIMELINE_OTHER;
}

int timeline_read_track(struct reading *r, struct proto_in in)
{
	struct timeline_track x = { 0 };
	struct proto_in name = { 0 };
	struct proto_field f;
	int ret;

	while ((ret = timeline_next(r, &in, &f)) > 0) {
		if (f.number == PF_UUID)
			x.uuid = f.value;
		else if (f.number == PF_PARENT_UUID)
			x.parent = f.value;
		else if (f.number == PF_TRACK_NAME)
			name = f.bytes;
		else if (f.number == PF_PROCESS)
			ret = read_process(r, f.bytes, &x, &name);
		else if (f.number == PF_THREAD)
			ret = read_thread(r, f.bytes, &x, &name);
		else if (f.number == PF_COUNTER_TRACK)
			x.role = TIMELINE_COUNTER;
		if (ret < 0)
			return ret;
	}
	if (ret)
		return ret;
	if (!x.uuid || timeline_find_track(r->t, x.uuid))
		return err_set(r->e, EBADMSG,
			"a track has no number by which "
			"events refer to it");
	if (TIMELINE_GROW(r, track, n_track))
		return -ENOMEM;
	x.name = strndup(name.at ? (const char *)name.at : "", name.left);
	if (!x.name)
		return err_set(r->e, ENOMEM, "no memory for the trace");
	err_plain(x.name);
	x.role = role_of(r->t, &x);
	r->t->track[r->t->n_track++] = x;
	return 0;
}
