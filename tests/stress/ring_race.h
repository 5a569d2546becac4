/*
 * Runs a producer and a consumer in two threads, with one small ring whose
 * index wraps during the run. Some signals of the doorbell are lost and some
 * are repeated. The received packets must be the sent packets, in order. Both
 * threads have ended when the call returns.
 */
#ifndef TESTS_STRESS_RING_RACE_H
#define TESTS_STRESS_RING_RACE_H

#include "shm/doorbell.h"

struct ring_race {
	enum doorbell_kind kind;
	uint32_t packets;
	uint32_t units; /* largest size of a packet, in units of 8 bytes */
	/* every n-th signal of the doorbell is lost; 0: no signal */
	uint32_t lose;
	/* every n-th signal of the doorbell is repeated; 0: no signal */
	uint32_t repeat;
};

/* Returns 0, -EILSEQ with a message that has the difference, or another
 * negative errno. */
int ring_race(const struct ring_race *, struct err *);

/* Close the two ends that doorbell_fds created. */
void doorbell_fds_close(struct doorbell *ring, struct doorbell *sleep);

#endif
