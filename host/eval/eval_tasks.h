/*
 * The tasks of an evaluation, which an operand of a command line selects: a
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

#define EVAL_TASKS 15
#define EVAL_TASK_NAMES                                      \
	"summary, qa, ui, reply, math, code, summary-long, " \
	"qa-long, ui-long, reply-long, story, report, email, program, chat"
#define EVAL_TASK_GROUPS \
	"short (the first six), long (*-long), answers (story to program), all"

/* Names of the EVAL_TASKS bundled tasks, then names of groups, then NULL. */
extern const char *const eval_task_names[];

struct eval_task {
	/* name of the task; for a file, the file's name without .jsonl or
	 * .txt */
	char name[NAME_MAX + 1];
	char path[PATH_MAX];
	struct eval_items items;
};

struct eval_tasks {
	struct eval_task task[EVAL_TASKS];
	size_t n;
};

/*
 * Whether `operand` is the name of a task or of a group. If it is, and `which`
 * is not NULL, sets which[i] to true for the task, or for each task of the
 * group, and to false for all other tasks.
 */
bool eval_task_named(const char *operand, bool which[EVAL_TASKS]);
bool eval_ends_in(const char *operand, const char *suffix);

/* Whether `operand` is a file: a path with a '/', or a name that ends in .jsonl
 * or .txt. */
bool eval_task_is_file(const char *operand);

/*
 * Read all items of a task, of a group, or of a file (see eval_task_is_file).
 * Fails if items lack a member that `need` requires; the items of bundled tasks
 * lack none. The caller zeroes the struct, and releases it with
 * eval_tasks_release() even on failure. Returns 0 or a negative errno.
 */
int eval_tasks_read(
	struct eval_tasks *, const char *operand, enum eval_need, struct err *);
void eval_tasks_release(struct eval_tasks *);

/* Return the first `most` items of a task; 0 means all items. The items still
 * belong to the task. */
struct eval_items eval_task_first(const struct eval_task *, uint64_t most);

#endif
