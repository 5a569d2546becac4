/*
 * Options of a session: plain data, which code without access to sessions may
 * fill in. Pointers are borrowed.
 */
#ifndef HOST_SESSION_SESSION_OPTS_H
#define HOST_SESSION_SESSION_OPTS_H

#include "base/progress.h"
#include "flash/stream.h"
#include "host/memory/placement.h"
#include "host/session/graph_switch.h"
#include "ipc/wire.h"
#include "shm/coherence/tandem_coherence.h"
#include "shm/doorbell.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct npu_ops;
struct session;
struct shape;
struct soc;
struct window_view;

struct session_opts {
	uint32_t threads;       /* of host and of device each; 0: one per CPU */
	uint32_t prefill_chunk; /* rows of the prefill graph */
	/* rows of the decode graph, if the context has that many */
	uint32_t decode_rows;
	/* Add graphs of half as many rows, a quarter ..., down to 8: a phone
	 * computes all rows of a graph. */
	bool smaller_graphs;
	/* Add graphs of twice as many rows as the decode graph, four times ...,
	 * up to the prefill graph. */
	bool larger_graphs;
	/* Use the prefill graph for decoding as well, and no others. */
	bool one_graph;
	/*
	 * Not SWITCH_OFF: the device holds one graph per block, in at least
	 * graph_blocks blocks: the prefill graph, which is replaced by the
	 * decode graph, of at least graph_rows rows, while a prompt is computed
	 * (host/session/graph_switch.h). Not with smaller graphs, streaming, or
	 * a session beside; needs a causal model.
	 */
	enum graph_switch graph_switch;
	uint32_t graph_blocks, graph_rows;
	/* Otherwise the layers are cut into at least this many blocks, each of
	 * which is one buffer in the window and one request of a pass. */
	uint32_t weight_buffers;
	/*
	 * Tokens of a sequence. 0: the model's context or, if less,
	 * context_need (0: unknown), as far as cache and window can hold them.
	 */
	uint32_t context, context_need;
	/* Sequences open at a time and, if more than one, the tokens that all
	 * of them together can cache: whole runs (host/memory/kv_pool.h) of at
	 * least that many; 0: as many as one context. */
	uint32_t sequences, slots;
	/* If not 0, and slots is 0: one context, and this many tokens for each
	 * of the other sequences, as far as cache and window can hold them. */
	uint32_t tail;
	/* Rows read the cache each by itself, even where they see the same
	 * tokens. */
	bool attend_apart;
	/*
	 * Send and price passes, but compute nothing: states are those of the
	 * embeddings, logits are all 0. For measuring the phone time of passes
	 * whose results are known.
	 */
	bool idle;
	enum wire_precision precision;
	/* UNSAID: a flash image's own layout, which is the only one possible
	 * for it; for other models tiles. */
	enum layout layout;
	enum coherence coherence;
	uint32_t contract; /* enum coherence_contract; 0: that of `soc` */
	/* Of a device that the session starts: the tandem-npu options of these
	 * names. NULL: none. */
	const char *coherence_report, *coherence_suppress;
	enum doorbell_kind doorbell;
	uint64_t va_window; /* bytes of the device's address window */
	uint32_t va_slots;
	/* Of a device that the session starts: the options of these names. */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
	bool va_hard;                    /* as in host/npu/npu.h */
	enum placement_policy placement; /* of weights in the window */
	bool swap_poison;                /* as in host/memory/swap.h */
	uint64_t evict_seed;
	int64_t spin_us;   /* -1: automatic, by the number of CPUs */
	unsigned stall_ms; /* a device silent for longer counts as lost */
	/* Replace up to this many lost devices a minute: the interrupted pass
	 * is computed again, with no effect on the text. */
	unsigned restarts;
	const char *device;  /* socket of a listening device; NULL: spawn */
	const char *program; /* program to spawn; NULL: searched for */
	bool quiet;          /* discard the device's standard error */
	/* a device that is no process; NULL: one is used */
	const struct npu_ops *npu;
	/*
	 * Another session whose device and phone this one shares, with a second
	 * model; this one is closed first. A session can have one such
	 * companion in its life. NULL: none.
	 */
	struct session *beside;
	/*
	 * For a model in a flash image: the part of its layers that stays in
	 * memory; the rest is streamed through staging slots in every pass. As
	 * a share of the layers, or in bytes of all memory for weights, slots
	 * included (host/session/session_budget.h).
	 */
	double dram_share;   /* 0 to 1 */
	uint64_t dram_bytes; /* if not 0, replaces the share */
	/* Resident and streamed layers alternate in this many runs
	 * (host/model/residency.h); 0: weight_buffers. */
	uint32_t resident_runs;
	unsigned stage_slots; /* at most, 2 .. STREAM_SLOTS */
	/* A slot holds a layer (1) or one of at most this many parts of a
	 * layer; 0: a layer, or a quarter if memory is short. */
	unsigned stage_parts;
	struct stream_opts stream;
	/* Fault plans (base/fault_plan.h): `fault` for the started device and
	 * flash, `flash_fault` for flash alone. NULL: none. */
	const char *fault, *flash_fault;
	/* session_forward may stop rows after this many layers; 0:
	 * never. */
	uint32_t exit_layers;
	/* Keep each row's state after this many layers, besides the last
	 * (session_tapped); 0: off. Not with exit_layers. */
	uint32_t tap_layers;
	/* The phone of the cost model, which computes the time of all work;
	 * borrowed. NULL: none. */
	const struct soc *soc;
	const char *clock; /* "soc:sd8gen3": name of `soc` in reports */
	/*
	 * The shape that the cost model uses for passes, reads of layers and
	 * logits (host/session/pricing.h); NULL: the real model's.
	 */
	const struct shape *as;
	enum dtype as_type; /* of its matrices; F32: the real types */
	/* File for a timeline (host/trace/trace.h), which a session beside this
	 * one writes to as well; NULL: none. */
	const char *trace;
	uint64_t trace_limit;          /* bytes; 0: none */
	struct progress_sink progress; /* progress of opening */
	/* Called with the window's contents when it has no room for something
	 * that must be in it. NULL: not called. */
	void (*window_refused)(const struct window_view *);
	struct notice_sink notice; /* messages about recovered faults */
	/* Set by a signal handler or another thread: waits for the device and
	 * the next forward return -ECANCELED. */
	const volatile sig_atomic_t *cancel; /* NULL: never */
};

/* A macro, since option tables need constants. */
#define SESSION_DEFAULTS                                                     \
	{                                                                    \
		.prefill_chunk = 128, .decode_rows = 1, .sequences = 1,      \
		.graph_blocks = 6, .graph_rows = 32, .weight_buffers = 6,    \
		.precision = WIRE_INT8, .layout = LAYOUT_UNSAID,             \
		.coherence = COHERENCE_OFF, .doorbell = DOORBELL_POLL,       \
		.va_window = 3584ull << 20, .va_slots = 16, .evict_seed = 1, \
		.spin_us = -1, .stall_ms = SESSION_STALL, .dram_share = 1,   \
		.stage_slots = 3,                                            \
	}
#define SESSION_STALL         30000
#define SESSION_RESTARTS_MAX  1000
#define SESSION_STAGE_PARTS   8  /* parts of a layer, at most */
#define SESSION_RESIDENT_RUNS 64 /* runs of resident layers, at most */
extern const struct session_opts session_defaults;

#endif
