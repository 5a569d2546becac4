#include "host/draft/lookup.h"

#include "base/err.h"
#include "host/draft/source.h"

#include <errno.h>
#include <stdlib.h>

struct lookup_source {
	struct lookup lookup;
	struct lookup_chain chain;
	size_t n; /* number of tokens of the sequence */
};

static int take(
	void *arg, const int32_t *text, size_t n, size_t same, struct err *e)
{
	struct lookup_source *l = arg;

	if (same < l->n)
		l->chain.n = 0;
	l->n = n;
	return l->lookup.find(l->lookup.arg, text, n, same, &l->chain, e);
}

/* In a source_place, at[0] tells which token of the chain is guessed next: its
 * index in the chain. */
static void root(void *arg, struct source_place *p)
{
	*p = (struct source_place){ 0 };
}

static void step(void *arg, struct source_place *p, int32_t token)
{
	const struct lookup_chain *c = &((struct lookup_source *)arg)->chain;

	if (p->at[0] < c->n && c->token[p->at[0]] == token)
		p->at[0]++;
	else
		p->at[0] = c->n;
}

static uint32_t guesses(void *arg, const struct source_place *p, uint32_t depth,
	struct source_guess *out, uint32_t most)
{
	const struct lookup_chain *c = &((struct lookup_source *)arg)->chain;

	if (p->at[0] == c->n)
		return 0;
	*out = (struct source_guess){
		.token = c->token[p->at[0]], .share = 1, .match = c->match
	};
	return 1;
}

static void close_source(void *arg)
{
	struct lookup_source *l = arg;

	l->lookup.close(l->lookup.arg);
	free(l->chain.token);
	free(l);
}

int lookup_drafter_open(struct drafter *out, const struct lookup *lookup,
	uint32_t room, struct err *e)
{
	struct lookup_source *l = calloc(1, sizeof(*l));
	const struct source source = { .arg = l,
		.work = lookup->work,
		.take = take,
		.root = root,
		.step = step,
		.guesses = guesses,
		.close = close_source };

	if (l)
		l->chain.token = calloc(room, sizeof(*l->chain.token));
	if (!l || !l->chain.token) {
		free(l);
		lookup->close(lookup->arg);
		return err_set(e, ENOMEM,
			"no memory to search earlier text for a draft");
	}
	l->lookup = *lookup;
	return source_drafter_open(out, &source, e);
}
