/* The internals of a channel, for handshake.c, which opens and closes channels,
 * and channel.c, which sends and receives packets. Private to these two
 * files. */
#ifndef IPC_CHANNEL_IMPL_H
#define IPC_CHANNEL_IMPL_H

#include "ipc/channel.h"
#include "shm/doorbell.h"
#include "shm/ring.h"
#include "shm/ring_cache.h"

#include <stdbool.h>

struct err;

/*
 * The size of a ring. A WIRE_GRAPH_LOAD request of 32 layers takes about 10
 * KiB, and a ring accepts packets of up to half its size. A ring has room for
 * 150 completions of full length.
 */
#define CHANNEL_RING_BYTES 65536u

/* Largest sizes of the control memfd and of the trace buffer that this process
 * accepts from its peer, in bytes. */
#define CHANNEL_CONTROL_MAX ((size_t)4 << 20)
#define CHANNEL_TRACE_MAX   ((size_t)64 << 20)

/* Number of events that fit into the trace buffer, enough for a hundred runs of
 * a small model. */
#define CHANNEL_TRACE_ROOM (1u << 15)

struct channel {
	bool host;
	enum doorbell_kind kind;
	int link;
	/* eventfds or sockets: one that rings the peer's doorbells, and one
	 * that this process waits on; -1 for polled doorbells */
	int ring_fd, wait_fd;
	pid_t pid; /* pid of the peer, 0 if unknown */
	int pidfd; /* pidfd of the peer, -1 if there is none */
	struct wire_control *control;
	size_t control_bytes;
	/* tables of open brackets, which are CPU accesses in progress
	 * (ipc/brackets.h), inside `control`; NULL if there are none */
	struct wire_brackets *brackets;
	/* trace buffer; NULL if tracing was not requested */
	struct wire_trace *trace;
	size_t trace_bytes;

	struct ring tx, rx;
	/* rung after this process publishes a packet */
	struct doorbell tx_bell;
	struct doorbell rx_bell; /* this process waits on it for a packet */
	/* this process waits on it while `tx` has no room */
	struct doorbell tx_room;
	struct doorbell rx_room; /* rung after this process releases a packet */
	uint8_t *copy;           /* private copy of the last received packet */
	/* true: the packet in `copy` is not yet released */
	bool held;
	/* true: the signals of rx_bell were consumed, and `rx` has not been
	 * found empty since */
	bool heard;
	/* the rings' cache; used on the device after channel_cache_rings */
	struct ring_cache cache;

	uint32_t next_seq; /* host: number of the next request */
	uint64_t spin_ns;
	/* time of the last check whether the peer is alive */
	uint64_t looked_ns;
	/* longest time without a change of the beat; 0 means no limit */
	uint64_t stall_ns;
	/* time of the last change of the device's beat (its counter of
	 * progress); 0 if none yet */
	uint64_t beat_ns;
	uint32_t beat;
	/* flag that cancels waits; NULL if waits cannot be canceled */
	const volatile sig_atomic_t *cancel;
	struct channel_stats stats;
	struct channel_spoil spoil;
	bool spoilt; /* `spoil` has faults for the next packet */
	/* after a fault bell_merge: the doorbell was not rung for the last
	 * packet; ringing it for the next packet signals both packets */
	bool owed;
	/* incremented before and after the doorbell is rung, so the number is
	 * odd while the doorbell is being rung */
	_Atomic uint32_t rings;
};

#endif
