/*
 * Beams: samples that are written step by step side by side. After each step a
 * reward scores what there is of them, the best go on, each as several, and the
 * others are cut: what beam search and diverse verifier tree search have in
 * common (Snell et al., "Scaling LLM test-time compute optimally can be more
 * effective than scaling model parameters", 2024; Beeching et al., "Scaling
 * test-time compute with open models", 2024: search-and-learn, whose recipe
 * this follows).
 *
 * -N beams are written in trees; of each tree so many are kept a round, the
 * best first, and as many more are forked from them in turn as make it full
 * again: the j-th goes on from the (j mod kept)-th, by random numbers of a
 * stream of its own, which is its index in the pool behind the text's. Where no
 * more are left than may be kept all of them are. Beams of equal text are kept
 * like others. The last of --beam-rounds runs to the end. The text is the best
 * valued beam of those that finished; of equally good ones the first.
 *
 * The reward is asked once a round, and only about beams that it can make a
 * difference to: who ended, and who goes on where not all can. One beam is
 * plain decoding, of which nothing is asked. One thread.
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
	uint32_t tree; /* beams of one; divides -N */
	uint32_t keep; /* of them a round */
	/* Who has ended competes with those that go on, and is finished only if
	 * it is kept; otherwise it leaves its place to others. */
	bool ended_compete;
};

/* Of a request: samples_own of a method of beams. */
struct beams {
	struct beams_plan plan;
	uint32_t n;                /* that write: trees behind each other */
	struct sample **active;    /* [n] */
	struct sample **asked;     /* [n] about whom the reward is asked */
	const struct sample *best; /* of the finished; NULL: none */

	uint32_t round, finished;
	uint64_t forks, cut;
	uint64_t drawn, chosen; /* tokens: of all, of the text */
};

/* For a method's table. -EINVAL where -N is no multiple of --beam-width. */
int beams_open(struct method_env *, const struct model *, struct err *);
/* Beams that go on from one; 1 where there is but one. */
uint32_t beams_width(const struct method_env *);

/* A method's steps, of which `begin` says the plan. */
int beams_begin(struct samples *, const struct beams_plan *, struct err *);
int beams_next(struct samples *, struct err *);
/* The best there is: a finished beam, or the beginning of one. */
void beams_stop(struct samples *);
void beams_close(void *beams);
void beams_tally(const struct samples *, struct strbuf *);
void beams_report(const struct samples *, struct strbuf *);

#endif
