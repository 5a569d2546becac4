/*
 * A decoder: a model, its tokenizer, the session it runs in, the method that
 * decodes and what the method needs beside them (a draft model), opened
 * together by name. What `tandem run`, `tandem eval` and
 * `tandem bench lever` stand on. One thread.
 */
#ifndef HOST_API_DECODER_H
#define HOST_API_DECODER_H

#include "host/draft/drafting.h"
#include "host/method/method.h"
#include "host/session/session.h"

#include <limits.h>
#include <stdbool.h>

struct draft_model;
struct err;
struct generation;
struct model;
struct token_list;
struct tokenizer;

struct decoder {
	const struct method *method;
	char model_path[PATH_MAX];
	char exit_path[PATH_MAX]; /* "" without an exit predictor */
	struct model *model;
	struct tokenizer *tokenizer;
	struct drafting drafting;
	struct session *session;
	struct session_opts session_opts; /* as opened */
	/* The lengths, as drafting.opts, are the caller's to set before
	 * decoder_open_model. */
	struct method_env env;
	bool prune; /* likewise: with an exit predictor, where there is one */
};

/* The files of a decoder; NULL: what comes with the program. */
struct decoder_files {
	const char *model; /* the target or, for a diffusion method, that */
	const char *draft; /* where the method needs one */
	/* Of the target, where the method has a use for it and decoder.prune
	 * says so; one that comes with the program and is none for this target
	 * is left out. */
	const char *exit;
};

/*
 * -EINVAL where model and method, or model and another file, do not fit. The
 * decoder starts zeroed; it is closed whatever this returns.
 */
int decoder_open_model(struct decoder *, const struct method *,
	const struct decoder_files *, struct err *);

/*
 * Start the pair. What the method wants is added: the rows of its decode
 * graph, and to a context_need that is not 0 the positions that hold rows
 * which may not be accepted.
 */
int decoder_open_session(
	struct decoder *, const struct session_opts *, struct err *);

/*
 * Put the token that begins a text before a prompt: where the model wants it,
 * but not twice (special tokens in the prompt may begin with it), and where an
 * empty prompt would leave nothing to continue. Never EOS, which some
 * vocabularies ask for at the end of a text: this text is about to go on.
 */
int decoder_add_bos(const struct decoder *, struct token_list *, struct err *);

/* Run the method on a generation, from an empty cache. An oracle must have been
 * told the text (decoder_rehearse, or drafting_tell). */
int decoder_run(struct decoder *, struct generation *, struct err *);

/*
 * Where an oracle drafts: find out what plain decoding makes of the generation,
 * which stays as it is, and tell it. Else nothing happens. *before (may be
 * NULL) are the session's counters behind it.
 */
int decoder_rehearse(struct decoder *, const struct generation *,
	struct session_stats *before, struct err *);

/* Ends the pair: 0, or what session_close says. Closes what is open. */
int decoder_close(struct decoder *, struct err *);

#endif
