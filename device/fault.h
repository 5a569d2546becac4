/*
 * Faults on order, so that tests can show what the checks and the host's
 * recovery are for. Given to tandem-npu as `--fault WHAT` or in the
 * environment as TANDEM_NPU_FAULT:
 *
 *   drop-invalidate              forget every invalidation
 *   drop-invalidate:BUFFER       of that buffer only: drop-invalidate:tandem:io
 *   drop-invalidate:BUFFER#N     only the N-th one of it, counted from 1
 *   drop-clean[:BUFFER[#N]]      forget cleans, likewise
 *   drop-word[:BUFFER[#N]]       not hear that the CPU wrote: the word is lost
 *                                that an invalidation would have followed
 *   die-after:N                  SIGKILL itself on receiving request number N
 *   hang-after:N                 stop, without a word, on request number N
 *
 * Requests are counted from 1, whatever they ask for.
 */
#ifndef DEVICE_FAULT_H
#define DEVICE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum fault_upkeep { FAULT_NONE, FAULT_INVALIDATE, FAULT_CLEAN, FAULT_WORD };

struct fault {
	enum fault_upkeep drop;
	char buffer[32];                /* "": any */
	uint64_t nth;                   /* 0: all */
	uint64_t asked;                 /* calls of that kind so far */
	uint64_t die_after, hang_after; /* 0: never */
	uint64_t requests;
};

/* Text as above, NULL or "" for none. */
int fault_parse(struct fault *, const char *text, struct err *);

/* Whether this call for `buffer` is to be forgotten. */
bool fault_drops(struct fault *, enum fault_upkeep, const char *buffer);

/* A request has come: die, hang, or return. */
void fault_request(struct fault *);

#endif
