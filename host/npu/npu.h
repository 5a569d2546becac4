/*
 * The host's handle for one device. The handle starts a device or connects to a
 * running device, shares memory with the device, sends requests, and checks and
 * counts their completions. Requests are sent without waiting and complete in
 * any order: npu_drain waits for all requests in flight, npu_wait for one of
 * them; npu_call sends one request and waits for it.
 *
 * If the device refuses a request, the next call returns the error. If the
 * device sends an invalid answer (host/npu/completion.h), the call returns
 * -EPROTO; after that the handle can only be closed or reopened.
 *
 * If the device died or hangs, the call returns -ERR_DEVICE_LOST, with a
 * message that names the device and the cause of the loss. npu_reopen replaces
 * the device. The caller must then set up buffers, mappings and graphs again;
 * requests that were not answered are dropped.
 *
 * A table of operations (host/npu/npu_ops.h) connects the handle to a device,
 * which is a process or a substitute in a test. A handle is used by one thread.
 */
#ifndef HOST_NPU_NPU_H
#define HOST_NPU_NPU_H

#include "base/counters.h"
#include "host/npu/launch.h"
#include "ipc/wire.h"
#include "tensor/soc/price.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buffer;
struct err;
struct npu;
struct npu_ops;
struct soc;
struct brackets;
struct trace;

struct npu_opts {
	const struct npu_ops *ops; /* NULL selects npu_process */
	/* For npu_process: path of the socket of a device that already listens,
	 * or NULL to start a device. */
	const char *socket;
	/* options for a device that the handle starts */
	struct launch_opts launch;
	/* hello message; channel_connect fills in op, magic, version and
	 * host_pid */
	struct wire_hello hello;
	/* time without progress after which the device counts as lost
	 * (ipc/channel.h) */
	unsigned stall_ms;
	/*
	 * For npu_process: limit the device's address space (RLIMIT_AS) to its
	 * size after the welcome message, which includes the device's whole
	 * window, plus VA_HARD_SLACK for the device's own allocations.
	 */
	bool va_hard;
	/* number of lost devices that are replaced within RESTART_SECONDS, from
	 * 0 (a lost device is never replaced) to RESTARTS_MAX */
	unsigned restarts;
	/* While *cancel is set, waits return -ECANCELED. */
	const volatile sig_atomic_t *cancel;
	/*
	 * Tables of the CPU's accesses to shared buffers, for reports of the
	 * coherence checker (ipc/brackets.h); NULL if accesses are not checked.
	 * The handle connects the tables to each device that it reaches. The
	 * tables must outlive the handle.
	 */
	struct brackets *brackets;
	/* The trace that receives events of requests, of waiting and of the
	 * device's window, or NULL if there is no trace. The trace must outlive
	 * the handle. */
	struct trace *trace;
};

#define VA_HARD_SLACK   (256ull << 20)
#define RESTARTS_MAX    1000
#define RESTART_SECONDS 60

/* Start a device, or connect to one that listens. The strings in the options
 * are copied; the table of operations is not. Returns 0 or a negative errno. */
int npu_open(struct npu **out, const struct npu_opts *, struct err *);

/* Send the device a goodbye message and wait until the device has ended. A
 * device that has not ended after a second is killed. Frees the handle; NULL is
 * allowed. */
void npu_close(struct npu *);

/*
 * Close the device, in whatever state it is, and open another device with the
 * same options. The new device has no buffers, mappings, graphs or cost model.
 * Requests that the old device did not answer are dropped, so their senders
 * must send them again. Returns 0 or a negative errno.
 */
int npu_reopen(struct npu *, struct err *);

/*
 * Whether the caller may replace the device after a call failed with `code`.
 * True if the device is lost (it died, hangs, or sent an invalid answer) and
 * opts.restarts allows one more replacement, which this call counts.
 *
 * If opts.restarts is used up, the limit is appended to the message in *e, and
 * the code becomes -ERR_DEVICE_LOST, even if the device had sent an invalid
 * answer. Detecting a hang may take longer than RESTART_SECONDS, so the limit
 * on restarts within RESTART_SECONDS alone would allow endless restarts. The
 * number of losses in one pass (since the last npu_went_on) is therefore
 * limited to opts.restarts as well.
 */
bool npu_may_reopen(struct npu *, int code, struct err *e);
/* Reset the count of losses in one pass: to be called after each successful
 * pass. */
void npu_went_on(struct npu *);
/*
 * Number of the current device, from 1; each replacement has the next number.
 */
unsigned npu_generation(const struct npu *);

/* The welcome message of the current device, owned by the handle. */
const struct wire_welcome *npu_welcome(const struct npu *);

/*
 * Give the device the cost model of a simulated phone: from then on each
 * completion has the price (time and energy) of its request on that phone.
 * Returns 0, or -EIO if the device refuses the cost model, or another negative
 * errno.
 */
int npu_price_for(struct npu *, const struct soc *, struct err *);
/*
 * Set a function that is called for each completion, in the order in which the
 * handle collects completions. The function receives the sequence number of the
 * request, the price of the request, and the time that the device was busy.
 */
void npu_watch(struct npu *,
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns),
	void *arg);

/* Share a buffer with the device. *id identifies the buffer in npu_map and
 * npu_unmap. */
int npu_share(struct npu *, const struct buffer *, uint32_t *id, struct err *);

/*
 * Map a shared buffer in the device's window. *addr receives the buffer's
 * address in the window, which is page-aligned and belongs to this mapping
 * alone. Returns 0; -ENOSPC if the window has no room, with a message that
 * gives the free bytes and the size of the largest hole; or another negative
 * errno.
 */
int npu_map(struct npu *, uint32_t id, uint32_t *addr, struct err *);
/*
 * Map a shared buffer permanently in the device's extended region, which only
 * DMA reaches, instead of the device's window. *addr is in units of
 * WIRE_EXTENDED_UNIT. Returns 0, or -ENOSPC if there is no such region or no
 * room in it, or another negative errno. The handle keeps track of the free
 * space, so without room no request is sent.
 */
int npu_map_extended(struct npu *, uint32_t id, uint32_t *addr, struct err *);

/* Unmap a buffer from the device's window. The caller must first wait for all
 * requests that read the buffer. */
int npu_unmap(struct npu *, uint32_t id, struct err *);

/* Free space in the device's window. A mapping takes whole pages, one guard
 * page, and one slot (the number of slots limits the number of mappings). */
struct npu_room {
	uint64_t largest, page;
	/* size in bytes of all mappings, each rounded up to whole pages */
	uint64_t mapped;
	uint32_t slots, holes;
	/* size of the largest hole (free range) of the extended region */
	uint64_t extended;
};
void npu_room(const struct npu *, struct npu_room *out);

/* Describe the device's window and its mappings for display. The counters that
 * only the device maintains are set to 0. */
struct window_view;
void npu_window(const struct npu *, struct window_view *out);

/*
 * Send a request without waiting for its completion. A message begins with its
 * operation (enum wire_op). *seq receives the number of the request; seq may be
 * NULL. Returns 0 or a negative errno.
 */
int npu_send(struct npu *, const struct wire_ref *, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Send a request and wait for its completion. The wait continues after a
 * cancellation, because the effect of the request on the device would otherwise
 * be unknown. Returns 0 with the completion in *done, whose status the caller
 * checks; or the error of the channel or of an earlier request.
 */
int npu_call(struct npu *, const void *msg, size_t len, struct wire_done *done,
	struct err *);

/* Wait until no more than `few` requests are in flight. Calls `busy`, unless it
 * is NULL, about once per millisecond. */
int npu_drain(struct npu *, unsigned few, void (*busy)(void *arg), void *arg,
	struct err *);
/* Like npu_drain with `few` 0, but the thread sleeps until all requests are
 * answered, and handles the answers afterwards. */
int npu_drain_together(struct npu *, struct err *);

/* Handle the completions that have arrived, without waiting. */
int npu_poll(struct npu *, struct err *);

/* Move the device's trace events to the host's trace and write the trace out.
 * Call this when no requests are expected for a while. */
void npu_flush_trace(struct npu *);

/* Wait until request `seq` is answered; other requests may stay in flight.
 * Returns at once if the request was already answered. */
int npu_wait(struct npu *, uint32_t seq, struct err *);

/* clang-format off */
#define NPU_STATS(X)                                                          \
	X(uint64_t, round_trips)    /* completions received */                \
	X(uint64_t, sleeps)         /* number of sleeps of the host */        \
	X(uint64_t, restarts)       /* number of replaced lost devices */     \
	X(uint64_t, restart_ns)     /* time to set up the replacements */    \
	/* kv_read_bytes: bytes of keys and values that attention read.
	 * kv_apart_bytes: bytes that attention would have read if rows did not
	 * share reads. */                                                    \
	X(uint64_t, kv_read_bytes)                                            \
	X(uint64_t, kv_apart_bytes)                                           \
	/* extended_read: bytes that DMA read from the extended region.
	 * extended_bytes, extended_buffers: bytes and number of the buffers in
	 * this region. */                                                    \
	X(uint64_t, extended_read)                                            \
	X(uint64_t, extended_bytes)                                           \
	X(uint64_t, extended_buffers)
/* clang-format on */

struct npu_stats {
	NPU_STATS(COUNTER_MEMBER)
#define NPU_TOTAL(type, name) uint64_t name;
	WIRE_COUNTERS(NPU_TOTAL) /* sum of each counter over all completions */
#undef NPU_TOTAL
	/* Graphs on the device, according to the device's last answer. graphs:
	 * their current number. most_graphs: the largest number so far.
	 * most_graphs_kib: the largest size of their weights so far in KiB. */
	uint32_t graphs, most_graphs, most_graphs_kib;
	char violation[176]; /* message of the first coherence violation */
};
void npu_restarted(struct npu *, uint64_t ns);
/* Pid of the device process; 0 if there is none or it is unknown. */
pid_t npu_pid(const struct npu *);
void npu_stats(const struct npu *, struct npu_stats *out);

/* Subtract the WIRE_COUNTERS, round trips and sleeps of *before from those of
 * *now. Other members do not change. */
void npu_stats_less(struct npu_stats *now, const struct npu_stats *before);

#endif
