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

/* The first of a kind in full, as long as any is shown. */
static void tell(struct violations *v, const char *sentence)
{
	char text[VIOLATION_FULL_MAX];
	size_t n = strlen(sentence);

	if (v->of_kind[v->last.kind] > 1 && v->shown >= VIOLATION_SHOWN)
		return;
	v->shown++;
	if (v->of_kind[v->last.kind] > 1) {
		v->report(v->arg, sentence);
		return;
	}
	memcpy(text, sentence, n);
	violation_story(
		&v->last, v->upkeep_bytes_per_s, text + n, sizeof(text) - n);
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
	v->of_kind[v->last.kind]++;
	tell(v, sentence);
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
	char text[80];

	flush(v);
	if (v->total > v->shown) {
		snprintf(text, sizeof(text),
			"%" PRIu64 " violations in all, %" PRIu64 " shown",
			v->total, v->shown);
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
