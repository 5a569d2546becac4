/*
 * Emulated instructions of the DSP: user DMA, and maintenance of one cache
 * line. The descriptors (hexagon_types.h) of a transfer must exist until dmwait
 * or dmpoll has reported the end of the transfer.
 */
#ifndef TANDEM_HEXAGON_PROTOS_H
#define TANDEM_HEXAGON_PROTOS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Start a chain of descriptors of type 0 or 1 (hexagon_types.h). A transfer
 * between a buffer and memory outside all buffers, such as VTCM, moves its
 * bytes at some moment before a wait for the transfer returns. Any other
 * transfer moves its bytes at once. A row of a type 1 descriptor that lies only
 * partly in a buffer is not moved.
 */
void Q6_dmstart_A(void *chain);
/* Append a chain of descriptors to a descriptor. This emulation starts `chain`
 * as a separate chain, so the transfers of `chain` may end before those of
 * `tail`. */
void Q6_dmlink_AA(void *tail, void *chain);
/* Wait for all descriptors, in the order in which they were started. Returns 0,
 * which means idle. */
int Q6_R_dmwait(void);
/* Returns 0 if all descriptors have ended, else 1. In this emulation a transfer
 * ends only at every second poll, so that the checker finds code that ignores
 * the result of a poll. */
int Q6_R_dmpoll(void);

/* Clean the cache line of this address, invalidate it, or do both. */
void Q6_dccleana_A(void *);
void Q6_dcinva_A(void *);
void Q6_dccleaninva_A(void *);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
