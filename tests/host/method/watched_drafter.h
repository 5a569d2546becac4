/* A drafter that wraps the drafter under test and checks how many tokens each
 * cycle (a draft and the pass that verifies it) emitted. A cycle must emit one
 * token more than the verified tree has in common with the expected text; fewer
 * tokens are allowed only if rows were pruned. */
#ifndef TESTS_HOST_METHOD_WATCHED_DRAFTER_H
#define TESTS_HOST_METHOD_WATCHED_DRAFTER_H

#include "host/scheduler/method.h"
#include "host/tree/drafter.h"
#include "host/tree/tree.h"
#include "tests/harness.h"
#include "tests/host/method/text_writer.h"

#include <stdbool.h>

struct watched {
	struct drafter inner;
	const struct text *want;
	bool pruned;
	const struct method_env *env; /* environment of the running method */
	/* the last drafted tree; NULL if there is none */
	const struct tree *tree;
	/* length of the text when the tree was drafted */
	size_t n;
	/* env->stats.drafted and .cycles when the tree was drafted */
	uint64_t drafted, cycles;
	size_t checked; /* number of checked cycles */
	uint32_t most;  /* maximum rows of a cycle */
};

/* Length of the longest path from the root of a verified tree that equals the
 * text after its first n tokens. */
static inline size_t in_common(const struct tree *t, uint32_t verified,
	const struct text *text, size_t n)
{
	size_t same = 0;
	uint32_t node = 0, child = 1;

	while (child < verified && n + same < text->n) {
		if (t->parent[child] == (int32_t)node &&
			t->token[child] == text->token[n + same]) {
			node = child;
			same++;
		}
		child++;
	}
	return same;
}

/* Called when the text has grown: check how many tokens the last cycle
 * emitted. */
static inline void watched_check(struct watched *d, size_t n)
{
	uint32_t verified = (uint32_t)(d->env->stats.drafted - d->drafted) + 1;
	/* Cycles without a draft emit one token each. So does the prompt's
	 * pass, after which the first tree begins. */
	size_t cycles = (size_t)(d->env->stats.cycles - d->cycles);
	size_t want = !d->checked + cycles +
		in_common(d->tree, verified, d->want, d->n);
	size_t got = n - d->n;

	if (got > want || (got < want && !d->pruned))
		fail_msg("a cycle of %u rows after %zu tokens emitted %zu, "
			 "not %zu",
			verified, d->n, got, want);
	d->checked += cycles ? cycles : 1;
	d->most = verified > d->most ? verified : d->most;
}

static inline int watched_begin(
	void *arg, struct tree *t, const int32_t *text, size_t n, struct err *e)
{
	struct watched *d = arg;

	if (d->tree)
		watched_check(d, n);
	d->tree = t;
	d->n = n;
	d->drafted = d->env->stats.drafted;
	d->cycles = d->env->stats.cycles;
	return d->inner.begin(d->inner.arg, t, text, n, e);
}

static inline int watched_expand(void *arg, struct tree *t,
	const uint32_t *node, uint32_t n, struct err *e)
{
	struct watched *d = arg;

	return d->inner.expand(d->inner.arg, t, node, n, e);
}

static inline void watched_follow(void *arg, uint32_t sequence)
{
	struct watched *d = arg;

	d->inner.follow(d->inner.arg, sequence);
}

static inline void watched_saw(void *arg, const int32_t *text, size_t n)
{
	struct watched *d = arg;

	d->inner.saw(d->inner.arg, text, n);
}

static inline void watched_price(void *arg, struct price *sum)
{
	struct watched *d = arg;

	d->inner.price(d->inner.arg, sum);
}

/* Wrap the drafter d->inner while env generates one text. *d must remain valid
 * as long as the returned drafter is used. */
static inline struct drafter watched_drafter(struct watched *d,
	const struct method_env *env, const struct text *want, bool pruned)
{
	*d = (struct watched){
		.inner = d->inner, .want = want, .pruned = pruned, .env = env
	};
	return (struct drafter){ .arg = d,
		.begin = watched_begin,
		.expand = watched_expand,
		.follow = d->inner.follow ? watched_follow : NULL,
		.batch = d->inner.batch,
		.saw = d->inner.saw ? watched_saw : NULL,
		.price = d->inner.price ? watched_price : NULL };
}

#endif
