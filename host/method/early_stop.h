/*
 * Early stopping: unpromising samples are cut while they are generated (Fu et
 * al., "Deep think with confidence", 2025, the online variant). The first
 * samples, the warm-up, always run to their ends. The confidence of a token
 * measures how certain the model was when it predicted the token. The group
 * confidence of a sample is the mean confidence over a window of its last
 * tokens. The threshold s is chosen such that the share `keep` of the warm-up
 * samples never had a group confidence below s. After the warm-up a sample is
 * cut when its group confidence falls below s. When the votes of the finished
 * samples agree enough, all unfinished samples are cut.
 *
 * The code reads and cuts the samples of a pool (samples.h). All calls come
 * from one thread.
 */
#ifndef HOST_METHOD_EARLY_STOP_H
#define HOST_METHOD_EARLY_STOP_H

#include "base/opt.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct method_env;
struct sample;
struct samples;

struct early_stop_options {
	bool on;
	uint32_t warm_up;
	uint32_t window; /* length of the window in tokens */
	/* share of the warm-up samples whose group confidence is never below
	 * the threshold */
	double keep;
	double consensus;
};
extern const struct opt_table early_stop_table;

struct early_stop {
	struct early_stop_options opts;
	bool armed; /* whether the warm-up has ended and the threshold is set */
	double threshold;
};

/* Initialize with env's options. Early stopping is off if the method does not
 * have these options. */
void early_stop_init(struct early_stop *, const struct method_env *);

/* Number of warm-up samples, if there are n samples; n if early stopping is
 * off. */
uint32_t early_stop_warm_up(const struct early_stop *, uint32_t n);
/* Compute the threshold from the warm-up samples. Call this function after all
 * of them have ended and before more samples are added; if no more are added,
 * the call is not needed. Returns 0 or -ENOMEM. */
int early_stop_arm(struct early_stop *, const struct samples *, struct err *);

/*
 * Cut a sample that has just drawn a token, if its group confidence is too low.
 */
void early_stop_check(
	const struct early_stop *, struct samples *, struct sample *);
void early_stop_cut_all(struct samples *);

/*
 * The smallest mean confidence over `window` consecutive tokens of a sample
 * with n tokens; if n < window, the mean over all n tokens; if n = 0, infinity.
 */
double early_stop_lowest(const float *confidence, size_t n, uint32_t window);

#endif
