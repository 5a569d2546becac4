/*
 * The common part of methods that generate many samples of a prompt and then
 * choose one of them. All samples of a request form a pool
 * (host/scheduler/samples.h). The samples of the pool run to their ends. Then
 * an answer is extracted from each finished sample (host/text/answer.h), and
 * the sample gets a value and a weight for its vote. The chosen sample becomes
 * the text of the request. In struct chooser a method defines the value, the
 * weight, and whether samples vote.
 *
 * A sample that was cut (stopped before its end) or has failed is not chosen
 * and has no vote. If no sample has an answer or a value, the ended sample with
 * the lowest index is chosen. With one sample the method is plain decoding. All
 * calls come from one thread.
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

/*
 * Option --answer: which part of a text is its answer, for methods that vote.
 */
struct answer_options {
	const char *form;
};
extern const struct opt_table answer_table;

/* Option --aggregate: how the scores of a text's steps are combined, for
 * methods with a reward model. */
struct aggregate_options {
	int how; /* enum aggregate */
};
extern const struct opt_table aggregate_table;

struct chooser {
	/*
	 * Returns the value of a sample that has ended; larger is better.
	 * Called when all samples have ended. NULL means that the reward model
	 * gives the value; without a reward model samples have no value.
	 */
	double (*value)(const struct method_env *, const struct sample *);
	/* Sets the weights of the votes of n candidates. All weights are 1
	 * before the call. NULL means that all weights stay 1. */
	void (*weigh)(
		const struct method_env *, struct candidate *, uint32_t n);
	/*
	 * True: the samples vote for their answers. The answer with the largest
	 * total weight wins; among the samples with this answer, the one with
	 * the best value is chosen. False: the sample with the largest value is
	 * chosen.
	 */
	bool votes;
};

/* Score the steps of n samples with one call of env's reward model, and compute
 * the samples' values from these scores. Returns 0 or a negative errno. */
int choosing_score(const struct method_env *, struct sample *const *,
	uint32_t n, struct err *);

/*
 * Set an error with the reason why no sample can be chosen. Returns a negative
 * errno.
 */
int choosing_none(const struct samples *, struct err *);

/* The functions (struct many_steps) of a method that has a struct chooser. If
 * the method has a reward model, the reward model scores the samples' steps
 * before the samples get values. */
extern const struct many_steps choosing_steps;

/*
 * Find the sample that another method would choose from the first n samples of
 * a pool; `as` has that method and its options. Sample i is the same for every
 * number of samples, so one large pool gives the choices for all smaller n.
 *
 * Before the call, all samples must have finished and, if the method has a
 * reward model, all their steps must be scored. The call overwrites the values
 * and weights of the samples. Returns 0 and sets *at to the sample's index, or
 * returns a negative errno.
 */
int choosing_among(const struct method_env *as, struct samples *, uint32_t n,
	uint32_t *at, struct err *);

/*
 * Count the answers of the samples that have ended. row[] must have room for
 * samples_count() answers. The indices in row[] are indices of samples in the
 * pool. Returns the number of different answers.
 */
uint32_t choosing_tally(const struct samples *, struct tally *row);

#endif
