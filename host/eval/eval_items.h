/*
 * Items of a task: a prompt, the expected answer, and the way to compare an
 * output with it. They are read from JSON lines:
 *
 *   {"id": "qa-17", "prompt": "Read: ...\nAnswer:", "answer": " Anna.",
 *    "check": "exact", "facts": [], "level": 0}
 *
 * facts and level are optional; other members are ignored.
 *
 * Or prompts only, whose outputs cannot be scored: JSON lines with a "prompt"
 * (and optionally an "id"; the default is the line number), or lines of plain
 * text, one prompt each.
 */
#ifndef HOST_EVAL_EVAL_ITEMS_H
#define HOST_EVAL_EVAL_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;

#define EVAL_LEVELS 10 /* 0 (no level) to 9 */

enum eval_check {
	EVAL_EXACT,  /* the first line equals the answer's */
	EVAL_NUMBER, /* the last number equals the answer's */
	EVAL_TEXT,   /* the whole text equals the answer, except white space */
	EVAL_FACTS,  /* each of the facts occurs in the output */
};

struct eval_item {
	const char *id, *prompt; /* UTF-8 */
	const char *answer;      /* UTF-8; NULL: the item is a prompt only */
	enum eval_check check;
	unsigned level;
	const struct json_t *facts; /* array of non-empty strings, or NULL */
	struct json_t *line;        /* owns all of these */
};

struct eval_items {
	struct eval_item *item;
	size_t n;
	/* every item has an answer; otherwise all are prompts only */
	bool marked;
};

enum eval_need {
	EVAL_NEED_ANSWERS, /* items with answers */
	EVAL_NEED_PROMPTS, /* prompts; answers are ignored */
	/* items if any line has an answer or a check, otherwise prompts */
	EVAL_NEED_ANY,
};

/*
 * Read all items of a file ("-": standard input), which must have at least one;
 * eval_items_release in any case. An invalid line is refused with file, line
 * and member.
 */
int eval_items_read(
	struct eval_items *, const char *path, enum eval_need, struct err *);
void eval_items_release(struct eval_items *);

#endif
