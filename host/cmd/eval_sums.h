/* What an evaluation's result counts, as a member of a shard, and back. */
#ifndef HOST_CMD_EVAL_SUMS_H
#define HOST_CMD_EVAL_SUMS_H

#include <jansson.h>
#include <stdbool.h>

struct eval_result;

/* NULL: no memory. */
json_t *eval_sums_json(const struct eval_result *);

/* The result's names stay; false where it is not as the above makes it. */
bool eval_sums_read(const json_t *, struct eval_result *);

#endif
