/*
 * What the files of a pool of samples share: samples.c keeps what is known of
 * each, samples_pass.c decides who is in a pass, and runs it. Nobody else
 * includes it.
 */
#ifndef HOST_METHOD_SAMPLES_IMPL_H
#define HOST_METHOD_SAMPLES_IMPL_H

#include "host/method/samples.h"
#include "host/method/tree_options.h"
#include "host/session/rows.h"

struct speculation;
struct tree;

#define SAMPLES_ROWS 256 /* of a pass, at most */
_Static_assert(SAMPLES_ROWS >= TREE_ROWS_MOST && SAMPLES_ROWS >= ROWS_SEQUENCES,
	"trees, or roots");

struct samples {
	struct session *session; /* NULL: at rest */
	struct generation *gen;  /* the user's; of the run, as the session */
	struct samples_options opts;
	struct method_env *env;
	uint64_t stream; /* of sample 0 */
	size_t n_prompt;
	uint32_t n_vocab;
	uint32_t width;       /* rows of a pass */
	float *prompt_logits; /* [n_vocab]; NULL: no token is wanted */
	float *logits;        /* [LOGITS_ROWS][n_vocab] */

	uint32_t n, room;
	struct sample **sample; /* [n] */
	uint32_t over;          /* of them */
	const struct sample *chosen;
	samples_token *told;
	void *told_arg;
	bool by_step; /* samples wait for one another */

	/* Of the pass to come: */
	uint32_t n_in;
	struct sample *in[ROWS_SEQUENCES];
	/* Of each in it: its tree (NULL: the root alone), its first row, the
	 * row where its walk stands (-1: it is over), and what is accepted. */
	const struct tree *tree[ROWS_SEQUENCES];
	uint32_t first[ROWS_SEQUENCES];
	int64_t at[ROWS_SEQUENCES];
	uint32_t n_path[ROWS_SEQUENCES];
	uint32_t n_rows;
	struct row row[SAMPLES_ROWS];
	uint32_t path[SAMPLES_ROWS];     /* of each, from its first row on */
	struct speculation *speculation; /* NULL: nothing drafts */
	bool no_memory;
	struct samples_stats stats;
};

/* The next token of a sample from its row of logits, and what is known by it;
 * it may end the sample. */
void sample_draw(struct samples *, struct sample *, const float *logits);

/* It is over, as `state` says; its slots are given back. */
void sample_end(struct samples *, struct sample *, enum sample_state state);

/* ---- speculation: samples_draft.c ---- */

/* For env's drafter, and as many more as there are samples in a pass. */
int speculation_open(struct samples *, struct err *);
void speculation_close(struct samples *);

/* p->tree[] of those in the pass, together no larger than a pass. */
int speculation_draft(struct samples *, struct err *);

/* Logits of all rows, for drafters who want them, computed before a walk: of
 * that row; NULL: the walk computes its own. */
int speculation_read(struct samples *, struct err *);
const float *speculation_logits(const struct samples *, uint32_t row);

/* The walk of the i-th in the pass went through that row; and it is over, what
 * came of it is in p->path. */
void speculation_passed(
	struct samples *, uint32_t i, uint32_t row, const float *logits);
void speculation_saw(struct samples *, uint32_t i);

/* What is cached of it is given back. */
void sample_forget(struct samples *, struct sample *);

#endif
