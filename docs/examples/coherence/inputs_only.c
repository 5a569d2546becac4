/*
 * A device that takes good care of its inputs, as each request's refs say, and
 * forgets that its output is no use to the CPU until it is cleaned.
 */
#include "docs/examples/coherence/demo.h"

#define FLOATS 64

static void run(
	struct demo *d, const struct wire_ref *in, const struct wire_ref *out)
{
	const float *from;
	float *to;

	if (in->flags & WIRE_REF_INVALIDATE)
		cache_invalidate(d->cache, in->addr, in->len, in->cpu_seq, 0);
	cache_operator(d->cache, "double", 0);
	from = view_read(d->cache, in->addr, in->len);
	to = view_write(d->cache, out->addr, out->len);
	for (unsigned i = 0; i < FLOATS; i++)
		to[i] = 2 * from[i];
	if (d->right)
		cache_clean(d->cache, out->addr, out->len);
}

int main(int argc, char **argv)
{
	float value[FLOATS] = { 21 };
	struct wire_ref in = { .len = sizeof(value),
		.role = WIRE_REF_HIDDEN_IN,
		.flags = WIRE_REF_INVALIDATE,
		.cpu_seq = 1 };
	struct wire_ref out = { .len = sizeof(value),
		.role = WIRE_REF_HIDDEN_OUT };
	struct demo d;

	demo_open(&d, argc, argv);
	in.addr = d.at;
	out.addr = d.at + 4096;
	memcpy(d.cpu, value, sizeof(value));
	run(&d, &in, &out);
	demo_complete(&d);
	memcpy(value, d.cpu + 4096, sizeof(value));
	printf("twice 21 is %.0f\n", (double)value[0]);
	return demo_close(&d);
}
