/*
 * Unpromising samples are cut while they are generated (Fu et al., "Deep think
 * with confidence", 2025, the online variant). The first samples, the warm-up,
 * run to their ends. The group confidence of a sample is the mean confidence
 * over a window of tokens; its lowest value in each warm-up sample gives the
 * threshold s: a share `keep` of the warm-up samples stayed above s. Every
 * later sample whose group confidence falls below s is cut, and when the votes
 * of the finished samples agree enough, all others are cut.
 *
 * Reads and cuts the samples of a pool (samples.h). One thread.
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
	uint32_t window; /* tokens */
	double keep;     /* share of the warm-up samples above the threshold */
	double consensus;
};
extern const struct opt_table early_stop_table;

struct early_stop {
	struct early_stop_options opts;
	bool armed; /* the warm-up is over, and the threshold is set */
	double threshold;
};

/* With env's options; off if the method does not have these options. */
void early_stop_init(struct early_stop *, const struct method_env *);

/* Size of the warm-up of n samples: all of them if early stop is off. */
uint32_t early_stop_warm_up(const struct early_stop *, uint32_t n);
/* The warm-up is over and other samples follow: compute the threshold. */
int early_stop_arm(struct early_stop *, const struct samples *, struct err *);

/* Cut the sample, which has drawn a token, if its confidence is too low. */
void early_stop_check(
	const struct early_stop *, struct samples *, struct sample *);
/* Whether an answer with this share of the votes ends all other samples. */
bool early_stop_agrees(const struct early_stop *, double share);
void early_stop_cut_all(struct samples *);

/* The least mean of `window` consecutive tokens; of fewer tokens, the mean of
 * all; of none, infinity. */
double early_stop_lowest(const float *confidence, size_t n, uint32_t window);

#endif
