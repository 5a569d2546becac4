/*
 * What measurements do with a handle beside generating by tandem.h: bare passes
 * and scores of tokens that are given, requests with nothing in flight before
 * them, samples that are chosen from again, the same model in one process, the
 * device process without a model, and the cost of a pass by its shapes. One
 * thread.
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

/* tandem_read_model of a model that only passes are run of: of any attention,
 * and without a vocabulary. */
int tandem_read_weights(struct tandem *, const char *path);

/* What passes run on, for pass_read; NULL: the pair was not started yet. */
struct session *tandem_session(const struct tandem *);

struct pass_reader {
	/* Called once for each pass: so many more tokens were read. */
	void (*read)(void *arg, uint32_t n);
	/* logits [n][n_vocab] of tokens [at, at + n); not 0 ends the call. */
	int (*logits)(void *arg, size_t at, uint32_t n, const float *logits,
		struct err *);
	void *arg;
};

/*
 * Read n tokens from an empty cache, in passes as large as there are, and
 * report the logits of those from `first` on. -EDOM where logits are infinite
 * or no number.
 */
int pass_read(struct session *, const int32_t *token, size_t n, size_t first,
	const struct pass_reader *, struct err *);

/* Put the token that begins a text before tokens, unless it is there: where the
 * model wants it, and where there are none. */
int tandem_add_bos(const struct tandem *, struct token_list *, struct err *);

/* ---- passes that are timed ---- */

/* Start the pair as tandem_pair says, without what a method adds. */
int tandem_start_bare(struct tandem *, struct err *);

/*
 * Empty the first sequence and read a prompt of n tokens into it; so many
 * sequences, of which the others must not exist yet, then share the prompt.
 * The logits [n_vocab] that follow the prompt; NULL: they are not computed.
 */
int tandem_prefill(struct tandem *, const int32_t *token, size_t n,
	uint32_t sequences, float *logits, struct err *);

/* One pass, in which each of the first `sequences` sequences continues its
 * first `length` tokens by a chain of `rows` tokens; at most 64 rows in all. */
struct bare_pass {
	uint32_t sequences, length, rows;
	const int32_t *token; /* [rows], the same for all sequences */
	bool apart; /* each reads the keys and values that all have in common */
};

/* Seconds of passes and of their logits, by both clocks. */
struct bare_pass_times {
	double pass_s, logits_s, phone_pass_s, phone_logits_s;
};

/*
 * Run it and compute the logits [sequences * rows][n_vocab] of all rows. The
 * first row of each sequence is kept. *times grows by what it took.
 */
int tandem_bare_pass(struct tandem *, const struct bare_pass *, float *logits,
	struct bare_pass_times *times, struct err *);

/* From now on the phone's CPU computes all passes (session_price_by_cpu). */
void tandem_price_by_cpu(struct tandem *);

/* Wait until flash has read ahead all that it may. */
int tandem_read_ahead(struct tandem *, struct err *);

/* ---- the same model in one process ---- */

/* The model of a handle, computed by this process alone with the same kernels,
 * for comparison with the pair. Before the pair is started; closed before the
 * handle. */
int lone_model_open(struct draft_model **out, const struct tandem *,
	uint32_t context, uint32_t threads, struct err *);
/* Append n tokens to the first `length` of those it has, with logits. */
int lone_model_read(struct draft_model *, uint32_t length, const int32_t *token,
	size_t n, struct err *);
void lone_model_close(struct draft_model *);

/* ---- the device process without a model ---- */

/* A device process that was started and greeted. It gets the CPU affinity of
 * the caller. */
int device_link_open(
	struct device_link **out, const struct wire_hello *, struct err *);
/* Where packets go to and come from; the link's. */
struct channel *device_link_channel(const struct device_link *);
/* Say goodbye, and end the process; NULL is nothing. */
void device_link_close(struct device_link *);

/* ---- requests that are measured ---- */

/* For those who put the same options to many methods: options that name a thing
 * which the method among them has no use for return to their defaults. */
void tandem_drop_needless(struct opt_values *);

struct measured_text {
	/* The text that will be generated, its prompt first, for drafters that
	 * must know the text; NULL: plain decoding finds out. */
	const int32_t *known;
	size_t n_known;
	/* Called after all preparation, with nothing in flight and the prompt
	 * not yet read; not 0 ends the call. */
	int (*ready)(void *arg, struct err *);
	void *arg;
};

/* tandem_generate, but nothing is added to a history: 0 or -errno. */
int tandem_measure(struct tandem *, const struct tandem_request *,
	const struct measured_text *, struct err *);

/* The file of method lever's exit head, once the model is read; NULL: it prunes
 * nothing, or is another method. */
const char *tandem_exit_path(const struct tandem *);

/* What method lever has learnt about its passes and drafts: a copy, for free().
 * NULL: no memory. */
struct lever_lessons *tandem_lessons(const struct tandem *);
/* Method lever starts from those, learns nothing more, and prunes every tree.
 * Then a tree depends on the text before it alone. */
void tandem_freeze(struct tandem *, const struct lever_lessons *);

/* ---- samples of the last request, again: tandem_samples.c ---- */

/* Their tokens, for free(). NULL: no memory. */
struct samples_script *tandem_record(const struct tandem *);

/* Samples of later requests get these tokens, and none is drawn; the script is
 * borrowed and has at least as many samples. NULL: they are drawn again. Not
 * for methods that fork samples. */
void tandem_replay(struct tandem *, const struct samples_script *);

/* The first sample that has other tokens than the script; their number where
 * all have the same. */
uint32_t tandem_compare(const struct tandem *, const struct samples_script *);

/*
 * Which of the first n samples the method of these options would have chosen
 * of them alone, into *chosen. All have ended, and their steps have scores if
 * the method needs a reward.
 */
int tandem_choose(struct tandem *, const struct opt_values *, uint32_t n,
	uint32_t *chosen, struct err *);

/* ---- counters and scores ---- */

/* The hash of logits (session_stats) begins anew. */
void tandem_hash_anew(struct tandem *);

/* -EDOM, and a sentence, where logits or weights so far were infinite or no
 * number. */
int tandem_check_finite(const struct tandem *, struct err *);

/* Before the model is read: solutions will be scored, by that reward (NULL: as
 * the options say). */
void tandem_want_reward(struct tandem *, const char *name);

/* Scores of n texts, by that reward. */
int tandem_score(
	struct tandem *, struct reward_text *, unsigned n, struct err *);

/* Who scores for the reward "exact", from now on; NULL: nobody. Of other
 * rewards, and without one, nothing happens. */
void tandem_report_reward(struct tandem *, reward_function *, void *arg);

#endif
