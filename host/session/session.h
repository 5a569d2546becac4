/*
 * A session: one model on one device, and sequences: timelines of cached
 * tokens. This is what decoding methods stand on, and it is the same for all of
 * them:
 *
 *   session_forward  computes rows of one or many sequences (host/session/
 *                    rows.h says what a row sees)
 *   session_logits   turns one computed row into logits, on demand
 *   session_accept   keeps a path of those rows: the KV cache is compacted
 *                    and the sequence grows
 *   session_fork     another sequence that shares what one has cached
 *
 * The session owns the device process (or its connection), the shared
 * buffers, the placement of weights in the device window, and the counters.
 * It decides nothing about text. One thread.
 */
#ifndef HOST_SESSION_SESSION_H
#define HOST_SESSION_SESSION_H

#include "base/counters.h"
#include "base/progress.h"
#include "flash/stream.h"
#include "host/memory/placement.h"
#include "host/memory/staging.h"
#include "host/session/graph_switch.h"
#include "host/session/row_counts.h"
#include "host/session/rows.h"
#include "host/session/sequence.h"
#include "host/trace/trace.h"
#include "ipc/wire.h"
#include "shm/coherence.h"
#include "shm/doorbell.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"
#include "tensor/soc/price.h"
#include "tensor/soc/price_host.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct model;
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

int session_open(struct session **out, const struct model *,
	const struct session_opts *, struct err *);
/* 0, or -EPROTO when the coherence checker found violations, or why the trace
 * is not whole. */
int session_close(struct session *, struct err *);

/* Tokens in the cache of a sequence; how long it can become. */
uint32_t session_length(const struct session *, uint32_t sequence);
uint32_t session_context(const struct session *);
/* Rows of the larger graph: of a forward, at most. */
uint32_t session_max_rows(const struct session *);
const struct model *session_model(const struct session *);

/* ---- sequences: session_cache.c ---- */

#define SESSION_SEQUENCES 4096 /* at a time, at most */

/* What a session opens with: the one text of a method that has one. */
#define SESSION_TEXT 0u

/*
 * Sequences are named by ids, which must be those of open ones; only the calls
 * that make rows or forks look.
 *
 * An empty sequence; one that shares what `parent` has cached, of which at most
 * one run is copied, when either is written; the end of one. -ENOSPC when
 * opts.sequences are open. Ids are used again, the lowest first.
 */
int session_add(struct session *, uint32_t *sequence, struct err *);
int session_fork(
	struct session *, uint32_t parent, uint32_t *sequence, struct err *);
void session_remove(struct session *, uint32_t sequence);

/* It gives way where another wants room: sequence_spare and sequence_spared. */
uint64_t session_spare(struct session *, uint32_t sequence);
uint64_t session_spared(const struct session *, uint32_t sequence);

/*
 * Whether n <= ROWS_SEQUENCES of them can go on in one pass, each by more[i]
 * tokens, as far as that is a matter of slots. Those that no sequence has.
 */
bool session_has_room(const struct session *, const uint32_t *sequence,
	const uint32_t *more, uint32_t n);
uint32_t session_free_slots(const struct session *);

/* Forget all but the first `length` tokens, and what was not accepted. */
void session_truncate(struct session *, uint32_t sequence, uint32_t length);

/* Bytes of a token's keys, or values, in a layer. */
size_t session_kv_bytes(const struct session *);

/* Bytes of shared memory, most of it weights, that the device maps by huge
 * page-table entries; asks the system, which looks at every page. */
uint64_t session_huge_bytes(const struct session *);
/* sequence_read and sequence_write: [n][session_kv_bytes] of a layer's keys or
 * values at positions [at, at + n) that are cached. */
int session_read_kv(struct session *, uint32_t sequence, uint32_t layer,
	enum kv_half, uint32_t at, uint32_t n, void *to, struct err *);
int session_write_kv(struct session *, uint32_t sequence, uint32_t layer,
	enum kv_half, uint32_t at, uint32_t n, const void *from, struct err *);

/* ---- passes: session_pass.c ---- */

/*
 * Compute rows (at most the larger graph's) on the device, of open sequences.
 * Trees are for models whose attention is causal, the other sights for those
 * where it is not; models with a block_length take blocks, and trees, by which
 * their prompts are read. Rows come with states, and with these alone, where
 * the model's layers stand behind another's. What a pass adds to a sequence is
 * kept by session_accept; the next forward overwrites what was not. What rows
 * that are no tree overwrite is changed at once, and undefined after a pass
 * that failed. -ENOSPC, and nothing is changed, when the context or the cache
 * is full.
 */
int session_forward(struct session *, const struct rows *, struct err *);

/* session_forward of n tokens that follow a sequence, or each other, and see
 * what the model's attention lets them; with a block_length, as a prompt. */
int session_continue(struct session *, uint32_t sequence, const int32_t *token,
	uint32_t n, struct err *);

/* opts.attend_apart from the next pass on: texts and states are the same. */
void session_attend_apart(struct session *, bool apart);

/* What a method does while a pass runs. */
struct session_hooks {
	/*
	 * Behind the first exit_layers layers, when session_hidden tells the
	 * states there: which rows go on. keep[*n] holds all rows, 0, 1, 2 ...;
	 * what it holds afterwards, ascending, goes on; a row's parent must.
	 * Rows keep their numbers; those dropped have no state and cannot be
	 * accepted. Of trees alone. NULL: all.
	 */
	int (*choose)(void *arg, uint32_t *keep, uint32_t *n, struct err *);
	/* Called once a block, while the device and the flash work on their
	 * own: the host has time. NULL: nothing. */
	int (*meanwhile)(void *arg, struct err *);
	void *arg;
};
int session_forward_with(struct session *, const struct rows *,
	const struct session_hooks *, struct err *);

/* The row's last hidden state, before the final norm: float32 [n_embd]. NULL
 * for a row that was dropped. */
const float *session_hidden(struct session *, uint32_t row);

/* Its state behind the first opts.tap_layers layers, likewise; those layers,
 * 0: it is not kept. */
const float *session_tapped(struct session *, uint32_t row);
uint32_t session_tap_layers(const struct session *);
/* That of n rows of a pass, or what was kept of it, was copied by the CPU. */
void session_add_states(struct session *, uint32_t n);

/* Logits of row `row` of the last forward: float32 [n_vocab]. Counted. */
int session_logits(struct session *, uint32_t row, float *logits, struct err *);
/* Of n rows, each to its own [n_vocab], sooner than one by one. The first not
 * counted yet: some may turn out to be of no use, and what is used of them is
 * said by session_logits_used, in the order of its use. */
int session_logits_ahead(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);
void session_logits_used(struct session *, const float *logits);
int session_logits_rows(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);
/* Of rows [first, first + n) to logits [n][n_vocab], sooner than one by one. */
int session_logits_range(struct session *, uint32_t first, uint32_t n,
	float *logits, struct err *);

/*
 * Keep rows path[0] < path[1] < ... of the last forward, a path from a root at
 * the sequence's end down, or of rows that are no tree the first ones; their KV
 * moves to where the sequence ends (in place, ascending), which grows by n.
 * With a NULL path the first n rows of the sequence. Once for each sequence.
 */
int session_accept(struct session *, uint32_t sequence, const uint32_t *path,
	uint32_t n, struct err *);

/*
 * Where rows are no tree: so many of the last forward gave a token of the text.
 * What is accepted of a tree is counted by itself.
 */
void session_count_valid(struct session *, uint32_t rows);

/*
 * Append n tokens to a sequence in chunks of the prefill graph; afterwards
 * session_logits(*last_row) is the distribution behind the last one. n >= 1.
 */
int session_prefill(struct session *, uint32_t sequence, const int32_t *token,
	size_t n, uint32_t *last_row, struct err *);

/*
 * Nobody waits for anything: with graph switching the prefill graphs come back
 * now and not before the next prompt, which begins when they are there.
 */
int session_rest(struct session *, struct err *);

/*
 * Who wants logits behind tokens of a prompt while it is read: those of a chunk
 * are computed on the host while the device computes the next. Both are asked
 * in the order of tokens; `at` counts those given to session_prefill_with.
 */
struct session_reader {
	bool (*wants)(void *arg, size_t at); /* NULL: no logits at all */
	void (*read)(void *arg, size_t at, const float *logits);
	/* Of every token, with opts.tap_layers; NULL: nobody wants it. */
	void (*tapped)(void *arg, size_t at, const float *state);
	void *arg;
};
int session_prefill_with(struct session *, uint32_t sequence,
	const int32_t *token, size_t n, const struct session_reader *,
	uint32_t *last_row, struct err *);

/*
 * Work of the host's beside the session was done: drafting, predicting. It
 * takes its place on the phone's time, and what comes from flash, which comes
 * only while it is waited for or seen to, is seen to. So whoever works for long
 * tells it piece by piece of a few milliseconds, and has nothing else to
 * remember; with a price of nothing where there is no phone.
 */
void session_add_host_work(struct session *, const struct price *);
/* Work that a trace has under that name. */
void session_add_work_of(
	struct session *, enum trace_name, const struct price *);

/*
 * Likewise by count (tensor/soc/price_host.h), of rows of logits as long as the
 * vocabulary that is priced: tokens drawn, candidates found, sweeps of other
 * kinds; and steps through trees and lists.
 */
void session_add_draws(struct session *, uint32_t rows, bool greedy);
void session_add_tops(struct session *, uint32_t rows, uint32_t k);
void session_add_sweep(struct session *, enum price_sweep, uint32_t rows);
void session_add_steps(struct session *, uint64_t steps);

/* The width of the model that is priced: that of `as`, or of what runs. */
uint32_t session_priced_width(const struct session *);

/*
 * From now on passes are priced as those of a phone without an NPU, whose CPU
 * computes the rows that there are; logits are its own anyway. For models all
 * of which is in memory. Without a phone it changes nothing.
 */
void session_price_by_cpu(struct session *);

/*
 * What a pass of so many rows behind `cached` tokens takes the NPU, as rows
 * grow a staircase: of a phone picoseconds; without one, tiles of rows.
 */
uint64_t session_expect_pass(
	const struct session *, uint32_t rows, uint32_t cached);

/* Of the graph that a pass of so many rows runs. */
uint32_t session_graph_rows(const struct session *, uint32_t rows);

/* What the device has computed for so far, in nanoseconds. */
uint64_t session_device_ns(const struct session *);

/*
 * What flash takes to read the layers that a pass reads: picoseconds of the
 * phone or, without one, nanoseconds, by its speed so far; 0 where nothing is
 * streamed or was read.
 */
uint64_t session_read_time(struct session *);

/* Bytes that a pass reads from flash, as they are priced: of the model that
 * runs, or of the shape in its place. */
uint64_t session_read_bytes(const struct session *);

/* What is told of the session's work; NULL: nothing. */
struct trace *session_trace(const struct session *);

/* For some time there will be no passes: that trace is written. */
void session_flush_trace(const struct session *);

/* Passes so far, which is the number of the last one on that trace. */
uint64_t session_passes(const struct session *);

/* The present: picoseconds of the phone, 0 without one. */
uint64_t session_phone_ps(const struct session *);

/*
 * For how long flash goes on reading ahead while nothing is asked of the
 * session: what the host does meanwhile costs no time. Picoseconds of the phone
 * or, without one, nanoseconds; 0 where nothing is streamed.
 */
uint64_t session_ahead(struct session *);

/* Wait until flash has read ahead all that it may (staging_fill). */
int session_read_ahead(struct session *, struct err *);

/*
 * What graph switching came to. Times are those of the clock in use:
 * picoseconds of the phone or, without one, nanoseconds.
 */
/* clang-format off */
#define SWITCH_STATS(X)                                                       \
	X(uint64_t, prompts)                                                  \
	X(uint64_t, loads) X(uint64_t, load_time) /* of decode graphs */      \
	/* of prefill graphs, before a later prompt or at rest */             \
	X(uint64_t, reloads) X(uint64_t, reload_time)                         \
	/* while nothing was computed for want of a decode graph */           \
	X(uint64_t, wait_time)                                                \
	X(uint64_t, prompt_time) /* from begin to end, all these included */  \
	X(uint64_t, planned_time) /* what that was expected to be */
/* clang-format on */

struct switch_stats {
	uint32_t blocks; /* 0: it is off */
	uint32_t prefill_rows, decode_rows;
	SWITCH_STATS(COUNTER_MEMBER)
	/* That the device ever held at once, and KiB of their weights. */
	uint32_t most_graphs, most_graphs_kib;
};

/* A run of a block by the NPU, or the load of its graph beside. */
struct graph_event {
	uint64_t begin, end;  /* since the prompt began, as in switch_stats */
	uint32_t block, rows; /* of the graph */
	uint32_t chunk; /* of the prompt; of a load: when it was asked for */
	bool load;
};

/*
 * Of the last session_prefill with graph switching, in the order in which they
 * ended; the session's, until the next. *n is 0 where there was none.
 */
const struct graph_event *session_graph_log(const struct session *, size_t *n);

/*
 * What a session counts: X(since, report, name). Of two times it is the later
 * one LESS the earlier, or is KEPT (session_stats_since); ROWS are row_counts.
 * JSON has a member of that name, a WHOLE number or, of nanoseconds, SECONDS
 * (`name_s` of `name_ns`), in this order; or it stands APART.
 */
/* clang-format off */
#define SESSION_STATS(X)                                                      \
	/* rows of logits that were used, and all that were computed */       \
	X(LESS, WHOLE, logits_rows) X(LESS, WHOLE, logits_computed)           \
	/* for how long, of the wall without what streaming did meanwhile */  \
	X(LESS, SECONDS, logits_ns) X(LESS, APART, logits_ps)                 \
	X(LESS, WHOLE, passes)         /* forwards */                         \
	X(LESS, WHOLE, rows)           /* real rows computed */               \
	X(LESS, APART, upper_rows)     /* of them behind exit_layers too */   \
	X(LESS, WHOLE, padded_rows)    /* of the static graphs, unused */     \
	X(LESS, APART, pass_ns)        /* in forwards */                      \
	/* what came of them: of the passes of session_prefill, with rows     \
	 * beside others' that are said to read a prompt; of all others */    \
	X(ROWS, ROWS, prompt_rows) X(ROWS, ROWS, decode_rows)                 \
	X(LESS, WHOLE, round_trips)    /* completions received */             \
	X(LESS, WHOLE, sleeps)         /* of the host, waiting */             \
	/* devices that took a lost one's place, and how long it took from    \
	 * where the loss was noticed until they had all they needed */       \
	X(KEPT, WHOLE, restarts) X(KEPT, SECONDS, restart_ns)                 \
	X(KEPT, WHOLE, maps) X(KEPT, WHOLE, unmaps)                           \
	X(KEPT, WHOLE, bytes_mapped)   /* in the window now */                \
	/* maps that passes had to wait for, and what was mapped by them */   \
	X(LESS, WHOLE, remaps) X(LESS, WHOLE, remap_bytes)                    \
	/* what weights that were not in the window cost: waiting for them    \
	 * to be mapped or copied while the device had nothing else to do */  \
	X(LESS, APART, stall_ns) X(LESS, APART, stall_ps)                     \
	/* of blocks that come and go */                                      \
	X(LESS, APART, copies) X(LESS, APART, copied_bytes)                   \
	/* the device's extended region; buffers in it, those of a session    \
	 * beside this one too; what DMA read of it in all passes */          \
	X(KEPT, WHOLE, extended_room) X(KEPT, WHOLE, extended_bytes)          \
	X(KEPT, WHOLE, extended_buffers) X(LESS, WHOLE, extended_read)        \
	X(KEPT, WHOLE, weight_bytes)   /* of the layers */                    \
	X(KEPT, WHOLE, kv_bytes)                                              \
	/* keys and values that attention read in all passes, and that it     \
	 * would have read had each row read what it sees by itself */        \
	X(LESS, WHOLE, kv_read_bytes) X(LESS, WHOLE, kv_apart_bytes)          \
	X(LESS, APART, mixed_passes)   /* with rows of several sequences */   \
	/* of the cache, for sequences that shared them */                    \
	X(LESS, APART, copied_runs)                                           \
	/* of the device: WIRE_COUNTERS */                                    \
	X(LESS, WHOLE, dma_bytes) X(LESS, WHOLE, invalidated_lines)           \
	X(LESS, WHOLE, cleaned_lines) X(LESS, WHOLE, evicted_lines)           \
	X(KEPT, WHOLE, violations) X(LESS, WHOLE, saturated)                  \
	X(LESS, APART, busy_ns)                                               \
	/* what can mean nothing: rows of logits that hold a value that is    \
	 * infinite or no number, or come from such a norm; such values of a  \
	 * model file's weights (an image has none: convert refuses them) */  \
	X(LESS, WHOLE, rows_not_finite) X(KEPT, WHOLE, weights_not_finite)    \
	X(LESS, APART, prompt_ps)      /* of session_prefill */
/* clang-format on */

struct session_stats {
#define SESSION_TYPE_LESS                   uint64_t
#define SESSION_TYPE_KEPT                   uint64_t
#define SESSION_TYPE_ROWS                   struct row_counts
#define SESSION_MEMBER(since, report, name) SESSION_TYPE_##since name;
	SESSION_STATS(SESSION_MEMBER)
	uint64_t resident_bytes;   /* of weights in the window now, but for
				    * those in slots */
	uint32_t temporary_blocks; /* that a plan copies in every pass */
	uint64_t logits_hash; /* of all logits_rows so far, in order, or since
			       * session_hash_anew */
	/* On the phone: all work and, as its total_ps, the time from beginning
	 * to end, which is less where flash, NPU and CPU work beside one
	 * another. */
	struct price price;
	struct switch_stats graphs;
	uint32_t blocks, layers_per_block;
	uint32_t resident_layers;
	/* In so many runs among the others; in front of the first of those so
	 * many. */
	uint32_t resident_runs, layers_before;
	/* Through which the others come, of so many bytes, a layer in so many
	 * parts at most; 0: none does. */
	unsigned stage_slots, stage_parts;
	uint64_t stage_bytes;
	struct staging_stats staging; /* all zero where nothing is streamed */
	enum layout layout;           /* never UNSAID */
	uint32_t threads;
	char kern[16]; /* the device's kernels */
};
void session_stats(const struct session *, struct session_stats *out);
void session_hash_anew(struct session *);

/* -EDOM, and a sentence, if there were any such rows or weights so far. */
int session_check_finite(const struct session *, struct err *);

/* What *now counts more than *before, an earlier one of the same session; what
 * is KEPT, and what is no counter, stays what it is. */
void session_stats_since(
	struct session_stats *now, const struct session_stats *before);

/* How layers come from flash (stream_how); NULL where none does. */
const char *session_flash_how(const struct session *);

#endif
