/* The DSP's local memory (VTCM), which only the DSP's cores and DMA access. */
#ifndef TANDEM_HAP_VTCM_MGR_H
#define TANDEM_HAP_VTCM_MGR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Allocate local memory. Returns NULL if there is no memory. This emulation of
 * the Hexagon SDK does not limit the size and ignores `single_page`. */
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
