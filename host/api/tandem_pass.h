/*
 * Calls for measurements, beside tandem.h: passes over given tokens, requests
 * that start on an idle device, recorded samples, the same model in one
 * process, the device process without a model, and rewards. One thread.
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

/* As tandem_read_model, for passes only: the model may have any attention mask
 * and no vocabulary. */
int tandem_read_weights(struct tandem *, const char *path);

/* The session, for pass_read; NULL: the pair was not started yet. */
struct session *tandem_session(const struct tandem *);

struct pass_reader {
	/* Called after each pass, which read n tokens. */
	void (*read)(void *arg, uint32_t n);
	/* Receives logits [n][n_vocab] of tokens [at, at + n). A result other
	 * than 0 ends the call and is returned. */
	int (*logits)(void *arg, size_t at, uint32_t n, const float *logits,
		struct err *);
	void *arg;
};

/*
 * Read n tokens into an empty cache, in passes of the largest graph, and pass
 * on the logits of token `first` and all later ones. -EDOM for logits that are
 * infinite or NaN.
 */
int pass_read(struct session *, const int32_t *token, size_t n, size_t first,
	const struct pass_reader *, struct err *);

/* Insert the beginning-of-text token (decoder_add_bos). */
int tandem_add_bos(const struct tandem *, struct token_list *, struct err *);

/* ---- passes that are timed ---- */

/* Start the pair with the options of tandem_pair, without a method's additions.
 */
int tandem_start_bare(struct tandem *, struct err *);

/*
 * Empty the first sequence, read a prompt of n tokens into it, and fork
 * `sequences` - 1 new sequences from it. `logits` [n_vocab] receives those of
 * the last token; NULL: they are not computed.
 */
int tandem_prefill(struct tandem *, const int32_t *token, size_t n,
	uint32_t sequences, float *logits, struct err *);

/* One pass: each of the first `sequences` sequences is cut to `length` tokens
 * and continued by a chain of `rows` tokens; at most 64 rows together. */
struct bare_pass {
	uint32_t sequences, length, rows;
	const int32_t *token; /* [rows], the same for all sequences */
	bool apart;           /* as option attend-apart */
};

/* Seconds of passes and of their logits, wall and phone. */
struct bare_pass_times {
	double pass_s, logits_s, phone_pass_s, phone_logits_s;
};

/*
 * Run the pass and compute the logits [sequences * rows][n_vocab] of all rows.
 * The first row of each sequence is accepted. The times are added to *times.
 */
int tandem_bare_pass(struct tandem *, const struct bare_pass *, float *logits,
	struct bare_pass_times *times, struct err *);

/* Price all later passes as computed by the phone's CPU. */
void tandem_price_by_cpu(struct tandem *);

/* Wait until every staging slot holds the layer that is needed next. */
int tandem_read_ahead(struct tandem *, struct err *);

/* ---- the same model in one process ---- */

/* The handle's model, computed by this process alone with the same kernels, for
 * comparison with the pair. Opened before the pair is started, and closed
 * before the handle. */
int lone_model_open(struct draft_model **out, const struct tandem *,
	uint32_t context, uint32_t threads, struct err *);
/* Cut the model's cache to `length` tokens, read n more, and compute logits. */
int lone_model_read(struct draft_model *, uint32_t length, const int32_t *token,
	size_t n, struct err *);
void lone_model_close(struct draft_model *);

/* ---- the device process without a model ---- */

/* Start a device process and exchange hello and welcome. It inherits the
 * caller's CPU affinity. */
int device_link_open(
	struct device_link **out, const struct wire_hello *, struct err *);
/* The channel to the device; closed with the link. */
struct channel *device_link_channel(const struct device_link *);
/* Send goodbye and end the process; NULL is allowed. */
void device_link_close(struct device_link *);

/* ---- requests that are measured ---- */

/* Reset options that the chosen method would refuse to their defaults, for
 * programs that run many methods with the same options. */
void tandem_drop_needless(struct opt_values *);

struct measured_text {
	/* For an oracle: prompt and text, if known beforehand. NULL: plain
	 * decoding finds the text. */
	const int32_t *known;
	size_t n_known;
	/* Called when everything is prepared, no request is in flight, and the
	 * prompt is not read yet. A result other than 0 ends the call. */
	int (*ready)(void *arg, struct err *);
	void *arg;
};

/* As tandem_generate, without adding to a history: 0 or -errno. */
int tandem_measure(struct tandem *, const struct tandem_request *,
	const struct measured_text *, struct err *);

/* The path of method lever's exit head after the model is opened; NULL: lever
 * does not prune, or the method is another. */
const char *tandem_exit_path(const struct tandem *);

/* A copy of the costs and acceptance rates that method lever has learnt, for
 * free(). NULL: no memory. */
struct lever_lessons *tandem_lessons(const struct tandem *);
/* Make method lever use these, learn nothing more, and prune every tree. Each
 * tree then depends only on the text before it. */
void tandem_freeze(struct tandem *, const struct lever_lessons *);

/* ---- recorded samples: tandem_samples.c ---- */

/* The tokens of the last request's samples, for free(). NULL: no memory. */
struct samples_script *tandem_record(const struct tandem *);

/* Give the samples of later requests these tokens instead of drawing. The
 * script is borrowed and has at least as many samples. NULL: draw again. Not
 * for methods that fork samples. */
void tandem_replay(struct tandem *, const struct samples_script *);

/* The index of the last request's first sample whose tokens differ from the
 * script; the number of samples if none does. */
uint32_t tandem_compare(const struct tandem *, const struct samples_script *);

/*
 * Which sample the method of these options would choose if the last request had
 * only its first n samples, into *chosen. All have ended, and their steps have
 * scores if the method needs a reward.
 */
int tandem_choose(struct tandem *, const struct opt_values *, uint32_t n,
	uint32_t *chosen, struct err *);

/* ---- counters and scores ---- */

/* Reset the hash of logits (session_stats). */
void tandem_hash_anew(struct tandem *);

/* -EDOM if logits or weights so far were infinite or NaN. */
int tandem_check_finite(const struct tandem *, struct err *);

/* Open a reward with the model, which is called before: that one, or for NULL
 * the one of the options. */
void tandem_want_reward(struct tandem *, const char *name);

/* Score n texts by that reward. */
int tandem_score(
	struct tandem *, struct reward_text *, unsigned n, struct err *);

/* Set the function that scores for reward "exact"; NULL: none. No effect on
 * other rewards. */
void tandem_report_reward(struct tandem *, reward_function *, void *arg);

#endif
