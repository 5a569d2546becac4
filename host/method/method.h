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

#include "host/tree/build.h"
#include "host/tree/prune.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drafter;
struct draft_model;
struct err;
struct exit_head;
struct generation;
struct session;
struct soc;

/* Counted by methods that verify drafts. Times are of the wall and, _ps, of the
 * phone. */
struct method_stats {
	uint64_t cycles;   /* verification passes */
	uint64_t drafted;  /* tokens proposed */
	uint64_t accepted; /* of them; emitted are accepted + cycles */
	uint64_t leaves;   /* of the trees */
	uint64_t kept;     /* of the trees' rows, behind the exit predictor */
	uint64_t expanded; /* nodes that the draft looked behind */
	uint64_t draft_ns, draft_ps; /* not of what is drafted beside a pass */
	uint64_t verify_ns, verify_ps;
	double gain; /* sum of what trees were expected to emit; lever */
};

/* Of the tokens proposed; 0 without any. */
static inline double method_acceptance(const struct method_stats *s)
{
	return s->drafted ? (double)s->accepted / (double)s->drafted : 0;
}

/* Mean of the tokens a cycle emits, the verifier's own one among them; 0
 * without cycles. */
static inline double method_accepted_length(const struct method_stats *s)
{
	return s->cycles ? (double)(s->accepted + s->cycles) / (double)s->cycles
			 : 0;
}

/* What a method works with beside the session. */
struct method_env {
	struct drafter *drafter;   /* NULL unless needs_draft */
	struct draft_model *draft; /* that it runs on the host; NULL: none */
	const struct soc *phone;   /* schedules go by its time; NULL: wall */
	uint32_t draft_length;     /* tokens of a drafted chain at most */
	uint32_t tree_rows;        /* of a tree, the root among them, at most */
	uint32_t tree_depth;
	uint32_t candidates; /* behind a node */
	/* Of lever: */
	struct exit_head *exit; /* NULL: nothing is pruned */
	struct prune_opts prune;
	bool prune_always; /* even where it does not pay */
	bool stop_rule;    /* the paper's own, instead of the best prefix */
	struct cost *cost;
	struct lever lever;
	uint32_t block_length;     /* positions of a diffusion block, >= 1 */
	uint32_t block_steps;      /* passes it takes at most; 0: one each */
	struct method_stats stats; /* added up over runs */
};

struct method {
	const char *name;    /* "autoregressive" */
	const char *summary; /* one line for --help */
	bool lossless;       /* same tokens as plain decoding */
	bool needs_draft;
	bool prunes;    /* has a use for an exit predictor */
	bool diffusion; /* runs models whose positions all see each other */
	/* Rows of the decode graph it wants. */
	uint32_t (*decode_rows)(const struct method_env *);
	int (*run)(struct session *, struct generation *, struct method_env *,
		struct err *);
};

/* The table, by name; NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

extern const struct method method_autoregressive;
extern const struct method method_llada;
extern const struct method method_flash_ar;
extern const struct method method_chain;
extern const struct method method_specinfer;
extern const struct method method_opt_tree;
extern const struct method method_eagle2_tree;
extern const struct method method_edgellm;
extern const struct method method_lever;

/* Plain decoding, whatever the weights come from. */
int autoregressive_run(struct session *, struct generation *,
	struct method_env *, struct err *);

#endif
