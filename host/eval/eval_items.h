/*
 * The items of a task. An item consists of a prompt, the expected answer, and
 * the way to compare an output with the answer. Items are read from JSON lines:
 *
 *   {"id": "qa-17", "prompt": "Read: ...\nAnswer:", "answer": " Anna.",
 *    "check": "exact", "facts": [], "level": 0}
 *
 * Optional are "facts", texts that all occur in a right output (for the check
 * "facts"), and "level", a number from 0 (no level) to 9. Other members are
 * ignored. Special tokens such as those of a chat template are recognized in a
 * prompt, not in an answer.
 *
 * Items can also be prompts without answers, whose outputs cannot be scored. A
 * file of prompts consists of JSON lines or of lines of plain text. A JSON line
 * has a "prompt" or, instead, "turns": a list of the user's turns of a chat, of
 * which the first is the prompt. A JSON line may have an "id"; the default is
 * "line-" followed by the line number. A line of plain text is one prompt.
 */
#ifndef HOST_EVAL_EVAL_ITEMS_H
#define HOST_EVAL_EVAL_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;

#define EVAL_LEVELS 10 /* number of levels of items: 0 (no level) to 9 */

enum eval_check {
	/* the first line of the output equals the first line of the answer */
	EVAL_EXACT,
	/* the last number of the output equals the last number of the answer */
	EVAL_NUMBER,
	/* the contents of the last \boxed{...} of output and answer are
	 * equal */
	EVAL_BOXED,
	/* the whole output equals the answer, except for white space */
	EVAL_TEXT,
	EVAL_FACTS, /* the output is right if each of the facts occurs in it */
};

struct eval_item {
	const char *id, *prompt; /* UTF-8 */
	/* expected answer in UTF-8; NULL if the item is only a prompt */
	const char *answer;
	enum eval_check check;
	unsigned level;
	/* array of the facts, which are non-empty strings, or NULL */
	const struct json_t *facts;
	/* JSON object that owns the item's strings and facts */
	struct json_t *line;
};

struct eval_items {
	struct eval_item *item;
	size_t n;
	/* whether all items have answers; if not, no item has an answer */
	bool marked;
};

enum eval_need {
	EVAL_NEED_ANSWERS, /* items must have answers */
	/* items need only prompts; their answers are ignored */
	EVAL_NEED_PROMPTS,
	/* if any line has an answer or a check, all items must have answers;
	 * otherwise items are only prompts */
	EVAL_NEED_ANY,
};

/*
 * Read all items of a file, or of standard input if `path` is "-". The caller
 * releases the items with eval_items_release(), also on failure. Returns 0 on
 * success. Returns a negative errno if there is no item or a line is invalid;
 * the message then names file, line and member.
 */
int eval_items_read(
	struct eval_items *, const char *path, enum eval_need, struct err *);
void eval_items_release(struct eval_items *);

#endif
