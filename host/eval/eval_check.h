/*
 * Scores outputs: compares an output with the expected answer of an item. Only
 * ASCII white space counts as white space.
 */
#ifndef HOST_EVAL_EVAL_CHECK_H
#define HOST_EVAL_EVAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct eval_item;

/*
 * Set *right to whether the output is right according to the item's check.
 * Numbers and boxed answers are compared in the canonical forms of
 * host/text/answer.h; fractions are compared by value. *right is false if the
 * expected answer lacks the part that the check compares (a first line, number,
 * box or text). Returns 0 or -ENOMEM.
 */
int eval_check(const struct eval_item *, const char *output, size_t len,
	bool *right, struct err *);

#endif
