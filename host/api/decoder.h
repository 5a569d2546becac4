/*
 * A decoder: a model, its tokenizer, the session it runs in, the method that
 * decodes and what the method needs beside them (a draft model), opened
 * together by name. What `tandem run`, `tandem eval` and
 * `tandem bench lever` stand on. One thread.
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
	struct opt_values options; /* as asked, but --draft as it is meant */
	struct strbuf draft;       /* what that refers to, if composed */
	const struct method *method;
	char model_path[PATH_MAX];
	struct model *model;
	struct tokenizer *tokenizer;
	struct history *history; /* NULL: none was asked for */
	bool kept;               /* the last text, in it */
	/* What scores solutions, where the method needs it or somebody else
	 * wants it, who says so before the model is opened. */
	bool wants_reward;
	const char *reward_said; /* NULL: as the options say */
	struct reward *reward;
	struct drafting drafting;
	struct prefixes *prefixes; /* NULL: nothing is kept */
	struct session *session;
	enum profile_from profile;   /* what was known before the first text */
	struct session_stats probed; /* of the session, what that took; 0 */
	struct session_opts session_opts; /* as asked, then as opened */
	struct soc soc;                   /* that they may refer to */
	/* Tokens that a text adds to its prompt at most, where that is known
	 * before the session is opened; 0: not. */
	uint32_t tail;
	struct method_env env;
};

/*
 * What the decoder is to do, copied; it starts zeroed, stays where it is, and
 * is closed whatever this returns. -EINVAL for a method that is none, with
 * those that are, and for what the method has no use for or cannot be meant.
 */
int decoder_ask(
	struct decoder *, const struct opt_values *options, struct err *);

/* For those who put the same options to many methods: what names a thing that
 * this one has no use for goes back to its default. */
void decoder_drop_needless(struct opt_values *, const struct method *);

/* Whether many tokens come at a time: with diffusion, and with samples of which
 * one is chosen at the end. The first one does not end the prefill then. */
bool decoder_emits_at_once(const struct decoder *);

/* Only finds it: d->model_path. */
int decoder_find_model(struct decoder *, const char *path, struct err *);

/*
 * The model of that path (NULL: the one that comes with the program) and the
 * files that the method takes beside it. -EINVAL where they do not fit one
 * another, or the method.
 */
int decoder_open_model(struct decoder *, const char *path, struct err *);

/*
 * Start the pair, by session_opts that the caller may have changed. What the
 * method wants is added: the rows of its decode graph, and to a context_need
 * that is not 0 the positions that hold rows which may not be accepted.
 */
int decoder_open_session(
	struct decoder *, const struct session_opts *, struct err *);

/* `said`, or where that is NAN what the method draws by. */
double decoder_temperature(const struct decoder *, double said);

/* Whether something drafts: it must, or it may and was asked to. */
bool decoder_drafts(const struct decoder *);

struct texts_options;
const struct texts_options *decoder_texts(const struct decoder *);

/* Whether its texts can share passes; else each is written by the method. */
bool decoder_shares(const struct decoder *);
/* Whether a text that shares passes has samples (host/method/samples.h): one
 * sample that nothing is chosen among is plain decoding. */
bool decoder_has_samples(const struct decoder *);
/* Lanes of a pass that texts share, at most. */
uint32_t decoder_lanes(const struct decoder *);

/* priced_as of a report. */
void decoder_priced_as(const struct decoder *, char text[TANDEM_PRICED_AS]);

/*
 * Put the token that begins a text before a prompt: where the model wants it,
 * but not twice (special tokens in the prompt may begin with it), and where an
 * empty prompt would leave nothing to continue. Never EOS, which some
 * vocabularies ask for at the end of a text: this text is about to go on.
 */
int decoder_add_bos(const struct decoder *, struct token_list *, struct err *);

/* SESSION_TEXT holds what is cached of a prompt, its last token left out; what
 * it holds of a text stays cached where texts are kept, and leaves it empty. */
int decoder_begin_text(
	struct decoder *, const struct generation *, struct err *);
void decoder_keep_text(struct decoder *, const struct generation *);

/*
 * Behind a run: where there is a history that is not frozen, and the model
 * itself ended the text, it is kept, and d->kept is true. No part of the run,
 * because what a disk takes is no part of decoding.
 */
int decoder_keep(struct decoder *, const struct generation *, struct err *);

/*
 * Where an oracle drafts: find out what plain decoding makes of the generation,
 * which stays as it is, and tell it. Else nothing happens.
 */
int decoder_rehearse(struct decoder *, const struct generation *, struct err *);

/* Ends the pair: 0, or what session_close says. Closes what is open. */
int decoder_close(struct decoder *, struct err *);

#endif
