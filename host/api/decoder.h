/*
 * A decoder: a model with its tokenizer, the session that runs it, the decoding
 * method, and what the method needs: a drafter, a history, a reward. All are
 * opened together from options. A handle of the library (host/api/tandem.h) is
 * a decoder and its requests. One thread.
 */
#ifndef HOST_API_DECODER_H
#define HOST_API_DECODER_H

#include "base/opt.h"
#include "base/strbuf.h"
#include "host/api/profile.h"
#include "host/api/report.h"
#include "host/draft/drafting.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "tensor/soc/soc.h"

#include <limits.h>
#include <stdbool.h>

struct draft_model;
struct err;
struct generation;
struct history;
struct model;
struct prefixes;
struct reward;
struct token_list;
struct tokenizer;

struct decoder {
	struct opt_values options; /* the caller's; --draft is complete */
	struct strbuf draft;       /* the memory of --draft, if completed */
	const struct method *method;
	char model_path[PATH_MAX];
	struct model *model;
	struct tokenizer *tokenizer;
	struct history *history; /* NULL: none */
	bool kept;               /* the last text was added to the history */
	/* A reward to score solutions: the method needs one, or a caller set
	 * wants_reward before the model is opened. */
	bool wants_reward;
	const char *reward_name; /* NULL: the options' */
	struct reward *reward;
	struct drafting drafting;
	struct prefixes *prefixes; /* caches of ended requests; NULL: none */
	struct session *session;
	enum profile_from profile;   /* where pass costs were taken from */
	struct session_stats probed; /* the session's counters after probing */
	struct session_opts session_opts; /* requested, then as opened */
	struct soc soc;                   /* session_opts.soc points here */
	/* The largest number of tokens that a request generates, if known
	 * before the session is opened; else 0. */
	uint32_t tail;
	struct method_env env;
};

/*
 * Copy and check the options. The decoder is zeroed before, is never moved
 * afterwards, and is closed whatever this returns. -EINVAL for an unknown
 * method, for options that the method does not use, and for invalid
 * combinations.
 */
int decoder_ask(
	struct decoder *, const struct opt_values *options, struct err *);

/* Reset options that the method would refuse to their defaults, for programs
 * that run many methods with the same options. */
void decoder_drop_needless(struct opt_values *, const struct method *);

/* Whether tokens are delivered many at a time, as by diffusion and by choosing
 * among samples. The first token then does not mark the end of prefill. */
bool decoder_emits_at_once(const struct decoder *);

/* Set d->model_path without opening the file. */
int decoder_find_model(struct decoder *, const char *path, struct err *);

/*
 * Open the model at that path (NULL: the bundled one) and the method's other
 * files. -EINVAL if they do not match each other or the method.
 */
int decoder_open_model(struct decoder *, const char *path, struct err *);

/*
 * Start the pair with d->session_opts, which the caller may have changed, and
 * with what the method adds: rows of its decode graph, and positions for rows
 * that are not accepted to a context_need that is not 0.
 */
int decoder_open_session(
	struct decoder *, const struct session_opts *, struct err *);

/* The requested temperature; for NAN the method's default. */
double decoder_temperature(const struct decoder *, double requested);

/* Whether the method drafts: always, or because --draft was given. */
bool decoder_drafts(const struct decoder *);

struct texts_options;
const struct texts_options *decoder_texts(const struct decoder *);

/* Whether requests can share passes; else the method runs them one by one. */
bool decoder_shares(const struct decoder *);
/* Whether a request in shared passes has samples (host/method/samples.h). A
 * single sample that is not chosen among others is plain decoding. */
bool decoder_has_samples(const struct decoder *);
/* The largest number of lanes in a shared pass. */
uint32_t decoder_lanes(const struct decoder *);

/* Write priced_as of struct tandem_report. */
void decoder_priced_as(const struct decoder *, char text[TANDEM_PRICED_AS]);

/*
 * Insert the beginning-of-text token before a prompt if the model wants it and
 * the prompt does not begin with it already, or if the prompt is empty.
 * tokenizer.ggml.add_eos_token is ignored, since the text is to be continued.
 */
int decoder_add_bos(const struct decoder *, struct token_list *, struct err *);

/* Load what is cached of a prompt, without its last token, into SESSION_TEXT.
 * decoder_keep_text keeps the cache of SESSION_TEXT with keep=N, and empties
 * the sequence. */
int decoder_begin_text(
	struct decoder *, const struct generation *, struct err *);
void decoder_keep_text(struct decoder *, const struct generation *);

/*
 * Add a text that ended with EOS to the history, unless that is frozen, and set
 * d->kept. Called after the request has ended, because writing a file is no
 * part of decoding.
 */
int decoder_keep(struct decoder *, const struct generation *, struct err *);

/*
 * For an oracle: run plain decoding on a copy of the generation and give the
 * text to the drafter. Does nothing for other drafters.
 */
int decoder_rehearse(struct decoder *, const struct generation *, struct err *);

/* End the pair and close everything: 0, or the result of session_close. */
int decoder_close(struct decoder *, struct err *);

#endif
