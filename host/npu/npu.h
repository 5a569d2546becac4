/*
 * The host's handle for one device: it starts or reaches the device, shares
 * memory with it, sends requests, and checks and counts completions. Requests
 * are sent without waiting and complete in any order; npu_drain waits for all
 * of them, npu_call for one.
 *
 * If the device refuses a request, the next call returns the error. An invalid
 * answer (host/npu/completion.h) gives -EPROTO, and after that the handle can
 * only be closed or reopened.
 *
 * A device that died or hangs gives -ERR_DEVICE_LOST, with a message that names
 * it and how it ended. npu_reopen replaces it; the replacement needs the
 * buffers, mappings and graphs again, and unanswered requests are dropped.
 *
 * A table of operations (host/npu/npu_ops.h) connects the handle to a device: a
 * process, or a test's substitute. One thread.
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
	const struct npu_ops *ops; /* NULL: npu_process */
	/* For a process: the socket of a listening device; NULL: start one. */
	const char *socket;
	struct launch_opts launch; /* for a device that is started */
	struct wire_hello hello;   /* without what channel_connect fills in */
	unsigned stall_ms;         /* as in ipc/channel.h */
	/* For a process: cap its address space (RLIMIT_AS) at its size after
	 * the welcome message, its whole window included, plus VA_HARD_SLACK
	 * for its allocations. */
	bool va_hard;
	/* Replace up to this many lost devices within RESTART_SECONDS; at most
	 * RESTARTS_MAX. */
	unsigned restarts;
	/* when set, waits return -ECANCELED */
	const volatile sig_atomic_t *cancel;
	/* The coherence checker's brackets, connected to each device that is
	 * reached; must outlive the handle. NULL: none. */
	struct brackets *brackets;
	/* Records requests, waiting and the window; likewise. */
	struct trace *trace;
};

#define VA_HARD_SLACK   (256ull << 20)
#define RESTARTS_MAX    1000
#define RESTART_SECONDS 60

/* Start or reach a device. Strings are copied, the table of operations is
 * not. */
int npu_open(struct npu **out, const struct npu_opts *, struct err *);

/* Say goodbye and wait until the device has ended; within a second, by force if
 * needed. */
void npu_close(struct npu *);

/*
 * Close the device, whatever its state, and reach another in the same way. The
 * new device has no buffers, mappings, graphs or cost model. Unanswered
 * requests are dropped: their senders start again.
 */
int npu_reopen(struct npu *, struct err *);

/*
 * Whether a call that failed with `code` lost the device (by its death or an
 * invalid answer) and opts.restarts allow a replacement now, which is then
 * counted. If restarts are used up, *e is extended by their number and gets the
 * code -ERR_DEVICE_LOST, also if the device broke the protocol. As a
 * hanging device may take longer than RESTART_SECONDS to be noticed, losses
 * since the last npu_went_on are limited as well.
 */
bool npu_may_reopen(struct npu *, int code, struct err *e);
/* Reset that limit: the work that lost devices had interrupted is done. */
void npu_went_on(struct npu *);
/* Number of the current device; grows with each. */
unsigned npu_generation(const struct npu *);

/* The welcome message of the device. */
const struct wire_welcome *npu_welcome(const struct npu *);

/* Have the device compute the price of its work on a phone from now on. */
int npu_price_for(struct npu *, const struct soc *, struct err *);
/*
 * From now on `done` is called for each completion, in the order in which
 * completions are collected, with the request's sequence number, its price, and
 * the device's busy time.
 */
void npu_watch(struct npu *,
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns),
	void *arg);

/* Share a buffer with the device; *id names it in npu_map. */
int npu_share(struct npu *, const struct buffer *, uint32_t *id, struct err *);

/*
 * Map a buffer at *addr, which is in the window, page-aligned and does not
 * overlap other mappings. -ENOSPC with the device's numbers when the window has
 * no room.
 */
int npu_map(struct npu *, uint32_t id, uint32_t *addr, struct err *);
/*
 * Map a buffer in the device's extended region instead, permanently: *addr is
 * in WIRE_EXTENDED_UNITs. -ENOSPC, without a request, when there is no such
 * region or no room in it by the handle's own books.
 */
int npu_map_extended(struct npu *, uint32_t id, uint32_t *addr, struct err *);

/* Unmap a buffer; the caller must have waited for all requests that read it. */
int npu_unmap(struct npu *, uint32_t id, struct err *);

/* Free room in the window: the largest hole (a mapping takes whole pages and a
 * guard page), and slots. */
struct npu_room {
	uint64_t largest, page;
	uint64_t mapped; /* bytes, in whole pages */
	uint32_t slots, holes;
	uint64_t extended; /* the largest hole of the extended region */
};
void npu_room(const struct npu *, struct npu_room *out);

/* The same for a drawing, with all mappings; the device's own counters stay
 * 0. */
struct window_view;
void npu_window(const struct npu *, struct window_view *out);

/* Send a request without waiting; *seq (may be NULL) is its number. A message
 * begins with its operation. */
int npu_send(struct npu *, const struct wire_ref *, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Send a request and wait for its completion, even after a cancellation, as its
 * effect on the device would be unknown otherwise. Returns 0 with *done, whose
 * status the caller checks, or the error of the channel or of an earlier
 * request.
 */
int npu_call(struct npu *, const void *msg, size_t len, struct wire_done *done,
	struct err *);

/* Wait until no request is in flight. */
int npu_drain(struct npu *, struct err *);
/* The same, but sleep until all of them are answered: earlier answers are
 * handled only then. */
int npu_drain_together(struct npu *, struct err *);
/* Wait until at most `few` requests are in flight; calls `busy` about once per
 * millisecond. */
int npu_drain_to(struct npu *, unsigned few, void (*busy)(void *arg), void *arg,
	struct err *);

/* Handle the answers that have arrived, without waiting. */
int npu_poll(struct npu *, struct err *);

/* As no requests are expected for a while: move the device's trace events to
 * the trace, and write it out. */
void npu_flush_trace(struct npu *);

/* Wait for this request alone: earlier and later ones may stay in flight.
 * Returns at once if it was answered already. */
int npu_wait(struct npu *, uint32_t seq, struct err *);

/* clang-format off */
#define NPU_STATS(X)                                                          \
	X(uint64_t, round_trips)      /* completions */                       \
	X(uint64_t, sleeps)                                                   \
	X(uint64_t, restarts)         /* replacement devices */ \
	X(uint64_t, restart_ns)       /* until they were set up */    \
	X(uint64_t, kv_read_bytes)    /* enum wire_run_arg */                 \
	X(uint64_t, kv_apart_bytes)   /* likewise */                          \
	X(uint64_t, extended_read)    /* likewise */                          \
	X(uint64_t, extended_bytes)   /* of buffers in the region, now */     \
	X(uint64_t, extended_buffers) /* number of these buffers */
/* clang-format on */

struct npu_stats {
	NPU_STATS(COUNTER_MEMBER)
#define NPU_TOTAL(type, name) uint64_t name;
	WIRE_COUNTERS(NPU_TOTAL) /* of all completions */
#undef NPU_TOTAL
	/* Graphs that the device holds, as it counts them. */
	uint32_t graphs, most_graphs, most_graphs_kib;
	char violation[176]; /* the device's text for the first one */
};
void npu_restarted(struct npu *, uint64_t ns);
/* Pid of the device process; 0 if there is none or it is unknown. */
pid_t npu_pid(const struct npu *);
void npu_stats(const struct npu *, struct npu_stats *out);

/* Subtract *before's WIRE_COUNTERS, round trips and sleeps from *now; all else
 * stays. */
void npu_stats_less(struct npu_stats *now, const struct npu_stats *before);

#endif
