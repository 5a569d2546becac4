#include "host/bench/run_options.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/setting.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE 64

/* clang-format off */
static const struct opt rows[] = {
	{ OPT_STRING, 'm', "model", OPT_IN(run_options, model), "FILE",
		"the target model: a GGUF file or a flash image (the bundled "
		"model)" },
	{ OPT_UINT, 'n', "predict", OPT_IN(run_options, n_predict), "N",
		"generate at most N tokens for each output ({})", 2, 1 << 20 },
};
/* clang-format on */

const struct opt_table run_table = {
	.rows = rows,
	.n = ARRAY_LEN(rows),
	.defaults = &(const struct run_options){ .n_predict = ASKED_PREDICT },
	.size = sizeof(struct run_options),
};

/* Return option table i of a run: run_table, then the decoder's tables (see
 * opt_tables). */
static const struct opt_table *run_option_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &run_table;
}

int run_options_change(
	struct opt_values *v, const struct setting *s, struct err *e)
{
	int ret = 0;

	for (unsigned i = 0; i < s->n && !ret; i++) {
		const char *text = s->change[i];
		size_t len = strcspn(text, "=");
		char name[NAME_SIZE];

		snprintf(name, sizeof(name), "%.*s", (int)len, text);
		ret = opt_set(run_option_tables, v, name, text + len + 1, e);
	}
	return ret;
}

/* Find an option by name and store its table in *in. Returns NULL if there is
 * no such option. */
static const struct opt *find(const char *name, const struct opt_table **in)
{
	for (size_t i = 0; (*in = run_option_tables(i)); i++)
		for (size_t k = 0; k < (*in)->n; k++)
			if (!strcmp((*in)->rows[k].name, name))
				return &(*in)->rows[k];
	return NULL;
}

int run_option_applies(
	const char *method, const char *name, bool *is, struct err *e)
{
	struct opt_values nobody = { 0 };
	const struct opt_table *t;

	/* If there is no such option, call opt_set() only for its error
	 * message, which suggests a similar name. */
	if (!find(name, &t))
		return opt_set(run_option_tables, &nobody, name, "", e);
	*is = method_takes(method, t);
	return 0;
}

bool run_option_is_set(const struct opt_values *v, const char *name)
{
	const struct opt_table *t;
	const struct opt *row = find(name, &t);

	return row && opt_is_set(v, t, row);
}

const char *run_options_clock(const struct opt_values *v)
{
	const struct pair_options *pair = opt_values_of(v, &pair_table);

	return pair->clock && strcmp(pair->clock, "wall") ? pair->clock : NULL;
}

const char *run_options_draft(const struct opt_values *v)
{
	const struct drafting_options *draft =
		opt_values_of(v, &drafting_table);

	return draft->draft;
}
