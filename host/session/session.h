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

/* Bytes of shared memory, most of it weights, that the device maps by huge
 * page-table entries; asks the system, which looks at every page. */
uint64_t session_huge_bytes(const struct session *);

/* ---- passes: session_pass.c ---- */

/*
 * Compute rows (at most the larger graph's) on the device, of open sequences.
 * Trees are for models whose attention is causal, the other visibility for
 * those where it is not; models with a block_length take blocks, and trees, by
 * which their prompts are read. Rows come with states, and with these alone,
 * where the model's layers stand behind another's. What a pass adds to a
 * sequence is kept by session_accept; the next forward overwrites what was not.
 * What rows that are no tree overwrite is changed at once, and undefined after
 * a pass that failed. -ENOSPC, and nothing is changed, when the context or the
 * cache is full.
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
 * remember; with a price of nothing where there is no phone. A trace has it
 * under that name.
 */
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
 * What a pass of so many rows takes the NPU, the row that attends to most of
 * which attends to `longest` tokens, itself among them; as rows grow a
 * staircase: of a phone picoseconds; without one, tiles of rows.
 */
uint64_t session_expect_pass(
	const struct session *, uint32_t rows, uint32_t longest);

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
 * Of the last session_prefill with graph switching, in the order in which they
 * ended; the session's, until the next. *n is 0 where there was none.
 */
const struct graph_event *session_graph_log(const struct session *, size_t *n);

void session_stats(const struct session *, struct session_stats *out);
void session_hash_anew(struct session *);

/* -EDOM, and a sentence, if there were any such rows or weights so far. */
int session_check_finite(const struct session *, struct err *);

/* How layers come from flash (stream_how); NULL where none does. */
const char *session_flash_how(const struct session *);

#endif
