/*
 * Scoring of outputs: compares an output with an item's answer. White space is
 * that of ASCII. Pure functions.
 */
#ifndef HOST_EVAL_EVAL_CHECK_H
#define HOST_EVAL_EVAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct eval_item;

/*
 * Compare by the item's check. A number is a run of digits, with a minus sign
 * before it unless that follows a digit: the last number of "5-3" is 3. Numbers
 * with more than 18 digits are ignored. False if the answer has no first line,
 * number or text.
 */
bool eval_right(const struct eval_item *, const char *output, size_t len);

#endif
