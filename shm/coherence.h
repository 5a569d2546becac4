/*
 * The coherence contract between the two processes (see
 * docs/architecture.md): coherence is one-way. The CPU never invalidates; it
 * sees bytes that the device has cleaned. The device does not see the CPU's
 * writes until it invalidates its own lines. DMA bypasses the device's cache.
 */
#ifndef SHM_COHERENCE_H
#define SHM_COHERENCE_H

#define COHERENCE_LINE 64 /* bytes; the unit of all maintenance */

enum coherence {
	COHERENCE_OFF, /* views alias shared memory; maintenance is counted */
	COHERENCE_STRICT, /* views go through a private copy, by line */
	COHERENCE_CHECK,  /* as strict, and every violation is reported */
	COHERENCE_COUNT
};

/* "off", "strict", "check", NULL: in the enum's order. */
extern const char *const coherence_names[];

#endif
