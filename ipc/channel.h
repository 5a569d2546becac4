/*
 * A channel combines the link (a Unix socket), two rings in shared memory and
 * their doorbells (which wake a sleeping receiver) to send and receive checked
 * packets. The host sends requests, the device sends completions.
 *
 * Only one thread may use a channel. The channel owns its memory, doorbells and
 * link. With every kind of doorbell, a call that waits returns -EPIPE within
 * 100 ms after the peer has died.
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
struct coherence_config;
struct err;

/* A received packet: a private copy whose lengths have been checked. */
struct packet {
	uint32_t seq;
	unsigned n_refs;
	const struct wire_ref *refs;
	/* the message: at least 4 bytes; the first 4 bytes are its op, the kind
	 * of the message (enum wire_op) */
	const void *msg;
	size_t len;
};

/*
 * Host: create the control memfd and the doorbells and do the handshake over
 * `link_fd`, waiting at most 5 s. The channel takes ownership of link_fd, also
 * if the call fails. The caller fills in *hello except for op, magic, version
 * and host_pid. On success *welcome is the device's reply, with status 0.
 * Returns 0 or a negative errno; -EPERM if the other process belongs to another
 * user; then nothing was sent to the other process.
 */
int channel_connect(struct channel **out, int link_fd,
	const struct wire_hello *hello, struct wire_welcome *welcome,
	struct err *);

/*
 * Device: receive and check the host's hello. The caller then prepares the
 * device and replies once, with channel_welcome or, to refuse the host, with
 * channel_refuse, whose status is a negative errno. If channel_accept fails, it
 * sends the reason to the host.
 */
int channel_accept(struct channel **out, int link_fd, struct wire_hello *hello,
	struct err *);
int channel_welcome(struct channel *, struct wire_welcome *, struct err *);
void channel_refuse(struct channel *, int status, const char *why);

void channel_close(struct channel *);

/*
 * Send one packet: n_refs references to shared memory, then `len` bytes of
 * message. On the host, `seq` is NULL or receives the number of the request; on
 * the device, *seq is the number of the request that this packet completes.
 * Waits while the ring is full. Returns 0, -EMSGSIZE if there are too many
 * references or if the message is shorter than 4 bytes or longer than the ring
 * allows, -EPIPE if the peer has closed the link, -EPROTO if the ring is
 * malformed, or, if the wait for room fails, -ETIMEDOUT or -ECANCELED as
 * channel_recv does.
 */
int channel_send(struct channel *, const struct wire_ref *refs, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Receive one packet, which is valid until the next call. timeout_ms is the
 * longest wait; 0 does not wait and -1 waits without limit. Returns
 *   0           with a packet in *out;
 *   -EAGAIN     if no packet arrived;
 *   -EPIPE      if the peer has closed the link and all its packets were
 *               received;
 *   -EPROTO     if the ring is malformed; the channel is then unusable;
 *   -EBADMSG    if the packet is malformed; *e names the field. The ring is
 *               still valid, and out->seq is the number of the packet, so that
 *               the device can reply with the error and continue;
 *   -ETIMEDOUT  (host) if, during the wait, the device's beat (its counter of
 *               progress) did not change for the stall limit
 *               (channel_set_stall_ms);
 *   -ECANCELED  (host) if the flag of channel_set_cancel was set.
 *
 * Device: returns -EAGAIN early, also without a time limit, if the link has a
 * message. The caller then calls channel_next_share until it returns 0 or
 * -ECONNRESET (the host sent its goodbye message).
 *
 * Host: zeros that the device omitted at the end of a completion are restored
 * (see struct wire_done), so out->len is at least the size of struct wire_done.
 */
int channel_recv(
	struct channel *, struct packet *out, int timeout_ms, struct err *);

/*
 * With a polled doorbell: from now on, a receive that sleeps is woken only
 * after this many packets have arrived (initially 1; 0 means 1). Packets that
 * have already arrived are received without sleeping.
 */
void channel_sleep_past(struct channel *, uint32_t packets);

/* Host: share a buffer with the device. Later WIRE_MAP requests refer to the
 * buffer by `id`. */
int channel_share(
	struct channel *, uint32_t id, const struct buffer *, struct err *);

/* Host: send a goodbye, after which the device process exits with status 0. */
void channel_bye(struct channel *);

/*
 * Host: translate an error code of the channel functions. Codes that mean that
 * the device died or hangs (-EPIPE, -ETIMEDOUT) become -ERR_DEVICE_LOST, both
 * in the result and in *e. All other codes are returned unchanged.
 */
int channel_loss(int code, struct err *);

/*
 * Device: receive the next message on the link without waiting. Returns 1 with
 * *share and *fd (owned by the caller; -1 if no descriptor arrived with the
 * message), 0 if there is no message, -ECONNRESET if the host sent its goodbye
 * message, -EPIPE if the host closed the link without this message, or -EPROTO
 * for any other message.
 *
 * The fields of *share are not checked here. If a field is wrong, only the
 * WIRE_MAP request that refers to this share fails.
 */
int channel_next_share(
	struct channel *, struct wire_share *share, int *fd, struct err *);

/*
 * Device, after channel_accept: from now on access the two rings only through a
 * separate emulated cache with the single buffer "tandem:ctrl"
 * (--coherence-ctrl). The doorbells and the beat (the counter of progress) are
 * not cached. Of the config's hooks only `leaves_out` and `arg` are used; the
 * config's `file` is borrowed. At coherence level off the function changes
 * nothing. channel_violations returns the number of the cache's reports so far.
 * channel_add_reports adds to a completion the reports that were made since the
 * previous call of channel_add_reports: the number of reports and, if the
 * completion has no text, the text of the first report.
 */
int channel_cache_rings(
	struct channel *, const struct coherence_config *, struct err *);
uint64_t channel_violations(const struct channel *);
void channel_add_reports(struct channel *, struct wire_done *);

/* Device: report progress by incrementing the beat, a counter that the host
 * watches. The call is cheap, and any thread may make it. */
void channel_beat(struct channel *);

/*
 * channel_may_be_held returns whether the peer can block this process while
 * this process rings the doorbell: a write to an eventfd blocks if the peer
 * fills the eventfd's counter just after this process has checked that the
 * counter has room. channel_ringing returns 0 if the doorbell is not being rung
 * now, else a number that is different each time that the doorbell is rung. A
 * POSIX signal with a handler interrupts a blocked write. Any thread may call
 * both functions.
 */
bool channel_may_be_held(const struct channel *);
uint32_t channel_ringing(const struct channel *);

/* Host: set the stall limit: the longest time for which the device's beat, a
 * counter of its progress, may stay unchanged. 0 means no limit; the default is
 * 30 s. */
void channel_set_stall_ms(struct channel *, unsigned ms);

/* Host: set a flag for cancellation. All waits end with -ECANCELED soon after
 * *flag becomes non-zero. */
void channel_set_cancel(struct channel *, const volatile sig_atomic_t *flag);

/* Host: set the pid of the device process, whose death is then detected by a
 * pidfd. */
void channel_watch_pid(struct channel *, pid_t pid);

/* The tables of the host's open accesses to buffers (ipc/brackets.h), valid
 * while the channel is open. NULL if the host publishes none. */
struct wire_brackets *channel_brackets(const struct channel *);

/* The device's trace buffer and its size, valid while the channel is open; NULL
 * if WIRE_FEATURE_TRACE was not requested. */
struct wire_trace *channel_trace(const struct channel *, size_t *bytes);

struct channel_stats {
	uint64_t sent, received; /* numbers of packets */
	uint64_t sleeps;         /* number of waits that slept after spinning */
};
void channel_stats(const struct channel *, struct channel_stats *out);

/*
 * Fault injection: set the faults of the packet that is sent next. The ring
 * seems full for full_ms milliseconds. With `tear`, the packet's header is
 * written without the packet's length. The doorbell is not rung (bell_drop),
 * rung twice (bell_repeat), or rung once for this packet and the next packet
 * together (bell_merge).
 */
struct channel_spoil {
	uint32_t full_ms;
	bool tear, bell_drop, bell_repeat, bell_merge;
};
void channel_spoil(struct channel *, const struct channel_spoil *);

/*
 * Check the layout of one packet of `len` bytes. `data` must be aligned to 8
 * bytes. Returns 0 with *out pointing into `data`, or -EBADMSG with a message
 * that names the field. Does no I/O, so that it can be fuzzed.
 */
int packet_parse(
	const void *data, size_t len, struct packet *out, struct err *);

/*
 * For the cost model: how many cache lines of the rings a device invalidates
 * and cleans for one request after channel_cache_rings. The device invalidates
 * the tail of the request ring and the request (n_refs references and `len`
 * bytes of message). The device cleans the head of the request ring, the
 * completion (`len` bytes), and the tail of the completion ring. Every packet
 * is assumed to begin at the start of a line, and polls that find no packet are
 * ignored, so that the cost depends on the request alone.
 */
uint64_t packet_invalidated_lines(unsigned n_refs, size_t len);
uint64_t packet_cleaned_lines(size_t len);
/* With two levels of cache: number of maintenance calls for the whole cache
 * that the device makes for its accesses to the rings for one request. */
#define PACKET_WHOLE_CALLS 5

#endif
