/*
 * Decoding methods. A method is one file here that reads like its algorithm,
 * standing on host/session/session.h; adding one touches that file, its test
 * and one row of the table in method.c.
 *
 * The generation is what a method produces into: it holds the prompt and all
 * tokens so far, draws from logits, prints, and knows when to stop. Methods
 * never see text, files or options.
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

/* What a method works with beside the session. */
struct method_env {
	const struct method *method;
	const struct opt_values *options; /* NULL: all by default */
	void *state;                      /* the method's own; owned */
	struct drafter *drafter;          /* NULL where nothing drafts */
	/* Who opens more of them, for many texts; NULL likewise. */
	struct drafting *drafting;
	struct reward *reward;     /* NULL unless needs_reward */
	uint32_t draft_length;     /* of its chains at most; 0: any */
	bool streams;              /* some layers come from flash */
	const struct soc *phone;   /* schedules go by its time; NULL: wall */
	struct method_stats stats; /* added up over runs */
	struct draft_positions positions; /* likewise */
	/* Their tokens are known, and none is drawn; NULL: they are not. */
	const struct samples_script *script;
};

/* Models by what a position sees. */
enum method_models {
	METHOD_CAUSAL = 1, /* itself and what is before it */
	METHOD_WINDOW = 2, /* all others */
	METHOD_BLOCK = 4,  /* its block and what is before that */
};

#define MANY_DONE 1 /* the request's text is chosen */

/*
 * The steps of a method that decodes many samples of each request
 * (host/method/samples.h). They neither loop nor run passes. NULL where nothing
 * is said of that.
 */
struct many_steps {
	size_t bytes; /* of the method's own for a request, zeroed at first:
		       * samples_own */
	/* Add the first samples. */
	int (*begin)(struct samples *, struct err *);
	/*
	 * No sample goes on any more: add or fork others, resume those that
	 * wait, or choose the text. 0, MANY_DONE, or -errno, which ends the
	 * request; -ECANCELED leaves all as it is, so that the step can be
	 * taken again.
	 */
	int (*next)(struct samples *, struct err *);
	/* The run was canceled: choose from what there is. May be NULL. */
	void (*stop)(struct samples *);
	/* A sample drew a token; may cut samples, but not fork. May be NULL. */
	void (*drew)(struct samples *, struct sample *);
	/* Free what `own` points to. May be NULL. */
	void (*close)(void *own);
	/* Append "; " and in a few words how the choice stands, for people who
	 * wait. NULL: nothing is chosen, or not before the end. */
	void (*tally)(const struct samples *, struct strbuf *);
	/* A line about a request, for people. May be NULL. */
	void (*tell)(const struct samples *, struct strbuf *);
};

struct method {
	const char *name;    /* "autoregressive" */
	const char *summary; /* one line for --help */
	bool lossless;       /* same tokens as plain decoding */
	bool needs_draft;
	bool needs_reward; /* host/head/reward.h */
	bool logits_ahead; /* computes more of them than it emits tokens */
	bool diffusion;    /* fills masks, whole blocks of them */
	unsigned runs;     /* enum method_models; 0: METHOD_CAUSAL */
	/* Its own options and those it shares, beside drafting_table where it
	 * needs a draft; NULL-terminated, NULL: none. */
	const struct opt_table *const *options;
	/* What it keeps from run to run: so many bytes, zeroed. */
	size_t state_bytes;
	/* What --draft means to it where `said` was said, NULL: nothing; added
	 * to the empty *draft. NULL: just that. */
	void (*compose)(const struct method_env *, const char *said,
		struct strbuf *draft);
	/* NULL: nothing to open or to close. close() undoes whatever open()
	 * came to. */
	int (*open)(
		struct method_env *, const struct model *target, struct err *);
	void (*close)(struct method_env *);
	/* Rows of the decode graph it wants. */
	uint32_t (*decode_rows)(const struct method_env *);
	/* Sequences, beside the prompt's, that hold a tail of their own at a
	 * time; NULL: it has none but SESSION_TEXT. Who has some is drafted for
	 * where --draft is said, by trees as tree_options.h has them. */
	uint32_t (*sequences)(const struct method_env *);
	/* The temperature that is drawn by where nobody says one; NULL: 0. */
	double (*temperature)(const struct method_env *);
	/* Layers behind which it may drop rows; NULL: never. */
	uint32_t (*exit_layers)(const struct method_env *);
	/*
	 * Of one that weighs what passes take, and learns it where a text is
	 * streamed by the wall clock: what it knows, which is the state's; and
	 * to find it out before there is a text, whatever that takes, so that
	 * another env of the like can be told it. NULL, both: it does not.
	 */
	struct pass_cost *(*cost)(const struct method_env *);
	int (*probe)(struct session *, struct method_env *, struct err *);
	/* Its requests have many samples; NULL: they are one text each. */
	const struct many_steps *many;
	/* How it chooses among samples once all are written, by choosing_steps
	 * (host/method/choosing.h); NULL: it does not, or earlier. */
	const struct chooser *chooser;
	/*
	 * The steps of a method whose requests are lanes, for one request each
	 * (host/method/cycle.h). They neither loop nor run passes. All may be
	 * NULL: without a draft a lane decodes one token in each pass.
	 *
	 *   start   once, when the prompt is read
	 *   plan    chooses the builder that grows the token tree of the next
	 *           pass (host/tree/build.h), within cycle_limits
	 *   grown   the tree is complete: what else the plan depends on
	 *   beside  between two blocks of the pass, while the host has time
	 *   took    learns from the pass
	 *
	 * A request has `lane_bytes` of the method's own, zeroed at first
	 * (cycle->own), and a tree with room for decode_rows nodes and
	 * `spare_nodes` more, with `candidates` behind each; where NULL: none,
	 * and as --candidates says.
	 */
	size_t lane_bytes;
	uint32_t (*spare_nodes)(const struct method_env *);
	uint32_t (*candidates)(const struct method_env *);
	void (*start)(struct cycle *);
	void (*plan)(struct cycle *);
	void (*grown)(struct cycle *);
	int (*beside)(struct cycle *, struct err *);
	void (*took)(struct cycle *);
	/* Those of a method that fills masks (host/method/denoising.h), which
	 * has lane_bytes too; NULL: it does not. */
	const struct denoising_steps *denoise;
	/* A line more about what it has and did, for people; NULL: none. */
	void (*tell)(const struct method_env *, struct strbuf *);
};

/*
 * The env of a method, zeroed but for its options: the state is made and
 * opened. To be closed whatever this returns; then it is zeroed again.
 */
int method_open(struct method_env *, const struct method *,
	const struct model *target, struct err *);
void method_close(struct method_env *);

/* What became of a draft of n tokens, the i-th of which stands depth[i] behind
 * the text's last (NULL: a chain); of the way that was right, as many were. */
void method_count_draft(struct method_env *, const uint32_t *depth, uint32_t n,
	uint32_t accepted);

/*
 * One request of a method without many samples, in passes of its own, as the
 * only lane (host/method/lanes.h): into the generation. SESSION_TEXT is empty
 * or, of a model whose attention is causal, holds a beginning of the prompt,
 * which is more; its tokens are the text's, as far as it reaches, behind it. No
 * sequence beside that is left.
 */
int method_run(struct session *, struct generation *, struct method_env *,
	struct err *);

/* The values of one of its tables. */
static inline const void *method_options(
	const struct method_env *env, const struct opt_table *t)
{
	return env->options ? opt_values_of(env->options, t) : t->defaults;
}

/* Whether a draft means something to it. */
static inline bool method_may_draft(const struct method *m)
{
	return m->needs_draft || m->sequences;
}

static inline unsigned method_runs(const struct method *m)
{
	return m->runs ? m->runs : METHOD_CAUSAL;
}

/* Whether the options of that table mean something to it. */
bool method_uses(const struct method *, const struct opt_table *);

/* Those of all methods, each table once (an opt_tables). */
const struct opt_table *method_table(size_t i);

/* The table, by name; NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

/* A row a method, in the order of help. */
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

/* session_prefill of what SESSION_TEXT does not hold of the prompt yet. */
int method_prefill(struct session *, const struct generation *,
	uint32_t *last_row, struct err *);

/* gen_next, whose draw from a row of the vocabulary is priced as the host's
 * work. */
int32_t method_next(struct session *, struct generation *, const float *logits);

#endif
