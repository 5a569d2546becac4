/*
 * A channel: the link, the two rings and their doorbells, as one thing that
 * sends and receives checked packets. Host and device use the same one from
 * opposite ends: what the host sends are requests, what the device sends are
 * completions.
 *
 * One thread per channel. The channel owns its memory, doorbells and link.
 * Peer death is noticed within 100 ms of waiting (-EPIPE), whatever the
 * doorbell.
 */
#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include "ipc/wire.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct channel;
struct buffer;
struct err;

/* A packet as received: a private copy whose lengths have been checked. */
struct packet {
	uint32_t seq;
	unsigned n_refs;
	const struct wire_ref *refs;
	const void *msg; /* at least 4 bytes: the op */
	size_t len;
};

/*
 * Host: create the control memfd and doorbells, shake hands over `link_fd`
 * (which the channel takes, on failure too), waiting at most 5 s. The
 * caller fills *hello but for op, magic, version and host_pid. On success
 * *welcome is what the device answered, with status 0. -EPERM, before anything
 * was sent, when the other process is another user's.
 */
int channel_connect(struct channel **out, int link_fd,
	const struct wire_hello *hello, struct wire_welcome *welcome,
	struct err *);

/*
 * Device: receive and check the host's hello. The caller then sets itself up
 * and answers once with channel_welcome; a non-zero status refuses. On failure
 * the host has been told why, as far as it listens.
 */
int channel_accept(struct channel **out, int link_fd, struct wire_hello *hello,
	struct err *);
int channel_welcome(struct channel *, struct wire_welcome *, struct err *);

void channel_close(struct channel *);

/*
 * Send one packet: refs, then `len` bytes of message. The host passes
 * seq = NULL or a place for the number chosen; the device sends the
 * completion of request `*seq`. Waits while the ring is full. -EMSGSIZE
 * when it can never fit, -EPIPE when the peer is gone, -EPROTO.
 */
int channel_send(struct channel *, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Receive one packet, valid until the next call. timeout_ms 0: only what is
 * there; -1: no limit. 0, -EAGAIN (nothing came), -EPIPE (the peer is gone,
 * and all it sent was received), -EPROTO (the ring is malformed; the channel
 * is of no more use), and for the host -ETIMEDOUT when the device's beat
 * stood still for the stall limit while waiting, and -ECANCELED.
 *
 * -EBADMSG: the packet is malformed and *e names the field; the ring is
 * sound. out->seq is its number: the device answers it with the error and
 * goes on.
 *
 * Device: -EAGAIN comes early, even without a limit, when the link has news:
 * call channel_next_share until it returns 0, or learn there that the host
 * said goodbye.
 *
 * Host: what a completion left out at its end comes back as zeros (see
 * struct wire_done): out->len is never below its size.
 */
int channel_recv(
	struct channel *, struct packet *out, int timeout_ms, struct err *);

/* From now on a receive that sleeps wakes when this many packets have come (1
 * at first; 0 is 1), with doorbell poll. Packets that are there are received at
 * once, as before. */
void channel_sleep_past(struct channel *, uint32_t packets);

/* Host: give the device a buffer; WIRE_MAP refers to `id` afterwards. */
int channel_share(
	struct channel *, uint32_t id, const struct buffer *, struct err *);

/* Host: say goodbye, so that the device ends with status 0. */
void channel_bye(struct channel *);

/*
 * Host: what a code of these functions means. One that says the device died or
 * hangs (-EPIPE, -ETIMEDOUT) becomes -ERR_DEVICE_LOST, in *e too; any other
 * stays what it is.
 */
int channel_loss(int code, struct err *);

/*
 * Device: the next message on the link, without waiting. 1: *share and *fd
 * (the caller's; -1 when none came with it), 0: none, -ECONNRESET: the host
 * said goodbye, -EPIPE: it is gone without, -EPROTO: it is neither.
 *
 * What the share says is not looked at: a share that lies must fail alone,
 * and only its receiver can answer the WIRE_MAP that it is for.
 */
int channel_next_share(
	struct channel *, struct wire_share *share, int *fd, struct err *);

/* Device: I am making progress. Cheap; call it from anywhere. */
void channel_beat(struct channel *);

/*
 * From any thread: whether a ring of the doorbell can be held up by the peer
 * (an eventfd that it fills at just that moment and lets nobody write), and
 * which one is under way: another number each time, 0 for none. One that lasts
 * is ended by any signal with a handler.
 */
bool channel_may_be_held(const struct channel *);
uint32_t channel_ringing(const struct channel *);

/* Host: how long a beat may stand still; 0 (default 30 s): for ever. */
void channel_set_stall_ms(struct channel *, unsigned ms);

/* Host: from now on a wait ends with -ECANCELED, soon after *flag is not 0. */
void channel_set_cancel(struct channel *, const volatile sig_atomic_t *flag);

/* Host: the device's pid once known, so that its death is seen (pidfd). */
void channel_watch_pid(struct channel *, pid_t pid);

/* What the host tells beside its requests (ipc/brackets.h), as long as the
 * channel is open; NULL: nothing. */
struct wire_brackets *channel_brackets(const struct channel *);

/* What the device tells of its work, as long as the channel is open, and its
 * bytes; NULL where WIRE_FEATURE_TRACE was not asked for. */
struct wire_trace *channel_trace(const struct channel *, size_t *bytes);

struct channel_stats {
	uint64_t sent, received; /* packets */
	uint64_t sleeps;         /* waits that outlasted the spin */
};
void channel_stats(const struct channel *, struct channel_stats *out);

/*
 * A fault on order: the packet that is sent next goes wrong in these ways. Its
 * ring is as if full for full_ms; of its header but half is written; the
 * doorbell is not rung, or twice, or together with the next packet's.
 */
struct channel_spoil {
	uint32_t full_ms;
	bool tear, bell_drop, bell_repeat, bell_merge;
};
void channel_spoil(struct channel *, const struct channel_spoil *);

/*
 * Check the layout of one packet of `len` bytes, at an address that is a
 * multiple of 8: 0 with *out pointing into it, or -EBADMSG and *e names the
 * field. No I/O: the fuzzer's door.
 */
int packet_parse(
	const void *data, size_t len, struct packet *out, struct err *);

#endif
