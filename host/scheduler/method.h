/*
 * The interface of a decoding method. A method is a set of functions (steps)
 * that the scheduler (host/scheduler/scheduler.h) calls before, during and
 * after each pass. The scheduler runs the passes. host/method/methods.h lists
 * all methods.
 *
 * A pass is one forward computation of the model over a batch of rows; a row is
 * one token at one position of a sequence. A method passes its tokens to a
 * generation (host/text/generation.h), which holds the prompt and all generated
 * tokens, draws tokens from logits, emits text, and decides when to stop.
 * Methods open no files and parse no command lines.
 */
#ifndef HOST_SCHEDULER_METHOD_H
#define HOST_SCHEDULER_METHOD_H

#include "base/opt.h"
#include "host/scheduler/method_stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct chooser;
struct cycle;
struct denoising_steps;
struct drafter;
struct drafting;
struct err;
struct generation;
struct model;
struct pass_cost;
struct reward;
struct sample;
struct samples;
struct samples_script;
struct session;
struct soc;
struct strbuf;

struct method;

/* The objects that a method uses besides the session. */
struct method_env {
	const struct method *method;
	const struct opt_values *options; /* NULL means all defaults */
	/* the method's state: method->state_bytes bytes, allocated by
	 * method_open */
	void *state;
	struct drafter *drafter; /* NULL if nothing drafts */
	/* Opens further drafters if several requests run at once; NULL if
	 * nothing drafts. */
	struct drafting *drafting;
	/* the reward model; NULL if the method needs none */
	struct reward *reward;
	/* maximum length of a drafted chain; 0 means no limit */
	uint32_t draft_length;
	bool streams; /* some layers are streamed from flash */
	/* simulated phone whose clock the cost models use; NULL means that they
	 * use the wall clock */
	const struct soc *phone;
	/* counters, summed over all runs of the method */
	struct method_stats stats;
	struct draft_positions positions;
	/* If not NULL, the tokens of samples are taken from this script instead
	 * of drawn. */
	const struct samples_script *script;
};

/* Kinds of models, by the positions to which a position attends. */
enum method_models {
	METHOD_CAUSAL = 1, /* itself and earlier positions */
	METHOD_WINDOW = 2, /* all positions */
	METHOD_BLOCK = 4,  /* its block and earlier positions */
};

/* returned by many_steps.next: the request's answer is chosen */
#define MANY_DONE 1
/* returned by samples_next: samples must be scored before the method can
 * continue */
#define MANY_SCORE 2

/*
 * The steps of a method that decodes many samples per request
 * (host/scheduler/samples.h). The scheduler calls them between passes; no step
 * runs a pass.
 */
struct many_steps {
	/* size of the method's state for a request (samples_own); all bytes are
	 * zero at first */
	size_t bytes;
	/* Adds the first samples. */
	int (*begin)(struct samples *, struct err *);
	/*
	 * For a method with a reward model: called before `next` (then
	 * `waiting` is true) and before `between`. Writes to out[], which has
	 * room for all samples, the samples that must be scored before that
	 * call, and returns their number. The reward model scores the samples
	 * of all requests in shared passes. May be NULL.
	 */
	uint32_t (*to_score)(
		struct samples *, bool waiting, struct sample **out);
	/*
	 * Called when no sample is running. Adds or forks samples, resumes
	 * samples that wait, or chooses the answer. Returns 0 to continue,
	 * MANY_DONE if the answer is chosen, or a negative errno, which ends
	 * the request.
	 */
	int (*next)(struct samples *, struct err *);
	/*
	 * Called between passes while samples run; `rows` is the number of rows
	 * of the next pass that no running sample or request uses. May call
	 * samples_fork_early and samples_cut. May be NULL.
	 */
	int (*between)(struct samples *, uint32_t rows, struct err *);
	/* Called when the run is canceled. Chooses one of the existing samples
	 * as the answer. May be NULL. */
	void (*stop)(struct samples *);
	/* Called after this sample has drawn a token. May cut samples, but must
	 * not fork samples. May be NULL. */
	void (*drew)(struct samples *, struct sample *);
	/* Frees the memory to which the state `own` points. May be NULL. */
	void (*close)(void *own);
	/*
	 * Appends "; " and a short text for a progress display: which answer or
	 * sample is the best so far. NULL if the method does not choose a
	 * sample, or chooses only at the end.
	 */
	void (*tally)(const struct samples *, struct strbuf *);
	/* Appends a line about a finished request, for display. May be NULL. */
	void (*report)(const struct samples *, struct strbuf *);
};

struct method {
	const char *name;    /* such as "autoregressive" */
	const char *summary; /* one line for --help */
	bool lossless;       /* generates the tokens of plain decoding */
	bool needs_draft;
	bool needs_reward;
	/* the method also computes logits of rows from which no token is
	 * drawn */
	bool logits_ahead;
	bool diffusion; /* a diffusion method: replaces masks with tokens */
	/* kinds of models that the method can run: bits of enum method_models;
	 * 0 means METHOD_CAUSAL */
	unsigned runs;
	/*
	 * The option tables of the method, its own tables and shared tables,
	 * NULL-terminated; NULL if the method has no options. drafting_table is
	 * added for a method that can use a draft.
	 */
	const struct opt_table *const *options;
	/* Size of method_env.state. The state is zero at first and is freed by
	 * method_close. */
	size_t state_bytes;
	/*
	 * Writes to *draft, which is empty at the call, the names of the
	 * drafters to open. `given` is the value of --draft, or NULL if the
	 * option is absent. If `compose` is NULL, the drafters are those that
	 * --draft names.
	 */
	void (*compose)(const struct method_env *, const char *given,
		struct strbuf *draft);
	/* method_open calls `open`; method_close calls `close` if the method
	 * has a state. Each may be NULL. If `open` fails, `close` is called
	 * too, and must undo what `open` has done. */
	int (*open)(
		struct method_env *, const struct model *target, struct err *);
	void (*close)(struct method_env *);
	/* Number of rows of the decode graph, the NPU graph for passes that
	 * decode. */
	uint32_t (*decode_rows)(const struct method_env *);
	/*
	 * Maximum number of sequences that a request has at the same time, not
	 * counting the sequence of the prompt. NULL means that a request has
	 * only one sequence, SESSION_TEXT. A method with this function drafts
	 * trees (tree_options.h) for its sequences if --draft is given.
	 */
	uint32_t (*sequences)(const struct method_env *);
	/* Default temperature; NULL means 0. */
	double (*temperature)(const struct method_env *);
	/*
	 * How many layers, from the first layer on, compute all rows; after
	 * these layers the method may prune rows. NULL if the method never
	 * prunes.
	 */
	uint32_t (*exit_layers)(const struct method_env *);
	/*
	 * For a method that measures its cost model, which happens only if
	 * layers are streamed and no phone is simulated. `cost` returns the
	 * cost model, which is part of the method's state. `probe` measures the
	 * cost model before the first request; the result can be copied to
	 * another method_env. `cost` and `probe` may be NULL.
	 */
	struct pass_cost *(*cost)(const struct method_env *);
	int (*probe)(struct session *, struct method_env *, struct err *);
	/* Steps of a method with many samples; NULL if a request has one
	 * sequence. */
	const struct many_steps *many;
	/*
	 * How the method chooses among finished samples (choosing_steps,
	 * host/method/choosing.h). NULL if the method chooses no sample, or
	 * chooses one before all samples have finished.
	 */
	const struct chooser *chooser;
	/*
	 * The steps of a method that verifies drafts (host/scheduler/cycle.h).
	 * Each call concerns one request. The scheduler runs the passes; no
	 * step runs a pass. All steps may be NULL. Without a draft a request
	 * gets one token per pass.
	 *
	 *   start       Called once, after the prompt was read.
	 *   plan        Chooses the builder that grows the token tree of
	 *               the next pass (host/tree/build.h), within
	 *               cycle_limits.
	 *   grown       Called when the tree is complete; may set
	 *               cycle->exit and cycle->prune.
	 *   meanwhile   Called between two blocks of layers of the pass,
	 *               when the host would otherwise wait.
	 *   after_pass  Updates the method's state from the result of the
	 *               pass.
	 *
	 * A request has `lane_bytes` bytes of state (cycle->own), zero at
	 * first. Its tree has room for decode_rows + spare_nodes nodes, with
	 * `candidates` candidates per node. If spare_nodes is NULL there are no
	 * spare nodes; if `candidates` is NULL a node has as many candidates as
	 * --candidates sets.
	 */
	size_t lane_bytes;
	uint32_t (*spare_nodes)(const struct method_env *);
	uint32_t (*candidates)(const struct method_env *);
	void (*start)(struct cycle *);
	void (*plan)(struct cycle *);
	void (*grown)(struct cycle *);
	int (*meanwhile)(struct cycle *, struct err *);
	void (*after_pass)(struct cycle *);
	/* Steps of a diffusion method (host/scheduler/denoising.h), whose state
	 * also has lane_bytes bytes. NULL for any other method. */
	const struct denoising_steps *denoise;
	/* Appends a line about the method's statistics, for display. May be
	 * NULL. */
	void (*report)(const struct method_env *, struct strbuf *);
};

/*
 * Open a method: allocate its state and call its `open`. Before the call, all
 * members of the env must be zero except the members that the caller sets for
 * the method. Returns 0 or a negative errno. Call method_close in both cases;
 * method_close sets the env to zero.
 */
int method_open(struct method_env *, const struct method *,
	const struct model *target, struct err *);
void method_close(struct method_env *);

/*
 * Count a draft of n tokens. The target accepted `accepted` of them, one at
 * each of the depths 1 to `accepted`. depth[i] is the depth of the draft's
 * token i below the last token of the text; if `depth` is NULL, the draft is a
 * chain.
 */
void method_count_draft(struct method_env *, const uint32_t *depth, uint32_t n,
	uint32_t accepted);

/*
 * Generate the text of one request, which runs alone: no other request shares
 * its passes. Not for methods with many samples.
 *
 * The sequence SESSION_TEXT must be empty; for a causal model it may instead
 * hold the first tokens of the prompt, but not all of them. Afterwards
 * SESSION_TEXT holds the tokens of the text for which keys and values were
 * computed, and the session has no other sequence. Returns 0 or a negative
 * errno.
 */
int method_run(struct session *, struct generation *, struct method_env *,
	struct err *);

/* The values of one of the method's option tables; the table's defaults if no
 * options were given. */
static inline const void *method_options(
	const struct method_env *env, const struct opt_table *t)
{
	return env->options ? opt_values_of(env->options, t) : t->defaults;
}

/* Whether the method can use a draft. */
static inline bool method_may_draft(const struct method *m)
{
	return m->needs_draft || m->sequences;
}

static inline unsigned method_runs(const struct method *m)
{
	return m->runs ? m->runs : METHOD_CAUSAL;
}

/* Draw the next token with gen_next, and add the time of the draw to the
 * simulated phone's time. Returns the token. */
int32_t method_next(struct session *, struct generation *, const float *logits);

#endif
