/*
 * The items of an experiment. An item is a prompt that belongs to a task, so
 * that figures can be reported by task. Prompts come from bundled tasks or from
 * a user's file, or they are pseudo-random tokens.
 */
#ifndef HOST_BENCH_BENCH_ITEMS_H
#define HOST_BENCH_BENCH_ITEMS_H

#include "host/bench/figures.h"
#include "host/eval/eval_items.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* number of tokens of a pseudo-random prompt */
#define BENCH_RANDOM_PROMPT 64

/* The caller zeroes the struct, and releases it with bench_items_release() even
 * if loading fails. */
struct bench_items {
	const char *task[FIGURES_TASKS];
	unsigned n_tasks;
	/* task name that reports show for prompts from the user's file */
	char file[NAME_MAX + 1];
	/* [n] texts of the prompts; prompt[i] is NULL if prompt i consists of
	 * BENCH_RANDOM_PROMPT pseudo-random tokens, which rng_uniform()
	 * (base/rng.h) generates with stream i */
	char **prompt;
	unsigned *of; /* [n] index of each item's task in `task` */
	/* [n] items with their expected answers; marked[i] is NULL if item i is
	 * not scored */
	const struct eval_item **marked;
	/* items read from the tasks' files; `marked` points to some of these
	 * items */
	struct eval_items kept[FIGURES_TASKS];
	size_t n;
};

/* Load the first `each` items of each of the named tasks. The names must
 * outlive the struct. Returns 0 or a negative errno. */
int bench_items_of_tasks(struct bench_items *, const char *const *task,
	unsigned n_tasks, uint32_t each, struct err *);
/* Load the first `most` prompts of a file; `most` 0 loads all prompts. The path
 * "-" means standard input. Returns 0 or a negative errno. */
int bench_items_of_file(
	struct bench_items *, const char *path, uint32_t most, struct err *);
int bench_items_random(struct bench_items *, uint32_t n, struct err *);

void bench_items_release(struct bench_items *);

#endif
