#include "tests/shm/coherence/litmus_check.h"

#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trial {
	const struct litmus *t;
	struct litmus_space space;
	bool *seen; /* [space.n_outcomes] reached by a random run */
	bool named; /* the checker has reported a broken rule */
	struct litmus_tally *tally;
	struct err *e;
};

static int say(
	const struct trial *t, const char *what, const struct litmus_outcome *o)
{
	char text[256];

	litmus_print_outcome(t->t, o, text, sizeof(text));
	return err_set(t->e, EILSEQ, "%s:%s: %s", t->t->name, text, what);
}

/* The index of an outcome in the list of the model, or n_outcomes if the list
 * does not have the outcome. */
static uint32_t find(const struct trial *t, const struct litmus_outcome *o)
{
	uint32_t i = 0;

	while (i < t->space.n_outcomes &&
		memcmp(&t->space.outcome[i], o, sizeof(*o)) != 0)
		i++;
	return i;
}

static int emulate(struct trial *t, struct litmus_run *run)
{
	t->tally->runs++;
	return litmus_emulate(t->t, run, t->e);
}

/* ---- each outcome occurs ------------------------------------------------- */

static int see(struct trial *t, uint32_t outcome)
{
	uint8_t path[LITMUS_MOVES_MAX];
	struct litmus_run run = { .level = COHERENCE_STRICT, .path = path };
	int ret;

	run.moves = litmus_path(&t->space, t->space.outcome_at[outcome], path);
	ret = emulate(t, &run);
	if (ret)
		return ret;
	return find(t, &run.outcome) == outcome
		? 0
		: say(t, "allowed, and not seen", &t->space.outcome[outcome]);
}

/* ---- random runs --------------------------------------------------------- */

static int check_reports(struct trial *t, const struct litmus_run *run)
{
	char reported[128], broken[128];

	t->named |= run->reported != 0;
	if (run->reported == (run->broken & LITMUS_OF_DEVICE))
		return 0;
	litmus_print_breaches(run->reported, reported, sizeof(reported));
	litmus_print_breaches(run->broken, broken, sizeof(broken));
	return err_set(t->e, EILSEQ,
		"%s, seed %" PRIu64 ": breaks%s, and reported is%s (%s)",
		t->t->name, run->seed, broken, reported, run->report);
}

static int by_chance(struct trial *t, enum coherence level, uint64_t seed)
{
	struct litmus_run run = { .level = level, .seed = seed };
	int ret = emulate(t, &run);
	uint32_t which;

	if (ret || level == COHERENCE_OFF)
		return ret;
	which = find(t, &run.outcome);
	if (which == t->space.n_outcomes)
		return say(t, "seen, and not allowed", &run.outcome);
	t->seen[which] = true;
	return level == COHERENCE_CHECK ? check_reports(t, &run) : 0;
}

/* ---- the checker reports each rule --------------------------------------- */

/* Run the shortest path to a broken rule, and check the reports. */
static int break_it(struct trial *t)
{
	uint8_t path[LITMUS_MOVES_MAX];
	struct litmus_run run = { .level = COHERENCE_CHECK, .path = path };
	int ret;

	run.moves = litmus_path(&t->space, t->space.breach_at, path);
	ret = emulate(t, &run);
	return ret ? ret : check_reports(t, &run);
}

/* ---- a whole test -------------------------------------------------------- */

static int check_runs(struct trial *t, unsigned seeds)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < t->space.n_outcomes; i++)
		ret = see(t, i);
	for (uint64_t seed = 1; !ret && seed <= seeds; seed++)
		for (int level = 0; !ret && level < COHERENCE_COUNT; level++)
			ret = by_chance(t, (enum coherence)level, seed);
	if (!ret && t->space.breaches & LITMUS_OF_DEVICE)
		ret = break_it(t);
	return ret;
}

static void add_up(struct trial *t)
{
	struct litmus_tally *a = t->tally;
	bool breaks = (t->space.breaches & LITMUS_OF_DEVICE) != 0;

	a->tests++;
	a->states += t->space.n;
	a->outcomes += t->space.n_outcomes;
	for (uint32_t i = 0; i < t->space.n_outcomes; i++)
		a->by_chance += t->seen[i];
	a->right += !breaks;
	a->reported += t->named;
	a->harmless += breaks && !t->space.harmful;
	a->unseen += t->space.breaches == LITMUS_CPU_EARLY;
}

int litmus_check(const struct litmus *test, bool stated, unsigned seeds,
	struct litmus_tally *tally, struct err *e)
{
	struct trial t = { .t = test, .tally = tally, .e = e };
	int ret = litmus_explore(&t.space, test, test->nature, e);

	if (ret)
		return ret;
	t.seen = calloc(t.space.n_outcomes, sizeof(*t.seen));
	if (!t.seen)
		ret = err_set(e, ENOMEM, "no memory for outcomes");
	if (!ret && stated)
		ret = litmus_hold(test, &t.space, e);
	if (!ret && t.space.unexplained)
		ret = err_set(e, EILSEQ,
			"%s: something old is seen and no rule is broken",
			test->name);
	if (!ret)
		ret = check_runs(&t, seeds);
	if (!ret)
		add_up(&t);
	free(t.seen);
	litmus_space_release(&t.space);
	return ret;
}

void litmus_report(const struct litmus_tally *a, char *text, size_t size)
{
	snprintf(text, size,
		"%" PRIu64 " tests: %" PRIu64 " right, %" PRIu64
		" reported (%" PRIu64 " of them harmless), %" PRIu64
		" wrong on the CPU's side alone; %" PRIu64
		" outcomes, all seen, %" PRIu64 " by chance alone; %" PRIu64
		" states, %" PRIu64 " runs",
		a->tests, a->right, a->reported, a->harmless, a->unseen,
		a->outcomes, a->by_chance, a->states, a->runs);
}
