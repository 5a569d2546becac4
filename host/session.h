/*
 * A session: one model on one device, one timeline of tokens. This is what
 * decoding methods stand on, and it is the same for all of them:
 *
 *   session_forward  computes the rows of a token tree that hangs from the
 *                    cached prefix (a chain is a tree)
 *   session_logits   turns one computed row into logits, on demand
 *   session_accept   keeps a path of those rows: the KV cache is compacted
 *                    and the prefix grows
 *
 * The session owns the device process (or its connection), the shared
 * buffers, the placement of weights in the device window, and the counters.
 * It decides nothing about text. One thread.
 */
#ifndef HOST_SESSION_H
#define HOST_SESSION_H

#include "host/layout.h"
#include "ipc/wire.h"
#include "shm/coherence.h"
#include "shm/doorbell.h"

#include "tensor/price.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct model;
struct session;
struct soc;

struct session_opts {
	uint32_t threads;       /* host and device each; 0: all processors */
	uint32_t prefill_chunk; /* rows of the prefill graph */
	uint32_t decode_rows;   /* rows of the decode graph, if so many fit
				 * into the context */
	/*
	 * Token positions. 0: the model's own or context_need if that is
	 * known (not 0) and less, as far as cache and window hold them.
	 */
	uint32_t context, context_need;
	enum wire_precision precision;
	/* UNSAID: a flash image's own, which only itself may be said for;
	 * of other models tiles. */
	enum layout layout;
	enum coherence coherence;
	enum doorbell_kind doorbell;
	uint64_t va_window; /* bytes of the device's address window */
	uint32_t va_slots;
	uint64_t evict_seed;
	int64_t spin_us;    /* -1: chosen from the processors at hand */
	unsigned stall_ms;  /* a device silent for longer is given up */
	const char *device; /* socket of a listening device; NULL: spawn */
	/* The phone that all work is priced for, beside being done; borrowed.
	 * NULL: none. */
	const struct soc *soc;
	const char *clock; /* "soc:sd8gen3": what `soc` is called in reports */
	/* Set by a signal handler: the next forward returns -ECANCELED. */
	const volatile sig_atomic_t *cancel; /* NULL: never */
};

extern const struct session_opts session_defaults;

int session_open(struct session **out, const struct model *,
	const struct session_opts *, struct err *);
/* 0, or -EPROTO when the coherence checker found violations. */
int session_close(struct session *, struct err *);

/* Tokens in the cache; the next forward's roots have this position. */
uint32_t session_length(const struct session *);
uint32_t session_context(const struct session *);
/* Rows of the larger graph: of a forward, at most. */
uint32_t session_max_rows(const struct session *);
const struct model *session_model(const struct session *);

/*
 * A batch of rows that hang from the cached prefix: parent[i] < i, or -1 for
 * a row that follows the prefix directly. A NULL parent means a chain.
 *
 * The rows of a model whose attention is not causal stand at consecutive
 * positions (parent is NULL) and all see one another.
 */
struct token_tree {
	uint32_t n;
	const int32_t *token;
	const int32_t *parent;
};

/*
 * Compute the rows of a tree (n at most the larger graph's rows) on the
 * device. Nothing is kept until session_accept; the next forward overwrites
 * what was not accepted. -ENOSPC when the context is full.
 */
int session_forward(struct session *, const struct token_tree *, struct err *);

/* The row's last hidden state, before the final norm: float32 [n_embd]. */
const float *session_hidden(struct session *, uint32_t row);

/* Logits of row `row` of the last forward: float32 [n_vocab]. Counted. */
int session_logits(struct session *, uint32_t row, float *logits, struct err *);
/* Of rows [first, first + n) to logits [n][n_vocab], sooner than one by one. */
int session_logits_range(struct session *, uint32_t first, uint32_t n,
	float *logits, struct err *);

/*
 * Keep rows path[0] < path[1] < ... of the last forward, a path from a root
 * down; their KV moves to the slots behind the prefix (in place,
 * ascending) and session_length grows by n.
 */
int session_accept(
	struct session *, const uint32_t *path, uint32_t n, struct err *);

/* Forget all but the first `length` tokens. */
void session_truncate(struct session *, uint32_t length);

/*
 * Append n tokens to the cache in chunks of the prefill graph; afterwards
 * session_logits(*last_row) is the distribution behind the last one. n >= 1.
 */
int session_prefill(struct session *, const int32_t *token, size_t n,
	uint32_t *last_row, struct err *);

struct session_stats {
	uint64_t passes;      /* forwards */
	uint64_t rows;        /* real rows computed */
	uint64_t padded_rows; /* of the static graphs, unused */
	uint64_t logits_rows;
	uint64_t round_trips; /* completions received */
	uint64_t sleeps;      /* of the host, waiting */
	uint64_t maps, unmaps;
	uint64_t bytes_mapped; /* in the window now */
	uint64_t weight_bytes; /* of the layers */
	uint64_t kv_bytes;
	uint64_t dma_bytes, invalidated_lines, cleaned_lines, evicted_lines;
	uint64_t violations, saturated;
	uint64_t device_ns;   /* executing, as the device reports it */
	uint64_t logits_hash; /* of all logits rows so far, in order */
	/* Phone time, of the device and of the host's logits: of all passes and
	 * logits, and of those of session_prefill. */
	struct price price, prompt_price;
	uint32_t blocks, layers_per_block;
	enum layout layout; /* never UNSAID */
	uint32_t threads;
	char kern[16]; /* the device's kernels */
};
void session_stats(const struct session *, struct session_stats *out);

#endif
