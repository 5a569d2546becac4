/*
 * A channel in shared memory: an index on one line, packets on others. The
 * device looks at the next packet before it is published, finds nothing, and
 * invalidates only the index from then on. Once the index says that the packet
 * is there, its bytes are those of the first look.
 */
#include "docs/examples/coherence/demo.h"

#define PACKET 128 /* where the first one lies */

static const void *view(struct demo *d, uint32_t off, size_t len)
{
	return view_read(d->cache, d->at + off, len);
}

static void publish(struct demo *d)
{
	struct wire_header packet = { .length8 = 1, .seq = 41 };
	uint32_t index = 1;

	memcpy(d->cpu + PACKET, &packet, sizeof(packet));
	memcpy(d->cpu, &index, sizeof(index));
}

static uint32_t receive(struct demo *d)
{
	const struct wire_header *packet;

	demo_invalidate(d, 0, sizeof(uint32_t));
	if (!*(const uint32_t *)view(d, 0, sizeof(uint32_t)))
		return 0;
	if (d->right)
		demo_invalidate(d, PACKET, sizeof(*packet));
	packet = view(d, PACKET, sizeof(*packet));
	return packet->seq;
}

int main(int argc, char **argv)
{
	const struct wire_header *early;
	struct demo d;

	demo_open(&d, argc, argv);
	cache_operator(d.cache, "receive", -1);
	early = view(&d, PACKET, sizeof(*early));
	printf("before: length %u\n", early->length8);
	publish(&d);
	printf("sent was packet 41, received is %u\n", receive(&d));
	return demo_close(&d);
}
