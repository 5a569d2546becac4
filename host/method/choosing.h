/*
 * The common part of methods that generate many samples of a prompt and then
 * choose one of them: the pool runs, the answer of each sample is extracted
 * (host/text/answer.h), each sample gets a value and the weight of its vote,
 * and one sample becomes the text. The struct chooser of a method, which is
 * nearly all of its file, defines the value, the weight, and whether samples
 * vote.
 *
 * Cut and failed samples are not chosen and have no vote. If no sample has an
 * answer or a value, the first one becomes the text: with one sample this is
 * plain decoding. One thread.
 */
#ifndef HOST_METHOD_CHOOSING_H
#define HOST_METHOD_CHOOSING_H

#include "base/opt.h"
#include "host/method/choice.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct many_steps;
struct method_env;
struct sample;
struct samples;

/* What of a text is its answer; for methods that vote. */
struct answer_options {
	const char *form;
};
extern const struct opt_table answer_table;

/* How the scores of a text's steps are combined; for methods with a reward
 * model. */
struct aggregate_options {
	int how; /* enum aggregate */
};
extern const struct opt_table aggregate_table;

struct chooser {
	/* The value of a sample, larger is better; NULL: the reward model's, if
	 * the method has one. Called for ended samples, when all are over. */
	double (*value)(const struct method_env *, const struct sample *);
	/* Sets the weights of n candidates, which are 1 before; may be NULL. */
	void (*weigh)(
		const struct method_env *, struct candidate *, uint32_t n);
	/* The text is the sample with the best value among those of the answer
	 * with the largest weight; false: the sample with the largest value. */
	bool votes;
};

/* Score the steps of n samples in one call of env's reward model, and set the
 * samples' values from the scores. */
int choosing_score(const struct method_env *, struct sample *const *,
	uint32_t n, struct err *);

/* No sample has ended that could be chosen: set the error that says why. */
int choosing_none(const struct samples *, struct err *);

/* The steps of a method with a chooser. With a reward model, samples are scored
 * before they get values. */
extern const struct many_steps choosing_steps;

/*
 * The sample that the method of `as`, with its options, would have chosen among
 * the first n samples of a pool. Since sample i does not depend on the number
 * of samples, one large pool gives the choice for all smaller numbers. All
 * samples are over, and their steps are scored if the method has a reward
 * model. Afterwards values and weights are those of this choice.
 */
int choosing_among(const struct method_env *as, struct samples *, uint32_t n,
	uint32_t *at, struct err *);

/* The answers of a pool's samples so far, into row[samples_count()]; returns
 * their number. Indices in the rows are those of the samples. */
uint32_t choosing_tally(
	const struct samples *, struct tally *row, struct err *);

#endif
