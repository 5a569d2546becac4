/*
 * A device polls a flag in shared memory and never invalidates the flag's cache
 * line: every later read returns the bytes that the first read loaded into the
 * cache.
 */
#include "demo.h"

#define LOOKS 5

static uint32_t look(struct demo *d)
{
	if (d->right)
		demo_invalidate(d, 0, sizeof(uint32_t));
	return *(const uint32_t *)demo_read(d, 0, sizeof(uint32_t));
}

int main(int argc, char **argv)
{
	struct demo d;
	uint32_t one = 1, flag = 0;
	int looks = 0;

	demo_open(&d, argc, argv);
	coherence_operator(d.cache, "poll", -1);
	while (!flag && looks < LOOKS) {
		flag = look(&d);
		if (++looks == 2)
			/* the CPU sets the flag */
			memcpy(d.cpu, &one, sizeof(one));
	}
	printf("%s after %d looks\n", flag ? "went on" : "still waiting",
		looks);
	return demo_close(&d);
}
