/* Local memory of the DSP (VTCM), which only its cores and DMA access. */
#ifndef TANDEM_HAP_VTCM_MGR_H
#define TANDEM_HAP_VTCM_MGR_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* NULL without memory. The size has no bound; pages have no effect. */
void *HAP_request_VTCM(unsigned bytes, unsigned single_page);
int HAP_release_VTCM(void *);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
