/* The address of a buffer on the DSP. In this emulation of the Hexagon SDK the
 * address is the same as on the CPU. */
#ifndef TANDEM_HAP_MEM_H
#define TANDEM_HAP_MEM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Get the address of buffer `fd`. `physical` may be NULL. Returns AEE_EBADPARM
 * if there is no such buffer. */
int HAP_mmap_get(int fd, void **address, uint64_t *physical);
int HAP_mmap_put(int fd); /* has no effect */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
