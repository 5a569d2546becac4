/*
 * Marking: whether what a model wrote is what an item wants. White space is
 * ASCII's. Pure functions.
 */
#ifndef HOST_EVAL_EVAL_CHECK_H
#define HOST_EVAL_EVAL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct eval_item;

/*
 * As the item's check says. A number is a run of digits with a minus before
 * it, unless that follows a digit: the last one in "5-3" is 3. Numbers of more
 * than 18 digits are none. Never true where the answer has no first line, no
 * number or no text.
 */
bool eval_right(const struct eval_item *, const char *output, size_t len);

#endif
