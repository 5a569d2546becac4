/*
 * A device that invalidates the input ranges that each request lists, but does
 * not clean the output range of the request. The output stays in the device's
 * cache, so the CPU does not see it.
 */
#include "demo.h"

#define FLOATS 64

struct range { /* a range of the buffer, listed in a request */
	uint64_t from;
	size_t bytes;
	bool cpu_wrote;
};

static void run(struct demo *d, const struct range *in, const struct range *out)
{
	const float *from;
	float *to;

	if (in->cpu_wrote)
		demo_invalidate(d, in->from, in->bytes);
	coherence_operator(d->cache, "double", 0);
	from = demo_read(d, in->from, in->bytes);
	to = demo_write(d, out->from, out->bytes);
	for (unsigned i = 0; i < FLOATS; i++)
		to[i] = 2 * from[i];
	if (d->right)
		demo_clean(d, out->from, out->bytes);
}

int main(int argc, char **argv)
{
	float value[FLOATS] = { 21 };
	struct range in = { 0, sizeof(value), true };
	struct range out = { 4096, sizeof(value), false };
	struct demo d;

	demo_open(&d, argc, argv);
	memcpy(d.cpu, value, sizeof(value));
	run(&d, &in, &out);
	demo_complete(&d);
	memcpy(value, d.cpu + 4096, sizeof(value));
	printf("twice 21 is %.0f\n", (double)value[0]);
	return demo_close(&d);
}
