/*
 * A violation in words: the sentence, the whole story, and the parts that the
 * file of reports has as members. Nothing is kept; any thread. What does not
 * fit is cut.
 */
#ifndef DEVICE_VIOLATION_TEXT_H
#define DEVICE_VIOLATION_TEXT_H

#include "device/violation.h"

#include <stddef.h>

/* Kinds that mean the same to a reader share a name. */
const char *violation_kind_name(enum violation_kind);

/* "rmsnorm, layer 3" */
void violation_where(const char *op, int layer, char *out, size_t size);

/* What is broken, where and by whom, in one line. */
void violation_sentence(const struct violation *, char *out, size_t size);

/* The lines that follow it, each "\n    WHAT: ...". */
void violation_story(const struct violation *, double upkeep_bytes_per_s,
	char *out, size_t size);

/* Whose bytes were at stake: the CPU's, the device's, or both. */
bool violation_cpu_wrote(enum violation_kind);
bool violation_device_wrote(enum violation_kind);

/* The one call that would have made it right; "" for upkeep too many. */
void violation_missing(const struct violation *, char *out, size_t size);

/* Needless upkeep: bytes of whole lines, and what they cost a phone. */
uint64_t violation_needless_bytes(const struct violation *);
double violation_needless_us(
	const struct violation *, double upkeep_bytes_per_s);

#endif
