/* A subject (kind of round trip) of `tandem bench ipc`: an empty request of
 * Tandem to the real device process, and its reply. */
#include "host/bench/bench_peer.h"

#include "base/err.h"
#include "host/api/tandem_pass.h"
#include "ipc/channel.h"
#include "shm/coherence/tandem_coherence.h"
#include "shm/doorbell.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct ring_peer {
	struct bench_peer base;
	struct device_link *link;
	struct channel *channel; /* owned by `link` */
};

static int ring_batch(struct bench_peer *p, unsigned trips, struct err *e)
{
	/* The device always waits for requests, so a batch need not be
	 * announced. */
	return 0;
}

static int ring_trip(struct bench_peer *p, struct err *e)
{
	struct channel *c = ((struct ring_peer *)p)->channel;
	static const struct wire_simple nop = { WIRE_NOP, 0 };
	struct wire_done done;
	struct packet answer;
	uint32_t seq;
	int ret = channel_send(c, NULL, 0, &nop, sizeof(nop), &seq, e);

	if (!ret)
		ret = channel_recv(c, &answer, -1, e);
	if (ret)
		return channel_loss(ret, e);
	memcpy(&done, answer.msg,
		answer.len < sizeof(done) ? answer.len : sizeof(done));
	if (answer.seq != seq || done.status)
		return err_set(e, EPROTO,
			"the device answered request %u, status %d, to an "
			"empty request %u",
			answer.seq, done.status, seq);
	return 0;
}

static void ring_close(struct bench_peer *p)
{
	struct ring_peer *r = (struct ring_peer *)p;

	device_link_close(r->link);
	free(r);
}

static const struct bench_peer_ops ring_ops = { ring_batch, ring_trip,
	ring_close };

int bench_ring_open(struct bench_peer **out, const struct bench_subject *s,
	const struct bench_cpus *cpus, struct err *e)
{
	struct wire_hello hello = {
		.doorbell = (uint32_t)s->kind,
		.coherence = COHERENCE_OFF,
		.threads = 1,
		.va_slots = 16,
		.va_window = 64 << 20,
		/* The device busy-waits for this time before it sleeps. On a
		 * machine with one CPU it sleeps at once. */
		.spin_us = cpus->usable > 1 ? 1000 : 0,
	};
	struct ring_peer *r = calloc(1, sizeof(*r));
	int ret;
	int back;

	if (!r)
		return err_set(e, ENOMEM, "no memory for the measurements");
	r->base.ops = &ring_ops;

	/* Pin this process to the device's CPU before the device process
	 * starts, because the device process inherits the CPU affinity. Then
	 * move to the host's CPU. */
	ret = bench_pin(cpus->device, e);
	if (!ret) {
		ret = device_link_open(&r->link, &hello, e);
		back = bench_pin(cpus->host, ret ? NULL : e);
		ret = ret ? ret : back;
	}

	if (ret) {
		ring_close(&r->base);
		return ret;
	}
	r->channel = device_link_channel(r->link);
	*out = &r->base;
	return 0;
}
