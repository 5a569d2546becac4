#include "shm/coherence/violation.h"

#include "base/checked.h"
#include "shm/coherence/coherence_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 64
#define WHO_MAX   160

static const struct {
	const char *name;
	/* format of the report's first sentence; %u is the member `loaded` of
	 * struct violation */
	const char *sentence;
	bool cpu_wrote, device_wrote;
} kinds[VIOLATION_KINDS] = {
	[VIOLATION_STALE_READ] = { "stale read",
		"written by the CPU since request %u loaded it: invalidate it",
		true, false },
	[VIOLATION_LOST_CPU_WRITE] = { "lost write",
		"written back over bytes that the CPU wrote after request %u "
		"loaded them",
		true, true },
	[VIOLATION_TORN_LINE] = { "torn line",
		"written back with bytes of request %u, over the CPU's bytes in "
		"the same line",
		true, true },
	[VIOLATION_LOST_DEV_WRITE] = { "lost write",
		"dropped with bytes that request %u wrote: clean it first",
		false, true },
	[VIOLATION_UNCLEANED] = { "lost write",
		"written by request %u, but not cleaned: clean it", false,
		true },
	[VIOLATION_DMA_DIRTY] = { "DMA over dirty lines",
		"written by request %u, but not yet cleaned: clean it first",
		false, true },
	[VIOLATION_STALE_DMA] = { "stale read",
		"written by DMA of request %u after it was loaded: "
		"invalidate it",
		false, true },
	[VIOLATION_LOST_DMA_WRITE] = { "lost write",
		"written back over bytes that DMA of request %u wrote", false,
		true },
	[VIOLATION_DMA_OVER_DIRTY] = { "DMA over dirty lines",
		"written by request %u, but not yet cleaned: a later write-back "
		"would overwrite the DMA's bytes",
		false, true },
	[VIOLATION_DMA_EARLY_READ] = { "read before a wait",
		"read while DMA of request %u still writes it", false, true },
	[VIOLATION_DMA_REUSED] = { "write before a wait",
		"written while DMA of request %u still uses it", false, true },
	[VIOLATION_DMA_UNENDED] = { "missing wait",
		"DMA of request %u was still in progress at the end of the "
		"request",
		false, true },
	[VIOLATION_HELD_WRITE] = { "write to a held buffer",
		"written while the CPU has it in an open bracket", false,
		true },
	[VIOLATION_HELD_READ] = { "read of a held buffer",
		"read while the CPU has it open for writing", true, false },
	[VIOLATION_NEEDLESS_INVALIDATE] = { "needless maintenance",
		"invalidated, but not written by the CPU since request %u",
		false, false },
	[VIOLATION_NEEDLESS_CLEAN] = { "needless maintenance",
		"cleaned, but not written by the device as of request %u",
		false, false },
	[VIOLATION_NEEDLESS_WHOLE] = { "needless maintenance",
		"a call for the whole cache, but neither side has written since "
		"request %u",
		false, false },
	[VIOLATION_NEEDLESS_WAIT] = { "needless wait",
		"waited for, but DMA of request %u had ended", false, false },
	[VIOLATION_UNUSED_WAIT] = { "needless wait",
		"waited for DMA of request %u, but nothing used the bytes",
		false, false },
};

const char *violation_kind_name(enum violation_kind kind)
{
	return kinds[kind].name;
}

bool violation_cpu_wrote(enum violation_kind kind)
{
	return kinds[kind].cpu_wrote;
}

bool violation_device_wrote(enum violation_kind kind)
{
	return kinds[kind].device_wrote;
}

void violation_where(const char *op, int layer, char *out, size_t size)
{
	if (layer >= 0)
		snprintf(out, size, "%s, layer %d", op, layer);
	else
		snprintf(out, size, "%s", op);
}

/* Write the first line of a report: the broken rule, the range, and the
 * operator that broke the rule. */
static void violation_sentence(
	const struct violation *v, char *out, size_t size)
{
	char what[128], where[WHERE_MAX], cpu[32] = "unknown";

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(what, sizeof(what), kinds[v->kind].sentence, v->loaded);
#pragma GCC diagnostic pop
	violation_where(v->op, v->layer, where, sizeof(where));
	if (v->cpu_known)
		snprintf(cpu, sizeof(cpu), "%u", v->cpu_seq);
	snprintf(out, size,
		"%s: %s [%" PRIu64 ", %" PRIu64 ") in %s: %s"
		" (CPU bracket %s, device request %u)",
		kinds[v->kind].name, v->buffer, v->from, v->to, where, what,
		cpu, v->request);
}

/* ---- the full report ----------------------------------------------------- */

static void the_device(
	uint32_t request, const char *op, int layer, char *out, size_t size)
{
	char where[WHERE_MAX] = "", *at = where;

	if (op) {
		memcpy(where, ", ", 3);
		at += 2;
		violation_where(op, layer, at, sizeof(where) - 2);
	}
	snprintf(out, size, "the device, request %u%s", request, where);
}

static size_t put(
	char *out, size_t size, size_t at, const char *what, const char *text)
{
	int n = snprintf(out + at, size - at, "\n    %s: %s", what, text);

	return n < 0 || (size_t)n >= size - at ? size - 1 : at + (size_t)n;
}

static void in_hex(const uint8_t *byte, unsigned n, char *out)
{
	for (unsigned i = 0; i < n; i++)
		snprintf(out + (size_t)3 * i, 4, i + 1 < n ? "%02x " : "%02x",
			byte[i]);
}

uint64_t violation_needless_bytes(const struct violation *v)
{
	uint64_t first = v->from / COHERENCE_LINE * COHERENCE_LINE;

	return v->kind == VIOLATION_NEEDLESS_INVALIDATE ||
			v->kind == VIOLATION_NEEDLESS_CLEAN
		? align_up(v->to, COHERENCE_LINE) - first
		: 0;
}

double violation_needless_us(const struct violation *v,
	double maintenance_bytes_per_s, double whole_s)
{
	if (v->kind == VIOLATION_NEEDLESS_WHOLE)
		return 1e6 * whole_s;
	return 1e6 * (double)violation_needless_bytes(v) /
		maintenance_bytes_per_s;
}

void violation_missing(const struct violation *v, char *out, size_t size)
{
	const char *clean = v->whole ? "clean_all for" : "clean of";
	const char *drop = v->whole ? "flush_all for" : "invalidate of";
	char here[WHERE_MAX], before[WHERE_MAX] = "its write";
	char range[96];

	violation_where(v->op, v->layer, here, sizeof(here));
	if (v->before)
		violation_where(
			v->before, v->before_layer, before, sizeof(before));
	snprintf(range, sizeof(range), "%s [%" PRIu64 ", %" PRIu64 ")",
		v->buffer, v->from, v->to);
	switch (v->kind) {
	case VIOLATION_STALE_READ:
		snprintf(out, size, "%s %s before %s", drop, range, here);
		break;
	case VIOLATION_LOST_CPU_WRITE:
		snprintf(out, size, "%s %s before %s", drop, range, before);
		break;
	case VIOLATION_TORN_LINE:
		snprintf(out, size, "%s %s before %s, or separate cache lines",
			drop, range, before);
		break;
	case VIOLATION_LOST_DEV_WRITE:
	case VIOLATION_UNCLEANED:
		snprintf(out, size, "%s %s after %s", clean, range, before);
		break;
	case VIOLATION_DMA_DIRTY:
	case VIOLATION_DMA_OVER_DIRTY:
		snprintf(out, size, "%s %s after %s, before %s", clean, range,
			before, here);
		break;
	case VIOLATION_STALE_DMA:
		snprintf(out, size, "%s %s after the DMA of %s, before %s",
			drop, range, before, here);
		break;
	case VIOLATION_LOST_DMA_WRITE:
		snprintf(out, size, "%s %s after the DMA of %s", drop, range,
			before);
		break;
	case VIOLATION_DMA_EARLY_READ:
	case VIOLATION_DMA_REUSED:
		snprintf(out, size, "wait for the DMA of %s before %s", before,
			here);
		break;
	case VIOLATION_DMA_UNENDED:
		snprintf(out, size, "wait for the DMA of %s", before);
		break;
	case VIOLATION_HELD_WRITE:
	case VIOLATION_HELD_READ:
		snprintf(out, size, "end of the CPU's bracket of %s before %s",
			range, here);
		break;
	default:
		*out = '\0';
	}
}

/* Write the lines after the sentence, each as "\n    WHAT: TEXT". */
static void violation_details(const struct violation *v,
	const struct violations *all, char *out, size_t size)
{
	bool by_dma = v->kind >= VIOLATION_STALE_DMA &&
		v->kind <= VIOLATION_DMA_UNENDED &&
		v->kind != VIOLATION_DMA_OVER_DIRTY;
	char cached[3 * VIOLATION_VALUE_BYTES + 1];
	char memory[3 * VIOLATION_VALUE_BYTES + 1];
	char text[WHO_MAX + 96], who[WHO_MAX];
	size_t n, at = 0;

	*out = '\0';
	if (v->kind >= VIOLATION_NEEDLESS_INVALIDATE) {
		double us = violation_needless_us(
			v, all->maintenance_bytes_per_s, all->whole_s);

		if (violation_needless_bytes(v))
			snprintf(text, sizeof(text),
				"%" PRIu64 " bytes, about %.3f us on a phone",
				violation_needless_bytes(v), us);
		else if (us > 0)
			snprintf(text, sizeof(text), "about %.3f us on a phone",
				us);
		else
			return;
		put(out, size, at, "could be saved", text);
		return;
	}
	if (kinds[v->kind].cpu_wrote || v->cpu_known) {
		if (v->cpu_known)
			n = (size_t)snprintf(text, sizeof(text),
				"the CPU, bracket %u", v->cpu_seq);
		else
			n = (size_t)snprintf(text, sizeof(text),
				"the CPU, in a bracket that was not reported");
		if (v->cpu_known && v->cpu_by[0])
			snprintf(text + n, sizeof(text) - n, ", %s", v->cpu_by);
		at = put(out, size, at,
			kinds[v->kind].cpu_wrote ? "written by" : "held by",
			text);
	}
	if (kinds[v->kind].device_wrote) {
		the_device(v->loaded, v->before, v->before_layer, who,
			sizeof(who));
		snprintf(text, sizeof(text), "%s%s", who,
			by_dma ? ", by DMA" : "");
		at = put(out, size, at,
			v->kind == VIOLATION_LOST_CPU_WRITE      ? "loaded by"
				: by_dma && v->buffer[0] == '\0' ? "in use by"
								 : "written by",
			text);
	}
	/* Describe the access that broke the rule: an access of the current
	 * operator or, for an uncleaned line, an access of the CPU after the
	 * request. */
	the_device(v->request, v->op, v->layer, who, sizeof(who));
	if (v->kind == VIOLATION_UNCLEANED)
		snprintf(text, sizeof(text),
			"the CPU, once request %u is answered", v->request);
	else
		snprintf(text, sizeof(text), "%s%s", who,
			v->kind == VIOLATION_DMA_DIRTY ||
					v->kind == VIOLATION_DMA_OVER_DIRTY
				? ", by DMA"
				: "");
	at = put(out, size, at,
		kinds[v->kind].device_wrote ? "met by" : "read by", text);
	if (v->values.n) {
		in_hex(v->values.cached, v->values.n, cached);
		in_hex(v->values.memory, v->values.n, memory);
		snprintf(text, sizeof(text),
			"at byte %" PRIu64 " the cache has %s, memory %s %s",
			v->values.at, cached, v->evicted ? "had" : "has",
			memory);
		at = put(out, size, at, "values", text);
	}
	if (v->values.n && v->evicted) {
		snprintf(text, sizeof(text),
			"wrote %" PRIu64 " of %" PRIu64
			" bytes back, by chance",
			v->evicted, v->to - v->from);
		at = put(out, size, at, "the evictor", text);
	}
	violation_missing(v, text, sizeof(text));
	put(out, size, at, "missing", text);
}

/* ---- a device's reports -------------------------------------------------- */

void violations_init(struct violations *v,
	const struct coherence_config *config,
	const struct coherence_hooks *hooks)
{
	memset(v, 0, sizeof(*v));
	v->config = config;
	v->hooks = hooks;
	v->maintenance_bytes_per_s = VIOLATION_MAINTENANCE_BYTES_PER_S;
	v->whole_s = VIOLATION_WHOLE_S;
	v->op = "start";
	v->layer = -1;
	pthread_mutex_init(&v->lock, NULL);
}

static void print(const struct violations *v, const char *text)
{
	if (v->config->report)
		v->config->report(v->config->arg, text);
}

/* Print v->last in full. Unless report_every is set, only count v->last if a
 * report of the same kind, buffer and operator was printed before, or if
 * VIOLATION_SHOWN reports were printed before. */
static void show(struct violations *v, const char *sentence)
{
	const struct violation *l = &v->last;
	char text[VIOLATION_FULL_MAX];
	size_t n = strlen(sentence);
	struct violation_shown *s;

	for (unsigned i = 0; i < v->n_shown && !v->config->report_every; i++) {
		s = &v->shown[i];
		if (s->kind == l->kind && !strcmp(s->op, l->op) &&
			!strcmp(s->buffer, l->buffer)) {
			s->more++;
			return;
		}
	}
	if (v->n_shown == VIOLATION_SHOWN) {
		v->others++;
		return;
	}
	if (!v->config->report_every) {
		s = &v->shown[v->n_shown++];
		s->kind = l->kind;
		s->op = l->op;
		snprintf(s->buffer, sizeof(s->buffer), "%s", l->buffer);
	}
	memcpy(text, sentence, n);
	violation_details(l, v, text + n, sizeof(text) - n);
	print(v, text);
}

/* Finish the current report: print it and write it to the file. */
static void flush(struct violations *v)
{
	char sentence[VIOLATION_TEXT_MAX];

	if (!v->open)
		return;
	v->open = false;
	if (v->config->file &&
		coherence_report_suppresses(v->config->file, &v->last))
		return;
	violation_sentence(&v->last, sentence, sizeof(sentence));
	if (!v->in_request++)
		memcpy(v->first, sentence, sizeof(sentence));
	v->total++;
	show(v, sentence);
	if (v->hooks->reported)
		v->hooks->reported(v->hooks->arg, &v->last);
	if (v->config->file)
		coherence_report_add(v->config->file, &v->last,
			v->maintenance_bytes_per_s, v->whole_s);
}

void violations_release(struct violations *v)
{
	char text[160];

	flush(v);
	for (unsigned i = 0; i < v->n_shown; i++) {
		const struct violation_shown *s = &v->shown[i];

		if (!s->more)
			continue;
		snprintf(text, sizeof(text),
			"... and %" PRIu64 " more like this in %s (%s in %s)",
			s->more, s->buffer, violation_kind_name(s->kind),
			s->op);
		print(v, text);
	}
	if (v->others) {
		snprintf(text, sizeof(text),
			"... and %" PRIu64
			" more of other kinds, buffers or operators",
			v->others);
		print(v, text);
	}
	pthread_mutex_destroy(&v->lock);
}

void violations_begin_request(struct violations *v, uint32_t seq)
{
	violations_operator(v, "request", -1);
	v->request = seq;
	v->in_request = 0;
	v->first[0] = '\0';
}

void violations_operator(struct violations *v, const char *op, int layer)
{
	flush(v);
	v->op = op;
	v->layer = layer;
}

/* Whether violation `new` extends report `l`: the bytes of `new` directly
 * follow the bytes of `l`, and kind, buffer, CPU access and earlier device
 * access are equal. */
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
