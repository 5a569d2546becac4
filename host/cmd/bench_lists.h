/*
 * Lists on the command lines of benchmarks: names or numbers with commas or
 * spaces between. What is none is reported as a misuse of the command, and then
 * the exit code comes back, else EXIT_OK.
 */
#ifndef HOST_CMD_BENCH_LISTS_H
#define HOST_CMD_BENCH_LISTS_H

#include "host/bench/figures.h"

#include <stdbool.h>
#include <stdint.h>

struct command;
struct method_facts;

#define LIST_PART 32

/* The next part, cut where it is longer; false behind the last. */
bool list_part(const char **list, char part[LIST_PART]);

/* Of --methods; one that stands there twice counts once. `there_is` are those
 * allowed, which diffusion models' are not unless so said. */
int list_methods(const struct command *, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most);

/* Of --tables: some of names[n], or all. */
int list_tables(const struct command *, const char *list,
	const char *const *names, int n, bool *out);

/* Of --tasks: names of tasks and of groups, or none. */
int list_tasks(const struct command *, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n);

/* At most `max` whole numbers of [least, most]. */
int list_numbers(const struct command *, const char *option, const char *list,
	uint32_t least, uint32_t most, uint32_t *out, unsigned *n,
	unsigned max);

#endif
