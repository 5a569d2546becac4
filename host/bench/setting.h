/*
 * A setting of an experiment: changes to the options that were asked for, each
 * "NAME=VALUE" with the name and the text of an option. Order does not matter;
 * of one name the last counts. What an option means, and whether a value is
 * one, is not known here.
 */
#ifndef HOST_BENCH_SETTING_H
#define HOST_BENCH_SETTING_H

#include <stdbool.h>

struct err;
struct tandem;

#define SETTING_CHANGES 24

/* What a setting means beyond its options, to a runner that has handles. */
struct setting_hook {
	/* Before the first item, and after the last; NULL: nothing. */
	int (*opened)(void *arg, struct tandem *, struct err *);
	int (*done)(void *arg, struct tandem *, struct err *);
	void *arg;
};

/* Starts zeroed; setting_release in any case. */
struct setting {
	char *change[SETTING_CHANGES];
	unsigned n;
	const struct setting_hook *hook; /* NULL: nothing beyond */
};

/* Copies the text. -EINVAL where it is no NAME=VALUE, or one too many. */
int setting_change(struct setting *, const char *text, struct err *);
/* A name and a value by themselves. */
int setting_set(
	struct setting *, const char *name, const char *value, struct err *);
int setting_copy(struct setting *to, const struct setting *from, struct err *);

/* The value of that name; NULL: as asked. */
const char *setting_value(const struct setting *, const char *name);
bool setting_same(const struct setting *, const struct setting *);

/* "method=lever tree-rows=32", cut where it is longer. */
const char *setting_text(const struct setting *, char *text, unsigned size);

void setting_release(struct setting *);

#endif
