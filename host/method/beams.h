/*
 * Beam search over steps: several samples (the beams) are generated step by
 * step, side by side. After each step a reward model scores the partial texts.
 * The best beams are kept, and each of them is continued by several beams; the
 * other beams are cut. This is the common part of step-level beam search and
 * diverse verifier tree search (Snell et al., "Scaling LLM test-time compute
 * optimally can be more effective than scaling model parameters", 2024;
 * Beeching et al., "Scaling test-time compute with open models", 2024:
 * search-and-learn, whose recipe this code follows).
 *
 * The N beams (-N) form trees of equal size. In each round the best K beams of
 * a tree are kept, and forks of these K beams fill the tree up again: fork j
 * continues kept beam j mod K, as its child number j / K. The random stream of
 * a fork is determined by the round, by the place of the fork's parent among
 * the beams of the round, and by the number of the child. If a tree has K beams
 * or fewer left, all of them are kept. Beams with equal texts are not merged.
 * Among beams with equal values the first one is taken. After --beam-rounds
 * rounds the beams run to their ends. The result is the finished beam with the
 * best value; among equal values, the beam that finished first.
 *
 * Beams that have finished a step wait until the others have finished it, so a
 * pass may have idle rows. With --beam-ahead the idle rows begin the next step:
 * a waiting beam is continued by itself (child 0) and by its children, the
 * beams with the best scores so far first. If the beam is then kept, these
 * continuations are used, otherwise they are dropped. The option does not
 * change which beams are chosen, or their texts. This is the speculative beam
 * extension of Chen et al., "FastTTS", 2025.
 *
 * The reward model is called once per round, and only for beams whose score can
 * matter: beams that have ended, and beams of a tree from which some must be
 * cut. A single beam is plain decoding and is not scored. All calls come from
 * one thread.
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
	uint32_t tree; /* number of beams of a tree; divides -N */
	uint32_t keep; /* number of beams kept per tree and round (K) */
	/*
	 * True: an ended beam counts as finished only if it is among the K
	 * best. False: an ended beam is finished in any case and leaves its
	 * place in the tree to others.
	 */
	bool ended_compete;
};

/* State of a request of a beam method; samples_own returns it. */
struct beams {
	struct beams_plan plan;
	/*
	 * number of elements of `active`, which lists the beams tree after tree
	 */
	uint32_t n;
	struct sample **active; /* the beams that continue */
	/* the beams that the reward model scores in this round */
	struct sample **to_score;
	const struct sample *best; /* the best finished beam, or NULL */

	uint32_t round, finished;
	uint64_t forks, cut;
	/* continuations that began before it was known whether their beam is
	 * kept: number of all, number of those that were used */
	uint64_t ahead, used;
	/* tokens drawn by all beams; tokens of the result */
	uint64_t drawn, chosen;
};

/* The `open` operation of a beam method. Returns 0, or -EINVAL if -N is not a
 * multiple of --beam-width. */
int beams_open(struct method_env *, const struct model *, struct err *);
/* Number of beams that continue a kept beam (M), or 1 if there is only one
 * beam. */
uint32_t beams_width(const struct method_env *);
/* The operations `decode_rows` and `sequences` of a beam method. */
uint32_t beams_rows(const struct method_env *);
uint32_t beams_sequences(const struct method_env *);

/* The steps of a beam method (struct many_steps). The method's own `begin`
 * calls beams_begin with its plan. */
int beams_begin(struct samples *, const struct beams_plan *, struct err *);
int beams_next(struct samples *, struct err *);
/* Use up to `rows` rows of the next pass to begin the next step of beams. */
int beams_ahead(struct samples *, uint32_t rows, struct err *);
/* Choose the best beam when the run is stopped early: a finished beam, or an
 * unfinished beam if none is finished. */
void beams_stop(struct samples *);
void beams_close(void *beams);
void beams_tally(const struct samples *, struct strbuf *);
void beams_report(const struct samples *, struct strbuf *);

#endif
