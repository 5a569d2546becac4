/*
 * A decoder: a model with its tokenizer, the session that runs the model, and
 * the decoding method. If the method needs them, also a drafter (which proposes
 * tokens), a history (a file of earlier answers), and a reward model (which
 * scores solutions). All of these are opened together from options. A handle of
 * the library (host/api/tandem.h) consists of a decoder and its requests. All
 * calls must be made on one thread.
 */
#ifndef HOST_API_DECODER_H
#define HOST_API_DECODER_H

#include "base/opt.h"
#include "base/strbuf.h"
#include "host/api/profile.h"
#include "host/api/report.h"
#include "host/draft/drafting.h"
#include "host/scheduler/method.h"
#include "host/session/session.h"
#include "host/tree/pass_cost.h"
#include "tensor/soc/soc.h"

#include <limits.h>
#include <stdbool.h>

struct err;
struct generation;
struct history;
struct model;
struct prefixes;
struct reward;
struct token_list;
struct tokenizer;

struct decoder {
	/* the caller's options, but with the value of --draft that the method
	 * has composed (method->compose) */
	struct opt_values options;
	/* memory of the value of --draft that the method has composed */
	struct strbuf draft;
	const struct method *method;
	char model_path[PATH_MAX];
	struct model *model;
	struct tokenizer *tokenizer;
	struct history *history; /* NULL if there is none */
	/* whether the text of the last request was added to the history */
	bool kept;
	/* Whether decoder_open_model opens a reward model, which scores
	 * solutions. True if the method needs a reward model; a caller may also
	 * set this member before the call. */
	bool wants_reward;
	/* name of the reward model that is opened; NULL: the name in the
	 * options */
	const char *reward_name;
	struct reward *reward;
	struct drafting drafting;
	/* KV caches of ended requests, for later prompts that begin with the
	 * same tokens; NULL if none are kept */
	struct prefixes *prefixes;
	struct session *session;
	/* whether the costs of passes were measured, read from a file, or
	 * neither (PROFILE_NONE) */
	enum profile_from profile;
	/* profile_path: path of the file with measured costs of passes (NULL if
	 * there is none). profile_cost: the costs in this file. */
	char *profile_path;
	struct pass_cost profile_cost;
	/* the session's counters directly after the costs of passes were
	 * measured */
	struct session_stats probed;
	/* until the session is opened, the session options as requested;
	 * afterwards, the session options as used */
	struct session_opts session_opts;
	/* profile of the simulated phone; session_opts.soc points to this
	 * profile */
	struct soc soc;
	/* The largest number of tokens that a request will generate; 0 if this
	 * number is not known before the session is opened. */
	uint32_t tail;
	struct method_env env;
};

/*
 * Copy and check the options. The decoder must be zeroed before the call, must
 * not be moved afterwards, and must be closed even if the call fails. Returns
 * 0, or -EINVAL for an unknown method, for options that the method does not
 * use, and for invalid combinations of options.
 */
int decoder_set_options(
	struct decoder *, const struct opt_values *options, struct err *);

/* Reset all options that the method does not use to their defaults, for
 * programs that run many methods with the same options. */
void decoder_drop_needless(struct opt_values *, const struct method *);

/* Whether the method delivers many tokens at a time: true for diffusion methods
 * and for methods that choose among samples. For these methods, the time of the
 * first token is not the time at which prefill ends. */
bool decoder_emits_at_once(const struct decoder *);

/* Set d->model_path to the file that `path` names. NULL names the bundled model
 * for the method; the name of a bundled model is also valid. Does not open the
 * file. */
int decoder_find_model(struct decoder *, const char *path, struct err *);

/*
 * Open the model at `path` (NULL: the bundled model) and the other files that
 * the method needs. Returns 0, -EINVAL if the files do not fit each other or
 * the method, or another negative errno.
 */
int decoder_open_model(struct decoder *, const char *path, struct err *);

/*
 * Estimate the memory that decoder_open_session with these options takes, in
 * bytes: the weights that stay in memory, the key-value cache, activations and
 * staging slots, which are buffers for layers that are read from flash
 * (session_need), and draft models with their caches. Not included: reward
 * models, the exit predictor (a file with which the method lever prunes draft
 * trees), histories, and the pages of model files that the kernel may drop.
 */
int decoder_need(struct decoder *, const struct session_opts *, uint64_t *bytes,
	struct err *);

/*
 * Open the session, which starts the device process. The call copies the
 * options to d->session_opts and sets in this copy the options that depend on
 * the method, such as decode_rows: the number of rows (tokens) of the compute
 * graph for passes that generate tokens. If context_need (the number of
 * positions that requests need) is not 0, the call increases it in the copy by
 * the number of positions for rejected draft tokens.
 */
int decoder_open_session(
	struct decoder *, const struct session_opts *, struct err *);

/* Returns `requested`, or the method's default temperature if `requested` is
 * NAN. */
double decoder_temperature(const struct decoder *, double requested);

/* Whether the method drafts, either because it always drafts or because --draft
 * was set. */
bool decoder_drafts(const struct decoder *);

/* Whether requests can share passes. If not, requests run one after another. */
bool decoder_shares(const struct decoder *);
/* The largest number of requests that run at the same time: 1 if requests
 * cannot share passes. */
uint32_t decoder_texts(const struct decoder *);
/* Whether requests in shared passes have samples (host/scheduler/samples.h).
 * False if a request would have only one sample and the method is lossless;
 * such a request uses plain decoding. */
bool decoder_has_samples(const struct decoder *);
/* The largest number of lanes (sequences that are decoded together) in a shared
 * pass. */
uint32_t decoder_lanes(const struct decoder *);

/*
 * Simulated times may be computed for a shape (the sizes of a model's layers)
 * that is not the shape of the model that runs. If so, write this shape, the
 * phone and the model that runs to `text` (`priced_as` in report.h). Otherwise
 * `text` is "".
 */
void decoder_priced_as(const struct decoder *, char text[TANDEM_PRICED_AS]);

/*
 * Insert a beginning-of-text token at the start of a prompt if the prompt is
 * empty, or if the model wants this token and the prompt does not begin with
 * it. The key tokenizer.ggml.add_eos_token of the model file is ignored,
 * because the model continues the prompt.
 */
int decoder_add_bos(const struct decoder *, struct token_list *, struct err *);

/*
 * Caching for requests that run one after another; each of them is decoded in
 * the session's first sequence, SESSION_TEXT. decoder_begin_text replaces this
 * sequence by one that already holds the longest cached prefix of the prompt,
 * but never the prompt's last token. With the option keep=N (keep the caches of
 * N ended requests), decoder_keep_text gives a fork of the sequence to the
 * prefix cache, for later requests. Without the option, decoder_keep_text does
 * nothing.
 */
int decoder_begin_text(
	struct decoder *, const struct generation *, struct err *);
void decoder_keep_text(struct decoder *, const struct generation *);

/*
 * Add the generated text to the history if the text ended with EOS and the
 * history is not frozen, and set d->kept. Must be called after the request has
 * ended, so that the time for writing the file does not count as decoding time.
 */
int decoder_keep(struct decoder *, const struct generation *, struct err *);

/* If the drafter is an oracle (which simulates drafts, so it must know the text
 * in advance), run plain decoding on a copy of the generation. The drafter gets
 * the resulting text. Does nothing for other drafters. */
int decoder_prepare_oracle(
	struct decoder *, const struct generation *, struct err *);

/* Stop the device process and close everything. Returns 0, or the error of
 * session_close. */
int decoder_close(struct decoder *, struct err *);

#endif
