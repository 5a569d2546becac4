/*
 * Measures the cost of a device's accesses at each coherence level, compared
 * with memcpy. The device accesses 1 GiB through views of one buffer: half is
 * read and half is written, once in chunks of 64 bytes and once in chunks of 4
 * KiB. The result is the best of three runs. Each pass is a request that
 * invalidates its input, reads it, writes its output and cleans the output.
 * With two cache levels, maintenance is done for the whole cache. The program
 * has no arguments.
 */
#include "base/clock.h"
#include "shm/coherence/tandem_coherence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HALF   (8u << 20) /* bytes of the input, and of the output */
#define PASSES 64

struct setting {
	const char *name;
	bool plain; /* memcpy without the library */
	enum coherence level;
	enum coherence_contract contract;
};

static const struct setting settings[] = {
	{ .name = "memcpy", .plain = true },
	{ "off", false, COHERENCE_OFF, COHERENCE_ONE_LEVEL },
	{ "strict, contract 1", false, COHERENCE_STRICT, COHERENCE_ONE_LEVEL },
	{ "strict, contract 2", false, COHERENCE_STRICT, COHERENCE_TWO_LEVELS },
	{ "check, contract 1", false, COHERENCE_CHECK, COHERENCE_ONE_LEVEL },
	{ "check, contract 2", false, COHERENCE_CHECK, COHERENCE_TWO_LEVELS },
};

static void pass(const struct setting *s, struct coherence_cache *c,
	struct coherence_buffer *b, uint8_t *mem, size_t chunk)
{
	static uint8_t local[4096];

	for (size_t at = 0; at < HALF; at += chunk)
		memcpy(local,
			s->plain ? mem + at : coherence_read(c, b, at, chunk),
			chunk);
	for (size_t at = HALF; at < 2 * HALF; at += chunk)
		memcpy(s->plain ? mem + at : coherence_write(c, b, at, chunk),
			local, chunk);
}

/* Returns the seconds that accesses to 1 GiB take. */
static double measure(const struct setting *s, uint8_t *mem, size_t chunk)
{
	bool whole = s->contract == COHERENCE_TWO_LEVELS;
	struct coherence_cache *c = NULL;
	struct coherence_buffer *b = NULL;
	const char *first = "";
	uint64_t from;

	if (!s->plain &&
		(coherence_open(&c,
			 &(struct coherence_config){ .level = s->level,
				 .contract = s->contract }) ||
			!(b = coherence_register(
				  c, "b", mem, 2 * (uint64_t)HALF, 0, 0))))
		exit(1);
	from = clock_ns();
	for (uint32_t i = 1; i <= PASSES; i++) {
		if (s->plain) {
			pass(s, c, b, mem, chunk);
			continue;
		}
		coherence_host_begin(c, b, 0, HALF, COHERENCE_WRITE, __func__);
		mem[i] = (uint8_t)i;
		coherence_host_end(c, b, 0, HALF, COHERENCE_WRITE, __func__);
		coherence_begin(c, i);
		if (whole)
			coherence_flush_all(c);
		else
			coherence_invalidate(c, b, 0, HALF, 0, 0);
		coherence_operator(c, "copy", -1);
		pass(s, c, b, mem, chunk);
		if (whole)
			coherence_clean_all(c);
		else
			coherence_clean(c, b, HALF, HALF);
		if (coherence_end(c, &first)) {
			fprintf(stderr, "%s: %s\n", s->name, first);
			exit(1);
		}
	}
	from = clock_ns() - from;
	coherence_close(c);
	return 1e-9 * (double)from;
}

int main(void)
{
	uint8_t *mem = aligned_alloc(4096, 2 * (size_t)HALF);
	double plain[2] = { 0, 0 };

	if (!mem)
		return 1;
	memset(mem, 1, 2 * (size_t)HALF);
	printf("| level | 64 bytes: GB/s | times memcpy | 4 KiB: GB/s | times "
	       "memcpy |\n|---|--:|--:|--:|--:|\n");
	for (unsigned i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		printf("| %s |", settings[i].name);
		for (unsigned k = 0; k < 2; k++) {
			double s = 1e9;

			for (unsigned run = 0; run < 3; run++)
				s = fmin(s,
					measure(&settings[i], mem,
						k ? 4096 : 64));

			plain[k] = i ? plain[k] : s;
			printf(" %.2f | %.1f |", 1.073741824 / s, s / plain[k]);
			fflush(stdout);
		}
		printf("\n");
	}
	free(mem);
	return 0;
}
