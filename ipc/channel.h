/*
 * A channel: the link, the two rings and their doorbells, combined to send and
 * receive checked packets. Host and device use opposite ends: the host sends
 * requests, the device sends completions.
 *
 * One thread per channel. The channel owns its memory, doorbells and link. With
 * any doorbell, a side that waits detects the peer's death within 100 ms
 * (-EPIPE).
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
 * Host: create the control memfd and doorbells and do the handshake over
 * `link_fd` (which the channel then owns, on failure too), waiting at most 5 s.
 * The caller fills in *hello except for op, magic, version and host_pid. On
 * success *welcome is the device's reply, with status 0. -EPERM, before
 * anything was sent, when the other process belongs to another user.
 */
int channel_connect(struct channel **out, int link_fd,
	const struct wire_hello *hello, struct wire_welcome *welcome,
	struct err *);

/*
 * Device: receive and check the host's hello. The caller then sets itself up
 * and replies once with channel_welcome; a non-zero status refuses. On failure
 * the reason has been sent to the host, if it still reads.
 */
int channel_accept(struct channel **out, int link_fd, struct wire_hello *hello,
	struct err *);
int channel_welcome(struct channel *, struct wire_welcome *, struct err *);

void channel_close(struct channel *);

/*
 * Send one packet: refs, then `len` bytes of message. The host passes
 * seq = NULL or a pointer for the number chosen; the device sends the
 * completion of request `*seq`. Waits while the ring is full. -EMSGSIZE
 * when it can never fit, -EPIPE when the peer is gone, -EPROTO.
 */
int channel_send(struct channel *, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Receive one packet, valid until the next call. timeout_ms 0: do not wait; -1:
 * no limit. 0, -EAGAIN (no packet arrived), -EPIPE (the peer is gone, and all
 * its packets were received), -EPROTO (the ring is malformed; the channel
 * cannot be used any more), and for the host -ETIMEDOUT when the device's beat
 * did not change for the stall limit while waiting, and -ECANCELED.
 *
 * -EBADMSG: the packet is malformed and *e names the field; the ring is still
 * valid. out->seq is the packet's number: the device replies with the error and
 * continues.
 *
 * Device: returns -EAGAIN early, even without a limit, when the link has a
 * message: call channel_next_share until it returns 0 or reports the host's
 * goodbye.
 *
 * Host: zeros that a completion omitted at its end are restored (see struct
 * wire_done): out->len is never below its size.
 */
int channel_recv(
	struct channel *, struct packet *out, int timeout_ms, struct err *);

/* With doorbell poll: a receive that sleeps from now on wakes when this many
 * packets have arrived (initially 1; 0 means 1). Packets already there are
 * received without sleeping, as before. */
void channel_sleep_past(struct channel *, uint32_t packets);

/* Host: share a buffer with the device; WIRE_MAP then refers to `id`. */
int channel_share(
	struct channel *, uint32_t id, const struct buffer *, struct err *);

/* Host: send a goodbye, so that the device ends with status 0. */
void channel_bye(struct channel *);

/*
 * Host: translate an error code of these functions. Codes of a device that died
 * or hangs (-EPIPE, -ETIMEDOUT) become -ERR_DEVICE_LOST, in *e too; others do
 * not change.
 */
int channel_loss(int code, struct err *);

/*
 * Device: the next message on the link, without waiting. 1: *share and *fd (the
 * caller's; -1 when none arrived with it), 0: no message, -ECONNRESET: the
 * host's goodbye, -EPIPE: the host is gone without a goodbye, -EPROTO: another
 * message.
 *
 * The share's fields are not checked here: a false share must fail by itself,
 * when the WIRE_MAP that refers to it is answered.
 */
int channel_next_share(
	struct channel *, struct wire_share *share, int *fd, struct err *);

/* Device: report progress. Cheap; any thread may call it. */
void channel_beat(struct channel *);

/*
 * From any thread: whether the peer can block a ring of the doorbell (an
 * eventfd that the peer fills between check and write), and the number of the
 * ring in progress, another one each time, 0 for none. Any signal with a
 * handler ends a blocked ring.
 */
bool channel_may_be_held(const struct channel *);
uint32_t channel_ringing(const struct channel *);

/* Host: the longest time without a beat; 0: no limit (default 30 s). */
void channel_set_stall_ms(struct channel *, unsigned ms);

/* Host: waits end with -ECANCELED soon after *flag becomes non-zero. */
void channel_set_cancel(struct channel *, const volatile sig_atomic_t *flag);

/* Host: set the device's pid, so that its death is detected (pidfd). */
void channel_watch_pid(struct channel *, pid_t pid);

/* The host's brackets (ipc/brackets.h), valid while the channel is open; NULL:
 * none. */
struct wire_brackets *channel_brackets(const struct channel *);

/* The device's trace buffer and its size, valid while the channel is open; NULL
 * if WIRE_FEATURE_TRACE was not requested. */
struct wire_trace *channel_trace(const struct channel *, size_t *bytes);

struct channel_stats {
	uint64_t sent, received; /* packets */
	uint64_t sleeps;         /* waits that outlasted the spin */
};
void channel_stats(const struct channel *, struct channel_stats *out);

/*
 * Fault injection: faults of the packet that is sent next. The ring seems full
 * for full_ms; only half of the header is written; the doorbell is not rung,
 * rung twice, or rung together with that of the next packet.
 */
struct channel_spoil {
	uint32_t full_ms;
	bool tear, bell_drop, bell_repeat, bell_merge;
};
void channel_spoil(struct channel *, const struct channel_spoil *);

/*
 * Check the layout of one packet of `len` bytes, at an address that is a
 * multiple of 8: 0 with *out pointing into it, or -EBADMSG and *e names the
 * field. No I/O, so that it can be fuzzed.
 */
int packet_parse(
	const void *data, size_t len, struct packet *out, struct err *);

#endif
