/*
 * Runs the device's cache and its checker (device/cache.h) alone, without a
 * device process. A text lists accesses and maintenance calls; the answer lists
 * the values that were read and the checker's reports. The CPU's accesses are
 * done in this process too, through a separate mapping.
 *
 *   begin strict|check|off SEED LINES
 *                         create a buffer of LINES lines of 64 bytes, all
 *                         zero, and a cache for it with SEED for random
 *                         evictions (0: none), and begin request 1
 *   cpu AT N V            the CPU writes words V, V+1 .. to N words from AT on
 *   look AT N             the CPU reads
 *   read AT N, dma AT N   the device reads, through the cache or by DMA
 *   write AT N V          the device writes
 *   invalidate AT N B     invalidate; the CPU wrote the words in its access B
 *   clean AT N            clean
 *   request S             the request ends, and request S begins
 *
 * AT and N are in words of 4 bytes. The answer has a line for each look, read
 * and dma: "=" and the words in hex. A report adds a line at the place where it
 * occurs: "!" and the sentence of the report. If the report names a missing
 * call, a line with "!!" and this call follows.
 *
 * Only one thread may call the function.
 */
#ifndef TESTS_STRESS_REHEARSE_H
#define TESTS_STRESS_REHEARSE_H

struct err;
struct fault;
struct strbuf;

/*
 * Run the text and append to *answer. The fault plan lists maintenance calls to
 * leave out, counted from each `begin`. Returns 0, or -EINVAL with a message
 * that names the invalid line.
 */
int rehearse(const char *text, const struct fault *, struct strbuf *answer,
	struct err *);

#endif
