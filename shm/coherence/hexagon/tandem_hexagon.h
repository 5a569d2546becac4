/*
 * Runs host and DSP code of a Hexagon runtime on libtandem-coherence, both in
 * one process. The headers beside this one declare the SDK's functions that the
 * shim offers; docs/coherence.md lists them. Any thread may call.
 *
 * The checker cannot see a plain pointer access. DSP code must pass each
 * pointer through HEX_READ or HEX_WRITE; built for the DSP these are the
 * pointer itself. The CPU's code needs no change.
 */
#ifndef TANDEM_HEXAGON_H
#define TANDEM_HEXAGON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __hexagon__
#define HEX_READ(ptr, bytes)      (ptr)
#define HEX_WRITE(ptr, bytes)     (ptr)
#define HEX_OPERATOR(name, layer) ((void)0)
#else
/* The DSP's view of [ptr, ptr + bytes): its private copy of a buffer's lines,
 * or `ptr` itself outside of all buffers, as for VTCM. Valid, and to be filled,
 * as coherence_read and coherence_write say. */
#define HEX_READ(ptr, bytes)      tandem_hexagon_read(ptr, bytes)
#define HEX_WRITE(ptr, bytes)     tandem_hexagon_write(ptr, bytes)
/* Reports name what follows by operator and layer, -1 if it has none. */
#define HEX_OPERATOR(name, layer) tandem_hexagon_operator(name, layer)

#pragma GCC visibility push(default)

struct coherence_config; /* tandem_coherence.h */

/* Open the cache; 0 or a negative errno, -EBUSY if it is open. All other
 * functions of the shim need it. */
int tandem_hexagon_open(const struct coherence_config *);
/* Free all buffers and the cache. Returns the number of reports. Queues must be
 * closed. */
uint64_t tandem_hexagon_close(void);

const void *tandem_hexagon_read(const void *, size_t bytes);
void *tandem_hexagon_write(void *, size_t bytes);
void tandem_hexagon_operator(const char *name, int layer);

#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
