/*
 * With --stop-decided, samples that can no longer change the choice are cut
 * (stopped before their ends). The option does not change which text is chosen.
 * Which samples are cut depends on how the method chooses a sample, by votes or
 * by values:
 *
 *   votes   The answer with the most votes wins; of answers with equal votes,
 *           the first. The winner is decided when no other answer could win
 *           even with the votes of all unfinished samples. Of the samples with
 *           the winning answer, the one with the lowest number is chosen. An
 *           unfinished sample whose number is lower than those of all ended
 *           samples with this answer could still get the answer and be chosen,
 *           so only samples with higher numbers are cut.
 *   values  The sample with the largest value is chosen; of samples with equal
 *           values, the first. If values can only fall while a text grows, a
 *           running sample is cut when its present value is already too low: a
 *           sample that has ended would be chosen even if the value of the
 *           running sample did not fall any more.
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

/* Whether --stop-decided was given; false if the method does not have this
 * option. */
bool decided_is_on(const struct method_env *);
/*
 * Returns -EINVAL if --stop-decided cannot be used: if a text's value is its
 * last score (--aggregate last) and the scores of the reward model `reward` may
 * rise from step to step, or if --early-stop is given, too. (With --early-stop,
 * the choice depends on which samples have ended, so cutting a sample could
 * change the choice.) Otherwise returns 0. `reward` is NULL if the method has
 * no reward model.
 */
int decided_check(
	const struct method_env *, const struct reward *, struct err *);

/* Cut the samples that can no longer change the vote, given the votes for the n
 * answers of the samples that have ended. */
void decided_cut_by_votes(struct samples *, const struct tally *, uint32_t n);
/* Cut the samples whose value so far is too low to be chosen. The value NAN
 * means that a sample has no value yet. */
void decided_cut_by_values(struct samples *);

#endif
