/*
 * Options of a session. This is plain data, which code without access to
 * sessions may fill in. The caller keeps ownership of everything that pointers
 * refer to.
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
#include "host/model/shape_type.h"
#include "tensor/layout.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct shape;
struct npu_ops;
struct session;
struct soc;
struct window_view;

struct session_opts {
	/* of the host and of the device, each; 0: one thread per CPU */
	uint32_t threads;
	uint32_t prefill_chunk; /* rows of the prefill graph */
	/* rows of the decode graph; limited to the context's length */
	uint32_t decode_rows;
	/* Add graphs with 1/2, 1/4, ... of the rows, down to 8 rows. A phone's
	 * NPU computes all rows of a graph, so a small pass costs less with a
	 * small graph. */
	bool smaller_graphs;
	/* Add graphs with 2, 4, ... times the rows of the decode graph, up to
	 * the rows of the prefill graph. */
	bool larger_graphs;
	/* Use the prefill graph for decoding as well, and create no other
	 * graph. */
	bool one_graph;
	/*
	 * If not SWITCH_OFF, the device holds one graph per block, and the
	 * layers are cut into at least graph_blocks blocks. Each block begins
	 * with the prefill graph, which is replaced by the decode graph (of at
	 * least graph_rows rows) while a prompt is computed
	 * (host/session/graph_switch.h). Cannot be combined with smaller
	 * graphs, with streaming, or with `beside`. Requires a model with
	 * causal attention or with blocks.
	 */
	enum graph_switch graph_switch;
	uint32_t graph_blocks, graph_rows;
	/* Without graph switching, the layers are cut into at least this many
	 * blocks. Each block is one buffer in the window and one request of a
	 * pass. */
	uint32_t weight_buffers;
	/*
	 * Maximum number of tokens of a sequence. 0 means the model's context
	 * or, if that is less, context_need (where 0 means unknown), limited to
	 * what the cache's buffer and the window can hold.
	 */
	uint32_t context, context_need;
	/* Maximum number of open sequences. If there can be more than one,
	 * `slots` is the number of tokens that all sequences together can
	 * cache; it is rounded up to whole runs (host/memory/kv_pool.h). 0
	 * means as many as one context. */
	uint32_t sequences, slots;
	/* If not 0, and `slots` is 0: the cache has room for one context plus
	 * this many tokens for each further sequence, limited to what the
	 * cache's buffer and the window can hold. */
	uint32_t tail;
	/* Each row reads the cache separately, even if several rows attend to
	 * the same tokens. */
	bool attend_apart;
	/*
	 * Send and price passes, but compute nothing: hidden states are the
	 * token embeddings, and all logits are 0. For measuring the simulated
	 * phone time of passes whose results are known.
	 */
	bool idle;
	enum wire_precision precision;
	/* LAYOUT_DEFAULT means the layout of the flash image, which cannot be
	 * changed, or LAYOUT_TILES for other models. */
	enum layout layout;
	enum coherence coherence;
	/* enum coherence_contract; 0 means that of `soc` */
	uint32_t contract;
	/* 1: the rings too are accessed through the device's cache; 0: not */
	int coherence_ctrl;
	/* For a device that the session starts: values of the tandem-npu
	 * options with these names. NULL means that the option is not
	 * passed. */
	const char *coherence_report, *coherence_suppress;
	enum doorbell_kind doorbell;
	uint64_t va_window; /* size of the device's address window in bytes */
	uint32_t va_slots;
	/* For a device that the session starts: values of the tandem-npu
	 * options with these names. */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
	bool va_hard; /* see host/npu/npu.h */
	/* placement of the weights in the window */
	enum placement_policy placement;
	bool swap_poison; /* see host/memory/swap.h */
	uint64_t evict_seed;
	int64_t spin_us; /* -1: chosen by the number of CPUs */
	/* a device that does not answer for longer counts as lost */
	unsigned stall_ms;
	/* Replace up to this many lost devices per minute. The interrupted pass
	 * is computed again, so the generated text does not change. */
	unsigned restarts;
	/* socket of a device that is already listening; NULL: start one */
	const char *device;
	const char *program; /* device program to start; NULL: search for it */
	bool quiet;          /* discard the device's standard error */
	/* operations of a device that is not a process; NULL: use a process */
	const struct npu_ops *npu;
	/*
	 * Another session, with another model, whose device and phone this
	 * session shares. This session must be closed before that one. A
	 * session can be `beside` for only one other session during its life.
	 * NULL: none.
	 */
	struct session *beside;
	/*
	 * For a model in a flash image: how much of its layers stays in memory.
	 * The other layers are streamed through staging slots in every pass.
	 * The limit is either a share of the layers, or a number of bytes for
	 * all weights in memory, including the staging slots
	 * (host/session/session_budget.h).
	 */
	double dram_share;   /* share of the layers, 0 to 1 */
	uint64_t dram_bytes; /* if not 0, used instead of the share */
	/* The resident layers are divided into this many groups, with streamed
	 * layers between the groups (host/model/residency.h). 0 means as many
	 * as weight_buffers. */
	uint32_t resident_runs;
	unsigned stage_slots; /* maximum number of slots, 2 to STREAM_SLOTS */
	/* A layer is streamed in up to this many parts; a slot holds one part.
	 * 0 means whole layers, or quarters of a layer if memory is short. */
	unsigned stage_parts;
	/* For a model with experts: after each layer, this many experts of each
	 * row are read that the next layer will probably need; 0: none. */
	uint32_t experts_ahead;
	struct stream_opts stream;
	/* Fault plans (base/fault_plan.h): `fault` applies to the device that
	 * the session starts and to flash, `flash_fault` to flash only. NULL
	 * means that no faults are injected. */
	const char *fault, *flash_fault;
	/* session_forward can drop rows after this many layers; 0 means that it
	 * cannot. */
	uint32_t exit_layers;
	/* Keep each row's state after this many layers, in addition to the last
	 * state (session_tapped). 0: off. Cannot be combined with
	 * exit_layers. */
	uint32_t tap_layers;
	/*
	 * Number of likeliest next tokens after each row of a pass that
	 * session_predict computes on the device, at most WIRE_MAX_TOP_K. The
	 * output matrix is then in the window, and must not be streamed. 0: no
	 * predictions.
	 */
	uint32_t predict_top_k;
	/* The phone whose cost model computes the (simulated) time of all work.
	 * The caller keeps ownership. NULL means that there is no cost
	 * model. */
	const struct soc *soc;
	const char *clock; /* name of `soc` in reports, such as "soc:sd8gen3" */
	/*
	 * The shape whose passes, layer reads and logits the cost model charges
	 * in place of the real model's (host/session/pricing.h). NULL means the
	 * real model's shape.
	 */
	const struct shape *as;
	struct shape_type as_type; /* of its matrices */
	/* File to which a timeline is written (host/trace/trace.h), also by a
	 * session that shares this session's device. NULL: none. */
	const char *trace;
	uint64_t trace_limit; /* maximum size in bytes; 0: no limit */
	/* receives the progress of opening the session */
	struct progress_sink progress;
	/* Called with the contents of the window when the window has no room
	 * for something that must be in it. NULL: not called. */
	void (*window_refused)(const struct window_view *);
	/* receives messages about faults that were recovered from */
	struct notice_sink notice;
	/* Set by a signal handler or by another thread. Then waits for the
	 * device, and the next session_forward, return -ECANCELED. */
	const volatile sig_atomic_t *cancel; /* NULL: cannot be canceled */
};

/* A macro, because tables of options need constant expressions. */
#define SESSION_DEFAULTS                                                     \
	{                                                                    \
		.prefill_chunk = 128, .decode_rows = 1, .sequences = 1,      \
		.graph_blocks = 6, .graph_rows = 32, .weight_buffers = 6,    \
		.precision = WIRE_INT8, .layout = LAYOUT_DEFAULT,            \
		.coherence = COHERENCE_OFF, .doorbell = DOORBELL_POLL,       \
		.va_window = 3584ull << 20, .va_slots = 16, .evict_seed = 1, \
		.spin_us = -1, .stall_ms = SESSION_STALL, .dram_share = 1,   \
		.stage_slots = 3, .experts_ahead = 2,                        \
	}
#define SESSION_STALL        30000
#define SESSION_RESTARTS_MAX 1000
#define SESSION_STAGE_PARTS  8 /* maximum number of parts of a layer */
/* maximum number of groups of resident layers */
#define SESSION_RESIDENT_RUNS 64
extern const struct session_opts session_defaults;

#endif
