/*
 * The inside of a channel, shared by handshake.c, which opens and closes it,
 * and channel.c, which sends and receives packets. Private to these files.
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
 * to half its size; 200 full completions fit before the device must wait.
 */
#define CHANNEL_RING_BYTES 65536u

/* The most bytes of a peer that are mapped. */
#define CHANNEL_CONTROL_MAX ((size_t)4 << 20)
#define CHANNEL_TRACE_MAX   ((size_t)64 << 20)

/* Room for the trace events of a hundred passes of a small model. */
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
	struct wire_brackets *brackets; /* in `control`; NULL: none */
	struct wire_trace *trace;       /* NULL: not requested */
	size_t trace_bytes;

	struct ring tx, rx;
	struct doorbell tx_bell; /* rung after a publish */
	struct doorbell rx_bell; /* slept on for a packet */
	struct doorbell tx_room; /* slept on for room */
	struct doorbell rx_room; /* rung after a release */
	uint8_t *copy;           /* private copy of the last packet */
	bool held;               /* that packet is not released yet */
	bool heard; /* the doorbell was read since the ring was empty */

	uint32_t next_seq; /* host */
	uint64_t spin_ns;
	uint64_t looked_ns; /* time of the last check of the peer */
	uint64_t stall_ns;  /* 0: no limit */
	uint64_t beat_ns;   /* time of the last new beat; 0: none yet */
	uint32_t beat;
	const volatile sig_atomic_t *cancel; /* NULL: never */
	struct channel_stats stats;
	struct channel_spoil spoil;
	bool spoilt;            /* `spoil` applies to the next packet */
	bool owed;              /* a ring was deferred to the next packet */
	_Atomic uint32_t rings; /* begins plus ends: odd during a ring */
};

#endif
