/*
 * The items of an experiment: prompts, each of which belongs to a task, so that
 * figures can be reported by task. They come from bundled tasks, from a user's
 * file, or are pseudo-random.
 */
#ifndef HOST_BENCH_BENCH_ITEMS_H
#define HOST_BENCH_BENCH_ITEMS_H

#include "host/bench/figures.h"
#include "host/eval/eval_items.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Tokens of a pseudo-random prompt. */
#define BENCH_RANDOM_PROMPT 64

/* Starts zeroed; bench_items_release in any case. */
struct bench_items {
	const char *task[FIGURES_TASKS];
	unsigned n_tasks;
	/* name of the task that stands for the user's file */
	char file[NAME_MAX + 1];
	/* NULL: item i is BENCH_RANDOM_PROMPT tokens of stream i. */
	char **prompt;
	unsigned *of; /* task of each item */
	/* The expected answers; NULL: items are not scored. */
	const struct eval_item **marked;
	struct eval_items kept[FIGURES_TASKS]; /* storage of `marked` */
	size_t n;
};

/* Load the first `each` items of each of these tasks, whose names are
 * borrowed. */
int bench_items_of_tasks(struct bench_items *, const char *const *task,
	unsigned n_tasks, uint32_t each, struct err *);
/* Load the first `most` prompts of a file, 0: all; "-" is standard input. */
int bench_items_of_file(
	struct bench_items *, const char *path, uint32_t most, struct err *);
int bench_items_random(struct bench_items *, uint32_t n, struct err *);

void bench_items_release(struct bench_items *);

#endif
