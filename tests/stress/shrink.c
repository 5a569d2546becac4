#include "tests/stress/shrink.h"

#include <string.h>

/* Run a candidate. If the candidate fails too, replace *s by it and return
 * true. */
static bool take(struct stress_schedule *s,
	const struct stress_schedule *candidate, struct stress_shrink *k)
{
	if (!k->tries)
		return false;
	k->tries--;
	if (!k->fails(k->arg, candidate))
		return false;
	*s = *candidate;
	return true;
}

static bool drop(struct stress_schedule *s, uint32_t from, uint32_t n,
	struct stress_shrink *k)
{
	struct stress_schedule c = *s;

	memmove(&c.step[from], &c.step[from + n],
		(c.n - from - n) * sizeof(c.step[0]));
	c.n -= n;
	return take(s, &c, k);
}

/* Remove steps from the end first, because later steps more often depend on
 * earlier steps than the reverse. */
static bool drop_steps(struct stress_schedule *s, struct stress_shrink *k)
{
	bool any = false;

	for (uint32_t size = (s->n + 1) / 2; size; size /= 2)
		for (uint32_t end = s->n; end >= size && k->tries; end -= size)
			any |= drop(s, end - size, size, k);
	return any;
}

static bool try_value(struct stress_schedule *s, uint32_t at, unsigned i,
	uint32_t value, struct stress_shrink *k)
{
	struct stress_schedule c = *s;

	c.step[at].value[i] = value;
	return take(s, &c, k);
}

static bool lower(struct stress_schedule *s, uint32_t at, unsigned i,
	uint32_t min, struct stress_shrink *k)
{
	const uint32_t *now = &s->step[at].value[i];
	bool any = false;

	if (*now > min && try_value(s, at, i, min, k))
		return true;
	while (*now - min > 1 && try_value(s, at, i, min + (*now - min) / 2, k))
		any = true;
	while (*now - min > 1 && try_value(s, at, i, *now - 1, k))
		any = true;
	return any;
}

static bool lower_values(struct stress_schedule *s,
	const struct stress_verbs *verbs, struct stress_shrink *k)
{
	bool any = false;

	for (uint32_t at = 0; at < s->n; at++) {
		const struct stress_verb *v = &verbs->verb[s->step[at].verb];

		for (unsigned i = 0; i < stress_params(v); i++)
			any |= lower(s, at, i, v->param[i].min, k);
	}
	return any;
}

bool stress_make_small(struct stress_schedule *s,
	const struct stress_verbs *verbs, struct stress_shrink *k)
{
	bool any = true;

	while (any && k->tries) {
		any = drop_steps(s, k);
		any |= lower_values(s, verbs, k);
	}
	return k->tries;
}
