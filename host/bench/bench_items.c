#include "host/bench/bench_items.h"

#include "base/err.h"
#include "host/eval/eval_tasks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Add an item. `prompt` is copied; NULL means a pseudo-random prompt. `marked`
 * is the expected answer, or NULL; it must outlive `b`. */
static int add(struct bench_items *b, const char *prompt,
	const struct eval_item *marked, unsigned task, struct err *e)
{
	char **p = reallocarray(b->prompt, b->n + 1, sizeof(char *));
	const struct eval_item **m;
	unsigned *of;

	if (p)
		b->prompt = p;
	of = p ? reallocarray(b->of, b->n + 1, sizeof(*of)) : NULL;
	if (of)
		b->of = of;
	m = of ? reallocarray(b->marked, b->n + 1, sizeof(*m)) : NULL;
	if (m)
		b->marked = m;
	if (!m || (prompt && !(p[b->n] = strdup(prompt))))
		return err_set(e, ENOMEM, "no memory for prompts");
	if (!prompt)
		p[b->n] = NULL;
	m[b->n] = marked;
	of[b->n++] = task;
	return 0;
}

static int add_all(struct bench_items *b, const struct eval_items *items,
	unsigned task, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < items->n && !ret; i++) {
		const struct eval_item *item = &items->item[i];

		ret = add(
			b, item->prompt, items->marked ? item : NULL, task, e);
	}
	return ret;
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
			ret = add_all(b, &items, i, e);
		}
		eval_tasks_release(&all);
	}
	return ret;
}

int bench_items_of_file(
	struct bench_items *b, const char *path, uint32_t most, struct err *e)
{
	struct eval_items items = { 0 }, first;
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

	first = items;
	if (most && most < first.n)
		first.n = most;
	first.marked = false;
	if (!ret)
		ret = add_all(b, &first, 0, e);
	eval_items_release(&items);
	return ret;
}

int bench_items_random(struct bench_items *b, uint32_t n, struct err *e)
{
	int ret = 0;

	b->task[0] = "random";
	b->n_tasks = 1;
	for (uint32_t i = 0; i < n && !ret; i++)
		ret = add(b, NULL, NULL, 0, e);
	return ret;
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
