/*
 * A producer and a consumer on two threads, with one small ring whose index
 * wraps during the run. Some rings of the doorbell are lost and some are
 * spurious; the received packets must be the sent ones, in order. Both threads
 * have ended when it returns.
 */
#ifndef TESTS_STRESS_RING_RACE_H
#define TESTS_STRESS_RING_RACE_H

#include "shm/doorbell.h"

struct ring_race {
	enum doorbell_kind kind;
	uint32_t packets;
	uint32_t units;  /* of 8 bytes, that a packet has at most */
	uint32_t lose;   /* every n-th ring is lost; 0: none */
	uint32_t repeat; /* every n-th ring is repeated; 0: none */
};

/* 0; -EILSEQ with the difference; -errno. */
int ring_race(const struct ring_race *, struct err *);

/* The two ends of doorbell_fds. */
void doorbell_fds_close(struct doorbell *ring, struct doorbell *sleep);

#endif
