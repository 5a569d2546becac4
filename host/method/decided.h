/*
 * Samples that can no longer change the choice are cut (--stop-decided). The
 * option does not change which text is chosen.
 *
 *   votes   The answer with the most votes wins, the first of equal ones. It is
 *           decided when no other answer could win with the votes of all
 *           unfinished samples. Of the samples with the winning answer, the
 *           first one is chosen, so only samples after that one are cut.
 *   values  The sample with the largest value is chosen, the first of equal
 *           ones. If values can only fall while a text grows, a sample is cut
 *           when its value so far would no longer be chosen over that of the
 *           best sample that has ended.
 *
 * All calls come from one thread.
 */
#ifndef HOST_METHOD_DECIDED_H
#define HOST_METHOD_DECIDED_H

#include "base/opt.h"
#include "host/scheduler/method_stats.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct method_env;
struct reward;
struct samples;

struct decided_options {
	bool on;
};
extern const struct opt_table decided_table;

/* Whether --stop-decided was given; false for a method without this option. */
bool decided_is_on(const struct method_env *);
/*
 * Returns -EINVAL if --stop-decided is given and scores of this reward may rise
 * from step to step, or if --stop-decided and early stopping are both given:
 * the choice after early stopping depends on which samples have ended.
 * Otherwise returns 0. The reward is NULL if the method has none.
 */
int decided_check(
	const struct method_env *, const struct reward *, struct err *);

/* Cut samples, given the votes for the n answers of the samples that have
 * ended. */
void decided_cut_by_votes(struct samples *, const struct tally *, uint32_t n);
/* Cut samples by their values so far; NAN means that there is no value yet. */
void decided_cut_by_values(struct samples *);

#endif
