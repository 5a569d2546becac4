#include "host/bench/run_options.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/setting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_SIZE 64

/* clang-format off */
static const struct opt rows[] = {
	{ OPT_STRING, 'm', "model", OPT_IN(run_options, model), "FILE",
		"the target: a GGUF file or an image (the one that comes with "
		"the program)" },
	{ OPT_UINT, 'n', "predict", OPT_IN(run_options, n_predict), "N",
		"tokens of an output at most ({})", 2, 1 << 20 },
};
/* clang-format on */

const struct opt_table run_table = {
	.rows = rows,
	.n = ARRAY_LEN(rows),
	.defaults = &(const struct run_options){ .n_predict = ASKED_PREDICT },
	.size = sizeof(struct run_options),
};

const struct opt_table *asked_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &run_table;
}

static int change(struct opt_values *v, const char *text, struct err *e)
{
	size_t len = strcspn(text, "=");
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	return opt_set(asked_tables, v, name, text + len + 1, e);
}

int asked_change(struct opt_values *v, const struct setting *s, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < s->n && !ret; i++)
		ret = change(v, s->change[i], e);
	return ret;
}

/* The option of that name, and its table; NULL: there is none. */
static const struct opt *find(const char *name, const struct opt_table **in)
{
	for (size_t i = 0; (*in = asked_tables(i)); i++)
		for (size_t k = 0; k < (*in)->n; k++)
			if (!strcmp((*in)->rows[k].name, name))
				return &(*in)->rows[k];
	return NULL;
}

int asked_is_for(const char *method, const char *name, bool *is, struct err *e)
{
	struct opt_values nobody = { 0 };
	const struct opt_table *t;

	/* For the message, which knows what may be meant. */
	if (!find(name, &t))
		return opt_set(asked_tables, &nobody, name, "", e);
	*is = method_takes(method, t);
	return 0;
}

bool asked_is_said(const struct opt_values *v, const char *name)
{
	const struct opt_table *t;
	const struct opt *row = find(name, &t);

	return row && opt_is_said(v, t, row);
}

const char *asked_clock(const struct opt_values *v)
{
	const struct pair_options *pair = opt_values_of(v, &pair_table);

	return pair->clock && strcmp(pair->clock, "wall") ? pair->clock : NULL;
}

const char *asked_draft(const struct opt_values *v)
{
	const struct drafting_options *draft =
		opt_values_of(v, &drafting_table);

	return draft->draft;
}
