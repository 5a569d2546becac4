/*
 * Samples that promise little are cut while they are written (Fu et al., "Deep
 * think with confidence", 2025, online): the first samples, the warm-up, are
 * written to their ends. What the model's confidence fell to in each of them,
 * as the mean over a window of tokens, gives the threshold: that which the
 * stated share of them stayed above. Every later sample that falls below it is
 * cut, and when the votes of those that ended agree enough, all others are.
 *
 * It decides by what a pool of samples knows, and cuts by its means. One
 * thread.
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
	double keep;     /* share of the warm-up that stays above */
	double consensus;
};
extern const struct opt_table early_stop_table;

struct early_stop {
	struct early_stop_options opts;
	bool armed; /* the warm-up is over */
	double threshold;
};

/* The options of env; off where the method has none of them. */
void early_stop_init(struct early_stop *, const struct method_env *);

/* How many of n samples are the warm-up: all where it is off. */
uint32_t early_stop_warm_up(const struct early_stop *, uint32_t n);
/* The warm-up is over, and others follow: find the threshold. */
int early_stop_arm(struct early_stop *, const struct samples *, struct err *);

/* A sample that drew a token is cut or not. */
void early_stop_see(
	const struct early_stop *, struct samples *, struct sample *);
/* Such a share of the votes for one answer makes more needless. */
bool early_stop_agrees(const struct early_stop *, double share);
void early_stop_cut_all(struct samples *);

/*
 * The least mean of `window` tokens in a row; of fewer tokens their mean,
 * infinite of none.
 */
double early_stop_lowest(const float *confidence, size_t n, uint32_t window);

#endif
