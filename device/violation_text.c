#include "device/violation_text.h"

#include "base/checked.h"
#include "shm/coherence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHERE_MAX 64
#define WHO_MAX   160

static const struct {
	const char *name;
	/* What happened, with the request that first touched the line. */
	const char *sentence;
	bool cpu_wrote, device_wrote;
} kinds[VIOLATION_KINDS] = {
	[VIOLATION_STALE_READ] = { "stale read",
		"written by the CPU since request %u loaded it: invalidate it",
		true, false },
	[VIOLATION_LOST_CPU_WRITE] = { "lost write",
		"cleaned over what the CPU wrote since request %u loaded it",
		true, true },
	[VIOLATION_TORN_LINE] = { "torn line",
		"cleaned over the CPU's bytes beside those of request %u", true,
		true },
	[VIOLATION_LOST_DEV_WRITE] = { "lost write",
		"dropped what request %u wrote: clean it first", false, true },
	[VIOLATION_UNCLEANED] = { "lost write",
		"not cleaned of what request %u wrote: clean it", false, true },
	[VIOLATION_DMA_DIRTY] = { "DMA over dirty lines",
		"not yet cleaned of what request %u wrote: clean it first",
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

void violation_sentence(const struct violation *v, char *out, size_t size)
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

/* ---- the story ----------------------------------------------------------- */

static void the_cpu(const struct violation *v, char *out, size_t size)
{
	if (!v->cpu_known)
		snprintf(out, size, "the CPU, in a bracket that was not told");
	else if (v->cpu_by[0])
		snprintf(out, size, "the CPU, bracket %u, %s", v->cpu_seq,
			v->cpu_by);
	else
		snprintf(out, size, "the CPU, bracket %u", v->cpu_seq);
}

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

/* Who met it: the operator under way, or the CPU behind the request. */
static void the_reader(const struct violation *v, char *out, size_t size)
{
	char who[WHO_MAX];

	the_device(v->request, v->op, v->layer, who, sizeof(who));
	if (v->kind == VIOLATION_UNCLEANED)
		snprintf(out, size, "the CPU, once request %u is answered",
			v->request);
	else if (v->kind == VIOLATION_DMA_DIRTY)
		snprintf(out, size, "%s, by DMA", who);
	else
		snprintf(out, size, "%s", who);
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

static size_t put_values(
	const struct violation *v, char *out, size_t size, size_t at)
{
	char cached[3 * VIOLATION_VALUE_BYTES + 1];
	char memory[3 * VIOLATION_VALUE_BYTES + 1], text[160];

	if (!v->values.n)
		return at;
	in_hex(v->values.cached, v->values.n, cached);
	in_hex(v->values.memory, v->values.n, memory);
	snprintf(text, sizeof(text),
		"at byte %" PRIu64 " the cache has %s, "
		"memory %s %s",
		v->values.at, cached, v->evicted ? "had" : "has", memory);
	at = put(out, size, at, "values", text);
	if (!v->evicted)
		return at;
	snprintf(text, sizeof(text),
		"wrote %" PRIu64 " of %" PRIu64 " bytes back, by chance",
		v->evicted, v->to - v->from);
	return put(out, size, at, "the evictor", text);
}

static bool is_needless(enum violation_kind kind)
{
	return kind == VIOLATION_NEEDLESS_INVALIDATE ||
		kind == VIOLATION_NEEDLESS_CLEAN;
}

uint64_t violation_needless_bytes(const struct violation *v)
{
	uint64_t first = v->from / COHERENCE_LINE * COHERENCE_LINE;

	return is_needless(v->kind) ? align_up(v->to, COHERENCE_LINE) - first
				    : 0;
}

double violation_needless_us(
	const struct violation *v, double upkeep_bytes_per_s)
{
	return 1e6 * (double)violation_needless_bytes(v) / upkeep_bytes_per_s;
}

void violation_missing(const struct violation *v, char *out, size_t size)
{
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
		snprintf(out, size, "invalidate of %s before %s", range, here);
		break;
	case VIOLATION_LOST_CPU_WRITE:
		snprintf(
			out, size, "invalidate of %s before %s", range, before);
		break;
	case VIOLATION_TORN_LINE:
		snprintf(out, size,
			"invalidate of %s before %s, or a line for each owner",
			range, before);
		break;
	case VIOLATION_LOST_DEV_WRITE:
	case VIOLATION_UNCLEANED:
		snprintf(out, size, "clean of %s after %s", range, before);
		break;
	case VIOLATION_DMA_DIRTY:
		snprintf(out, size, "clean of %s after %s, before %s", range,
			before, here);
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

void violation_story(const struct violation *v, double upkeep_bytes_per_s,
	char *out, size_t size)
{
	char text[WHO_MAX + 96];
	size_t at = 0;

	*out = '\0';
	if (is_needless(v->kind)) {
		snprintf(text, sizeof(text),
			"%" PRIu64 " bytes, about %.3f us of a phone",
			violation_needless_bytes(v),
			violation_needless_us(v, upkeep_bytes_per_s));
		put(out, size, at, "to be saved", text);
		return;
	}
	if (kinds[v->kind].cpu_wrote || v->cpu_known) {
		the_cpu(v, text, sizeof(text));
		at = put(out, size, at,
			kinds[v->kind].cpu_wrote ? "written by" : "held by",
			text);
	}
	if (kinds[v->kind].device_wrote) {
		the_device(v->loaded, v->before, v->before_layer, text,
			sizeof(text));
		at = put(out, size, at,
			v->kind == VIOLATION_LOST_CPU_WRITE ? "loaded by"
							    : "written by",
			text);
	}
	the_reader(v, text, sizeof(text));
	at = put(out, size, at,
		kinds[v->kind].device_wrote ? "met by" : "read by", text);
	at = put_values(v, out, size, at);
	violation_missing(v, text, sizeof(text));
	put(out, size, at, "missing", text);
}
