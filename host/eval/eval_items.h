/*
 * Items of a task: a prompt, the answer wanted, and how an output is marked.
 * They come as JSON lines:
 *
 *   {"id": "qa-17", "prompt": "Read: ...\nAnswer:", "answer": " Anna.",
 *    "check": "exact", "facts": [], "level": 0}
 *
 * facts and level may be left out; other members are not looked at.
 */
#ifndef HOST_EVAL_EVAL_ITEMS_H
#define HOST_EVAL_EVAL_ITEMS_H

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
	const char *id, *prompt, *answer; /* UTF-8 */
	enum eval_check check;
	unsigned level;
	const struct json_t *facts; /* of strings, none empty; or NULL */
	struct json_t *line;        /* owns all of these */
};

struct eval_items {
	struct eval_item *item;
	size_t n;
};

/*
 * All items of a file, which has at least one; eval_items_release in any
 * case. A line that is none is refused with file, line and member.
 */
int eval_items_read(struct eval_items *, const char *path, struct err *);
void eval_items_release(struct eval_items *);

#endif
