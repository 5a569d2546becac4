/*
 * Beams: samples that are generated step by step, side by side. After each step
 * a reward model scores the partial texts, the best are continued, each by
 * several beams, and the others are cut. This is the common part of step-level
 * beam search and diverse verifier tree search (Snell et al., "Scaling LLM
 * test-time compute optimally can be more effective than scaling model
 * parameters", 2024; Beeching et al., "Scaling test-time compute with open
 * models", 2024: search-and-learn, whose recipe this follows).
 *
 * The N beams (-N) form trees of equal size. In each round the best K beams of
 * a tree are kept, and forks of them fill the tree up again: the j-th fork
 * continues kept beam j mod K, with the random stream of its index in the pool.
 * If no more than K beams of a tree are left, all are kept. Equal texts are not
 * merged. After --beam-rounds rounds the beams run to their ends. The text is
 * the finished beam with the best value, the first of equal ones.
 *
 * The reward model is called once a round, and only for beams whose score can
 * matter: those that ended, and those of a tree of which not all can be kept.
 * One beam is plain decoding and is not scored. One thread.
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
};
extern const struct opt_table beam_table;

struct beams_plan {
	uint32_t tree; /* beams of a tree; divides -N */
	uint32_t keep; /* K, kept in each round */
	/* Ended beams compete with the others, and are finished only if they
	 * are kept; false: they are finished and leave their places. */
	bool ended_compete;
};

/* State of a request: samples_own of a method of beams. */
struct beams {
	struct beams_plan plan;
	/* beams that are generated, tree after tree */
	uint32_t n;
	struct sample **active;    /* [n] */
	struct sample **to_score;  /* [n] beams that the reward model scores */
	const struct sample *best; /* of the finished ones; NULL: none */

	uint32_t round, finished;
	uint64_t forks, cut;
	uint64_t drawn, chosen; /* tokens: of all beams, of the text */
};

/* For a method's table. -EINVAL: -N is no multiple of --beam-width. */
int beams_open(struct method_env *, const struct model *, struct err *);
/* M, the beams that continue a kept one; 1 if there is only one beam. */
uint32_t beams_width(const struct method_env *);

/* A method's steps; its `begin` passes the plan. */
int beams_begin(struct samples *, const struct beams_plan *, struct err *);
int beams_next(struct samples *, struct err *);
/* Choose the best so far: a finished beam, or else an unfinished one. */
void beams_stop(struct samples *);
void beams_close(void *beams);
void beams_tally(const struct samples *, struct strbuf *);
void beams_report(const struct samples *, struct strbuf *);

#endif
