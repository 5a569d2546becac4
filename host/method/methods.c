#include "host/method/methods.h"

#include "host/draft/drafting.h"
#include "host/head/reward.h"
#include "host/scheduler/tree_options.h"

#include <assert.h>
#include <string.h>

/*
 * The test program tandem-echo (make tests) has additional methods:
 * MORE_METHODS_ROW names the header that lists them.
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

/* The option tables of drafters come first, so that --help shows them
 * together. */
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
