/*
 * Decoding methods. A method is one file in this directory that reads like its
 * algorithm and uses host/session/session.h; adding a method adds that file,
 * its test and one row of METHODS below.
 *
 * A generation (host/text/generation.h) is where a method puts its tokens: it
 * holds the prompt and all tokens so far, draws from logits, prints, and knows
 * when to stop. Methods see no text, files or command lines.
 */
#ifndef HOST_METHOD_METHOD_H
#define HOST_METHOD_METHOD_H

#include "base/opt.h"
#include "host/method/method_stats.h"

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

/* What a method works with, besides the session. */
struct method_env {
	const struct method *method;
	const struct opt_values *options; /* NULL: all defaults */
	void *state;                      /* [method->state_bytes] owned */
	struct drafter *drafter;          /* NULL: nothing drafts */
	/* Opens further drafters, for many requests; NULL: nothing drafts. */
	struct drafting *drafting;
	struct reward *reward; /* NULL unless needs_reward */
	uint32_t draft_length; /* of a drafted chain, at most; 0: any */
	bool streams;          /* some layers are streamed from flash */
	/* cost models use its time; NULL: the wall clock */
	const struct soc *phone;
	struct method_stats stats; /* summed over runs */
	struct draft_positions positions;
	/* The samples' tokens come from this script instead of being drawn;
	 * NULL: they are drawn. */
	const struct samples_script *script;
};

/* Models by their attention mask: what a position attends to. */
enum method_models {
	METHOD_CAUSAL = 1, /* itself and earlier positions */
	METHOD_WINDOW = 2, /* all positions */
	METHOD_BLOCK = 4,  /* its block and earlier positions */
};

#define MANY_DONE 1 /* the request's answer is chosen */

/* The steps of a method that decodes many samples of each request
 * (host/method/samples.h). They neither loop nor run passes. */
struct many_steps {
	/* of the method's state of a request (samples_own), zeroed at first */
	size_t bytes;
	/* Add the first samples. */
	int (*begin)(struct samples *, struct err *);
	/*
	 * No sample is running any more: add or fork samples, resume waiting
	 * ones, or choose the answer. 0, MANY_DONE, or -errno, which ends the
	 * request. -ECANCELED leaves everything as it is, so that the step can
	 * be repeated.
	 */
	int (*next)(struct samples *, struct err *);
	/* The run was canceled: choose among the samples so far. May be
	 * NULL. */
	void (*stop)(struct samples *);
	/* A sample drew a token. May cut samples, but not fork any. May be
	 * NULL. */
	void (*drew)(struct samples *, struct sample *);
	/* Free what `own` points to. May be NULL. */
	void (*close)(void *own);
	/* Append "; " and a short description of the current choice, for a
	 * progress display. NULL: nothing is chosen, or only at the end. */
	void (*tally)(const struct samples *, struct strbuf *);
	/* Append a line about a finished request, for display. May be NULL. */
	void (*report)(const struct samples *, struct strbuf *);
};

struct method {
	const char *name;    /* "autoregressive" */
	const char *summary; /* one line for --help */
	bool lossless;       /* same tokens as plain decoding */
	bool needs_draft;
	bool needs_reward;
	/* computes logits of more rows than it emits tokens */
	bool logits_ahead;
	bool diffusion; /* fills blocks of masks */
	/* which models it can run: enum method_models; 0: METHOD_CAUSAL */
	unsigned runs;
	/* Its own option tables and shared ones, NULL-terminated; NULL: none. A
	 * method that needs a draft also has drafting_table. */
	const struct opt_table *const *options;
	/* Bytes of method_env.state, which lives as long as the env; zeroed. */
	size_t state_bytes;
	/* Write the drafters to open to *draft, which is empty, where the
	 * option --draft is `given` (NULL: it is absent). NULL: `given` is used
	 * as it is. */
	void (*compose)(const struct method_env *, const char *given,
		struct strbuf *draft);
	/* May be NULL. close() must undo a partial open() too. */
	int (*open)(
		struct method_env *, const struct model *target, struct err *);
	void (*close)(struct method_env *);
	/* Rows of the decode graph. */
	uint32_t (*decode_rows)(const struct method_env *);
	/* Sequences besides the prompt's that have tokens of their own at the
	 * same time. NULL: only SESSION_TEXT is used. A method that has some
	 * drafts trees (tree_options.h) where --draft is given. */
	uint32_t (*sequences)(const struct method_env *);
	/* Default temperature; NULL: 0. */
	double (*temperature)(const struct method_env *);
	/* Layer after which the method may prune rows; NULL: it never does. */
	uint32_t (*exit_layers)(const struct method_env *);
	/*
	 * For a method with a cost model that is measured where layers are
	 * streamed and the wall clock is used: the model, which is part of the
	 * state; and a probe that measures it before the first request, so that
	 * another env can be given the result. Both may be NULL.
	 */
	struct pass_cost *(*cost)(const struct method_env *);
	int (*probe)(struct session *, struct method_env *, struct err *);
	/* Steps of a method with many samples; NULL: a request has one
	 * sequence. */
	const struct many_steps *many;
	/* How the method chooses among finished samples (choosing_steps,
	 * host/method/choosing.h). NULL: it does not choose, or chooses
	 * earlier. */
	const struct chooser *chooser;
	/*
	 * The steps of a method that verifies drafts, for one request each
	 * (host/method/cycle.h). They neither loop nor run passes. All may be
	 * NULL: without a draft a lane decodes one token in each pass.
	 *
	 *   start       once, after the prompt was read
	 *   plan        chooses the builder that grows the token tree of the
	 *               next pass (host/tree/build.h), within cycle_limits
	 *   grown       the tree is complete: decides what depends on all of it
	 *   meanwhile   between two blocks of the pass, while the host has time
	 *   after_pass  learns from the pass
	 *
	 * A request has `lane_bytes` of state (cycle->own), zeroed at first,
	 * and a tree with room for decode_rows + spare_nodes nodes, with
	 * `candidates` for each node. NULL: no spare nodes; the option
	 * --candidates.
	 */
	size_t lane_bytes;
	uint32_t (*spare_nodes)(const struct method_env *);
	uint32_t (*candidates)(const struct method_env *);
	void (*start)(struct cycle *);
	void (*plan)(struct cycle *);
	void (*grown)(struct cycle *);
	int (*meanwhile)(struct cycle *, struct err *);
	void (*after_pass)(struct cycle *);
	/* Steps of a diffusion method (host/method/denoising.h), which has
	 * lane_bytes too; else NULL. */
	const struct denoising_steps *denoise;
	/* Append a line about the method's statistics, for display. May be
	 * NULL. */
	void (*report)(const struct method_env *, struct strbuf *);
};

/* Open a method. The env is zeroed but for its options; its state is allocated
 * and opened. Call method_close whatever this returns; it zeroes the env. */
int method_open(struct method_env *, const struct method *,
	const struct model *target, struct err *);
void method_close(struct method_env *);

/* Count a draft of n tokens: depth[i] is the depth of the i-th below the last
 * token of the text (NULL: a chain), and `accepted` of them were right, one at
 * each depth from 1 on. */
void method_count_draft(struct method_env *, const uint32_t *depth, uint32_t n,
	uint32_t accepted);

/*
 * Generate for one request, in passes of its own, as the only lane
 * (host/method/lanes.h); for methods without many samples. SESSION_TEXT is
 * empty or, for a causal model, holds a beginning of the prompt that is shorter
 * than the prompt. Afterwards it holds the tokens of the text, as far as they
 * were computed, and no other sequence exists.
 */
int method_run(struct session *, struct generation *, struct method_env *,
	struct err *);

/* The values of one of the method's option tables. */
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

/* Whether the method uses the options of this table. */
bool method_uses(const struct method *, const struct opt_table *);

/* The i-th of the option tables of all methods, each of them once; NULL: no
 * more (an opt_tables). */
const struct opt_table *method_table(size_t i);

/* All methods, NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

/* One row for each method, in the order of the help. */
#define METHODS(row)                                                           \
	row(autoregressive) row(flash_ar) row(sample) row(best_of_n) row(vote) \
		row(weighted_vote) row(self_certainty) row(mean_logprob) row(  \
			beam) row(dvts) row(llada) row(block) row(dream)       \
			row(fast_dllm) row(multi_block) row(llada_npu)         \
				row(linear_spec) row(chain) row(specinfer)     \
					row(opt_tree) row(eagle2_tree)         \
						row(edgellm) row(lever)        \
							row(sdnpu)

#define METHOD_DECLARED(name) extern const struct method method_##name;
METHODS(METHOD_DECLARED)

/* session_prefill of the part of the prompt that SESSION_TEXT does not hold. */
int method_prefill(struct session *, const struct generation *,
	uint32_t *last_row, struct err *);

/* gen_next; charges the phone for the draw from n_vocab logits. */
int32_t method_next(struct session *, struct generation *, const float *logits);

#endif
