/*
 * A device process that does to its cache, alone, what a text says
 * (device/rehearse.h): the only way from here to the cache and its checker,
 * since host and device share no code. Whole texts go there and whole answers
 * come back. Owns the process, which ends with the handle. One thread.
 */
#ifndef TESTS_STRESS_REHEARSAL_H
#define TESTS_STRESS_REHEARSAL_H

#include "base/strbuf.h"

#include <stdint.h>

struct err;
struct rehearsal;

/* `fault` (NULL: none): upkeep that it leaves out of every text. */
int rehearsal_open(struct rehearsal **out, const char *fault, struct err *);
void rehearsal_close(struct rehearsal *);

/* The text, which ends in "end\n", and what it says to it, up to the line
 * before its ".". -EPROTO with what it does not understand, -EPIPE when it has
 * ended. */
int rehearsal_play(struct rehearsal *, const struct strbuf *text,
	struct strbuf *answer, struct err *);

#endif
