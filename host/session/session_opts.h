/*
 * How a session is opened: plain data, which rooms may fill in that see no
 * session. Pointers are borrowed.
 */
#ifndef HOST_SESSION_SESSION_OPTS_H
#define HOST_SESSION_SESSION_OPTS_H

#include "base/progress.h"
#include "flash/stream.h"
#include "host/memory/placement.h"
#include "host/session/graph_switch.h"
#include "ipc/wire.h"
#include "shm/coherence.h"
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
	uint32_t threads;       /* host and device each; 0: all processors */
	uint32_t prefill_chunk; /* rows of the prefill graph */
	uint32_t decode_rows;   /* rows of the decode graph, if so many fit
				 * into the context */
	/* Graphs of half as many rows, a quarter ... as well, down to 8: a
	 * phone computes all rows of a graph. */
	bool smaller_graphs;
	/* Graphs of twice as many rows as the smaller of the two, four times
	 * ... as well, up to the larger. */
	bool larger_graphs;
	/* That of the prefill alone, for decoding too: without the others. */
	bool one_graph;
	/*
	 * Not SWITCH_OFF: the device holds one graph a block, in at least
	 * graph_blocks blocks: that of the prefill, which is exchanged for that
	 * of decoding, of graph_rows rows at least, while a prompt is computed
	 * (host/session/graph_switch.h). Without smaller ones, streaming, or a
	 * session beside; for models whose attention is causal.
	 */
	enum graph_switch graph_switch;
	uint32_t graph_blocks, graph_rows;
	/* Otherwise the layers are cut into at least so many blocks, each of
	 * which is a buffer to place, and of a pass a request to wait for. */
	uint32_t weight_buffers;
	/*
	 * Token positions. 0: the model's own or context_need if that is
	 * known (not 0) and less, as far as cache and window hold them.
	 */
	uint32_t context, context_need;
	/* Sequences there may be at a time and, of more than one, the tokens
	 * that all of them can have cached: whole runs (host/memory/kv_pool.h)
	 * of at least so many; 0: as many as the context of one. */
	uint32_t sequences, slots;
	/* Not 0, and `slots` is: beside the context of one so many tokens of
	 * each of the other sequences, as far as cache and window hold them. */
	uint32_t tail;
	/* Of what rows see in common each reads what it sees by itself. */
	bool attend_apart;
	/*
	 * Passes are made and priced, and nothing is computed: states are those
	 * of the embeddings, logits are all 0. For whoever knows what came of
	 * them, and asks what they take a phone.
	 */
	bool idle;
	enum wire_precision precision;
	/* UNSAID: a flash image's own, which only itself may be said for;
	 * of other models tiles. */
	enum layout layout;
	enum coherence coherence;
	/* Of a device that is started: as tandem-npu's options of these names.
	 * NULL: none. */
	const char *coherence_report, *coherence_suppress;
	enum doorbell_kind doorbell;
	uint64_t va_window; /* bytes of the device's address window */
	uint32_t va_slots;
	/* Of a device that is started, as its options of these names. */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
	bool va_hard;                    /* as in host/npu/npu.h */
	enum placement_policy placement; /* of weights in it */
	bool swap_poison;                /* as in host/memory/swap.h */
	uint64_t evict_seed;
	int64_t spin_us;   /* -1: chosen from the processors at hand */
	unsigned stall_ms; /* a device silent for longer is given up */
	/* So many in a minute that are lost are replaced: what was under way is
	 * computed again, and nothing of it shows in a text. */
	unsigned restarts;
	const char *device;  /* socket of a listening device; NULL: spawn */
	const char *program; /* that is spawned; NULL: the one that is found */
	bool quiet;          /* what it says on standard error is thrown away */
	const struct npu_ops *npu; /* a device that is no process; NULL: one */
	/*
	 * Another session whose device and phone this one uses too, for a
	 * second model, and which is closed after it. In its life it has one
	 * such beside it. NULL: none.
	 */
	struct session *beside;
	/*
	 * Of a model that lies in a flash image: how much of its layers stays
	 * in memory; the rest is streamed through staging slots in every pass.
	 * As a share of their number, or in bytes of all memory that weights
	 * take, the slots among it (host/session/session_budget.h).
	 */
	double dram_share;   /* 0 to 1 */
	uint64_t dram_bytes; /* not 0: instead of the share */
	/* Layers that stay and layers that come alternate in so many runs
	 * (host/model/residency.h); 0: weight_buffers. */
	uint32_t resident_runs;
	unsigned stage_slots; /* at most, 2 .. STREAM_SLOTS */
	/* A slot holds a layer (1) or a part of one, of so many at most; 0: a
	 * layer, or a quarter where memory does not hold as many slots. */
	unsigned stage_parts;
	struct stream_opts stream;
	/* Plans of faults to have (base/fault_plan.h), of the device it starts
	 * and of flash; the second of flash alone. NULL: none. */
	const char *fault, *flash_fault;
	/* session_forward_with may stop behind so many layers; 0: nowhere. */
	uint32_t exit_layers;
	/* Of each row the state behind so many layers stays to be read beside
	 * the last (session_tapped); 0: none does. Not with exit_layers. */
	uint32_t tap_layers;
	/* The phone that all work is priced for, beside being done; borrowed.
	 * NULL: none. */
	const struct soc *soc;
	const char *clock; /* "soc:sd8gen3": what `soc` is called in reports */
	/*
	 * What passes, reads of layers and logits are priced as
	 * (host/session/pricing.h); NULL: as what runs.
	 */
	const struct shape *as;
	enum dtype as_type; /* of its matrices; F32: those of what runs */
	/* Where what is done is told of, on a timeline (host/trace/trace.h),
	 * and that of a session beside this one too; NULL: nowhere. */
	const char *trace;
	uint64_t trace_limit;          /* bytes; 0: none */
	struct progress_sink progress; /* of opening */
	/* Told of the window where it has no room for what must be in it: what
	 * is mapped then. NULL: nobody. */
	void (*window_refused)(const struct window_view *);
	struct notice_sink notice; /* of what was mended meanwhile */
	/* Set by a signal handler or another thread: what waits for the device,
	 * and the next forward, returns -ECANCELED. */
	const volatile sig_atomic_t *cancel; /* NULL: never */
};

/* In a table of options, which wants constants, and elsewhere. */
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
#define SESSION_STAGE_PARTS   8  /* of a layer, at most */
#define SESSION_RESIDENT_RUNS 64 /* of layers in memory, at most */
extern const struct session_opts session_defaults;

#endif
