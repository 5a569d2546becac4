/*
 * A setting of an experiment: changes to the user's options, each "NAME=VALUE"
 * as on the command line. Order does not matter; of several changes with one
 * name the last counts. Names and values are not checked here.
 */
#ifndef HOST_BENCH_SETTING_H
#define HOST_BENCH_SETTING_H

#include <stdbool.h>

struct err;
struct tandem;

#define SETTING_CHANGES 24

/* Functions of a setting that a runner calls with the open handle. */
struct setting_hook {
	/* Called before the first item and after the last; NULL: not called. */
	int (*opened)(void *arg, struct tandem *, struct err *);
	int (*done)(void *arg, struct tandem *, struct err *);
	void *arg;
};

/* Starts zeroed; setting_release in any case. */
struct setting {
	char *change[SETTING_CHANGES];
	unsigned n;
	const struct setting_hook *hook; /* NULL: none */
};

/* Copies the text. -EINVAL for a text without `=`, and for more than
 * SETTING_CHANGES changes. */
int setting_change(struct setting *, const char *text, struct err *);
/* The same with name and value apart. */
int setting_set(
	struct setting *, const char *name, const char *value, struct err *);
int setting_copy(struct setting *to, const struct setting *from, struct err *);

/* The value of that name; NULL: unchanged. */
const char *setting_value(const struct setting *, const char *name);
bool setting_same(const struct setting *, const struct setting *);

/* Writes "method=lever tree-rows=32", truncated to the size. */
const char *setting_text(const struct setting *, char *text, unsigned size);

void setting_release(struct setting *);

#endif
