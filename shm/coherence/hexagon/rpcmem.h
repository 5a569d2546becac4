/*
 * Memory that CPU and DSP share. This emulation of the Hexagon SDK registers
 * each allocation as a buffer of libtandem-coherence, "rpcmem:1", "rpcmem:2"
 * and so on in reports; the number is also the buffer's `fd`, which is not a
 * file descriptor of the system.
 */
#ifndef TANDEM_RPCMEM_H
#define TANDEM_RPCMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define RPCMEM_HEAP_ID_SYSTEM 25
#define RPCMEM_DEFAULT_FLAGS  1
#define RPCMEM_TRY_MAP_STATIC 0x04000000

void rpcmem_init(void); /* rpcmem_init and rpcmem_deinit have no effect */
void rpcmem_deinit(void);
/* Allocate zeroed memory, aligned to a page. Returns NULL if there is no
 * memory, if there are too many buffers, or before tandem_hexagon_open. Heap
 * and flags have no effect. */
void *rpcmem_alloc(int heap, uint32_t flags, int bytes);
void *rpcmem_alloc2(int heap, uint32_t flags, size_t bytes);
void rpcmem_free(void *);
/* Get the number of a buffer. Returns -1 if `mem` is not the beginning of a
 * buffer. */
int rpcmem_to_fd(void *mem);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
