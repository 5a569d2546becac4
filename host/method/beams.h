/*
 * Beam search over steps (consecutive pieces of a text; --step-end sets where
 * they end): several samples (the beams) are generated step by step, side by
 * side. After each step a reward model scores the partial texts.
 * The best beams are kept, and each of them is continued by several beams; the
 * other beams are cut (stopped). This file has the common part of step-level
 * beam search and diverse verifier tree search (Snell et al., "Scaling LLM
 * test-time compute optimally can be more effective than scaling model
 * parameters", 2024; Beeching et al., "Scaling test-time compute with open
 * models", 2024: the project search-and-learn, whose variants this code
 * follows).
 *
 * The N beams (-N) form trees of equal size. In each round (one step of every
 * beam) the best K beams of a tree are kept, and forks of the kept beams fill
 * the tree up to its size again: beam j of the new round is child number j / K
 * of kept beam j mod K. Child 0 is the kept beam itself. The random stream of a
 * fork depends on the round, on the index of the fork's parent among the beams
 * of the round, and on the child number of the fork. If only k <= K beams of a
 * tree can continue, all of them are kept, and k takes the place of K. Beams
 * with equal texts are not merged. If beams have equal values, the first of
 * them is kept.
 * After --beam-rounds rounds the beams run to their ends. The result is the
 * finished beam with the best value; if several beams have this value, the beam
 * that finished first.
 *
 * A beam that has finished a step waits until all beams have finished the step,
 * so a pass may have idle rows. With --beam-ahead the idle rows begin the next
 * step of waiting beams: child 0, which is the beam itself, then further
 * children. Waiting beams with the best scores so far come first. If the beam
 * is kept later, its early children are used, otherwise they are dropped.
 * --beam-ahead changes neither the choice of beams nor their texts. The option
 * is the speculative beam extension of Chen et al., "FastTTS", 2025.
 *
 * The reward model is called once per round, and only for beams whose score can
 * matter: beams that have ended, and beams of a tree from which some beams must
 * be cut. A single beam is plain decoding and is not scored. All calls come
 * from one thread.
 */
#ifndef HOST_METHOD_BEAMS_H
#define HOST_METHOD_BEAMS_H

#include "base/opt.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct method_env;
struct model;
struct sample;
struct samples;
struct strbuf;

struct beam_options {
	uint32_t width, rounds;
	bool ahead;
};
extern const struct opt_table beam_table;

struct beams_plan {
	/* number of beams of a tree; -N is a multiple of this number */
	uint32_t tree;
	/* number of beams of a tree that are kept after each round (K) */
	uint32_t keep;
	/*
	 * Whether beams whose texts have ended compete. True: such a beam
	 * counts as finished only if it is among the K best beams of its tree.
	 * False: such a beam always counts as finished, and is not one of the K
	 * beams.
	 */
	bool ended_compete;
};

/* State of a request that a beam method decodes; samples_own returns it. */
struct beams {
	struct beams_plan plan;
	/*
	 * number of elements of `active`, in which the beams of one tree are
	 * consecutive
	 */
	uint32_t n;
	struct sample **active;    /* [n] the beams of the current round */
	const struct sample *best; /* the best finished beam, or NULL */

	uint32_t round, finished;
	uint64_t forks, cut;
	/* ahead: number of continuations of waiting beams that idle rows began
	 * (--beam-ahead) before the round ended. used: number of these
	 * continuations that became beams of the next round. */
	uint64_t ahead, used;
	/* drawn: number of tokens drawn by all beams. chosen: number of tokens
	 * of the chosen beam. */
	uint64_t drawn, chosen;
};

/* The `open` operation of a beam method. Returns 0, or -EINVAL if -N is not a
 * multiple of --beam-width. */
int beams_open(struct method_env *, const struct model *, struct err *);
/*
 * Number of beams that continue each kept beam (M, --beam-width); 1 if -N is 1.
 */
uint32_t beams_width(const struct method_env *);
/* The operations `decode_rows` and `sequences` of a beam method. */
uint32_t beams_rows(const struct method_env *);
uint32_t beams_sequences(const struct method_env *);

/* The functions of struct many_steps for beam methods, except `begin`. The
 * method itself implements `begin`, and calls beams_begin there with its own
 * struct beams_plan. */
int beams_begin(struct samples *, const struct beams_plan *, struct err *);
uint32_t beams_to_score(struct samples *, bool waiting, struct sample **out);
int beams_next(struct samples *, struct err *);
/* Use up to `rows` rows of the next pass to begin the next step of waiting
 * beams. */
int beams_ahead(struct samples *, uint32_t rows, struct err *);
/* Choose the best beam when the run is stopped early: a finished beam or, if no
 * beam is finished, an unfinished beam. */
void beams_stop(struct samples *);
void beams_close(void *beams);
void beams_tally(const struct samples *, struct strbuf *);
void beams_report(const struct samples *, struct strbuf *);

#endif
