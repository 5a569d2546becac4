/*
 * The inside of a channel, shared by handshake.c, which builds it and takes
 * it down, and channel.c, which moves packets. Nobody else includes this.
 */
#ifndef IPC_CHANNEL_IMPL_H
#define IPC_CHANNEL_IMPL_H

#include "ipc/channel.h"
#include "shm/doorbell.h"
#include "shm/ring.h"

#include <stdbool.h>

struct err;

/*
 * A GRAPH_LOAD of 32 layers takes about 8 KiB and a ring takes packets of up
 * to half its size; 200 full completions fit before the device has to wait.
 */
#define CHANNEL_RING_BYTES 65536u

/* What a peer may make us map. */
#define CHANNEL_CONTROL_MAX ((size_t)4 << 20)
#define CHANNEL_TRACE_MAX   ((size_t)64 << 20)

/* Events that wait to be taken: those of a hundred passes of a small model. */
#define CHANNEL_TRACE_ROOM (1u << 15)

struct channel {
	bool host;
	enum doorbell_kind kind;
	int link;
	int ring_fd, wait_fd; /* doorbells; -1 for poll */
	pid_t pid;            /* the peer's if known, else 0 */
	int pidfd;            /* -1 if not known */
	struct wire_control *control;
	size_t control_bytes;
	struct wire_brackets *tell; /* in it; NULL: none */
	struct wire_trace *trace;   /* NULL: none was asked for */
	size_t trace_bytes;

	struct ring tx, rx;
	struct doorbell tx_bell; /* rung after a publish */
	struct doorbell rx_bell; /* slept on for a packet */
	struct doorbell tx_room; /* slept on for room */
	struct doorbell rx_room; /* rung when room was made */
	uint8_t *copy;           /* of the packet received last */
	bool held;               /* it is not released in the ring yet */
	bool heard; /* the doorbell was read since the ring was empty */

	uint32_t next_seq; /* host */
	uint64_t spin_ns;
	uint64_t looked_ns; /* when the peer was last seen alive */
	uint64_t stall_ns;  /* 0: for ever */
	uint64_t beat_ns;   /* since when the beat stands still; 0: not yet */
	uint32_t beat;
	const volatile sig_atomic_t *cancel; /* NULL: never */
	struct channel_stats stats;
	struct channel_spoil spoil;
	bool spoilt;            /* the next packet is, by that */
	bool owed;              /* a ring of the doorbell, at the next one */
	_Atomic uint32_t rings; /* begun and ended: odd while one is */
};

#endif
