#include "device/violation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_name[] = {
	[VIOLATION_STALE_READ] = "stale read",
	[VIOLATION_LOST_CPU_WRITE] = "lost write",
	[VIOLATION_LOST_DEV_WRITE] = "lost write",
	[VIOLATION_DMA_DIRTY] = "DMA over dirty lines",
	[VIOLATION_NEEDLESS_INVALIDATE] = "needless maintenance",
	[VIOLATION_NEEDLESS_CLEAN] = "needless maintenance",
};

/* What happened, with the request that first touched the line. */
static const char *const kind_story[] = {
	[VIOLATION_STALE_READ] =
		"written by the CPU since request %u loaded it: invalidate it",
	[VIOLATION_LOST_CPU_WRITE] =
		"cleaned over what the CPU wrote since request %u loaded it",
	[VIOLATION_LOST_DEV_WRITE] =
		"dropped what request %u wrote: clean it first",
	[VIOLATION_DMA_DIRTY] =
		"not yet cleaned of what request %u wrote: clean it first",
	[VIOLATION_NEEDLESS_INVALIDATE] =
		"invalidated, but not written by the CPU since request %u",
	[VIOLATION_NEEDLESS_CLEAN] =
		"cleaned, but not written by the device as of request %u",
};

void violations_init(struct violations *v,
	void (*report)(void *arg, const char *text), void *arg)
{
	memset(v, 0, sizeof(*v));
	v->report = report;
	v->arg = arg;
	v->op = "start";
	v->layer = -1;
	pthread_mutex_init(&v->lock, NULL);
}

static void describe(const struct violations *v, char *text, size_t size)
{
	const struct violation *l = &v->last;
	char story[128], layer[32] = "", cpu[32] = "unknown";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(story, sizeof(story), kind_story[l->kind], l->loaded);
#pragma GCC diagnostic pop
	if (v->layer >= 0)
		snprintf(layer, sizeof(layer), ", layer %d", v->layer);
	if (l->cpu_known)
		snprintf(cpu, sizeof(cpu), "%u", l->cpu_seq);
	snprintf(text, size,
		"%s: %s [%" PRIu64 ", %" PRIu64 ") in %s%s: %s"
		" (CPU bracket %s, device request %u)",
		kind_name[l->kind], l->buffer, l->from, l->to, v->op, layer,
		story, cpu, v->request);
}

/* The report in the making is complete. */
static void flush(struct violations *v)
{
	char text[VIOLATION_TEXT_MAX];

	if (!v->open)
		return;
	v->open = false;
	describe(v, text, sizeof(text));
	if (!v->in_request++)
		memcpy(v->first, text, sizeof(text));
	if (v->total++ < VIOLATION_SHOWN)
		v->report(v->arg, text);
}

void violations_release(struct violations *v)
{
	char text[80];

	flush(v);
	if (v->total > VIOLATION_SHOWN) {
		snprintf(text, sizeof(text),
			"%" PRIu64 " violations in all, %d shown", v->total,
			VIOLATION_SHOWN);
		v->report(v->arg, text);
	}
	pthread_mutex_destroy(&v->lock);
}

void violations_begin_request(struct violations *v, uint32_t seq)
{
	flush(v);
	v->request = seq;
	v->in_request = 0;
	v->first[0] = '\0';
	v->op = "request";
	v->layer = -1;
}

void violations_operator(struct violations *v, const char *op, int layer)
{
	flush(v);
	v->op = op;
	v->layer = layer;
}

void violations_add(struct violations *v, const struct violation *new)
{
	struct violation *l = &v->last;

	pthread_mutex_lock(&v->lock);
	if (v->open && l->kind == new->kind && l->to == new->from &&
		l->buffer == new->buffer && l->cpu_known == new->cpu_known &&
		l->cpu_seq == new->cpu_seq && l->loaded == new->loaded) {
		l->to = new->to;
	} else {
		flush(v);
		*l = *new;
		v->open = true;
	}
	pthread_mutex_unlock(&v->lock);
}

uint32_t violations_end_request(struct violations *v, const char **first)
{
	flush(v);
	*first = v->first;
	return v->in_request;
}
