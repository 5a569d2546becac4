/*
 * A producer and a consumer on threads of their own, over one small ring whose
 * index goes round on the way. Some bells are lost and some rung for nothing;
 * what came must be what was sent, in order. Two threads, gone when it returns.
 */
#ifndef TESTS_STRESS_RING_RACE_H
#define TESTS_STRESS_RING_RACE_H

#include "shm/doorbell.h"

struct ring_race {
	enum doorbell_kind kind;
	uint32_t packets;
	uint32_t units;  /* of 8 bytes, that a packet has at most */
	uint32_t lose;   /* every such bell is; 0: none */
	uint32_t repeat; /* every such bell is rung again; 0: none */
};

/* 0; -EILSEQ with what was wrong; -errno. */
int ring_race(const struct ring_race *, struct err *);

/* The two ends of doorbell_fds. */
void doorbell_fds_close(struct doorbell *ring, struct doorbell *sleep);

#endif
