#include "host/method/method.h"

#include "base/err.h"
#include "host/draft/drafting.h"
#include "host/head/reward.h"
#include "host/method/tree_options.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/sampler.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * The test program tandem-echo (make tests) is built with additional methods,
 * which MORE_METHODS_ROW lists.
 */
#ifdef MORE_METHODS_ROW
#include MORE_METHODS_ROW
#else
#define MORE_METHODS
#endif

#define METHOD_AT(name) &method_##name,

const struct method *const methods[] = {
	METHODS(METHOD_AT) MORE_METHODS NULL,
};

const struct method *method_find(const char *name)
{
	for (size_t i = 0; methods[i]; i++)
		if (!strcmp(methods[i]->name, name))
			return methods[i];
	return NULL;
}

/* ---- counting drafts ----------------------------------------------------- */

static uint64_t *counter(uint64_t of[DRAFT_POSITIONS], uint32_t depth)
{
	return &of[depth < DRAFT_POSITIONS ? depth - 1 : DRAFT_POSITIONS - 1];
}

void method_count_draft(struct method_env *env, const uint32_t *depth,
	uint32_t n, uint32_t accepted)
{
	struct draft_positions *p = &env->positions;

	env->stats.drafted += n;
	env->stats.accepted += accepted;
	for (uint32_t i = 0; i < n; i++)
		++*counter(p->drafted, depth ? depth[i] : i + 1);
	for (uint32_t i = 0; i < accepted; i++)
		++*counter(p->accepted, i + 1);
}

/* ---- options ------------------------------------------------------------- */

bool method_uses(const struct method *m, const struct opt_table *t)
{
	for (size_t i = 0; drafting_tables(i); i++)
		if (t == drafting_tables(i))
			return method_may_draft(m);
	if (m->sequences && t == &tree_table)
		return true;
	if (t == &reward_table)
		return m->needs_reward;
	for (size_t i = 0; m->options && m->options[i]; i++)
		if (m->options[i] == t)
			return true;
	return false;
}

struct listed {
	const struct opt_table *table[OPT_VALUES_TABLES];
	size_t n;
};

static void list(struct listed *l, const struct opt_table *t)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->table[i] == t)
			return;
	assert(l->n < OPT_VALUES_TABLES);
	l->table[l->n++] = t;
}

static void list_all(struct listed *l, bool draft)
{
	for (size_t i = 0; methods[i]; i++)
		for (size_t k = 0; methods[i]->needs_draft == draft &&
			methods[i]->options && methods[i]->options[k];
			k++)
			list(l, methods[i]->options[k]);
}

/*
 * List the tables about drafting first, so that --help shows them together.
 */
const struct opt_table *method_table(size_t i)
{
	struct listed l = { 0 };

	for (size_t k = 0; drafting_tables(k); k++)
		list(&l, drafting_tables(k));
	list_all(&l, true);
	list_all(&l, false);
	for (size_t k = 0; methods[k]; k++)
		if (methods[k]->needs_reward)
			list(&l, &reward_table);
	return i < l.n ? l.table[i] : NULL;
}

/* ---- opening a method ---------------------------------------------------- */

int method_open(struct method_env *env, const struct method *m,
	const struct model *target, struct err *e)
{
	env->method = m;
	if (m->state_bytes)
		env->state = calloc(1, m->state_bytes);
	if (m->state_bytes && !env->state)
		return err_set(e, ENOMEM, "no memory for method %s", m->name);
	return m->open ? m->open(env, target, e) : 0;
}

int method_prefill(struct session *s, const struct generation *g,
	uint32_t *last_row, struct err *e)
{
	uint32_t there = session_length(s, SESSION_TEXT);
	size_t n;
	const int32_t *prompt = gen_tokens(g, &n);

	return session_prefill(
		s, SESSION_TEXT, prompt + there, n - there, NULL, last_row, e);
}

int32_t method_next(
	struct session *s, struct generation *g, const float *logits)
{
	session_add_draw(s, gen_sampling(g)->temperature == 0);
	return gen_next(g, logits);
}

void method_close(struct method_env *env)
{
	if (env->method && env->method->close && env->state)
		env->method->close(env);
	free(env->state);
	*env = (struct method_env){ 0 };
}
