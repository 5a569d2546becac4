/*
 * A decoder: a model, its tokenizer, the session it runs in, the method that
 * decodes and what the method needs beside them (a draft model), opened
 * together by name. What `tandem run` and `tandem eval` stand on. One thread.
 */
#ifndef HOST_DECODER_H
#define HOST_DECODER_H

#include "host/method/method.h"
#include "host/session.h"

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
	char draft_path[PATH_MAX]; /* "" without a draft model */
	struct model *model;
	struct tokenizer *tokenizer;
	struct model *draft_file;
	struct session *session;
	struct session_opts session_opts; /* as opened */
	/* The lengths are the caller's to set before decoder_open_session. */
	struct method_env env;
};

/*
 * model_path NULL: the target (or, for a diffusion method, the diffusion
 * model) that comes with the program. draft_path NULL: likewise, where the
 * method needs one. -EINVAL where model and method, or model and draft, do
 * not fit. The decoder starts zeroed; it is closed whatever this returns.
 */
int decoder_open_model(struct decoder *, const struct method *,
	const char *model_path, const char *draft_path, struct err *);

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

/* Run the method on a generation, from an empty cache. */
int decoder_run(struct decoder *, struct generation *, struct err *);

/* Ends the pair: 0, or what session_close says. Closes what is open. */
int decoder_close(struct decoder *, struct err *);

#endif
