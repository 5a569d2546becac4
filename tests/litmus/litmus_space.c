#include "tests/litmus/litmus.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A limit of the number of states, which no litmus test reaches. */
#define STATES_MAX (1u << 21)

static uint32_t hash_of(const struct litmus_state *s)
{
	const uint8_t *byte = (const uint8_t *)s;
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < sizeof(*s); i++)
		h = (h ^ byte[i]) * 1099511628211u;
	return (uint32_t)(h ^ h >> 32);
}

static void put_hash(struct litmus_space *p, uint32_t number)
{
	uint32_t at = hash_of(&p->state[number]) & (p->hash_size - 1);

	while (p->hash[at])
		at = (at + 1) & (p->hash_size - 1);
	p->hash[at] = number + 1;
}

static int grow(struct litmus_space *p, struct err *e)
{
	uint32_t cap = p->cap ? p->cap * 2 : 1024;
	void *state = realloc(p->state, cap * sizeof(*p->state));
	void *from, *by, *hash;

	p->state = state ? state : p->state;
	from = realloc(p->from, cap * sizeof(*p->from));
	p->from = from ? from : p->from;
	by = realloc(p->by, cap * sizeof(*p->by));
	p->by = by ? by : p->by;
	hash = calloc(cap * 2, sizeof(*p->hash));
	if (!state || !from || !by || !hash) {
		free(hash);
		return err_set(e, ENOMEM, "no memory for %u states", cap);
	}
	free(p->hash);
	p->hash = hash;
	p->hash_size = cap * 2;
	p->cap = cap;
	for (uint32_t i = 0; i < p->n; i++)
		put_hash(p, i);
	return 0;
}

static bool is_known(const struct litmus_space *p, const struct litmus_state *s)
{
	uint32_t at = hash_of(s) & (p->hash_size - 1);

	for (; p->hash[at]; at = (at + 1) & (p->hash_size - 1))
		if (!memcmp(&p->state[p->hash[at] - 1], s, sizeof(*s)))
			return true;
	return false;
}

static int add_state(struct litmus_space *p, const struct litmus_state *s,
	uint32_t from, uint8_t by, struct err *e)
{
	int ret;

	if (p->n && is_known(p, s))
		return 0;
	if (p->n == STATES_MAX)
		return err_set(e, E2BIG, "more than %u states", STATES_MAX);
	if (p->n == p->cap && (ret = grow(p, e)))
		return ret;
	p->state[p->n] = *s;
	p->from[p->n] = from;
	p->by[p->n] = by;
	put_hash(p, p->n++);
	return 0;
}

static int add_outcome(struct litmus_space *p, const struct litmus_outcome *o,
	uint32_t at, struct err *e)
{
	for (uint32_t i = 0; i < p->n_outcomes; i++)
		if (!memcmp(&p->outcome[i], o, sizeof(*o)))
			return 0;
	if (p->n_outcomes == p->outcome_cap) {
		uint32_t cap = p->outcome_cap ? p->outcome_cap * 2 : 16;
		void *o2 = realloc(p->outcome, cap * sizeof(*p->outcome));
		void *at2;

		p->outcome = o2 ? o2 : p->outcome;
		at2 = realloc(p->outcome_at, cap * sizeof(*p->outcome_at));
		p->outcome_at = at2 ? at2 : p->outcome_at;
		if (!o2 || !at2)
			return err_set(e, ENOMEM, "no memory for outcomes");
		p->outcome_cap = cap;
	}
	p->outcome[p->n_outcomes] = *o;
	p->outcome_at[p->n_outcomes++] = at;
	return 0;
}

/* Record the outcome of a run that ended, and whether it broke a rule. */
static int add_end(struct litmus_space *p, const struct litmus *t, uint32_t at,
	struct err *e)
{
	const struct litmus_state *s = &p->state[at];
	unsigned broken = litmus_broken(s);
	bool harm = s->harmed ||
		memcmp(s->memory, s->newest, sizeof(s->memory)) != 0;
	struct litmus_outcome o;

	if (broken & LITMUS_OF_DEVICE && p->breach_at == UINT32_MAX)
		p->breach_at = at;
	p->breaches |= broken;
	p->harmful |= harm;
	p->unexplained |= harm && !(broken & ~LITMUS_NEEDLESS_WAIT);
	litmus_outcome_of(t, s, &o);
	return add_outcome(p, &o, at, e);
}

static bool is_stuck(const uint8_t *move, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!(move[i] >> 4))
			return false;
	return true;
}

static int expand(struct litmus_space *p, const struct litmus *t,
	unsigned nature, uint32_t at, struct err *e)
{
	uint8_t move[LITMUS_MOVES_MAX];
	struct litmus_state s = p->state[at], next;
	unsigned n = litmus_moves(t, &s, nature, move);
	int ret = 0;

	if (litmus_is_over(t, &s))
		ret = add_end(p, t, at, e);
	else if (is_stuck(move, n))
		ret = err_set(e, EDEADLK,
			"%s: an agent waits forever for "
			"a message",
			t->name);
	for (unsigned i = 0; !ret && i < n; i++) {
		next = s;
		litmus_move(t, &next, move[i]);
		ret = add_state(p, &next, at, move[i], e);
	}
	return ret;
}

int litmus_explore(struct litmus_space *p, const struct litmus *t,
	unsigned nature, struct err *e)
{
	struct litmus_state s;
	int ret;

	memset(p, 0, sizeof(*p));
	p->breach_at = UINT32_MAX;
	litmus_begin(t, &s);
	ret = add_state(p, &s, 0, 0, e);
	/* Visit states in the order in which they were found, so that the
	 * shortest path to each state is found first. */
	for (uint32_t at = 0; !ret && at < p->n; at++)
		ret = expand(p, t, nature, at, e);
	if (ret)
		litmus_space_release(p);
	return ret;
}

void litmus_space_release(struct litmus_space *p)
{
	free(p->state);
	free(p->from);
	free(p->by);
	free(p->hash);
	free(p->outcome);
	free(p->outcome_at);
	memset(p, 0, sizeof(*p));
}

unsigned litmus_path(const struct litmus_space *p, uint32_t state,
	uint8_t move[LITMUS_MOVES_MAX])
{
	unsigned n = 0;

	for (uint32_t at = state; at; at = p->from[at])
		n++;
	assert(n <= LITMUS_MOVES_MAX);
	for (uint32_t at = state, i = n; at; at = p->from[at])
		move[--i] = p->by[at];
	return n;
}

/* ---- stated outcomes ----------------------------------------------------- */

static bool agrees(const struct litmus *t, const struct litmus_outcome *stated,
	const struct litmus_outcome *o)
{
	for (unsigned i = 0; i < LITMUS_RESULTS; i++)
		if (t->named[i] && stated->value[i] != o->value[i])
			return false;
	return true;
}

static int refuse(const struct litmus *t, const struct litmus_outcome *o,
	const char *what, struct err *e)
{
	char text[256];

	litmus_print_outcome(t, o, text, sizeof(text));
	return err_set(e, EINVAL, "%s: %s: %s", t->name, text, what);
}

static bool is_stated(const struct litmus *t, const struct litmus_outcome *list,
	unsigned n, const struct litmus_outcome *o)
{
	for (unsigned i = 0; i < n; i++)
		if (agrees(t, &list[i], o))
			return true;
	return false;
}

static bool can_happen(const struct litmus *t, const struct litmus_space *p,
	const struct litmus_outcome *stated)
{
	for (uint32_t i = 0; i < p->n_outcomes; i++)
		if (agrees(t, stated, &p->outcome[i]))
			return true;
	return false;
}

int litmus_hold(
	const struct litmus *t, const struct litmus_space *p, struct err *e)
{
	char stated[128], found[128];

	for (uint32_t i = 0; i < p->n_outcomes; i++) {
		const struct litmus_outcome *o = &p->outcome[i];

		if (is_stated(t, t->forbidden, t->n_forbidden, o))
			return refuse(t, o, "forbidden, and can happen", e);
		if (!is_stated(t, t->allowed, t->n_allowed, o))
			return refuse(t, o, "not allowed, and can happen", e);
	}
	for (unsigned i = 0; i < t->n_allowed; i++)
		if (!can_happen(t, p, &t->allowed[i]))
			return refuse(t, &t->allowed[i],
				"allowed, and cannot happen", e);
	if (t->breaches == p->breaches)
		return 0;
	litmus_print_breaches(t->breaches, stated, sizeof(stated));
	litmus_print_breaches(p->breaches, found, sizeof(found));
	return err_set(
		e, EINVAL, "%s: breaks%s, not%s", t->name, found, stated);
}
