/*
 * Calls for measurements, in addition to tandem.h: passes over given tokens,
 * requests that start on an idle device, recorded samples, the same model
 * computed in one process, the device process without a model, and reward
 * models. All calls must be made on one thread.
 */
#ifndef HOST_API_TANDEM_PASS_H
#define HOST_API_TANDEM_PASS_H

#include "host/head/reward_text.h"
#include "host/session/pass_price.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct device_link;
struct draft_model;
struct err;
struct lever_lessons;
struct opt_values;
struct samples_script;
struct session;
struct tandem;
struct tandem_request;
struct token_list;
struct wire_hello;

/* Like tandem_read_model, for callers that run single passes but generate no
 * text: the model may have any attention mask, and needs no vocabulary. */
int tandem_read_weights(struct tandem *, const char *path);

/* The session, for pass_read; NULL if the session was not started yet. */
struct session *tandem_session(const struct tandem *);

struct pass_reader {
	/* Called after each pass; n is the number of tokens that the pass
	 * read. */
	void (*read)(void *arg, uint32_t n);
	/* Receives the logits [n][n_vocab] of tokens [at, at + n). If the
	 * result is not 0, pass_read ends and returns this result. */
	int (*logits)(void *arg, size_t at, uint32_t n, const float *logits,
		struct err *);
	void *arg;
};

/*
 * Empty the sequence SESSION_TEXT and read n tokens into it, in passes with as
 * many rows (tokens) as the largest compute graph. Deliver the logits of token
 * `first` and all later tokens to the reader. Returns 0, -EDOM if logits are
 * infinite or NaN, or another negative errno.
 */
int pass_read(struct session *, const int32_t *token, size_t n, size_t first,
	const struct pass_reader *, struct err *);

/* Insert the beginning-of-text token if the prompt needs one
 * (decoder_add_bos). */
int tandem_add_bos(const struct tandem *, struct token_list *, struct err *);

/* ---- passes that are timed ---- */

/* Start the session with exactly the options of tandem_pair. (tandem_start adds
 * the numbers of rows and positions that the method needs.) */
int tandem_start_bare(struct tandem *, struct err *);

/*
 * Empty the first sequence, read a prompt of n tokens into it, and fork
 * `sequences` - 1 new sequences from it. `logits` [n_vocab] receives the logits
 * of the last token; if it is NULL, no logits are computed.
 */
int tandem_prefill(struct tandem *, const int32_t *token, size_t n,
	uint32_t sequences, float *logits, struct err *);

/* One pass: each of the first `sequences` sequences is truncated to `length`
 * tokens and continued by a chain of `rows` tokens. The pass can have at most
 * 64 rows in total. */
struct bare_pass {
	uint32_t sequences, length, rows;
	/* [rows] tokens of the chain, the same for all sequences */
	const int32_t *token;
	/* like the option attend-apart: each row reads the cache separately */
	bool apart;
};

/* Seconds that passes (pass_s) and the computation of logits (logits_s) took by
 * the wall clock, and the same in simulated phone time (phone_). */
struct bare_pass_times {
	double pass_s, logits_s, phone_pass_s, phone_logits_s;
};

/*
 * Run the pass and compute the logits [sequences * rows][n_vocab] of all rows.
 * Afterwards each sequence has `length` + 1 cached tokens: of its chain only
 * the first row is kept. The times are added to *times.
 */
int tandem_bare_pass(struct tandem *, const struct bare_pass *, float *logits,
	struct bare_pass_times *times, struct err *);

/* From this call on, compute the simulated costs of passes as if the phone's
 * CPU ran them. With `but_prompts`, passes that prefill a prompt keep the costs
 * of the phone's NPU. */
void tandem_price_by_cpu(struct tandem *, bool but_prompts);

/* Wait until all staging slots (buffers for layers) hold layers that were read
 * ahead from flash. */
int tandem_read_ahead(struct tandem *, struct err *);

/* ---- the same model in one process ---- */

/*
 * Prepare to compute the handle's model in this process alone, with the same
 * kernels, for comparison with the usual computation by a host and a device
 * process. The lone model must be opened before the session is started;
 * tandem_close closes it.
 */
int lone_model_open(
	struct tandem *, uint32_t context, uint32_t threads, struct err *);
/* Truncate the lone model's cache to `length` tokens, read n more tokens, and
 * compute the logits after the last token. */
int lone_model_read(struct tandem *, uint32_t length, const int32_t *token,
	size_t n, struct err *);

/* ---- the device process without a model ---- */

/* Start a device process and exchange the messages that open a connection
 * (hello and welcome). The process inherits the caller's CPU affinity. */
int device_link_open(
	struct device_link **out, const struct wire_hello *, struct err *);
/* The channel to the device; device_link_close closes it. */
struct channel *device_link_channel(const struct device_link *);
/* Send the goodbye message and wait for the end of the device process. The link
 * may be NULL. */
void device_link_close(struct device_link *);

/* ---- requests that are measured ---- */

/* Give the default value to each option that the chosen method does not use.
 * For programs that run many methods with the same options. */
void tandem_drop_needless(struct opt_values *);

struct measured_text {
	/* For an oracle drafter, which simulates drafts: the tokens of the
	 * prompt and of the text that will be generated. If `known` is NULL,
	 * plain decoding generates this text first. */
	const int32_t *known;
	size_t n_known;
	/*
	 * Called directly before the prompt is read, when everything is
	 * prepared and the device is idle. If the result is not 0,
	 * tandem_measure ends.
	 */
	int (*ready)(void *arg, struct err *);
	/*
	 * With graph switching (compute graphs for prefill and for decoding
	 * replace each other): start with the graphs that the previous request
	 * left loaded. If false, the graphs for prefill are loaded before the
	 * request.
	 */
	bool in_a_row;
	void *arg;
};

/* Like tandem_generate, but the text is not added to a history. Returns 0 or
 * -errno. */
int tandem_measure(struct tandem *, const struct tandem_request *,
	const struct measured_text *, struct err *);

/* The path of the exit predictor's file. The method lever uses the exit
 * predictor to prune draft tokens after the first layers. Returns NULL if lever
 * does not prune, or if another method is used. The model must be open. */
const char *tandem_exit_path(const struct tandem *);

/*
 * Returns a copy of the costs and acceptance rates that the method lever has
 * learned, or NULL if memory is short. The caller frees the copy with free().
 */
struct lever_lessons *tandem_lessons(const struct tandem *);
/* Make the method lever use these costs and rates, learn nothing more, and
 * prune every draft tree. Each draft tree then depends only on the text that
 * precedes it. */
void tandem_freeze(struct tandem *, const struct lever_lessons *);

/* ---- recorded samples: tandem_samples.c ---- */

/* Returns a script with the tokens of the last request's samples, or NULL if
 * memory is short. The caller frees the script with free(). */
struct samples_script *tandem_record(const struct tandem *);

/*
 * Give the samples of later requests the tokens of the script, instead of
 * drawing tokens. The caller keeps ownership of the script. The script must
 * have at least as many samples as each request. If the script is NULL, tokens
 * are drawn again. Methods that fork samples cannot use a script.
 */
void tandem_replay(struct tandem *, const struct samples_script *);

/* Compare the last request's samples with the script. Returns the index of the
 * first sample whose tokens differ, or the number of samples if none
 * differs. */
uint32_t tandem_compare(const struct tandem *, const struct samples_script *);

/*
 * Set *chosen to the index of the sample that the method of these options would
 * choose if the last request had only its first n samples. All samples must
 * have ended, and their steps must have scores if the method needs a reward
 * model.
 */
int tandem_choose(struct tandem *, const struct opt_values *, uint32_t n,
	uint32_t *chosen, struct err *);

/* ---- counters and scores ---- */

/* Set the running hash of all logits (logits_hash in session_stats) to its
 * initial value. */
void tandem_hash_anew(struct tandem *);

/*
 * Returns -EDOM if any weight, hidden state or logit has been infinite or NaN,
 * or if the absolute value of any hidden state or logit has reached 2^56.
 * Otherwise returns 0.
 */
int tandem_check_finite(const struct tandem *, struct err *);

/* Must be called before the model is opened. The call that opens the model then
 * also opens the reward model `name` or, if `name` is NULL, the reward model
 * that the options name. */
void tandem_want_reward(struct tandem *, const char *name);

/* Score n texts with the reward model. */
int tandem_score(
	struct tandem *, struct reward_text *, unsigned n, struct err *);

/* Set the function that computes the scores of the reward model "exact"; NULL
 * removes the function. Has no effect on other reward models. */
void tandem_report_reward(struct tandem *, reward_function *, void *arg);

#endif
