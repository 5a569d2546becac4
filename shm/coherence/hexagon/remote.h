/* Domains, and mapping of buffers for the DSP. In this emulation of the Hexagon
 * SDK all buffers are always mapped. Sessions and calls of FastRPC are not
 * supported. */
#ifndef TANDEM_REMOTE_H
#define TANDEM_REMOTE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CDSP_DOMAIN_ID 3

enum fastrpc_map_flags { FASTRPC_MAP_FD = 2, FASTRPC_MAP_FD_DELAYED };

/* These functions return AEE_EBADPARM if there is no buffer `fd`. Otherwise
 * they have no effect. */
int fastrpc_mmap(int domain, int fd, void *address, int offset, size_t bytes,
	enum fastrpc_map_flags);
int fastrpc_munmap(int domain, int fd, void *address, size_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
