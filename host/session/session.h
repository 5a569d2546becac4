/*
 * A session: one model on one device, and its sequences of cached tokens. All
 * decoding methods use a session in the same way:
 *
 *   session_forward  computes rows: tokens with attention masks (rows.h)
 *   session_logits   computes the logits of rows, on demand
 *   session_accept   keeps a path of the computed rows: the KV cache is
 *                    compacted and the sequence grows
 *   session_fork     opens a sequence that shares another sequence's
 *                    cached tokens
 *
 * The session owns the device process (or the connection to it), the shared
 * buffers, the placement of weights in the device's address window, and the
 * counters. If opts.soc is set, a cost model also computes the simulated phone
 * time: the time that all work would take on a real phone. The session makes no
 * decisions about the generated text. All calls must be made on one thread.
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
struct npu;
struct session;

int session_open(struct session **out, const struct model *,
	const struct session_opts *, struct err *);
/* Close the session. Returns 0, -EPROTO if the coherence checker found
 * violations, or the error that left the trace incomplete. */
int session_close(struct session *, struct err *);

/* session_length: number of cached tokens of a sequence. session_context:
 * maximum number of tokens of a sequence. */
uint32_t session_length(const struct session *, uint32_t sequence);
uint32_t session_context(const struct session *);
/* Maximum number of rows of one forward pass, which is the number of rows of
 * the largest graph. */
uint32_t session_max_rows(const struct session *);
const struct model *session_model(const struct session *);

/* ---- sequences: session_cache.c ---- */

#define SESSION_SEQUENCES 4096 /* maximum number of open sequences */

/* The sequence that exists when a session is opened, for methods that generate
 * a single text. */
#define SESSION_TEXT 0u

/*
 * Open an empty sequence, or fork one that shares the cached tokens of
 * `parent`, or close a sequence. A new sequence gets the lowest free id. When
 * the parent or the fork is written later, at most one run of the cache (KV_RUN
 * adjacent slots) is copied. Returns 0, or -ENOSPC if opts.sequences sequences
 * are open.
 *
 * Sequences are identified by their ids. Only calls that compute rows and calls
 * that fork check that an id is open; for all other calls the caller must
 * ensure that the id is open.
 */
int session_add(struct session *, uint32_t *sequence, struct err *);
int session_fork(
	struct session *, uint32_t parent, uint32_t *sequence, struct err *);
void session_remove(struct session *, uint32_t sequence);

/* Mark a sequence as spare: the sequence may be closed when its cache slots or
 * its id are needed for another sequence. The results are those of
 * sequence_spare and sequence_spared (sequence.h). */
uint64_t session_spare(struct session *, uint32_t sequence);
uint64_t session_spared(const struct session *, uint32_t sequence);

/*
 * session_has_room: whether the cache has enough free slots for n <=
 * ROWS_SEQUENCES sequences to grow in one pass, each by more[i] tokens.
 * session_free_slots: number of free slots.
 */
bool session_has_room(const struct session *, const uint32_t *sequence,
	const uint32_t *more, uint32_t n);
uint32_t session_free_slots(const struct session *);

/* Drop all cached tokens of the sequence after the first `length`, and the rows
 * of this sequence in the last pass that were not accepted. */
void session_truncate(struct session *, uint32_t sequence, uint32_t length);

/* The device that the session runs on. The caller must not close it. */
struct npu *session_npu(const struct session *);

/* ---- passes: session_pass.c ---- */

/* Callbacks during a pass. Each may be NULL. */
struct session_hooks {
	/*
	 * Called after the first exit_layers layers to choose the rows with
	 * which the pass continues; session_hidden then returns the states
	 * after these layers. On entry keep[*n] contains all row numbers: 0, 1,
	 * 2 ... On return keep[] must contain the numbers of the rows that
	 * continue, in ascending order; if a row continues, its parent must
	 * continue, too. Rows keep their numbers. Dropped rows have no state
	 * and cannot be accepted. Allowed only for trees. NULL: all rows
	 * continue.
	 */
	int (*choose)(void *arg, uint32_t *keep, uint32_t *n, struct err *);
	/* Called once per block (once per layer if a layer runs as several
	 * blocks) while the device and flash are working, so that the host can
	 * do other work at the same time. */
	int (*meanwhile)(void *arg, struct err *);
	void *arg;
};

/*
 * Compute rows of open sequences on the device; the number of rows is limited
 * by the largest graph. Causal models take only VISIBILITY_TREE. Models with a
 * block_length take VISIBILITY_BLOCK, and VISIBILITY_TREE for their prompts.
 * All other models take VISIBILITY_WINDOW or VISIBILITY_BLOCK. Rows have input
 * states if, and only if, the model's layers follow another model's layers.
 *
 * session_accept keeps rows of the pass; the next pass overwrites all rows that
 * were not accepted. Windows and blocks overwrite the cache at once; if the
 * pass fails, the contents of the cache are undefined. Returns 0, or -ENOSPC
 * with nothing changed if the context or the cache is full. `hooks` may be
 * NULL.
 */
int session_forward(struct session *, const struct rows *,
	const struct session_hooks *, struct err *);

/* Call session_forward for n tokens that follow a sequence, with the model's
 * own attention mask. In a model with a block_length the mask is the mask of a
 * prompt. */
int session_continue(struct session *, uint32_t sequence, const int32_t *token,
	uint32_t n, struct err *);

/* Set opts.attend_apart (attention reads the cache separately for each row) for
 * all later passes. Results do not depend on this option. */
void session_attend_apart(struct session *, bool apart);

/* The row's last hidden state, before the final norm: float32 [n_embd]. NULL if
 * the row was dropped. */
const float *session_hidden(struct session *, uint32_t row);

/* session_tapped: the row's state after the first opts.tap_layers layers,
 * float32 [n_embd]. session_tap_layers: opts.tap_layers, which is 0 if these
 * states are not kept. */
const float *session_tapped(struct session *, uint32_t row);
uint32_t session_tap_layers(const struct session *);
/* Add the time in which the CPU copies n states (results of session_tapped or
 * session_hidden) to the simulated phone time. */
void session_add_states(struct session *, uint32_t n);

/*
 * session_keep_states: keep the last hidden state of every token that is
 * accepted from now on. Must be called before any token is cached. The copies
 * are charged to simulated phone time. session_state: the state of a cached
 * token, before the final norm: float32 [n_embd]. The state is valid until the
 * sequence changes. Both functions require that all passes are trees
 * (VISIBILITY_TREE). session_keep_states returns 0 or -ENOMEM.
 */
int session_keep_states(struct session *, struct err *);
const float *session_state(
	const struct session *, uint32_t sequence, uint32_t at);

/* Compute the logits of rows [first, first + n) of the last forward pass to the
 * float32 array logits [n][n_vocab]. The rows count as used in
 * session_stats. */
int session_logits(struct session *, uint32_t first, uint32_t n, float *logits,
	struct err *);
/*
 * Compute the logits of n rows together, which is faster than one by one;
 * logits[i] is an array of n_vocab floats for row[i]. session_logits_rows
 * counts all n rows as used. session_logits_ahead does not count the rows,
 * because the caller may not use all of them; the caller must call
 * session_logits_used for each row that it uses, in the order of use.
 */
int session_logits_ahead(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);
void session_logits_used(struct session *, const float *logits);
int session_logits_rows(struct session *, const uint32_t *row, uint32_t n,
	float *const *logits, struct err *);

/*
 * Keep rows path[0] < path[1] < ... of the last forward pass. In a tree the
 * path must begin with a root (a row without a parent) at the end of the
 * sequence; for other kinds of rows the path must consist of the sequence's
 * first rows. The keys and values of these rows are moved to directly after the
 * cached tokens of the sequence, which grows by n tokens. A NULL path means the
 * first n rows of the sequence. May be called once per sequence after each
 * pass.
 */
int session_accept(struct session *, uint32_t sequence, const uint32_t *path,
	uint32_t n, struct err *);

/*
 * For rows that are not a tree: add to the statistics that `rows` rows of the
 * last forward pass produced a token of the text. For trees, session_accept
 * counts the accepted rows.
 */
void session_count_valid(struct session *, uint32_t rows);

/* Call this while no user request is waiting. With graph switching, the call
 * loads the prefill graphs, so that the next prompt does not wait for them. */
int session_rest(struct session *, struct err *);

/*
 * Callbacks that receive the results of the device for tokens of a prompt. The
 * callbacks are called in the order of tokens; `at` is the index of the token
 * in the array that was passed to session_prefill.
 */
struct session_reader {
	/* Used with opts.predict_top_k: returns whether predictions of the
	 * token after token `at` are needed. NULL: none are needed. */
	bool (*wants)(void *arg, size_t at);
	/* Receives the predictions of the token after token `at`, in the form
	 * that session_predicted returns. */
	void (*likely)(
		void *arg, size_t at, const struct wire_likely *, uint32_t n);
	/* Called after the pass of each chunk. The chunk has tokens [at, at +
	 * rows), which are rows [0, rows) of the pass; session_hidden and
	 * session_tapped return their states. May be NULL. */
	void (*chunk)(void *arg, size_t at, uint32_t rows);
	void *arg;
};

/*
 * Let the device predict the token that follows each row of the last pass
 * (opts.predict_top_k). Afterwards session_predicted returns n <= predict_top_k
 * tokens that may follow a row, the most probable first. n is less than
 * predict_top_k only if all other tokens have probability 0. Returns NULL for a
 * row that was dropped. Valid until the next pass.
 */
int session_predict(struct session *, struct err *);
const struct wire_likely *session_predicted(
	const struct session *, uint32_t row, uint32_t *n);

/*
 * Append n >= 1 tokens to a sequence, in chunks of the size of the prefill
 * graph. Afterwards session_logits(*last_row) gives the logits after the last
 * token. `reader` may be NULL.
 */
int session_prefill(struct session *, uint32_t sequence, const int32_t *token,
	size_t n, const struct session_reader *, uint32_t *last_row,
	struct err *);

/*
 * Charge work that the host does outside the session, such as drafting, to the
 * simulated phone time, and handle data that has arrived from flash. Streaming
 * makes progress only during this call and while the session waits for flash.
 * Therefore long work must be reported in pieces of a few milliseconds. Without
 * a simulated phone nothing is charged. A trace shows the work under the given
 * name.
 */
void session_add_work_of(
	struct session *, enum trace_name, const struct price *);

/*
 * Charge work of the host to the simulated phone time
 * (tensor/soc/price_host.h). session_add_draw: sample a token from one row of
 * logits. session_add_sum: compute the sum of one row of logits.
 * session_add_tops: find the k largest logits of each of `rows` rows. A row has
 * one logit for each token in the vocabulary of the priced model.
 * session_add_steps: make `steps` steps in trees and lists, from one element to
 * the next.
 */
void session_add_draw(struct session *, bool greedy);
void session_add_sum(struct session *);
void session_add_tops(struct session *, uint32_t rows, uint32_t k);
void session_add_steps(struct session *, uint64_t steps);

/* Charge the search for draft tokens in stored sequences of tokens. */
void session_add_search(struct session *, const struct search_work *);

/* Width (n_embd) of the model that the cost model prices: the width of opts.as
 * if opts.as is set, otherwise the width of the real model. */
uint32_t session_priced_width(const struct session *);

/*
 * From this call on, compute the cost of passes as if the phone's CPU computed
 * them, without padding rows. With `but_prompts`, passes that prefill a prompt
 * are still charged to the NPU. Only for models that are completely in memory.
 * Has no effect without a simulated phone.
 */
void session_price_by_cpu(struct session *, bool but_prompts);

/*
 * Expected NPU time of a pass of `rows` rows, in picoseconds of simulated phone
 * time. `longest` is the largest number of tokens that a row attends to,
 * including itself. The time depends on the number of rows of the graph that
 * runs the pass, so the time grows in steps. Requires a simulated phone.
 */
uint64_t session_expect_pass(
	const struct session *, uint32_t rows, uint32_t longest);

/* Number of rows of the graph that runs a pass of `rows` rows. */
uint32_t session_graph_rows(const struct session *, uint32_t rows);

/* Total computing time of the device plus the time of waiting until experts
 * were read, in nanoseconds. */
uint64_t session_device_ns(const struct session *);

/*
 * Time that flash needs to read the streamed layers of one pass, in picoseconds
 * of simulated phone time. Without a simulated phone: in nanoseconds, from the
 * reading speed measured since the session was opened. 0 if no layer is
 * streamed or none has been read yet.
 */
uint64_t session_read_time(struct session *);

/* Bytes that a pass reads from flash, as the cost model counts them: for
 * opts.as if it is set, otherwise for the real model. */
uint64_t session_read_bytes(const struct session *);

/* The session's trace; NULL if there is none. */
struct trace *session_trace(const struct session *);

/* Number of passes since the session was opened. This number is also the number
 * of the last pass in the trace. */
uint64_t session_passes(const struct session *);

/* Current simulated phone time in picoseconds; 0 without a simulated phone. */
uint64_t session_phone_ps(const struct session *);

/*
 * Time for which flash will continue to read ahead if the session stays idle.
 * Host work during this time causes no delay. The unit is picoseconds of
 * simulated phone time or, without a simulated phone, nanoseconds. 0 if no
 * layer is streamed.
 */
uint64_t session_ahead(struct session *);

/* Wait until flash has read ahead as far as the staging slots allow
 * (staging_fill). */
int session_read_ahead(struct session *, struct err *);

/*
 * The events (runs and loads of graphs) of the last session_prefill with graph
 * switching, in the order in which they ended. *n receives the number of
 * events, which is 0 if there was no such prefill. The session owns the events,
 * which are valid until the next prefill.
 */
const struct graph_event *session_graph_log(const struct session *, size_t *n);

void session_stats(const struct session *, struct session_stats *out);
void session_hash_anew(struct session *);

/* Returns 0, or -EDOM with an explanation if the session has seen weights that
 * are infinite or NaN, or states or logits that are infinite, NaN or at least
 * 2^56. */
int session_check_finite(const struct session *, struct err *);

/* How layers are read from flash, as text (stream_how); NULL if no layer is
 * streamed. */
const char *session_flash_how(const struct session *);

#endif
