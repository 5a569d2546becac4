/*
 * A session: one model on one device, and its sequences of cached tokens. All
 * decoding methods use a session in the same way:
 *
 *   session_forward  computes rows of one or many sequences (host/session/
 *                    rows.h defines their attention masks)
 *   session_logits   turns one computed row into logits, on demand
 *   session_accept   keeps a path of those rows: the KV cache is compacted
 *                    and the sequence grows
 *   session_fork     another sequence that shares the cached tokens of one
 *
 * The session owns the device process (or the connection to it), the shared
 * buffers, the placement of weights in the device window, and the counters. It
 * makes no decisions about text. One thread.
 */
#ifndef HOST_SESSION_SESSION_H
#define HOST_SESSION_SESSION_H

#include "host/session/rows.h"
#include "host/session/sequence.h"
#include "host/session/session_opts.h"
#include "host/session/session_stats.h"
#include "host/trace/trace.h"
#include "tensor/soc/price_host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct model;
struct session;

int session_open(struct session **out, const struct model *,
	const struct session_opts *, struct err *);
/* 0, or -EPROTO if the coherence checker found violations, or the reason why
 * the trace is incomplete. */
int session_close(struct session *, struct err *);

/* Cached tokens of a sequence; the most that a sequence can have. */
uint32_t session_length(const struct session *, uint32_t sequence);
uint32_t session_context(const struct session *);
/* Rows of the largest graph, the most of one forward. */
uint32_t session_max_rows(const struct session *);
const struct model *session_model(const struct session *);

/* ---- sequences: session_cache.c ---- */

#define SESSION_SEQUENCES 4096 /* open at a time, at most */

/* The sequence that a session opens with, for methods with a single text. */
#define SESSION_TEXT 0u

/*
 * Sequences are named by ids. Only calls that compute rows or fork check that
 * an id is open; all others require it.
 *
 * Open an empty sequence; fork one that shares the cached tokens of `parent`
 * (at most one run of the cache is copied, when either is written); close one.
 * -ENOSPC when opts.sequences are open. The lowest free id is used.
 */
int session_add(struct session *, uint32_t *sequence, struct err *);
int session_fork(
	struct session *, uint32_t parent, uint32_t *sequence, struct err *);
void session_remove(struct session *, uint32_t sequence);

/* Mark a sequence as one that may be dropped when another needs room:
 * sequence_spare and sequence_spared. */
uint64_t session_spare(struct session *, uint32_t sequence);
uint64_t session_spared(const struct session *, uint32_t sequence);

/*
 * Whether n <= ROWS_SEQUENCES sequences can grow in one pass, each by more[i]
 * tokens, as far as cache slots go; session_free_slots counts free slots.
 */
bool session_has_room(const struct session *, const uint32_t *sequence,
	const uint32_t *more, uint32_t n);
uint32_t session_free_slots(const struct session *);

/* Drop all cached tokens but the first `length`, and rows not accepted. */
void session_truncate(struct session *, uint32_t sequence, uint32_t length);

/* Bytes of shared memory, mostly weights, that the device maps by huge
 * page-table entries. Slow: the system looks at every page. */
uint64_t session_huge_bytes(const struct session *);

/* ---- passes: session_pass.c ---- */

/* Callbacks during a pass. */
struct session_hooks {
	/*
	 * After the first exit_layers layers, where session_hidden has the
	 * states there: choose the rows to continue with. keep[*n] holds all
	 * rows, 0, 1, 2 ...; on return it holds those that continue, ascending;
	 * a row needs its parent. Rows keep their numbers; dropped rows have no
	 * state and cannot be accepted. Trees only. NULL: all continue.
	 */
	int (*choose)(void *arg, uint32_t *keep, uint32_t *n, struct err *);
	/* Called once per block, while device and flash work, for work of the
	 * host. NULL: none. */
	int (*meanwhile)(void *arg, struct err *);
	void *arg;
};

/*
 * Compute rows (at most the largest graph's) of open sequences on the device.
 * VISIBILITY_TREE is for causal models, the others for models that are not;
 * models with a block_length take blocks, and trees for their prompts. Rows
 * have input states if, and only if, the model's layers follow another model's.
 * session_accept keeps rows of a pass; the next forward overwrites the others.
 * Rows that are no tree overwrite the cache at once, and leave it undefined
 * after a pass that failed. -ENOSPC, with nothing changed, when the context or
 * the cache is full. The hooks may be NULL.
 */
int session_forward(struct session *, const struct rows *,
	const struct session_hooks *, struct err *);

/* session_forward of n tokens that follow a sequence, with the model's own
 * attention mask; with a block_length, as a prompt. */
int session_continue(struct session *, uint32_t sequence, const int32_t *token,
	uint32_t n, const struct session_hooks *, struct err *);

/* Set opts.attend_apart from the next pass on: text and states do not
 * change. */
void session_attend_apart(struct session *, bool apart);

/* The row's last hidden state, before the final norm: float32 [n_embd]. NULL
 * for a row that was dropped. */
const float *session_hidden(struct session *, uint32_t row);

/* The row's state after the first opts.tap_layers layers, likewise; and that
 * number of layers, 0 if these states are not kept. */
const float *session_tapped(struct session *, uint32_t row);
uint32_t session_tap_layers(const struct session *);
/* Count the CPU's copying of the tapped states of n rows. */
void session_add_states(struct session *, uint32_t n);

/* Logits of row `row` of the last forward: float32 [n_vocab]. Counted. */
int session_logits(struct session *, uint32_t row, float *logits, struct err *);
/* Logits of n rows, each to its own [n_vocab], faster than one by one.
 * session_logits_ahead does not count them yet, as some may turn out useless:
 * session_logits_used counts each that is used, in order of use. */
int session_logits_ahead(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);
void session_logits_used(struct session *, const float *logits);
int session_logits_rows(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);
/* Logits of rows [first, first + n) to logits [n][n_vocab], faster than one by
 * one. */
int session_logits_range(struct session *, uint32_t first, uint32_t n,
	float *logits, struct err *);

/*
 * Keep rows path[0] < path[1] < ... of the last forward: in a tree a path that
 * begins at a root at the sequence's end, else the first rows. Their KV moves
 * to the end of the sequence (in place, ascending), which grows by n. A NULL
 * path stands for the first n rows of the sequence. Once for each sequence.
 */
int session_accept(struct session *, uint32_t sequence, const uint32_t *path,
	uint32_t n, struct err *);

/*
 * For rows that are no tree: count how many of the last forward gave a token of
 * the text. Accepted rows of a tree are counted automatically.
 */
void session_count_valid(struct session *, uint32_t rows);

/*
 * Called when no request is waiting: with graph switching the prefill graphs
 * are loaded now instead of before the next prompt.
 */
int session_rest(struct session *, struct err *);

/*
 * Receives logits at tokens of a prompt during prefill: the host computes those
 * of a chunk while the device computes the next chunk. Both callbacks are
 * called in the order of tokens; `at` counts those given to
 * session_prefill.
 */
struct session_reader {
	bool (*wants)(void *arg, size_t at); /* NULL: no logits at all */
	void (*read)(void *arg, size_t at, const float *logits);
	/* For every token, with opts.tap_layers; NULL: not needed. */
	void (*tapped)(void *arg, size_t at, const float *state);
	void *arg;
};

/*
 * Append n >= 1 tokens to a sequence in chunks of the prefill graph; afterwards
 * session_logits(*last_row) gives the logits after the last token. The
 * reader may be NULL.
 */
int session_prefill(struct session *, uint32_t sequence, const int32_t *token,
	size_t n, const struct session_reader *, uint32_t *last_row,
	struct err *);

/*
 * Charge work of the host outside the session, such as drafting, to the phone's
 * time, and let streaming proceed: data from flash is handled only while the
 * session waits for it or is called here. So long work is reported piece by
 * piece, a few milliseconds each; without a phone the price is zero. A trace
 * shows the work under the given name.
 */
void session_add_work_of(
	struct session *, enum trace_name, const struct price *);

/*
 * The same by count (tensor/soc/price_host.h): rows of logits, as long as the
 * vocabulary of the cost model, from which tokens are sampled, candidates
 * found, or that are swept; and steps through trees and lists.
 */
void session_add_draws(struct session *, uint32_t rows, bool greedy);
void session_add_tops(struct session *, uint32_t rows, uint32_t k);
void session_add_sweep(struct session *, enum price_sweep, uint32_t rows);
void session_add_steps(struct session *, uint64_t steps);

/* Width of the model that the cost model charges: of `as`, or of the real
 * one. */
uint32_t session_priced_width(const struct session *);

/*
 * From now on charge passes as for a phone without an NPU, whose CPU computes
 * exactly the rows of a pass. For models that are wholly in memory. No effect
 * without a phone.
 */
void session_price_by_cpu(struct session *);

/*
 * Expected NPU time of a pass of `rows` rows, where the row that attends to
 * most attends to `longest` tokens, itself included; a staircase as rows grow.
 * In picoseconds of the phone; without one, in tiles of rows.
 */
uint64_t session_expect_pass(
	const struct session *, uint32_t rows, uint32_t longest);

/* Rows of the graph that runs a pass of `rows` rows. */
uint32_t session_graph_rows(const struct session *, uint32_t rows);

/* The device's computing time so far, in nanoseconds. */
uint64_t session_device_ns(const struct session *);

/*
 * Time that flash takes to read the streamed layers of one pass: picoseconds of
 * the phone or, without one, nanoseconds, by the speed so far; 0 if nothing is
 * streamed or was read yet.
 */
uint64_t session_read_time(struct session *);

/* Bytes that a pass reads from flash, as the cost model counts them: of the
 * real model, or of the shape that replaces it. */
uint64_t session_read_bytes(const struct session *);

/* The session's trace; NULL: none. */
struct trace *session_trace(const struct session *);

/* Write out the trace, as no passes are expected for a while. */
void session_flush_trace(const struct session *);

/* Number of passes so far, which is the last one's number in the trace. */
uint64_t session_passes(const struct session *);

/* Current time in picoseconds of the phone, 0 without one. */
uint64_t session_phone_ps(const struct session *);

/*
 * How long flash will keep reading ahead while the session is idle: until then
 * work of the host costs no time. Picoseconds of the phone or, without one,
 * nanoseconds; 0 if nothing is streamed.
 */
uint64_t session_ahead(struct session *);

/* Wait until flash has read ahead as far as it may (staging_fill). */
int session_read_ahead(struct session *, struct err *);

/*
 * Events of the last session_prefill with graph switching, in the order in
 * which they ended; owned by the session, valid until the next prefill. *n is 0
 * if there was none.
 */
const struct graph_event *session_graph_log(const struct session *, size_t *n);

void session_stats(const struct session *, struct session_stats *out);
void session_hash_anew(struct session *);

/* -EDOM, with an explanation, if any logits or weights so far were not
 * finite. */
int session_check_finite(const struct session *, struct err *);

/* How layers are read from flash (stream_how); NULL if none are streamed. */
const char *session_flash_how(const struct session *);

#endif
