/*
 * A setting of an experiment: a list of changes to the user's options, each
 * written "NAME=VALUE" as on the command line. The order of the changes does
 * not matter; if several changes have the same name, the last one counts. Names
 * and values are not checked here.
 */
#ifndef HOST_BENCH_SETTING_H
#define HOST_BENCH_SETTING_H

#include <stdbool.h>

struct err;
struct tandem;

#define SETTING_CHANGES 24

/* Functions that a runner calls with the open library handle (struct tandem) of
 * a setting. */
struct setting_hook {
	/* `opened` is called before the first item, `done` after the last item.
	 * Either may be NULL. */
	int (*opened)(void *arg, struct tandem *, struct err *);
	int (*done)(void *arg, struct tandem *, struct err *);
	void *arg;
};

/* The caller zeroes the struct, and releases it with setting_release() even if
 * a change fails. */
struct setting {
	char *change[SETTING_CHANGES];
	unsigned n;
	const struct setting_hook *hook; /* NULL means no hook */
	/*
	 * whether each item starts with the compute graphs that the previous
	 * item has left loaded on the device. Otherwise the device loads the
	 * graphs for prompts between two items; the time of this load is not
	 * measured.
	 */
	bool in_a_row;
};

/* Add the change "NAME=VALUE", which is copied. Returns 0 on success, -EINVAL
 * if `text` contains no `=` or there are more than SETTING_CHANGES changes, or
 * another negative errno. */
int setting_change(struct setting *, const char *text, struct err *);
/* Add a change like setting_change(), with name and value given separately. */
int setting_set(
	struct setting *, const char *name, const char *value, struct err *);
int setting_copy(struct setting *to, const struct setting *from, struct err *);

/* Return the value that the setting gives to option `name`, or NULL if the
 * setting does not change this option. */
const char *setting_value(const struct setting *, const char *name);
bool setting_same(const struct setting *, const struct setting *);

/* Write the changes as "method=lever tree-rows=32", truncated to `size` bytes.
 * Returns `text`. */
const char *setting_text(const struct setting *, char *text, unsigned size);

void setting_release(struct setting *);

#endif
