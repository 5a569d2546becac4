/*
 * Bare passes of a handle's model: logits of tokens that are given, and scores
 * of solutions that are given; and the cost of a pass by its shapes. For
 * measurements, which generate nothing. One thread.
 */
#ifndef HOST_API_TANDEM_PASS_H
#define HOST_API_TANDEM_PASS_H

#include "host/head/reward_text.h"
#include "host/session/pass_price.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct session;
struct tandem;
struct token_list;

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
void tandem_tell_reward(struct tandem *, reward_function *, void *arg);

#endif
