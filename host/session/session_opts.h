/*
 * Options of a session: plain data, which code can fill in without access to a
 * session. The caller keeps ownership of everything that pointers refer to.
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
	/* number of threads of the host, and also of the device; 0: one thread
	 * per CPU */
	uint32_t threads;
	uint32_t prefill_chunk; /* number of rows of the prefill graph */
	/* number of rows of the decode graph; at most the context length */
	uint32_t decode_rows;
	/* Add graphs with 1/2, 1/4, ... of the rows of the decode graph, down
	 * to 8 rows, and for causal models a graph of one row. A phone's NPU
	 * computes all rows of a graph, so a small pass costs less with a small
	 * graph. */
	bool smaller_graphs;
	/* Add graphs with 2, 4, ... times the rows of the decode graph, up to
	 * the number of rows of the prefill graph. */
	bool larger_graphs;
	/* Use the prefill graph for decoding as well, and create no other
	 * graph. */
	bool one_graph;
	/*
	 * If not SWITCH_OFF, the device holds one graph per block, and the
	 * layers are cut into at least graph_blocks blocks. A prompt begins
	 * with all blocks' prefill graphs; while the prompt is computed, each
	 * prefill graph is replaced by a decode graph of at least graph_rows
	 * rows (host/session/graph_switch.h). Cannot be combined with smaller
	 * graphs, with streaming, or with `beside`. Requires a causal model, or
	 * a diffusion model with a block_length.
	 */
	enum graph_switch graph_switch;
	uint32_t graph_blocks, graph_rows;
	/* Without graph switching, the layers are cut into at least this many
	 * blocks. Each block is one buffer in the device's window and one
	 * request of a pass. */
	uint32_t weight_buffers;
	/*
	 * Maximum number of tokens of a sequence. A `context` that does not fit
	 * the cache's buffer or the device's window is refused. If `context` is
	 * 0, the maximum is the model's context length, or context_need if
	 * context_need is less and not 0, but at most the number of tokens that
	 * fit.
	 */
	uint32_t context, context_need;
	/* Maximum number of open sequences. If there can be more than one,
	 * `slots` is the total number of tokens that all sequences can cache,
	 * rounded up to whole runs (host/memory/kv_pool.h). slots == 0: one
	 * context length. */
	uint32_t sequences, slots;
	/* If not 0, and `slots` is 0: the cache has room for one context length
	 * plus `tail` tokens for each further sequence, limited to what the
	 * cache's buffer and the device's window can hold. */
	uint32_t tail;
	/* Let attention read the cache separately for each row, even if several
	 * rows attend to the same tokens. */
	bool attend_apart;
	/*
	 * Send passes to the device and simulate their cost, but compute
	 * nothing: hidden states are the token embeddings, and all logits are
	 * 0. A caller that has the results already uses this to measure the
	 * simulated phone time.
	 */
	bool idle;
	enum wire_precision precision;
	/* LAYOUT_DEFAULT: for a flash image the layout of the image, which is
	 * the only layout allowed; for other models LAYOUT_TILES. */
	enum layout layout;
	enum coherence coherence;
	/* rules of cache maintenance (enum coherence_contract); 0: the rules of
	 * `soc` or, if `soc` is NULL, those of one cache level */
	uint32_t contract;
	/* whether the device accesses the request and completion rings through
	 * its cache: 1 yes, 0 no */
	int coherence_ctrl;
	/* Used only if the session starts the device: values of the tandem-npu
	 * options with these names. NULL: the option is not passed. */
	const char *coherence_report, *coherence_suppress;
	enum doorbell_kind doorbell;
	uint64_t va_window; /* size in bytes of the device's address window */
	uint32_t va_slots;
	/* Used only if the session starts the device: values of the tandem-npu
	 * options with these names. */
	uint64_t va_extended;
	uint32_t va_defer, va_map_us;
	/* whether to limit the size of the device process's address space to
	 * its size after the start of the process plus 256 MiB
	 * (VA_HARD_SLACK) */
	bool va_hard;
	/* placement of the weights in the device's window; an open session has
	 * replaced PLACEMENT_AUTO by another policy */
	enum placement_policy placement;
	/* for tests: overwrite a swap slot (buffer of copied weights) after the
	 * device has read the weights */
	bool swap_poison;
	uint64_t evict_seed;
	/* time for which a waiting thread spins before it sleeps, in
	 * microseconds; -1: chosen by the number of CPUs */
	int64_t spin_us;
	/* milliseconds without progress after which a device counts as lost */
	unsigned stall_ms;
	/* Replace up to this many lost devices per minute. The interrupted pass
	 * is computed again, so the generated text does not change. */
	unsigned restarts;
	/* socket of a running device to connect to; NULL: start a device */
	const char *device;
	const char *program; /* device program to start; NULL: search for it */
	bool quiet;          /* discard the device's standard error */
	/* operations of a device that is not a process, such as the fake device
	 * of a test; NULL: the device is a process */
	const struct npu_ops *npu;
	/*
	 * Another session, with another model, whose device and phone this
	 * session shares. This session must be closed before the other session.
	 * During its life a session can be the `beside` of only one other
	 * session. NULL: none.
	 */
	struct session *beside;
	/*
	 * For a model in a flash image: how much of the weights stays in
	 * memory. The layers that do not stay in memory are streamed through
	 * staging slots in every pass. The limit is either a share of the
	 * layers, or a number of bytes for all weights in memory, including the
	 * staging slots (host/session/session_budget.h).
	 */
	double dram_share; /* share of the layers in memory, 0 to 1 */
	/* budget in bytes; if not 0, used instead of dram_share */
	uint64_t dram_bytes;
	/* The resident layers are divided into this many groups, with streamed
	 * layers between the groups (host/model/residency.h). 0 means as many
	 * as weight_buffers. */
	uint32_t resident_runs;
	/* maximum number of staging slots, 2 to STREAM_SLOTS */
	unsigned stage_slots;
	/* A layer is streamed in up to this many parts; a slot holds one part.
	 * 0 means whole layers, or quarters of a layer if memory is short. */
	unsigned stage_parts;
	/* For a model with experts: number of experts per row that are
	 * predicted for the next layer and read ahead; 0: none. */
	uint32_t experts_ahead;
	struct stream_opts stream;
	/* Fault plans (base/fault_plan.h): `fault` applies to the device that
	 * the session starts and to flash, `flash_fault` to flash only. NULL
	 * means that no faults are injected. */
	const char *fault, *flash_fault;
	/* session_forward can drop rows after this many layers; 0: rows are
	 * never dropped. */
	uint32_t exit_layers;
	/* Keep each row's state after this many layers, in addition to the last
	 * state (session_tapped). 0: off. Cannot be combined with
	 * exit_layers. */
	uint32_t tap_layers;
	/*
	 * Number of likeliest next tokens that session_predict computes, on the
	 * device, for each row of a pass; at most WIRE_MAX_TOP_K. 0: no
	 * predictions. Requires that the output matrix is not streamed; the
	 * matrix then takes room in the device's window.
	 */
	uint32_t predict_top_k;
	/* The phone for whose cost model the simulated time of all work is
	 * computed. The caller keeps ownership. NULL: no simulated phone. */
	const struct soc *soc;
	const char *clock; /* name of `soc` in reports, such as "soc:sd8gen3" */
	/* Passes, layer reads and logits are charged as if the model had this
	 * shape (host/session/pricing.h). NULL: the shape of the real model. */
	const struct shape *as;
	struct shape_type as_type; /* types of the matrices of `as` */
	/* File to which a timeline is written (host/trace/trace.h); sessions
	 * that share this session's device write to the same file. NULL:
	 * none. */
	const char *trace;
	uint64_t trace_limit; /* maximum bytes of `trace`; 0: no limit */
	/* receives the progress of opening the session */
	struct progress_sink progress;
	/* Called with the contents of the device's window when the window has
	 * no room for something that must be in the window. NULL: not
	 * called. */
	void (*window_refused)(const struct window_view *);
	/* receives a message about each fault from which the session
	 * recovered */
	struct notice_sink notice;
	/* Set to a nonzero value by a signal handler or another thread. From
	 * then on, waits for the device and calls of session_forward return
	 * -ECANCELED. */
	const volatile sig_atomic_t *cancel; /* NULL: cannot be canceled */
};

/* A macro instead of a constant, because tables of options need constant
 * expressions. */
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
#define SESSION_STAGE_PARTS  8 /* maximum of stage_parts */
/* maximum number of groups of resident layers */
#define SESSION_RESIDENT_RUNS 64
extern const struct session_opts session_defaults;

#endif
