/*
 * The list of all decoding methods. A method is one file in this directory that
 * defines one struct method (host/scheduler/method.h). To add a method, add its
 * file, its test and one row of METHODS below.
 */
#ifndef HOST_METHOD_METHODS_H
#define HOST_METHOD_METHODS_H

#include "host/scheduler/method.h"

/* The list of methods, in the order of the help text. */
/* clang-format off */
#define METHODS(row) \
	row(autoregressive) row(flash_ar) row(sample) row(best_of_n) \
	row(vote) row(weighted_vote) row(self_certainty) row(mean_logprob) \
	row(beam) row(dvts) row(llada) row(block) row(dream) row(fast_dllm) \
	row(multi_block) row(llada_npu) row(linear_spec) row(chain) \
	row(specinfer) row(opt_tree) row(eagle2_tree) row(edgellm) row(lever) \
	row(sdnpu)
/* clang-format on */

#define METHOD_DECLARED(name) extern const struct method method_##name;
METHODS(METHOD_DECLARED)

/* All methods, NULL-terminated. */
extern const struct method *const methods[];
const struct method *method_find(const char *name);

/* Whether this option table is one of the method's tables. */
bool method_uses(const struct method *, const struct opt_table *);

/*
 * The i-th option table of all methods together; NULL if there are i or fewer
 * tables. A table that several methods share is listed once. (The function has
 * the type opt_tables of base/opt.h.)
 */
const struct opt_table *method_table(size_t i);

#endif
