/*
 * What methods that write many samples of a prompt and choose one of them have
 * in common: the pool runs, each sample's answer is read (host/text/answer.h),
 * a value and the weight of its vote are given to each, and one becomes the
 * text. A method says which value, which weight, and whether answers are voted
 * on: its struct chooser, which is all of its small file.
 *
 * Samples that were cut or failed are not chosen and have no vote. Where nobody
 * has an answer, or a value, the first sample is the text: with one sample that
 * is plain decoding. One thread.
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

/* What counts as an answer: of methods that vote. */
struct answer_options {
	const char *form;
};
extern const struct opt_table answer_table;

/* What the scores of a text's steps come to: of methods with a reward. */
struct aggregate_options {
	int how; /* enum aggregate */
};
extern const struct opt_table aggregate_table;

struct chooser {
	/* The larger the better; NULL: none, or the reward's. Asked for ended
	 * ones, when all are over. */
	double (*value)(const struct method_env *, const struct sample *);
	/* Sets the weights, which are 1, of n candidates; NULL: they stay. */
	void (*weigh)(
		const struct method_env *, struct candidate *, uint32_t n);
	/* The text is the best valued one of the answer that weighs most;
	 * otherwise the one of the largest value. */
	bool votes;
};

/*
 * The steps of n samples are scored by the reward of env, in one call, and
 * their values are what the scores come to.
 */
int choosing_score(const struct method_env *, struct sample *const *,
	uint32_t n, struct err *);

/* -errno, and why no sample has ended that could be chosen. */
int choosing_none(const struct samples *, struct err *);

/* Of a method with a chooser. Where it has a reward, samples are scored before
 * they are valued. */
extern const struct many_steps choosing_steps;

/*
 * Which of the first n samples of a pool the method of `as`, by its options,
 * would have chosen of these alone: as sample i is the same whatever their
 * number, one pool of the largest tells of all. All of them are over; where the
 * method has a reward their steps have been scored. Values and weights are
 * those of this choice afterwards.
 */
int choosing_among(const struct method_env *as, struct samples *, uint32_t n,
	uint32_t *at, struct err *);

/*
 * The answers of a pool's samples so far: row[samples_count()], how many; the
 * candidates that rows number are all samples in their order.
 */
uint32_t choosing_tally(
	const struct samples *, struct tally *row, struct err *);

#endif
