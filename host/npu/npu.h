/*
 * The host's hold on one device: reached, given memory, sent requests, its
 * completions checked and counted. Requests are sent without waiting and
 * complete in any order that the device likes; npu_drain waits for all of
 * them, npu_call for one.
 *
 * A request that the device refuses is remembered and returned by the next
 * call. So is an answer that no device may give (host/npu/completion.h):
 * -EPROTO, and the handle is then of no more use but to be closed.
 *
 * A device that died or hangs gives -ERR_DEVICE_LOST with a sentence that says
 * which and how it ended. npu_reopen reaches another one, which is then given
 * what the old one had; what that had not answered is nobody's any more.
 *
 * What a device is says a table of operations (host/npu/npu_ops.h): a process,
 * or what a test makes of it. One thread.
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
	/* Of a process: where one listens; NULL: start one. */
	const char *socket;
	struct launch_opts launch; /* if it is started */
	struct wire_hello hello;   /* but for what channel_connect fills */
	unsigned stall_ms;         /* as in ipc/channel.h */
	/* Of a process: its addresses are capped (RLIMIT_AS) at what it has
	 * when it says welcome, its whole window included, and VA_HARD_SLACK
	 * for what it allocates. */
	bool va_hard;
	/* Of a device that is lost; in RESTART_SECONDS, at most RESTARTS_MAX.
	 */
	unsigned restarts;
	const volatile sig_atomic_t *cancel; /* ends a wait: -ECANCELED */
	/* Pointed at each device that is reached; outlives the handle. NULL:
	 * there is nothing to tell. */
	struct brackets *tell;
	/* Told of requests, waiting and the window; likewise. */
	struct trace *trace;
};

#define VA_HARD_SLACK   (256ull << 20)
#define RESTARTS_MAX    1000
#define RESTART_SECONDS 60

/* Reach a device. Strings are copied, the table of operations is not. */
int npu_open(struct npu **out, const struct npu_opts *, struct err *);

/* Say goodbye and see it end; within a second, by force if needed. */
void npu_close(struct npu *);

/*
 * Be rid of the device, whatever state it is in, and reach another in the same
 * way. It knows no buffer, no mapping, no graph and no phone. Requests that
 * were under way are forgotten: whoever sent them begins anew.
 */
int npu_reopen(struct npu *, struct err *);

/*
 * Whether a call that failed with `code` lost the device, by its death or by
 * what it said, and opts.restarts allow that another is reached now, which is
 * then counted. If they do not, *e becomes -ERR_DEVICE_LOST, also for a device
 * that broke the protocol, and names how many losses there were. A device that
 * hangs may take longer than RESTART_SECONDS to be given up, so
 * that losses count as well by how many there were since npu_went_on.
 */
bool npu_may_reopen(struct npu *, int code, struct err *e);
/* What it was needed for came to its end. */
void npu_went_on(struct npu *);
/* Whichever is at hand now: a number that grows with each. */
unsigned npu_generation(const struct npu *);

/* What the device said of itself. */
const struct wire_welcome *npu_welcome(const struct npu *);

/* Have the device price its work for a phone from now on. */
int npu_price_for(struct npu *, const struct soc *, struct err *);
/*
 * From now on `done` is told of each completion, in the order in which they
 * are collected, with the sequence number of its request, its price, and how
 * long the device was busy with it.
 */
void npu_watch(struct npu *,
	void (*done)(void *arg, uint32_t seq, const struct price *,
		uint64_t busy_ns),
	void *arg);

/* Give the device a buffer; *id names it to npu_map. */
int npu_share(struct npu *, const struct buffer *, uint32_t *id, struct err *);

/*
 * Map it: *addr, which is inside the window, on a page and over no other
 * mapping. -ENOSPC with the device's numbers when the window has no room.
 */
int npu_map(struct npu *, uint32_t id, uint32_t *addr, struct err *);
/*
 * Give it a place in the device's extended region instead, for good: *addr is
 * in WIRE_EXTENDED_UNITs. -ENOSPC, without asking the device, when by what was
 * placed there is no such region or no room in it.
 */
int npu_map_extended(struct npu *, uint32_t id, uint32_t *addr, struct err *);

/* Unmap it; whatever reads it must have been waited for. */
int npu_unmap(struct npu *, uint32_t id, struct err *);

/* What is left of the window, by what was mapped: the largest hole, of which a
 * mapping takes whole pages and one more, and slots. */
struct npu_room {
	uint64_t largest, page;
	uint64_t mapped; /* bytes, in whole pages */
	uint32_t slots, holes;
	uint64_t extended; /* the largest hole of the extended region */
};
void npu_room(const struct npu *, struct npu_room *out);

/* The same as a drawing wants it, with all that is mapped; counts of what was
 * done are the device's and stay 0. */
struct window_view;
void npu_window(const struct npu *, struct window_view *out);

/* Send and go on; *seq (may be NULL) is the request's number. A message begins
 * with its operation. */
int npu_send(struct npu *, const struct wire_ref *, unsigned n_refs,
	const void *msg, size_t len, uint32_t *seq, struct err *);

/*
 * Send and wait for this request's completion, though the wait is canceled:
 * what it changed on the device would not be known. Returns 0 with *done, whose
 * status is the caller's to look at, or what went wrong with the channel or an
 * earlier request.
 */
int npu_call(struct npu *, const void *msg, size_t len, struct wire_done *done,
	struct err *);

/* Wait until nothing is under way. */
int npu_drain(struct npu *, struct err *);
/* The same, but asleep until all of it is answered: earlier answers are told
 * only then. */
int npu_drain_together(struct npu *, struct err *);
/* Wait until no more than `few` requests are, and call `busy` about every
 * millisecond of it. */
int npu_drain_to(struct npu *, unsigned few, void (*busy)(void *arg), void *arg,
	struct err *);

/* Take the answers that are there, without waiting. */
int npu_poll(struct npu *, struct err *);

/* For some time there will be no requests: a trace gets what the device told,
 * and is written. */
void npu_flush_trace(struct npu *);

/* Wait for this request alone: what was sent before or behind it may still be
 * under way. At once when it was answered already. */
int npu_wait(struct npu *, uint32_t seq, struct err *);

/* clang-format off */
#define NPU_STATS(X)                                                          \
	X(uint64_t, round_trips)      /* completions */                       \
	X(uint64_t, sleeps)                                                   \
	X(uint64_t, restarts)         /* devices that took another's place */ \
	X(uint64_t, restart_ns)       /* until they had all they needed */    \
	X(uint64_t, kv_read_bytes)    /* enum wire_run_arg */                 \
	X(uint64_t, kv_apart_bytes)   /* likewise */                          \
	X(uint64_t, extended_read)    /* likewise */                          \
	X(uint64_t, extended_bytes)   /* of buffers in the region, now */     \
	X(uint64_t, extended_buffers) /* that these are */
/* clang-format on */

struct npu_stats {
	NPU_STATS(COUNTER_MEMBER)
#define NPU_TOTAL(type, name) uint64_t name;
	WIRE_COUNTERS(NPU_TOTAL) /* of all completions */
#undef NPU_TOTAL
	/* Of the graphs that the device holds, as it counts them. */
	uint32_t graphs, most_graphs, most_graphs_kib;
	char violation[176]; /* the first one, as the device told it */
};
void npu_restarted(struct npu *, uint64_t ns);
/* Of the device process; 0 where there is none or it is not known. */
pid_t npu_pid(const struct npu *);
void npu_stats(const struct npu *, struct npu_stats *out);

/* Take from *now what *before has of WIRE_COUNTERS, round trips and sleeps; all
 * else stays. */
void npu_stats_less(struct npu_stats *now, const struct npu_stats *before);

#endif
