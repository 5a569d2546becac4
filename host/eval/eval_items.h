/*
 * Items of a task: a prompt, the answer wanted, and how an output is marked.
 * They come as JSON lines:
 *
 *   {"id": "qa-17", "prompt": "Read: ...\nAnswer:", "answer": " Anna.",
 *    "check": "exact", "facts": [], "level": 0}
 *
 * facts and level may be left out; other members are not looked at.
 *
 * Or prompts alone, whose outputs nobody can mark: JSON lines with a "prompt"
 * (and an "id", or they are called by their line), or lines of plain text, each
 * a prompt.
 */
#ifndef HOST_EVAL_EVAL_ITEMS_H
#define HOST_EVAL_EVAL_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json_t;

#define EVAL_LEVELS 10 /* 0 (has none) to 9 */

enum eval_check {
	EVAL_EXACT,  /* the first line is the answer's */
	EVAL_NUMBER, /* the last number is the answer's */
	EVAL_TEXT,   /* all of it is the answer, but for white space */
	EVAL_FACTS,  /* every one of the facts occurs in it */
};

/* "exact", "number", "text", "facts", NULL: in the enum's order. */
extern const char *const eval_check_names[];

struct eval_item {
	const char *id, *prompt; /* UTF-8 */
	const char *answer;      /* likewise; NULL of a prompt alone */
	enum eval_check check;
	unsigned level;
	const struct json_t *facts; /* of strings, none empty; or NULL */
	struct json_t *line;        /* owns all of these */
};

struct eval_items {
	struct eval_item *item;
	size_t n;
	bool marked; /* each has an answer; else all are prompts alone */
};

enum eval_need {
	EVAL_NEED_ANSWERS, /* items that can be marked */
	EVAL_NEED_PROMPTS, /* prompts, whatever else stands beside them */
	EVAL_NEED_ANY,     /* items where a line has an answer or a check */
};

/*
 * All items of a file ("-": standard input), which has at least one;
 * eval_items_release in any case. A line that is none is refused with file,
 * line and member.
 */
int eval_items_read(
	struct eval_items *, const char *path, enum eval_need, struct err *);
void eval_items_release(struct eval_items *);

#endif
