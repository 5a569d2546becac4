/*
 * Instructions of the DSP: user DMA, and maintenance of one cache line.
 * Descriptors are those of hexagon_types.h, and must exist until their wait.
 */
#ifndef TANDEM_HEXAGON_PROTOS_H
#define TANDEM_HEXAGON_PROTOS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Start a chain of descriptors, of both types. Between a buffer and memory
 * outside of all buffers, such as VTCM, the bytes move by the wait; else they
 * move at once. A row that is not wholly in its buffer is not moved. */
void Q6_dmstart_A(void *chain);
/* Append a chain to a descriptor. The shim starts it as a chain of its own, so
 * `chain` may overtake `tail`. */
void Q6_dmlink_AA(void *tail, void *chain);
/* Wait for all descriptors, in the order of their start. Returns 0, idle. */
int Q6_R_dmwait(void);
/* Returns 0 if all descriptors have ended, else 1. A transfer ends at every
 * second poll, so that a result which is not tested is found. */
int Q6_R_dmpoll(void);

/* Clean, invalidate, or both, the line of this address. */
void Q6_dccleana_A(void *);
void Q6_dcinva_A(void *);
void Q6_dccleaninva_A(void *);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
