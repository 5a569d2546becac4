/*
 * The wire protocol: all messages and shared structures between host and
 * device. The two processes share nothing else. This header has no code. All
 * numbers are little-endian and have fixed widths, and padding is explicit.
 *
 * A Unix socket (SOCK_SEQPACKET) carries the handshake and file descriptors;
 * two rings in a control memfd carry requests and completions. Shared buffers
 * have 32-bit device addresses inside an address window (the memory that the
 * device can address); a WIRE_MAP request assigns the address of a buffer. The
 * receiver trusts nothing: it checks every length, offset, id and shape, and
 * answers a bad request by a completion with a negative status and a text that
 * names the field.
 *
 * A graph is the fixed list of operators that the device runs for some layers
 * of the model and a fixed number of rows. A row is one token at its position
 * in a text. A slot is the place of one token in the KV cache.
 */
#ifndef IPC_WIRE_H
#define IPC_WIRE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_MAGIC    0x4d444e54u /* "TNDM" */
#define WIRE_VERSION  1u

#define WIRE_MAX_REFS 240
#define WIRE_MAX_ROWS 1024 /* largest number of rows of a graph */
/* largest number of spans (ranges of KV-cache slots) of a request */
#define WIRE_MAX_SPANS  4096
#define WIRE_MAX_LAYERS 512 /* largest number of layers of a graph */
#define WIRE_WINDOW_MIN (1ull << 20)
#define WIRE_WINDOW_MAX ((4ull << 30) - 65536)
/* A device may keep the addresses of an unmapped buffer occupied until at most
 * this many more map requests have arrived. */
#define WIRE_DEFER_MAX 64
/* largest value of --va-map-us, the minimum time of a map or unmap request, in
 * us */
#define WIRE_MAP_US_MAX 100000
/*
 * The extended region of a device is memory that the DMA engine can read and
 * the cores cannot, so it has no 32-bit addresses. Offsets in it are counted in
 * units of WIRE_EXTENDED_UNIT bytes.
 */
#define WIRE_EXTENDED_UNIT 64u
#define WIRE_EXTENDED_MAX  (64ull << 30)

/* ---- the socket ------------------------------------------------------ */

enum wire_link_op {
	/* from host; descriptors: control memfd, then doorbells */
	WIRE_HELLO = 1,
	WIRE_WELCOME, /* from device */
	WIRE_SHARE,   /* from host; descriptor: one buffer */
	WIRE_BYE,     /* from host: the device exits with status 0 */
};

/* The order of the file descriptors that come with WIRE_HELLO. */
enum wire_hello_fd {
	WIRE_FD_CONTROL,
	/* eventfd or socket (which of the two: `doorbell` of the hello) on
	 * which the device sleeps until a request arrives */
	WIRE_FD_REQUEST_WAIT,
	/* eventfd or socket to which the device writes at each completion */
	WIRE_FD_COMPLETION_RING,
	/* number of descriptors in this order; with polled doorbells only
	 * WIRE_FD_CONTROL is sent */
	WIRE_FD_COUNT
	/* With WIRE_FEATURE_TRACE, the descriptor of the trace buffer follows
	 * these descriptors. */
};
#define WIRE_FD_MOST (WIRE_FD_COUNT + 1)

struct wire_hello {
	uint32_t op; /* WIRE_HELLO */
	uint32_t magic, version;
	uint32_t features;  /* WIRE_FEATURE_* */
	uint32_t doorbell;  /* enum doorbell_kind */
	uint32_t coherence; /* enum coherence */
	/* number of worker threads of the device; 0 means one per CPU */
	uint32_t threads;
	/* number of mapping slots: the largest number of buffers that can be
	 * mapped at a time */
	uint32_t va_slots;
	uint64_t va_window; /* size of the address window in bytes */
	/* seed of random cache evictions at coherence levels strict and check;
	 * 0 means no evictions */
	uint64_t evict_seed;
	/* polled doorbell: time to spin before sleeping, in us */
	uint32_t spin_us;
	uint32_t host_pid;
	uint32_t contract; /* enum coherence_contract */
	uint32_t reserved; /* 0 */
};
/* the hello comes with the descriptor of a trace buffer */
#define WIRE_FEATURE_TRACE 1u
/* the device accesses the rings through its cache (--coherence-ctrl) */
#define WIRE_FEATURE_CACHED_RINGS 2u
#define WIRE_FEATURES             (WIRE_FEATURE_TRACE | WIRE_FEATURE_CACHED_RINGS)
_Static_assert(sizeof(struct wire_hello) == 64, "wire");

struct wire_welcome {
	uint32_t op; /* WIRE_WELCOME */
	uint32_t magic, version;
	int32_t status; /* 0, or a negative errno whose reason is in `text` */
	uint32_t threads;
	uint32_t tcm_bytes;
	/* bytes of TCM (on-chip memory) for each worker thread; each row of a
	 * matrix, or each strip of tiles (32 rows), must fit into these bytes
	 */
	uint32_t tcm_share;
	uint32_t device_pid;
	/* name of the kernels (compute functions) in use, see tensor/kern.h */
	char kern[16];
	char text[200];
	/* bytes of the extended region, 0 if there is none */
	uint64_t va_extended;
};
_Static_assert(sizeof(struct wire_welcome) == 256, "wire");

struct wire_share {
	uint32_t op;     /* WIRE_SHARE */
	uint32_t buffer; /* id that the host chose, below WIRE_MAX_BUFFERS */
	/* a number that distinguishes this buffer from earlier buffers with the
	 * same id `buffer` */
	uint32_t generation;
	uint32_t flags; /* WIRE_SHARE_* */
	uint64_t bytes;
	char name[32]; /* for reports */
};
#define WIRE_SHARE_DMA   1u /* the device never caches the buffer */
#define WIRE_MAX_BUFFERS 1024
_Static_assert(sizeof(struct wire_share) == 56, "wire");

/* ---- the control memfd ------------------------------------------------ */

/* The beginning of the control memfd. The struct has the offsets of the rings
 * (shm/ring.h). */
struct wire_control {
	uint32_t magic, version;
	uint32_t request_offset, request_room;
	uint32_t completion_offset, completion_room;
	/* offset of the struct wire_brackets in the control memfd, 0 if there
	 * is none */
	uint32_t tell_offset;
	uint8_t pad0[128 - 28];
	/* counter of the device, which changes while the device works, not
	 * while it is idle */
	_Atomic uint32_t beat;
	uint8_t pad1[128 - 4];
};
_Static_assert(sizeof(struct wire_control) == 256, "wire");

/*
 * The brackets that the CPU has open, for the reports of coherence level
 * "check" only. A bracket is the time of one access of the CPU to a buffer: it
 * begins with buffer_begin and ends with buffer_end (ipc/brackets.h). One table
 * has the names of the functions that access buffers; names are never removed.
 * The other table has the open brackets.
 */
#define WIRE_NAMES      64
#define WIRE_NAME_BYTES 40 /* with the NUL */
#define WIRE_HOLDS      16

struct wire_hold {
	/* generation of the buffer; 0 if the entry is free */
	_Atomic uint32_t generation;
	_Atomic uint32_t access; /* enum buffer_access */
	_Atomic uint32_t off, len;
	/* number of the bracket, and number of the name of the function that
	 * opened it; as cpu_seq and `by` in struct wire_ref */
	_Atomic uint32_t cpu_seq, by;
};

struct wire_brackets {
	char name[WIRE_NAMES][WIRE_NAME_BYTES];
	struct wire_hold hold[WIRE_HOLDS];
};
_Static_assert(sizeof(struct wire_brackets) == 2560 + 384, "wire");

/* ---- the trace buffer -------------------------------------------------- */

/*
 * With WIRE_FEATURE_TRACE the device writes trace events to a memfd of the host
 * ("tandem:trace"), whose descriptor is the last descriptor of the hello. Each
 * event is an operation that has ended. If the buffer is full, the device does
 * not wait: it drops the event and counts the event in `lost`. The host may
 * ignore the events.
 */
#define WIRE_TRACE_MAGIC      0x43525454u /* "TTRC" */
#define WIRE_TRACE_NAMES      128
#define WIRE_TRACE_NAME_BYTES 32 /* with the NUL */
#define WIRE_TRACE_ROOM_MAX   (1u << 20)
/* lane (line of the timeline) of the loader thread; lower lanes belong to
 * worker threads */
#define WIRE_TRACE_LOADER     32
#define WIRE_TRACE_DMA_ENGINE 33
#define WIRE_TRACE_LANES      34

/* the comment of each kind lists the meanings of arg[0], arg[1] and arg[2] of
 * the event */
enum wire_trace_kind {
	/* seq of the request, its op, -status of its completion */
	WIRE_TRACE_REQUEST,
	/* layer + 1, bytes read by DMA, ns of the DMA copies (see
	 * WIRE_TRACE_DMA; 0 if the data is read in place) */
	WIRE_TRACE_OPERATOR,
	/* a worker thread's share of an operator: layer + 1 */
	WIRE_TRACE_SHARE,
	/* device address, bytes, number of the CPU's bracket
	 * (wire_ref.cpu_seq) */
	WIRE_TRACE_INVALIDATE,
	WIRE_TRACE_CLEAN, /* device address, bytes */
	WIRE_TRACE_EVICT, /* number of evicted cache lines */
	WIRE_TRACE_LOAD,  /* id of the graph, seq of the request */
	/* begin and end of the affected range of the buffer, and in arg[2] the
	 * number of the CPU's bracket (lower 32 bits) and the number of the
	 * buffer's name (upper 32 bits) */
	WIRE_TRACE_VIOLATION,
	/* all DMA copies of an operator; the same arguments as
	 * WIRE_TRACE_OPERATOR */
	WIRE_TRACE_DMA,
	WIRE_TRACE_KINDS
};

struct wire_trace_event {
	uint64_t begin_ns, took_ns; /* CLOCK_MONOTONIC */
	uint64_t arg[3];
	/* number of the event's name, from 1; 0 if the event has no name */
	uint16_t name;
	uint8_t kind;
	uint8_t lane;
	uint8_t depth; /* nesting depth of the event in its lane, from 0 */
	uint8_t pad[3];
};
_Static_assert(sizeof(struct wire_trace_event) == 48, "wire");

struct wire_trace { /* followed by struct wire_trace_event event[room] */
	uint32_t magic, version;
	uint32_t room; /* a power of two */
	uint8_t pad0[128 - 12];
	/* written by the device: total numbers of events put and lost */
	_Atomic uint64_t put, lost;
	uint8_t pad1[128 - 16];
	/* written by the host: total number of events taken */
	_Atomic uint64_t taken;
	uint8_t pad2[128 - 8];
	char name[WIRE_TRACE_NAMES][WIRE_TRACE_NAME_BYTES];
};
_Static_assert(sizeof(struct wire_trace) == 384 + 4096, "wire");

/* ---- packets ----------------------------------------------------------- */

/* A packet consists of this header, n_refs structs wire_ref and the message,
 * and is padded to a multiple of 8 bytes. */
struct wire_header {
	/* length of the packet, this header included, in units of 8 bytes */
	uint16_t length8;
	uint8_t flags; /* must be 0 */
	uint8_t n_refs;
	uint32_t seq; /* number of the request; a completion repeats it */
};
_Static_assert(sizeof(struct wire_header) == 8, "wire");

enum wire_role {
	/* a range that the request does not use; the device only invalidates
	 * the range's cache lines */
	WIRE_REF_SYNC,
	/* the tensors of a graph, which the device reads by DMA */
	WIRE_REF_WEIGHTS,
	WIRE_REF_KV,        /* keys and values of all layers */
	WIRE_REF_HIDDEN_IN, /* [rows][n_embd] float32 */
	/* the output, float32 [rows][n_embd] like the input; input and output
	 * may be the same memory. For an output graph: struct wire_likely
	 * [rows][top_k] */
	WIRE_REF_HIDDEN_OUT,
	/* the rows of the request, their spans and their masks, as struct
	 * wire_graph_run describes */
	WIRE_REF_ROWS,
	WIRE_ROLE_COUNT
};

/* the CPU wrote the range: invalidate its cache lines before use */
#define WIRE_REF_INVALIDATE 1u
/* only for weights: the range is in the extended region */
#define WIRE_REF_EXTENDED 2u

/* A reference to a range of bytes that lies inside one mapping of the window,
 * or in the extended region. */
struct wire_ref {
	/* in the extended region, addr is in units of WIRE_EXTENDED_UNIT */
	uint32_t addr, len;
	uint8_t role, flags;
	/* number of the name of the host's function that wrote the range, from
	 * 1; 0 if unknown */
	uint16_t by;
	/* number of the bracket in which the CPU wrote the range, for
	 * reports */
	uint32_t cpu_seq;
};
_Static_assert(sizeof(struct wire_ref) == 16, "wire");

enum wire_op {
	/* struct wire_simple: does nothing; measures the round trip */
	WIRE_NOP = 1,
	WIRE_MAP,        /* struct wire_map */
	WIRE_UNMAP,      /* struct wire_simple, arg: device address */
	WIRE_GRAPH_LOAD, /* struct wire_graph_load */
	WIRE_GRAPH_DROP, /* struct wire_simple, arg: id of the graph */
	WIRE_GRAPH_RUN,  /* struct wire_graph_run */
	WIRE_SOC,        /* struct wire_soc */
	/* struct wire_simple, arg: offset in the extended region, in units of
	 * WIRE_EXTENDED_UNIT */
	WIRE_UNMAP_EXTENDED,
	WIRE_OP_COUNT
};

struct wire_simple {
	uint32_t op;
	uint32_t arg;
};

/* Set the phone for which the device computes costs from now on. The message
 * has the numbers of the phone's profile, in the order of tensor/soc/soc.h. */
struct wire_soc {
	uint32_t op;
	/* number of doubles that follow: double number[count] */
	uint32_t count;
};

enum wire_where {
	WIRE_IN_WINDOW,
	/* in the extended region: the mapping takes no mapping slot, and the
	 * completion gives sizes in units of WIRE_EXTENDED_UNIT bytes */
	WIRE_IN_EXTENDED,
};

/* Map a whole buffer. arg[0] of the completion is the buffer's address. */
struct wire_map {
	uint32_t op;
	uint32_t buffer, generation;
	uint32_t where; /* enum wire_where */
};

/*
 * Number formats of activations and of the KV cache. With activations in fp16,
 * the inputs of the matrix engine and of attention are rounded to fp16, and
 * their outputs are float32. fp16 keys cost more accuracy than other fp16
 * operands, because the rounding error of a key grows with the attention
 * scores.
 */
enum wire_precision {
	WIRE_F32,      /* activations and KV in float32 */
	WIRE_F16_KV16, /* activations and KV in fp16 */
	WIRE_F16,      /* activations in fp16, KV in float32 */
	/* As WIRE_F16_KV16, but rows are quantized to int8 before they are
	 * multiplied by weights of type tile-q4_0 or tile-q8_0. */
	WIRE_INT8,
	/* As WIRE_F16_KV16, but weights are rounded to fp16 before the product,
	 * outputs of the matrix engine are fp16 too, and attention looks up its
	 * exponentials in a table. */
	WIRE_NPU,
	WIRE_PRECISION_COUNT
};

/* wire_kv_f16: whether keys and values are stored in fp16. wire_kv_elt: the
 * bytes of one number of a key or value. */
static inline bool wire_kv_f16(uint32_t precision)
{
	return precision != WIRE_F32 && precision != WIRE_F16;
}

static inline uint32_t wire_kv_elt(uint32_t precision)
{
	return wire_kv_f16(precision) ? 2 : 4;
}

/* The dimensions and number formats of a layer, which are the same in every
 * graph of a model. */
struct wire_model {
	uint32_t n_embd, n_head, n_kv_head, head_dim;
	/* number of rotated values of a head: even, at most head_dim */
	uint32_t n_rot;
	uint32_t n_ff;
	/* 0 rotates the pairs (i, i+1), 1 the pairs (i, i + n_rot/2) */
	uint32_t rope_neox;
	uint32_t precision; /* enum wire_precision */
	float norm_eps;
	float attn_scale;
	/* number of KV-cache slots of each layer; a slot has room for one token
	 */
	uint32_t kv_slots;
	/* bytes that a slot takes in the K or in the V of a layer, a multiple
	 * of 64 */
	uint32_t kv_stride;
	/*
	 * A mixture of experts: instead of one FFN, a layer has n_expert FFNs,
	 * the experts, each of width n_ff. For every row, n_used experts are
	 * computed. Both members are 0 for a model without experts.
	 */
	uint32_t n_expert, n_used;
	/* The width of the shared expert, one more FFN, which is computed for
	 * every row; 0 if the model has no shared expert. */
	uint32_t n_shared;
	uint32_t pad; /* 0 */
};
#define WIRE_MAX_EXPERTS 1024
#define WIRE_MAX_USED    64
_Static_assert(sizeof(struct wire_model) == 64, "wire");

/* The tensors of a layer, [rows][cols]; a vector has one row. Flash images keep
 * this order. */
enum wire_layer_tensor {
	WIRE_T_ATTN_NORM, /* f32 [n_embd] */
	/* Q is [n_head * head_dim][n_embd]; K and V have n_kv_head instead of
	 * n_head */
	WIRE_T_Q,
	WIRE_T_K,
	WIRE_T_V,
	WIRE_T_O, /* [n_embd][n_head * head_dim] */
	WIRE_T_Q_BIAS,
	WIRE_T_K_BIAS,
	WIRE_T_V_BIAS, /* the three biases: f32, optional */
	WIRE_T_O_BIAS, /* f32 [n_embd]; optional */
	/* f32; optional. Either [head_dim], applied to each head, or one value
	 * for each output of Q or K: a whole row is then normalized at once */
	WIRE_T_Q_NORM,
	WIRE_T_K_NORM,
	WIRE_T_FFN_NORM, /* f32 [n_embd] */
	WIRE_T_ROUTER,   /* [n_expert][n_embd]; only with experts */
	/* The next four tensors exist only with a shared expert. The output of
	 * this expert is multiplied by the sigmoid of the product of
	 * SHARED_FACTOR with the row. */
	WIRE_T_SHARED_FACTOR, /* f32 [n_embd] */
	WIRE_T_SHARED_GATE,
	WIRE_T_SHARED_UP,   /* gate and up: [n_shared][n_embd] */
	WIRE_T_SHARED_DOWN, /* [n_embd][n_shared] */
	/* gate and up: [n_ff][n_embd]; with experts, the matrices of one expert
	 */
	WIRE_T_GATE,
	WIRE_T_UP,
	WIRE_T_DOWN, /* [n_embd][n_ff] */
	WIRE_T_COUNT
};

struct wire_tensor {
	uint32_t type;       /* enum dtype; matrices may be in tiles */
	uint32_t rows, cols; /* rows is 0 if the tensor is absent */
	/* offset from the start of the graph's weights, a multiple of 64 */
	uint32_t offset;
};
_Static_assert(sizeof(struct wire_tensor) == 16, "wire");

/*
 * Build the static graph of consecutive layers for exactly `rows` rows. The
 * weights are bound at each run, so one graph can be used with any staging slot
 * (a buffer into which weights are streamed). The loader thread of the device
 * builds the graph in parallel with computation, so the completion may come
 * after the completions of later requests.
 */
struct wire_graph_load {
	uint32_t op;
	/* id of the new graph, below WIRE_MAX_GRAPHS, not in use */
	uint32_t graph;
	uint32_t rows;
	/* number of the first layer in the model and in the KV buffer */
	uint32_t first_layer;
	uint32_t n_layers;
	uint32_t weights_bytes;
	struct wire_model model;
	/* f32 [n_rot/2], radians per position; may be absent if the graph is a
	 * part of a layer (struct wire_part) and does not contain the layer's
	 * beginning */
	struct wire_tensor rope_freq;
	/* Followed by struct wire_tensor tensor[n_layers][WIRE_T_COUNT] and,
	 * only for a part of a layer, struct wire_part; or, if n_layers is 0,
	 * by struct wire_output. */
};
#define WIRE_MAX_GRAPHS 4096
_Static_assert(sizeof(struct wire_graph_load) == 104, "wire");

/*
 * A part of a layer, for staging slots that are smaller than a layer. A part
 * consists of the tensors from row first_row of tensor `first` up to, but not
 * including, row end_row of tensor `end`. A layer begins at tensor 0, row 0 and
 * ends at tensor WIRE_T_COUNT, row 0. A layer may be split only inside the
 * tensors gate, up or down, after whole tiles of rows. For a matrix that is
 * split, the message gives the number of the matrix's rows in this part and the
 * offset of the first of these rows. A tensor outside the part has 0 rows, but
 * its type and columns are given.
 *
 * A graph computes one part. The graphs of a layer's parts must have equal
 * numbers of rows, and must run in order, without another run in between: the
 * device keeps the results of a part for the next part. The first part reads
 * the hidden states, and the last part writes them.
 */
struct wire_part {
	uint32_t first, first_row, end, end_row;
};
/*
 * A layer with experts always consists of exactly two parts. The first part,
 * from tensor 0, row 0 to tensor WIRE_T_GATE, row 0, ends with the router and
 * the shared expert. This part writes float32 [rows][n_expert], the products of
 * the router with the rows, to WIRE_REF_HIDDEN_OUT, and adds the output of the
 * shared expert to the hidden states. From the products the host chooses
 * experts for each row. The second part, the rest of the layer, is the graph of
 * one expert, which a run executes for each expert whose weights the run binds.
 * The message of the first part gives the types of the experts' gate and up
 * matrices, because this part already rounds or quantizes the rows for these
 * types.
 */
_Static_assert(sizeof(struct wire_part) == 16, "wire");

/*
 * The output graph: the norm after the last layer, the product with the output
 * matrix, and for each row the `top_k` likeliest tokens, so that the logits
 * need not leave the device. A run binds only WIRE_REF_WEIGHTS,
 * WIRE_REF_HIDDEN_IN and WIRE_REF_HIDDEN_OUT. WIRE_REF_HIDDEN_OUT receives
 * struct wire_likely [rows][top_k]. The likeliest token comes first; of two
 * equally likely tokens, the one with the lower id comes first. Entries without
 * a token have probability 0.
 */
struct wire_output {
	struct wire_tensor norm;   /* f32 [n_embd] */
	struct wire_tensor matrix; /* [n_vocab][n_embd] */
	uint32_t top_k;            /* 1 to WIRE_MAX_TOP_K */
	uint32_t pad[3];           /* 0 */
};
#define WIRE_MAX_TOP_K 64
_Static_assert(sizeof(struct wire_output) == 48, "wire");

struct wire_likely {
	uint32_t token;
	/* probability according to the softmax over all tokens */
	float probability;
};

/*
 * A row of a request. In the KV buffer, layer l has K at (2 l) * kv_slots *
 * kv_stride and V directly after it at (2 l + 1) * kv_slots * kv_stride. A slot
 * holds [n_kv_head][head_dim] fp16 or float32 values.
 *
 * The K and V of all rows are written to the slots of the rows before
 * attention. A row then attends to the cached slots of its spans, and after
 * them to the rows of this request whose bits are set in its mask, by ascending
 * index. Sums are computed in this order. Rows may form a tree, of which a
 * chain is the simplest case; parents come before their children.
 */
struct wire_row {
	/* position in the text, for the rotation (RoPE); not the number of the
	 * slot */
	uint32_t position;
	uint32_t slot;
	/* the row's spans, a range of the request's array of spans */
	uint32_t first_span, n_spans;
};

struct wire_span {
	uint32_t slot, count;
};

/*
 * Run a graph. The memory of WIRE_REF_ROWS has struct wire_row row[rows], then
 * struct wire_span span[n_spans], then uint64_t mask[rows][mask_words]. If bit
 * j % 64 of word j / 64 of mask[i] is set, row i attends to row j.
 */
struct wire_graph_run {
	uint32_t op;
	uint32_t graph;
	/* rows of the request, at most the graph's rows; the graph's other rows
	 * are padding */
	uint32_t rows;
	uint32_t n_spans;
	/* number of 64-bit words of a row's mask, at least rows / 64 rounded up
	 */
	uint32_t mask_words;
	uint32_t flags; /* WIRE_RUN_* */
};
_Static_assert(sizeof(struct wire_graph_run) == 24, "wire");

/*
 * A run of an expert graph has one reference WIRE_REF_WEIGHTS for each expert
 * that it computes, and the references WIRE_REF_HIDDEN_OUT and WIRE_REF_ROWS.
 * The memory of WIRE_REF_ROWS has struct wire_pick pick[rows][n_used]; n_spans
 * and mask_words are 0. A row must not pick an expert twice. The output of an
 * expert for a row is multiplied by the pick's `weight`. The outputs of a row
 * are added in the order of its picks, so that the sum does not depend on the
 * order in which experts are run.
 */
struct wire_pick {
	/* number of the expert among the run's references WIRE_REF_WEIGHTS, or
	 * WIRE_PICK_ELSEWHERE if another run of the layer computes the
	 * expert */
	uint32_t expert;
	float weight; /* finite */
};
#define WIRE_PICK_ELSEWHERE UINT32_MAX

/* Attention reads the slots of each row separately, even slots that several
 * rows attend to. The results do not change. */
#define WIRE_RUN_APART 1u
/*
 * Compute nothing: the hidden states are returned unchanged, and no keys and
 * values are written. The cost, and the numbers of invalidated and cleaned
 * cache lines, are the same as for a run that computes.
 */
#define WIRE_RUN_IDLE 2u
/* Another run, which computes more experts of the layer, follows; only the last
 * run adds the outputs to the hidden states and writes the hidden states. At
 * the end of the last run, each pick must have been computed by exactly one
 * run. */
#define WIRE_RUN_MORE  4u
#define WIRE_RUN_FLAGS (WIRE_RUN_APART | WIRE_RUN_IDLE | WIRE_RUN_MORE)

/* clang-format off */
#define WIRE_COUNTERS(X)                                                      \
	X(uint64_t, busy_ns)           /* wall time of execution */           \
	X(uint64_t, dma_bytes)         /* bytes that DMA read */              \
	X(uint64_t, invalidated_lines) /* every line, cached or not */        \
	X(uint64_t, cleaned_lines)     /* every line, cached or not */        \
	X(uint64_t, evicted_lines)     /* written back by random evictions */ \
	X(uint64_t, whole_calls)       /* maintenance of the whole cache */   \
	X(uint32_t, violations)        /* broken coherence rules */           \
	X(uint32_t, saturated)         /* values clamped to fp16's range */
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
 * host restores them. Most of the message is zero in most completions: the
 * cost, which is rarely requested, and the text of a failure. If the zeros are
 * omitted, a successful completion takes one or two cache lines instead of
 * seven.
 */
#define WIRE_PRICE_WORDS 19
struct wire_done {
	uint32_t op;    /* op of the request, enum wire_op */
	int32_t status; /* 0 or a negative errno */
	uint32_t arg[6];
	struct wire_counters counters;
	uint64_t price[WIRE_PRICE_WORDS]; /* struct price, tensor/soc/price.h */
	/* reason of a failure, or the first violation of the coherence rules;
	 * NUL-terminated */
	char text[176];
};
#define WIRE_PRICE_BYTES (WIRE_PRICE_WORDS * sizeof(uint64_t))
_Static_assert(sizeof(struct wire_done) == 264 + WIRE_PRICE_BYTES, "wire");

enum wire_map_arg {    /* wire_done.arg of a WIRE_MAP */
	WIRE_MAP_ADDR, /* device address, on success */
	/* size of the requested mapping in bytes: the buffer's size rounded up
	 * to pages, plus one guard page */
	WIRE_MAP_ASKED,
	WIRE_MAP_FREE,    /* total number of free bytes */
	WIRE_MAP_LARGEST, /* bytes of the largest free range */
	WIRE_MAP_SLOTS_USED,
	WIRE_MAP_SLOTS,
	/* If the map is refused for lack of space: the number of unmapped
	 * buffers whose space is not free yet. Their space becomes free after
	 * some more map requests. */
	WIRE_MAP_PENDING = WIRE_MAP_ADDR,
};

/*
 * wire_done.arg of a successful WIRE_GRAPH_RUN. The three values take two words
 * each, the lower half first: bytes of keys and values that attention read;
 * bytes that attention would have read if rows did not share reads; bytes that
 * DMA read from the extended region.
 */
enum wire_run_arg {
	WIRE_RUN_KV_READ,
	WIRE_RUN_KV_APART = 2,
	WIRE_RUN_EXTENDED = 4,
};

/*
 * wire_done.arg of a successful WIRE_GRAPH_LOAD or WIRE_GRAPH_DROP: the number
 * of graphs that the device has, including graphs that are being loaded; the
 * maximum of this number since the start; the size of the weights of these
 * graphs in KiB; and the maximum of this size. The size is reported because on
 * a phone a loaded graph includes its weights.
 */
enum wire_graph_arg {
	WIRE_GRAPHS_HELD,
	WIRE_GRAPHS_MOST,
	WIRE_GRAPHS_KIB,
	WIRE_GRAPHS_MOST_KIB,
};

#endif
