#include "host/eval/eval_tasks.h"

#include "base/err.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const eval_task_names[] = { "summary", "qa", "ui", "reply", "math",
	"code", "summary-long", "qa-long", "ui-long", "reply-long", "story",
	"report", "email", "program", "chat", "short", "long", "answers", "all",
	NULL };

/* groups[i] consists of the tasks [first, end). In eval_task_names[], the names
 * of the groups follow those of the tasks, in the order of this table. */
static const struct {
	size_t first, end;
} groups[] = { { 0, 6 }, { 6, 10 }, { 10, 14 }, { 0, EVAL_TASKS } };

bool eval_ends_in(const char *operand, const char *suffix)
{
	size_t len = strlen(operand), n = strlen(suffix);

	return len >= n && !strcmp(operand + len - n, suffix);
}

bool eval_task_named(const char *operand, bool which[EVAL_TASKS])
{
	size_t i = 0, first, end;

	while (eval_task_names[i] && strcmp(eval_task_names[i], operand))
		i++;
	if (!eval_task_names[i])
		return false;
	first = i < EVAL_TASKS ? i : groups[i - EVAL_TASKS].first;
	end = i < EVAL_TASKS ? i + 1 : groups[i - EVAL_TASKS].end;
	for (size_t t = 0; t < EVAL_TASKS && which; t++)
		which[t] = t >= first && t < end;
	return true;
}

bool eval_task_is_file(const char *operand)
{
	return strchr(operand, '/') || eval_ends_in(operand, ".jsonl") ||
		eval_ends_in(operand, ".txt");
}

static int add_task(struct eval_tasks *all, const char *name, struct err *e)
{
	struct eval_task *t = &all->task[all->n];
	int ret;

	snprintf(t->name, sizeof(t->name), "%s", name);
	ret = models_find_task(name, t->path, e);
	if (ret)
		return ret;
	all->n++;
	return eval_items_read(&t->items, t->path, EVAL_NEED_ANSWERS, e);
}

int eval_tasks_read(struct eval_tasks *all, const char *operand,
	enum eval_need need, struct err *e)
{
	bool which[EVAL_TASKS];
	int ret = 0;

	if (eval_task_is_file(operand)) {
		struct eval_task *t = &all->task[all->n];
		const char *slash = strrchr(operand, '/'),
			   *base = slash ? slash + 1 : operand,
			   *dot = strrchr(base, '.');
		size_t len = strlen(base);

		/* The task is named after the file, without its extension. */
		if (dot && dot > base &&
			(!strcmp(dot, ".jsonl") || !strcmp(dot, ".txt")))
			len = (size_t)(dot - base);
		if (strlen(operand) >= sizeof(t->path) ||
			len >= sizeof(t->name))
			return err_set(
				e, ENAMETOOLONG, "the file's name is too long");
		memcpy(t->name, base, len);
		memcpy(t->path, operand, strlen(operand));
		all->n++;
		return eval_items_read(&t->items, operand, need, e);
	}
	if (!eval_task_named(operand, which))
		return add_task(all, operand, e);
	for (size_t i = 0; i < EVAL_TASKS && !ret; i++)
		if (which[i])
			ret = add_task(all, eval_task_names[i], e);
	return ret;
}

void eval_tasks_release(struct eval_tasks *all)
{
	for (size_t i = 0; i < all->n; i++)
		eval_items_release(&all->task[i].items);
	all->n = 0;
}

struct eval_items eval_task_first(const struct eval_task *t, uint64_t most)
{
	struct eval_items items = t->items;

	if (most && most < items.n)
		items.n = (size_t)most;
	return items;
}
