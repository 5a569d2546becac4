/*
 * A channel in shared memory: an index on one cache line, packets on other
 * lines. The device reads a packet before the CPU has published it, and the
 * device's cache keeps the old bytes. Later the device invalidates only the
 * line of the index. When the index shows that the packet was published, the
 * device still reads the old bytes of the packet from its cache.
 */
#include "demo.h"

#define PACKET 128 /* offset of the first packet */

struct packet {
	uint32_t length, number;
};

static void publish(struct demo *d)
{
	struct packet packet = { .length = 1, .number = 41 };
	uint32_t index = 1;

	memcpy(d->cpu + PACKET, &packet, sizeof(packet));
	memcpy(d->cpu, &index, sizeof(index));
}

static uint32_t receive(struct demo *d)
{
	const struct packet *packet;

	demo_invalidate(d, 0, sizeof(uint32_t));
	if (!*(const uint32_t *)demo_read(d, 0, sizeof(uint32_t)))
		return 0;
	if (d->right)
		demo_invalidate(d, PACKET, sizeof(*packet));
	packet = demo_read(d, PACKET, sizeof(*packet));
	return packet->number;
}

int main(int argc, char **argv)
{
	const struct packet *early;
	struct demo d;

	demo_open(&d, argc, argv);
	coherence_operator(d.cache, "receive", -1);
	early = demo_read(&d, PACKET, sizeof(*early));
	printf("before: length %u\n", early->length);
	publish(&d);
	printf("sent was packet 41, received is %u\n", receive(&d));
	return demo_close(&d);
}
