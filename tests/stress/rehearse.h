/*
 * The device's cache and its checker (device/cache.h) by themselves: a text
 * lists accesses and maintenance calls, and the answer lists the values read
 * and the reports. The CPU's accesses are done here too, through a separate
 * mapping.
 *
 *   begin strict|check|off SEED LINES  a buffer of so many lines of 64 bytes,
 *                         all zero, a cache over it, the evictor's seed (0:
 *                         none), and request 1
 *   cpu AT N V            the CPU writes words V, V+1 .. to N words from AT on
 *   look AT N             the CPU reads
 *   read AT N, dma AT N   the device reads, through the cache or past it
 *   write AT N V          the device writes
 *   invalidate AT N B     for the CPU's writes up to its bracket B
 *   clean AT N
 *   request S             the request ends, and S begins
 *
 * AT and N are in words of 4 bytes. The answer has a line for each look, read
 * and dma, "=" and the words in hex; where it happened one for each report, "!"
 * and its sentence, and one that begins with "!!" for what a full report says
 * is missing.
 *
 * One thread.
 */
#ifndef TESTS_STRESS_REHEARSE_H
#define TESTS_STRESS_REHEARSE_H

struct err;
struct fault;
struct strbuf;

/* Appends to *answer. A plan of calls to leave out counts from each `begin`.
 * -EINVAL names the invalid line. */
int rehearse(const char *text, const struct fault *, struct strbuf *answer,
	struct err *);

#endif
