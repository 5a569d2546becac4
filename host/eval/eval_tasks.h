/*
 * The tasks of an evaluation, selected by an operand of a command line: a
 * bundled task, a group of tasks, or a file of items.
 */
#ifndef HOST_EVAL_EVAL_TASKS_H
#define HOST_EVAL_EVAL_TASKS_H

#include "host/eval/eval_items.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define EVAL_TASKS 10
#define EVAL_TASK_NAMES                                      \
	"summary, qa, ui, reply, math, code, summary-long, " \
	"qa-long, ui-long, reply-long"
#define EVAL_TASK_GROUPS "short (the first six), long, all"

/* The EVAL_TASKS bundled tasks, then the groups, then NULL. */
extern const char *const eval_task_names[];

struct eval_task {
	char name[NAME_MAX + 1]; /* of a file: without .jsonl or .txt */
	char path[PATH_MAX];
	struct eval_items items;
};

struct eval_tasks {
	struct eval_task task[EVAL_TASKS];
	size_t n;
};

/* Whether it is the name of a task or of a group; sets the tasks in `which`,
 * unless that is NULL. */
bool eval_task_named(const char *operand, bool which[EVAL_TASKS]);
bool eval_task_is_jsonl(const char *operand);

/* Whether it is a file: a path with a '/', or a name ending in .jsonl or
 * .txt. */
bool eval_task_is_file(const char *operand);

/*
 * Read all items of a task, a group, or a file (eval_task_is_file), which must
 * have what `need` requires (bundled tasks do). *t starts zeroed;
 * eval_tasks_release in any case.
 */
int eval_tasks_read(
	struct eval_tasks *, const char *operand, enum eval_need, struct err *);
void eval_tasks_release(struct eval_tasks *);

/* The first `most` items of a task, 0: all. Borrowed. */
struct eval_items eval_task_first(const struct eval_task *, uint64_t most);

#endif
