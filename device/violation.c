#include "device/violation.h"

#include "device/coherence_report.h"
#include "device/device_trace.h"
#include "device/violation_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void violations_init(struct violations *v,
	void (*report)(void *arg, const char *text), void *arg,
	struct coherence_report *file)
{
	memset(v, 0, sizeof(*v));
	v->report = report;
	v->arg = arg;
	v->file = file;
	v->upkeep_bytes_per_s = VIOLATION_UPKEEP_BYTES_PER_S;
	v->op = "start";
	v->layer = -1;
	pthread_mutex_init(&v->lock, NULL);
}

static struct violation_shown *shown_like(
	struct violations *v, const struct violation *l)
{
	for (unsigned i = 0; i < v->n_shown; i++) {
		struct violation_shown *s = &v->shown[i];

		if (s->kind == l->kind && !strcmp(s->op, l->op) &&
			!strcmp(s->buffer, l->buffer))
			return s;
	}
	return NULL;
}

/* Print it in full, or count it with the one that is like it. */
static void show(struct violations *v, const char *sentence)
{
	struct violation_shown *s = v->every ? NULL : shown_like(v, &v->last);
	char text[VIOLATION_FULL_MAX];
	size_t n = strlen(sentence);

	if (s) {
		s->more++;
		return;
	}
	if (v->n_shown == VIOLATION_SHOWN) {
		v->others++;
		return;
	}
	if (!v->every) {
		s = &v->shown[v->n_shown++];
		s->kind = v->last.kind;
		s->op = v->last.op;
		snprintf(s->buffer, sizeof(s->buffer), "%s", v->last.buffer);
	}
	memcpy(text, sentence, n);
	violation_story(
		&v->last, v->upkeep_bytes_per_s, text + n, sizeof(text) - n);
	v->report(v->arg, text);
}

static void show_counts(struct violations *v)
{
	char text[160];

	for (unsigned i = 0; i < v->n_shown; i++) {
		const struct violation_shown *s = &v->shown[i];

		if (!s->more)
			continue;
		snprintf(text, sizeof(text),
			"... and %" PRIu64 " more like this in %s (%s in %s)",
			s->more, s->buffer, violation_kind_name(s->kind),
			s->op);
		v->report(v->arg, text);
	}
	if (!v->others)
		return;
	snprintf(text, sizeof(text),
		"... and %" PRIu64 " more of other kinds, buffers or operators",
		v->others);
	v->report(v->arg, text);
}

/* The report in the making is complete. */
static void flush(struct violations *v)
{
	char sentence[VIOLATION_TEXT_MAX];

	if (!v->open)
		return;
	v->open = false;
	if (v->file && coherence_report_suppresses(v->file, &v->last))
		return;
	violation_sentence(&v->last, sentence, sizeof(sentence));
	if (!v->in_request++)
		memcpy(v->first, sentence, sizeof(sentence));
	v->total++;
	show(v, sentence);
	if (v->trace)
		device_trace_violation(v->trace,
			violation_kind_name(v->last.kind), v->last.buffer,
			v->last.from, v->last.to,
			v->last.cpu_known ? v->last.cpu_seq : 0);
	if (v->file)
		coherence_report_add(v->file, &v->last, v->upkeep_bytes_per_s);
}

void violations_release(struct violations *v)
{
	flush(v);
	show_counts(v);
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

/* Whether it goes on where the last one ended. */
static bool is_more_of(const struct violation *l, const struct violation *new)
{
	return l->kind == new->kind && l->to == new->from &&
		l->buffer == new->buffer && l->cpu_known == new->cpu_known &&
		l->cpu_seq == new->cpu_seq && l->loaded == new->loaded &&
		l->before == new->before &&
		l->before_layer == new->before_layer &&
		!strcmp(l->cpu_by, new->cpu_by);
}

void violations_add(struct violations *v, const struct violation *new)
{
	struct violation *l = &v->last;

	pthread_mutex_lock(&v->lock);
	if (v->open && is_more_of(l, new)) {
		l->to = new->to;
		l->evicted += new->evicted;
	} else {
		flush(v);
		*l = *new;
		l->op = v->op;
		l->layer = v->layer;
		l->request = v->request;
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
