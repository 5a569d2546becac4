#include "host/eval/eval_tasks.h"

#include "base/err.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const names[EVAL_TASKS] = { "summary", "qa", "ui", "reply",
	"math", "code" };

static const char suffix[] = ".jsonl";
#define SUFFIX_LEN (sizeof(suffix) - 1)

bool eval_task_is_name(const char *operand)
{
	for (size_t i = 0; i < EVAL_TASKS; i++)
		if (!strcmp(names[i], operand))
			return true;
	return false;
}

bool eval_task_is_jsonl(const char *operand)
{
	size_t len = strlen(operand);

	return len >= SUFFIX_LEN && !strcmp(operand + len - SUFFIX_LEN, suffix);
}

bool eval_task_is_file(const char *operand)
{
	return strchr(operand, '/') || eval_task_is_jsonl(operand);
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

static int add_file(struct eval_tasks *all, const char *path,
	enum eval_need need, struct err *e)
{
	struct eval_task *t = &all->task[all->n];
	const char *slash = strrchr(path, '/'),
		   *base = slash ? slash + 1 : path;
	size_t len = strlen(base);

	if (strlen(path) >= sizeof(t->path) || len >= sizeof(t->name))
		return err_set(e, ENAMETOOLONG, "the file's name is too long");
	if (len > SUFFIX_LEN && eval_task_is_jsonl(base))
		len -= SUFFIX_LEN;
	memcpy(t->name, base, len);
	memcpy(t->path, path, strlen(path));
	all->n++;
	return eval_items_read(&t->items, path, need, e);
}

int eval_tasks_read(struct eval_tasks *all, const char *operand,
	enum eval_need need, struct err *e)
{
	int ret = 0;

	if (eval_task_is_file(operand))
		return add_file(all, operand, need, e);
	if (strcmp(operand, "all"))
		return add_task(all, operand, e);
	for (size_t i = 0; i < EVAL_TASKS && !ret; i++)
		ret = add_task(all, names[i], e);
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
