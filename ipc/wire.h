/*
 * The wire: all messages and shared structures between host and device, their
 * only contract. No code. Little-endian, fixed widths, explicit padding.
 *
 * A Unix socket (SOCK_SEQPACKET) carries the handshake and file descriptors;
 * two rings in a control memfd carry requests and completions. Shared memory
 * has 32-bit device addresses inside the window, which WIRE_MAP assigns. The
 * receiver trusts nothing: every length, offset, id and shape is checked, and a
 * bad request gets a completion with a negative status and a text that names
 * the field.
 */
#ifndef IPC_WIRE_H
#define IPC_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC      0x4d444e54u /* "TNDM" */
#define WIRE_VERSION    1u

#define WIRE_MAX_REFS   240
#define WIRE_MAX_ROWS   1024 /* rows of a graph */
#define WIRE_MAX_SPANS  4096 /* spans of a request */
#define WIRE_MAX_LAYERS 512  /* layers of a block */
#define WIRE_WINDOW_MIN (1ull << 20)
#define WIRE_WINDOW_MAX ((4ull << 30) - 65536)
/* The most maps by which a device may defer an unmap. */
#define WIRE_DEFER_MAX  64
#define WIRE_MAP_US_MAX 100000 /* largest configurable time of a map */
/*
 * The extended region of a device: memory that the DMA engine can read and the
 * cores cannot, so it has no 32-bit addresses. Offsets in it are in units of
 * this many bytes.
 */
#define WIRE_EXTENDED_UNIT 64u
#define WIRE_EXTENDED_MAX  (64ull << 30)

/* ---- the socket ------------------------------------------------------ */

enum wire_link_op {
	WIRE_HELLO = 1, /* host -> device; fds: control memfd, then doorbells */
	WIRE_WELCOME,   /* device -> host */
	WIRE_SHARE,     /* host -> device; fd: one buffer */
	WIRE_BYE,       /* host -> device: end normally */
};

/* Order of the descriptors that come with WIRE_HELLO. */
enum wire_hello_fd {
	WIRE_FD_CONTROL,
	WIRE_FD_REQUEST_WAIT,    /* the device sleeps on it */
	WIRE_FD_COMPLETION_RING, /* the device rings it */
	WIRE_FD_COUNT            /* with doorbell poll: only the first */
	/* With WIRE_FEATURE_TRACE the trace buffer's follows. */
};
#define WIRE_FD_MOST (WIRE_FD_COUNT + 1)

struct wire_hello {
	uint32_t op; /* WIRE_HELLO */
	uint32_t magic, version;
	uint32_t features;   /* WIRE_FEATURE_* */
	uint32_t doorbell;   /* enum doorbell_kind */
	uint32_t coherence;  /* enum coherence */
	uint32_t threads;    /* device workers; 0: one per CPU */
	uint32_t va_slots;   /* mapping slots of the window */
	uint64_t va_window;  /* bytes */
	uint64_t evict_seed; /* of strict's evictor; 0: no evictor */
	uint32_t spin_us;    /* before sleeping (doorbell poll) */
	uint32_t host_pid;
	uint32_t contract; /* enum coherence_contract */
	uint32_t reserved; /* 0 */
};
#define WIRE_FEATURE_TRACE 1u /* the hello has a trace buffer */
#define WIRE_FEATURES      WIRE_FEATURE_TRACE
_Static_assert(sizeof(struct wire_hello) == 64, "wire");

struct wire_welcome {
	uint32_t op; /* WIRE_WELCOME */
	uint32_t magic, version;
	int32_t status; /* 0, or -errno with the reason in text */
	uint32_t threads;
	uint32_t tcm_bytes;
	uint32_t tcm_share; /* a worker's: a row or strip must fit */
	uint32_t device_pid;
	char kern[16]; /* kernels in use */
	char text[200];
	uint64_t va_extended; /* bytes of the extended region; 0: none */
};
_Static_assert(sizeof(struct wire_welcome) == 256, "wire");

struct wire_share {
	uint32_t op;     /* WIRE_SHARE */
	uint32_t buffer; /* id, chosen by the host, below WIRE_MAX_BUFFERS */
	uint32_t generation; /* changes when an id is reused */
	uint32_t flags;      /* WIRE_SHARE_* */
	uint64_t bytes;
	char name[32]; /* for reports */
};
#define WIRE_SHARE_DMA   1u /* never cached by the device */
#define WIRE_MAX_BUFFERS 1024
_Static_assert(sizeof(struct wire_share) == 56, "wire");

/* ---- the control memfd ------------------------------------------------ */

/* At offset 0; it has the offsets of the rings (shm/ring.h). */
struct wire_control {
	uint32_t magic, version;
	uint32_t request_offset, request_room;
	uint32_t completion_offset, completion_room;
	uint32_t tell_offset; /* of a struct wire_brackets; 0: none */
	uint8_t pad0[128 - 28];
	_Atomic uint32_t beat; /* device: changes while it works, not idle */
	uint8_t pad1[128 - 4];
};
_Static_assert(sizeof(struct wire_control) == 256, "wire");

/*
 * The host's brackets, for the reports of coherence level check only: names of
 * functions, and the CPU's brackets that are open now. Names are never removed.
 */
#define WIRE_NAMES      64
#define WIRE_NAME_BYTES 40 /* with the NUL */
#define WIRE_HOLDS      16

struct wire_hold {
	_Atomic uint32_t generation; /* of the buffer; 0: free entry */
	_Atomic uint32_t access;     /* enum buffer_access */
	_Atomic uint32_t off, len;
	_Atomic uint32_t cpu_seq, by; /* as in struct wire_ref */
};

struct wire_brackets {
	char name[WIRE_NAMES][WIRE_NAME_BYTES];
	struct wire_hold hold[WIRE_HOLDS];
};
_Static_assert(sizeof(struct wire_brackets) == 2560 + 384, "wire");

/* ---- the trace buffer -------------------------------------------------- */

/*
 * With WIRE_FEATURE_TRACE the device writes trace events to a memfd of the host
 * ("tandem:trace"), whose descriptor is the last one of the hello. Each event
 * is a piece of work that has ended. The device never waits for room: events
 * that do not fit are dropped and counted in `lost`. The host need not take
 * events.
 */
#define WIRE_TRACE_MAGIC      0x43525454u /* "TTRC" */
#define WIRE_TRACE_NAMES      128
#define WIRE_TRACE_NAME_BYTES 32 /* with the NUL */
#define WIRE_TRACE_ROOM_MAX   (1u << 20)
#define WIRE_TRACE_LOADER     32 /* lanes below are the workers' */
#define WIRE_TRACE_DMA_ENGINE 33
#define WIRE_TRACE_LANES      34

enum wire_trace_kind {         /* with the meaning of arg[] */
	WIRE_TRACE_REQUEST,    /* seq, op, -status */
	WIRE_TRACE_OPERATOR,   /* layer + 1, bytes by DMA, ns of copying them
				* (see WIRE_TRACE_DMA); 0: read in place */
	WIRE_TRACE_SHARE,      /* a worker's share of it: layer + 1 */
	WIRE_TRACE_INVALIDATE, /* address, bytes, the CPU's bracket */
	WIRE_TRACE_CLEAN,      /* address, bytes */
	WIRE_TRACE_EVICT,      /* lines */
	WIRE_TRACE_LOAD,       /* graph, seq */
	WIRE_TRACE_VIOLATION,  /* from, to, bracket | buffer's name << 32 */
	WIRE_TRACE_DMA,        /* copies of an operator: as OPERATOR */
	WIRE_TRACE_KINDS
};

struct wire_trace_event {
	uint64_t begin_ns, took_ns; /* CLOCK_MONOTONIC */
	uint64_t arg[3];
	uint16_t name; /* from 1; 0: none */
	uint8_t kind;
	uint8_t lane;
	uint8_t depth; /* nesting depth in its lane, from 0 */
	uint8_t pad[3];
};
_Static_assert(sizeof(struct wire_trace_event) == 48, "wire");

struct wire_trace { /* then struct wire_trace_event event[room] */
	uint32_t magic, version;
	uint32_t room; /* a power of two */
	uint8_t pad0[128 - 12];
	_Atomic uint64_t put, lost; /* device: total events */
	uint8_t pad1[128 - 16];
	_Atomic uint64_t taken; /* host: total events */
	uint8_t pad2[128 - 8];
	char name[WIRE_TRACE_NAMES][WIRE_TRACE_NAME_BYTES];
};
_Static_assert(sizeof(struct wire_trace) == 384 + 4096, "wire");

/* ---- packets ----------------------------------------------------------- */

/* header, then n_refs wire_ref, then the message, padded to 8 bytes. */
struct wire_header {
	uint16_t length8; /* units of 8 bytes, this header included */
	uint8_t flags;    /* 0 */
	uint8_t n_refs;
	uint32_t seq; /* of the request; a completion repeats it */
};
_Static_assert(sizeof(struct wire_header) == 8, "wire");

enum wire_role {
	WIRE_REF_SYNC,       /* a range to invalidate only */
	WIRE_REF_WEIGHTS,    /* a block's tensors, read by DMA */
	WIRE_REF_KV,         /* keys and values of all layers */
	WIRE_REF_HIDDEN_IN,  /* [rows][n_embd] float32 */
	WIRE_REF_HIDDEN_OUT, /* the same; may be the same memory */
	WIRE_REF_ROWS,       /* wire_row[rows], wire_span[], mask */
	WIRE_ROLE_COUNT
};

#define WIRE_REF_INVALIDATE 1u /* the CPU wrote it: drop lines before use */
#define WIRE_REF_EXTENDED   2u /* weights only: in the extended region */

/* Bytes in the window, all inside one mapping; or in the extended region. */
struct wire_ref {
	uint32_t addr, len; /* addr in the extended region is in units */
	uint8_t role, flags;
	uint16_t by;      /* number of the writer's name, from 1; 0: unknown */
	uint32_t cpu_seq; /* the CPU's writing bracket, for reports */
};
_Static_assert(sizeof(struct wire_ref) == 16, "wire");

enum wire_op {
	WIRE_NOP = 1,    /* struct wire_simple: only the round trip */
	WIRE_MAP,        /* struct wire_map */
	WIRE_UNMAP,      /* struct wire_simple, arg: device address */
	WIRE_GRAPH_LOAD, /* struct wire_graph_load */
	WIRE_GRAPH_DROP, /* struct wire_simple, arg: graph */
	WIRE_GRAPH_RUN,  /* struct wire_graph_run */
	WIRE_SOC,        /* struct wire_soc */
	/* struct wire_simple, arg: offset in the extended region, in units */
	WIRE_UNMAP_EXTENDED,
	WIRE_OP_COUNT
};

struct wire_simple {
	uint32_t op;
	uint32_t arg;
};

/*
 * The phone for which the device computes costs from now on: the numbers of a
 * profile in the order of tensor/soc/soc.h.
 */
struct wire_soc {
	uint32_t op;
	uint32_t count; /* of the numbers that follow */
			/* double number[count]; */
};

enum wire_where {
	WIRE_IN_WINDOW,
	WIRE_IN_EXTENDED, /* takes no slot; the completion counts in units */
};

struct wire_map { /* a whole buffer; arg[0] of the completion: its address */
	uint32_t op;
	uint32_t buffer, generation;
	uint32_t where; /* enum wire_where */
};

/*
 * With activations in fp16 the inputs of the matrix engine and of attention are
 * rounded, and their outputs are float32. Keys in fp16 lose more accuracy than
 * everything else, because their error grows with the attention scores.
 */
enum wire_precision {
	WIRE_F32,      /* activations and KV in float32 */
	WIRE_F16_KV16, /* both in fp16 */
	WIRE_F16,      /* activations in fp16, KV in float32 */
	/* As WIRE_F16, but operands of weights in tile-q4_0 or tile-q8_0 are
	 * quantized to int8. */
	WIRE_INT8,
	/* As WIRE_F16_KV16; outputs of the matrix engine are fp16 too, and
	 * attention reads its exponentials from a table. */
	WIRE_NPU,
	WIRE_PRECISION_COUNT
};

/* The shape of the layers; equal for every graph of a model. */
struct wire_model {
	uint32_t n_embd, n_head, n_kv_head, head_dim;
	uint32_t n_rot; /* rotated values per head, even, <= head_dim */
	uint32_t n_ff;
	uint32_t rope_neox; /* 0: pairs (i, i+1); 1: (i, i + n_rot/2) */
	uint32_t precision; /* enum wire_precision */
	float norm_eps;
	float attn_scale;
	uint32_t kv_slots;  /* slots per layer */
	uint32_t kv_stride; /* bytes of a slot of K or V, a multiple of 64 */
};
_Static_assert(sizeof(struct wire_model) == 48, "wire");

/* [rows][cols]; vectors: rows 1. Flash images keep this order. */
enum wire_layer_tensor {
	WIRE_T_ATTN_NORM, /* f32 [n_embd] */
	WIRE_T_Q,
	WIRE_T_K,
	WIRE_T_V, /* [heads * head_dim][n_embd] */
	WIRE_T_O, /* [n_embd][n_head * head_dim] */
	WIRE_T_Q_BIAS,
	WIRE_T_K_BIAS,
	WIRE_T_V_BIAS, /* f32; optional */
	WIRE_T_O_BIAS, /* f32 [n_embd]; optional */
	WIRE_T_Q_NORM,
	WIRE_T_K_NORM,   /* f32 [head_dim]; optional */
	WIRE_T_FFN_NORM, /* f32 [n_embd] */
	WIRE_T_GATE,
	WIRE_T_UP,   /* [n_ff][n_embd] */
	WIRE_T_DOWN, /* [n_embd][n_ff] */
	WIRE_T_COUNT
};

struct wire_tensor {
	uint32_t type;       /* enum dtype; matrices may be in tiles */
	uint32_t rows, cols; /* rows 0: absent */
	uint32_t offset; /* from the start of the block's weights, 64-aligned */
};
_Static_assert(sizeof(struct wire_tensor) == 16, "wire");

/*
 * Build the static graph of a block of layers for exactly `rows` rows. The
 * weights are bound at each run, so one graph can be used with any staging
 * slot. The device's loader builds it in parallel with compute, so its
 * completion may come after those of later requests.
 */
struct wire_graph_load {
	uint32_t op;
	uint32_t graph; /* id, below WIRE_MAX_GRAPHS; must be free */
	uint32_t rows;
	uint32_t first_layer; /* in the model, hence in the KV buffer */
	uint32_t n_layers;
	uint32_t weights_bytes;
	struct wire_model model;
	struct wire_tensor rope_freq; /* f32 [n_rot/2], radians per position */
	/* struct wire_tensor tensor[n_layers][WIRE_T_COUNT]; then, only for a
	 * part of a layer, struct wire_part */
};
#define WIRE_MAX_GRAPHS 4096
_Static_assert(sizeof(struct wire_graph_load) == 88, "wire");

/*
 * A part of a layer, for staging slots that are smaller than a layer: the
 * tensors from row first_row of tensor `first` to row end_row of tensor `end`,
 * exclusive. A layer begins at 0, 0 and ends at WIRE_T_COUNT, 0; it may be
 * split only in gate, up or down, after whole tiles of rows. For a matrix that
 * is split the message has the number of rows in the part and the offset of the
 * first of them; tensors outside the part have rows 0, but their types and
 * columns.
 *
 * The parts of a layer run in order, one directly after the other, by graphs
 * with equal numbers of rows: the device keeps the results of a part for the
 * next. The first part reads the hidden states, the last one writes them.
 */
struct wire_part {
	uint32_t first, first_row, end, end_row;
};
_Static_assert(sizeof(struct wire_part) == 16, "wire");

/*
 * KV buffer: layer l has K at (2 l) * kv_slots * kv_stride and V directly
 * after it at (2 l + 1) * kv_slots * kv_stride; in a slot, [n_kv_head]
 * [head_dim] fp16 or float32.
 *
 * The K and V of all rows are written to their slots before attention. A row
 * then sees, in this order, which is the order of summation: the cached slots
 * of its spans, then those rows of this request whose bit is set in its mask,
 * by index. A chain is a tree; in a tree parents come before their children.
 */
struct wire_row {
	uint32_t position; /* for the rotation; not the slot */
	uint32_t slot;
	uint32_t first_span, n_spans; /* into the request's spans */
};

struct wire_span {
	uint32_t slot, count;
};

/*
 * WIRE_REF_ROWS memory: struct wire_row row[rows]; struct wire_span
 * span[n_spans]; uint64_t mask[rows][mask_words]; bit j % 64 of word j / 64 of
 * mask[i]: row i sees row j.
 */
struct wire_graph_run {
	uint32_t op;
	uint32_t graph;
	uint32_t rows; /* real rows, at most the graph's; the rest is padding */
	uint32_t n_spans;
	uint32_t mask_words; /* 64-bit words per row, >= rows / 64 rounded up */
	uint32_t flags;      /* WIRE_RUN_* */
};
_Static_assert(sizeof(struct wire_graph_run) == 24, "wire");

/* Attention reads each row's slots separately, even shared ones; results are
 * equal. */
#define WIRE_RUN_APART 1u
/* Compute nothing: states are returned unchanged, and no keys and values are
 * written. The cost and the lines invalidated and cleaned are those of a run
 * that computes. */
#define WIRE_RUN_IDLE  2u
#define WIRE_RUN_FLAGS (WIRE_RUN_APART | WIRE_RUN_IDLE)

/* clang-format off */
#define WIRE_COUNTERS(X)                                                      \
	X(uint64_t, busy_ns)           /* executing, wall clock */            \
	X(uint64_t, dma_bytes)         /* read past the cache */              \
	X(uint64_t, invalidated_lines) /* requested, cached or not */         \
	X(uint64_t, cleaned_lines)     /* likewise */                         \
	X(uint64_t, evicted_lines)     /* early, by the evictor */            \
	X(uint64_t, whole_calls)       /* cleans and flushes of all lines */  \
	X(uint32_t, violations)        /* of the coherence contract */        \
	X(uint32_t, saturated)         /* activations beyond fp16 */
/* clang-format on */

#define WIRE_COUNTER(type, name) type name;
struct wire_counters {
	WIRE_COUNTERS(WIRE_COUNTER)
};
_Static_assert(sizeof(struct wire_counters) == 56 &&
		offsetof(struct wire_counters, evicted_lines) == 32 &&
		offsetof(struct wire_counters, saturated) == 52,
	"wire");

/*
 * The message of every completion. Zero bytes at its end may be omitted; the
 * host restores them. Most of it is a cost, which is rarely requested, and the
 * text of a failure, so a success takes one or two cache lines instead of
 * seven.
 */
#define WIRE_PRICE_WORDS 19
struct wire_done {
	uint32_t op;    /* of the request */
	int32_t status; /* 0 or -errno */
	uint32_t arg[6];
	struct wire_counters counters;
	uint64_t price[WIRE_PRICE_WORDS]; /* struct price, tensor/soc/price.h */
	char text[176]; /* on failure, or the first violation; NUL-ended */
};
#define WIRE_PRICE_BYTES (WIRE_PRICE_WORDS * sizeof(uint64_t))
_Static_assert(sizeof(struct wire_done) == 264 + WIRE_PRICE_BYTES, "wire");

enum wire_map_arg {       /* wire_done.arg of a WIRE_MAP */
	WIRE_MAP_ADDR,    /* on success */
	WIRE_MAP_ASKED,   /* bytes, guard page included, rounded to pages */
	WIRE_MAP_FREE,    /* bytes free in all */
	WIRE_MAP_LARGEST, /* largest hole, bytes */
	WIRE_MAP_SLOTS_USED,
	WIRE_MAP_SLOTS,
	/* Refused for lack of space: the number of unmapped buffers whose space
	 * is not free yet. Each map request counts them down. */
	WIRE_MAP_PENDING = WIRE_MAP_ADDR,
};

/*
 * wire_done.arg of a WIRE_GRAPH_RUN, on success; two words each, the lower
 * first. Bytes of keys and values that attention read, and would have read if
 * rows did not share reads; bytes that DMA read from the extended region.
 */
enum wire_run_arg {
	WIRE_RUN_KV_READ,
	WIRE_RUN_KV_APART = 2,
	WIRE_RUN_EXTENDED = 4,
};

/*
 * wire_done.arg of a WIRE_GRAPH_LOAD or WIRE_GRAPH_DROP, on success: the graphs
 * that the device holds, loading ones included, and the maximum so far. On a
 * phone a graph includes its weights, hence their KiB.
 */
enum wire_graph_arg {
	WIRE_GRAPHS_HELD,
	WIRE_GRAPHS_MOST,
	WIRE_GRAPHS_KIB,
	WIRE_GRAPHS_MOST_KIB,
};

#endif
