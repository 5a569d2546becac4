/*
 * A schedule: a list of steps, as plain numbers. It is drawn from a seed or
 * read from a text; its text gives the same schedule on any machine, so that a
 * failure can be saved, made smaller and reproduced elsewhere.
 *
 *   tandem-stress 1 ring
 *   # a comment
 *   open kib=4 from=536870900
 *   put units=12
 *   take
 *
 * A line is a verb and its parameters; an omitted parameter has its smallest
 * value. Each area (tests/stress/stress.h) has a table of its verbs.
 *
 * A text with an unknown name or a number out of its range is refused, with the
 * number of the line. Plain values that own nothing.
 */
#ifndef TESTS_STRESS_SCHEDULE_H
#define TESTS_STRESS_SCHEDULE_H

#include "base/strbuf.h"

#include <stdint.h>

struct err;

#define STRESS_PARAMS 8
#define STRESS_STEPS  400

struct stress_param {
	const char *name; /* NULL after the last */
	uint32_t min, max;
	const char *const *words; /* [max + 1] of the values; NULL: numbers */
};

struct stress_verb {
	const char *name;
	struct stress_param param[STRESS_PARAMS];
};

struct stress_verbs {
	const char *area; /* whose they are */
	const struct stress_verb *verb;
	unsigned n;
};

struct stress_step {
	uint32_t verb; /* index of the table */
	uint32_t value[STRESS_PARAMS];
};

struct stress_schedule {
	uint32_t n;
	struct stress_step step[STRESS_STEPS];
};

/* The random numbers of one schedule: a function of seed, run and position. */
struct stress_draw {
	uint64_t seed, run, at;
};

/* From 0 to below - 1; below > 0. */
uint32_t stress_below(struct stress_draw *, uint32_t below);
/* True once in `of` times, on average. */
bool stress_once_in(struct stress_draw *, uint32_t of);

/* Append a step; with STRESS_STEPS steps it is dropped. */
void stress_add(struct stress_schedule *, uint32_t verb, const uint32_t *value,
	unsigned n);
#define STRESS_ADD(s, verb, ...)                               \
	stress_add(s, verb, (const uint32_t[]){ __VA_ARGS__ }, \
		sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

unsigned stress_params(const struct stress_verb *);

/* Print as text; parsing the text gives the same schedule. */
void stress_print(const struct stress_verbs *, const struct stress_schedule *,
	struct strbuf *out);

/* The area that a text names: 0 and `area`; -EINVAL. */
#define STRESS_AREA_NAME 16
int stress_text_area(
	const char *text, char area[STRESS_AREA_NAME], struct err *);

/* 0; -EINVAL with the line and its error. */
int stress_parse(struct stress_schedule *, const struct stress_verbs *,
	const char *text, struct err *);

#endif
