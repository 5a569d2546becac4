/*
 * How pruning is measured. Lever's trees depend on what verifying took so far,
 * and pruning changes that; to compare the same trees, costs and reliability
 * stay as a run without pruning has left them. Then a tree depends on the text
 * it begins behind alone.
 */
#include "host/api/decoder.h"
#include "host/bench/bench_lever.h"
#include "host/method/lever.h"

static void learn(void *arg, struct decoder *d)
{
	struct bench_lever_lessons *l = arg;
	const struct lever_state *st = lever_state(&d->env);

	l->cost = st->cost;
	l->lever = st->lever;
}

static void apply(void *arg, struct decoder *d)
{
	const struct bench_lever_lessons *l = arg;
	struct lever_state *st = lever_state(&d->env);

	st->cost = l->cost;
	st->lever = l->lever;
	st->frozen = true;
}

void bench_lever_hooks(struct setting_hook hook[BENCH_LEVER_HOOKS_END - 1],
	struct bench_lever_lessons *l)
{
	hook[BENCH_LEVER_TEACHES - 1] =
		(struct setting_hook){ .done = learn, .arg = l };
	hook[BENCH_LEVER_FROZEN - 1] =
		(struct setting_hook){ .opened = apply, .arg = l };
}
