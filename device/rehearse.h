/*
 * The cache and its checker, alone, at the word of a text: for whoever wants to
 * try what they make of a sequence of accesses and upkeep (tandem-stress does),
 * without a host, a model or a request. The CPU's part is played here too,
 * through a mapping of its own.
 *
 *   begin strict|check|off SEED LINES  a buffer of so many lines of 64 bytes,
 *                         all zero, a cache over it, the evictor's seed (0:
 *                         none), and request 1
 *   cpu AT N V            the CPU writes words V, V+1 .. to N words from AT on
 *   look AT N             what the CPU sees there
 *   read AT N, dma AT N   what the device does, through the cache or past it
 *   write AT N V          the device writes
 *   invalidate AT N B     of what the CPU wrote, as of its bracket B
 *   clean AT N
 *   request S             the request ends, and S begins
 *   end                   so does all of it
 *
 * AT and N are in words of 4 bytes. Nothing is done before `end` has been read.
 * Then comes a line for each look, read and dma, "=" and the words in hex;
 * where it happened one for each report, "!" and its sentence, and one that
 * begins with "!!" for what a full report says is missing; at the end ".". What
 * cannot be gives "?" and why, and is the last thing said.
 *
 * One thread.
 */
#ifndef DEVICE_REHEARSE_H
#define DEVICE_REHEARSE_H

#include <stdio.h>

struct err;
struct fault;

/* Until `in` ends. Plans of upkeep that is left out count from each `begin`. */
int rehearse(FILE *in, FILE *out, const struct fault *, struct err *);

#endif
