/*
 * A schedule is a list of steps, each of which is a verb with a few numbers. A
 * schedule is drawn at random from a seed, or read from a text. A text gives
 * the same schedule on every machine, so that a failure can be saved, minimized
 * and reproduced elsewhere.
 *
 *   tandem-stress 1 ring
 *   # a comment
 *   open kib=4 from=536870900
 *   put units=12
 *   take
 *
 * The first line has the version of the format and the name of an area
 * (tests/stress/stress.h). Every other line is a verb and its parameters; a
 * parameter that is omitted has its smallest value. Each area has a table of
 * its verbs.
 *
 * A text with an unknown name or a number outside its range is refused with a
 * message that has the number of the line. The structs own no memory.
 */
#ifndef TESTS_STRESS_SCHEDULE_H
#define TESTS_STRESS_SCHEDULE_H

#include "base/strbuf.h"

#include <stdint.h>

struct err;

#define STRESS_PARAMS 8
#define STRESS_STEPS  400

struct stress_param {
	const char *name; /* name; NULL after the last parameter */
	uint32_t min, max;
	/* [max + 1] words that stand for the values; NULL if the values are
	 * numbers */
	const char *const *words;
};

struct stress_verb {
	const char *name;
	struct stress_param param[STRESS_PARAMS];
};

struct stress_verbs {
	const char *area; /* name of the area */
	const struct stress_verb *verb;
	unsigned n;
};

struct stress_step {
	uint32_t verb; /* index in the table of verbs */
	uint32_t value[STRESS_PARAMS];
};

struct stress_schedule {
	uint32_t n;
	struct stress_step step[STRESS_STEPS];
};

/* The random numbers of one schedule. A number is a function of seed, run and
 * position. */
struct stress_draw {
	uint64_t seed, run, at;
};

/* A random number from 0 to below - 1, below > 0. */
uint32_t stress_below(struct stress_draw *, uint32_t below);
/* Returns true once in `of` calls on average. */
bool stress_once_in(struct stress_draw *, uint32_t of);

/* Append a step. If the schedule already has STRESS_STEPS steps, the step is
 * dropped. */
void stress_add(struct stress_schedule *, uint32_t verb, const uint32_t *value,
	unsigned n);
#define STRESS_ADD(s, verb, ...)                               \
	stress_add(s, verb, (const uint32_t[]){ __VA_ARGS__ }, \
		sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

unsigned stress_params(const struct stress_verb *);

/* Print a schedule as text. Parsing the text gives the same schedule. */
void stress_print(const struct stress_verbs *, const struct stress_schedule *,
	struct strbuf *out);

/* Get the name of the area of a schedule's text. Returns 0 or -EINVAL. */
#define STRESS_AREA_NAME 16
int stress_text_area(
	const char *text, char area[STRESS_AREA_NAME], struct err *);

/* Parse a schedule. Returns 0, or -EINVAL with a message that has the line and
 * its error. */
int stress_parse(struct stress_schedule *, const struct stress_verbs *,
	const char *text, struct err *);

#endif
