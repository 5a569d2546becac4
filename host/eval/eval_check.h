/*
 * Scores outputs: compares an output with the expected answer of an item. Only
 * ASCII white space counts as white space. Pure functions.
 */
#ifndef HOST_EVAL_EVAL_CHECK_H
#define HOST_EVAL_EVAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct eval_item;

/*
 * Whether the output is right according to the item's check. A number is a run
 * of digits, with a minus sign if one precedes it, unless a digit precedes the
 * minus sign: the last number of "5-3" is 3. Numbers with more than 18 digits
 * are ignored. Returns false if the expected answer has no first line, number
 * or text to compare with.
 */
bool eval_right(const struct eval_item *, const char *output, size_t len);

#endif
