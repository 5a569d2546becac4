#include "host/bench/bench_items.h"

#include "base/err.h"
#include "host/eval/eval_tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Add the first n of `items` to `b`, or n places for pseudo-random prompts
 * (prompt NULL) if `items` is NULL. `b` copies the prompts. If the items have
 * answers, `b` also points to them, so they must outlive `b`. */
static int add(struct bench_items *b, const struct eval_items *items, size_t n,
	unsigned task, struct err *e)
{
	const size_t room = b->n + n + 1;
	char **prompt = reallocarray(b->prompt, room, sizeof(char *));
	unsigned *of = reallocarray(b->of, room, sizeof(*of));
	const struct eval_item **marked =
		reallocarray(b->marked, room, sizeof(const struct eval_item *));

	b->prompt = prompt ? prompt : b->prompt;
	b->of = of ? of : b->of;
	b->marked = marked ? marked : b->marked;
	for (size_t i = 0; i < n && prompt && of && marked; i++) {
		const struct eval_item *item = items ? &items->item[i] : NULL;

		prompt[b->n] = item ? strdup(item->prompt) : NULL;
		if (item && !prompt[b->n])
			break;
		marked[b->n] = item && items->marked ? item : NULL;
		of[b->n++] = task;
	}
	return b->n + 1 == room ? 0
				: err_set(e, ENOMEM, "no memory for prompts");
}

int bench_items_of_tasks(struct bench_items *b, const char *const *task,
	unsigned n_tasks, uint32_t each, struct err *e)
{
	int ret = 0;

	b->n_tasks = n_tasks;
	memcpy(b->task, task, n_tasks * sizeof(*task));
	for (unsigned i = 0; i < n_tasks && !ret; i++) {
		struct eval_tasks all = { 0 };
		struct eval_items items;

		ret = eval_tasks_read(&all, task[i], EVAL_NEED_ANY, e);
		if (!ret) {
			items = eval_task_first(&all.task[0], each);
			b->kept[i] = all.task[0].items;
			all.task[0].items = (struct eval_items){ 0 };
			ret = add(b, &items, items.n, i, e);
		}
		eval_tasks_release(&all);
	}
	return ret;
}

int bench_items_of_file(
	struct bench_items *b, const char *path, uint32_t most, struct err *e)
{
	struct eval_items items = { 0 };
	int ret = eval_items_read(&items, path, EVAL_NEED_PROMPTS, e);
	const char *slash = strrchr(path, '/'), *dot;
	const char *name = slash ? slash + 1 : path;
	int len = (int)strlen(name);

	/* The task is named after the file, without its folder and its last
	 * extension. */
	dot = strrchr(name, '.');
	if (dot && dot > name)
		len = (int)(dot - name);
	if (!strcmp(path, "-"))
		snprintf(b->file, sizeof(b->file), "prompts");
	else
		snprintf(b->file, sizeof(b->file), "%.*s", len, name);
	b->task[0] = b->file;
	b->n_tasks = 1;

	items.marked = false;
	if (!ret)
		ret = add(b, &items, most && most < items.n ? most : items.n, 0,
			e);
	eval_items_release(&items);
	return ret;
}

int bench_items_random(struct bench_items *b, uint32_t n, struct err *e)
{
	b->task[0] = "random";
	b->n_tasks = 1;
	return add(b, NULL, n, 0, e);
}

void bench_items_release(struct bench_items *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->prompt[i]);
	free(b->prompt);
	free(b->of);
	free(b->marked);
	for (unsigned i = 0; i < FIGURES_TASKS; i++)
		eval_items_release(&b->kept[i]);
	*b = (struct bench_items){ 0 };
}
