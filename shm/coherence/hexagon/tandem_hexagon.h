/*
 * Runs host and DSP code of a Hexagon runtime on libtandem-coherence, both in
 * one process. The other headers in this folder declare the SDK functions that
 * are emulated; docs/coherence.md lists these functions. Any thread may call
 * the functions.
 *
 * The checker cannot see a plain pointer access. DSP code must pass each
 * pointer through HEX_READ or HEX_WRITE; in a build for the DSP, these macros
 * return the pointer unchanged. The CPU's code needs no change.
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
/* Get the DSP's view of [ptr, ptr + bytes): a private copy of a buffer's lines
 * or, outside all buffers (for example VTCM), `ptr` itself. coherence_read and
 * coherence_write define how long a view is valid and when it must be filled.
 */
#define HEX_READ(ptr, bytes)      tandem_hexagon_read(ptr, bytes)
#define HEX_WRITE(ptr, bytes)     tandem_hexagon_write(ptr, bytes)
/* Set the operator and layer (-1: none) that reports name from now on. */
#define HEX_OPERATOR(name, layer) tandem_hexagon_operator(name, layer)

#pragma GCC visibility push(default)

struct coherence_config; /* tandem_coherence.h */

/* Open the cache. Returns 0, -EBUSY if the cache is already open, or another
 * negative errno. All other functions that the headers of this folder declare
 * need an open cache. */
int tandem_hexagon_open(const struct coherence_config *);
/* Free all buffers and the cache. All queues must be closed before. Returns the
 * number of reports. */
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
