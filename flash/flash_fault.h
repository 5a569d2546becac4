/*
 * Faults as a plan wants them (the grammar is in flash/stream.h), done to
 * reads that have come back. The counting is the stream's own, so that one
 * plan serves several streams.
 */
#ifndef FLASH_FLASH_FAULT_H
#define FLASH_FLASH_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block;
struct flash_fault;

struct fault_state {
	struct flash_fault *plan; /* NULL: no faults */
	uint64_t reads;           /* submitted so far */
	uint64_t end;             /* of the file, as it shall seem */
};

void fault_init(struct fault_state *, struct flash_fault *plan);

/* A read is submitted: its number, from 1. */
uint64_t fault_number(struct fault_state *, const struct block *);

/*
 * Read `number` is back: change its result or its bytes, of which the first
 * `useful` matter. False: it shall seem never to have come.
 */
bool fault_apply(const struct fault_state *, uint64_t number, struct block *,
	size_t useful);

#endif
