/* How answers are drawn and decoded, and what of it is kept in a file. */
#include "host/cmd/conversation.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/cmd/cmd.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct drawing drawing_defaults = { .predict = -1,
	.repeat_last = 64,
	.seed = 1,
	.temperature = NAN,
	.top_p = 1,
	.repeat_penalty = 1 };

/* clang-format off */
#define IN(field) OPT_IN(drawing, field)
static const struct opt drawing_rows[] = {
	{ OPT_INT, 'n', "predict", IN(predict), "N",
		"tokens of an answer, at most (-1: until it ends or the "
		"context is full)", -1, INT32_MAX },
	{ OPT_FLOAT, 0, "temp", IN(temperature), "T",
		"temperature (0: greedy)",
		0, 1000 },
	{ OPT_INT, 0, "top-k", IN(top_k), "K",
		"sample from the K most likely tokens (0: all)", 0, INT32_MAX },
	{ OPT_FLOAT, 0, "top-p", IN(top_p), "P",
		"sample from the fewest tokens whose probabilities reach P "
		"(1: all)", 0.0001, 1 },
	{ OPT_FLOAT, 0, "min-p", IN(min_p), "P",
		"sample from tokens at least P times as likely as the most "
		"likely (0: all)", 0, 1 },
	{ OPT_FLOAT, 0, "repeat-penalty", IN(repeat_penalty), "X",
		"make recent tokens less likely by this factor (1: off)",
		0.01, 100 },
	{ OPT_INT, 0, "repeat-last", IN(repeat_last), "N",
		"tokens that count as recent (64)", 0, INT32_MAX },
	{ OPT_INT, 0, "seed", IN(seed), "S",
		"seed of the random numbers (1); the same seed gives the "
		"same text", 0, (double)(1ll << 53) },
};
#undef IN
/* clang-format on */

const struct opt_table drawing_table = { "sampling", drawing_rows,
	ARRAY_LEN(drawing_rows), &drawing_defaults, sizeof(struct drawing) };

const struct opt_table *drawing_tables(size_t i)
{
	return i ? NULL : &drawing_table;
}

/* What /set takes: all of a decoder, and how it draws. */
static const struct opt_table *chat_tables(size_t i)
{
	return i ? decoder_tables(i - 1) : &drawing_table;
}

/* ---- settings ------------------------------------------------------------ */

/* A copy that stays as long as the program: options borrow their text. */
static char *keep_text(struct conversation *c, const char *text)
{
	char **p = reallocarray(c->set, c->n_set + 1, sizeof(*p));
	char *copy = strdup(text);

	if (p)
		c->set = p;
	if (!p || !copy) {
		free(copy);
		return NULL;
	}
	c->set[c->n_set++] = copy;
	return copy;
}

/* With what `v` asks for in place of what there is; that stays where `v` cannot
 * be meant. */
static int reopen(
	struct conversation *c, const struct opt_values *v, struct err *e)
{
	struct tandem *new;
	int ret = cmd_create(&new, v, e);

	if (ret)
		return ret;
	ret = conversation_stop(c, e);
	if (ret)
		cmd_warn("%s", e->text);
	c->tandem = new;
	ret = conversation_start(c, e);
	if (!ret)
		*c->asked = *v;
	return ret;
}

/* Back to what there was; where even that fails the program ends. */
static int set_decoder(
	struct conversation *c, const struct opt_values *v, struct err *e)
{
	struct tandem *was = c->tandem;
	struct err again = { 0 };
	int ret = reopen(c, v, e);

	if (!ret || c->tandem == was)
		return ret;
	conversation_stop(c, &again);
	ret = cmd_create(&c->tandem, c->asked, &again);
	if (!ret)
		ret = conversation_start(c, &again);
	if (!ret)
		return e->code;
	cmd_fail(e);
	*e = again;
	conversation_stop(c, &again);
	return ret;
}

static const struct opt *drawing_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(drawing_rows); i++)
		if (!strcmp(drawing_rows[i].name, name))
			return &drawing_rows[i];
	return NULL;
}

/* "name=value", or a flag's name; how answers are drawn is changed at once. */
int conversation_set(struct conversation *c, const char *said, struct err *e)
{
	struct opt_values v = *c->asked;
	char *name = keep_text(c, said), *value;
	int ret;

	if (!name)
		return err_set(e, ENOMEM, "no memory for an option");
	value = strchr(name, '=');
	if (value)
		*value++ = '\0';
	ret = opt_set(chat_tables, &v, name, value, e);
	if (ret)
		return ret;
	if (!drawing_row(name))
		return set_decoder(c, &v, e);
	*c->asked = v;
	return 0;
}

int conversation_set_system(
	struct conversation *c, const char *text, struct err *e)
{
	if (c->plain)
		return err_set(e, ENOTSUP,
			"the model has no chat template that is known, so "
			"there is no system's turn");
	return talk_set_system(&c->talk, *text ? text : NULL, e);
}

/* ---- files --------------------------------------------------------------- */

static json_t *settings_json(const struct conversation *c)
{
	const struct drawing *d = drawing(c);
	json_t *o = json_pack("{sIsIsIsIsfsfsf}", "predict",
		(json_int_t)d->predict, "top-k", (json_int_t)d->top_k,
		"repeat-last", (json_int_t)d->repeat_last, "seed",
		(json_int_t)d->seed, "top-p", d->top_p, "min-p", d->min_p,
		"repeat-penalty", d->repeat_penalty);

	if (o && !isnan(d->temperature))
		json_object_set_new(o, "temp", json_real(d->temperature));
	return o;
}

int conversation_save(struct conversation *c, const char *path, struct err *e)
{
	json_t *settings = settings_json(c);
	int ret = settings ? talk_save(&c->talk, settings, path, e)
			   : err_set(e, ENOMEM, "no memory for the settings");

	json_decref(settings);
	return ret;
}

/* All of them or none; what the command line says stays where it `stands`. */
static int take_settings(
	struct conversation *c, json_t *settings, bool stands, struct err *e)
{
	struct opt_values v = *c->asked;
	const char *name;
	json_t *value;

	json_object_foreach(settings, name, value)
	{
		const struct opt *row = drawing_row(name);
		char text[64];

		if (!row || !json_is_number(value))
			return err_set(e, EINVAL,
				"the setting '%.40s' is none that is kept, or "
				"no number",
				name);
		if (stands && opt_is_said(c->asked, &drawing_table, row))
			continue;
		if (json_is_integer(value))
			snprintf(text, sizeof(text), "%lld",
				(long long)json_integer_value(value));
		else
			snprintf(text, sizeof(text), "%.17g",
				json_real_value(value));
		if (opt_set(drawing_tables, &v, name, text, e))
			return e->code;
	}
	*c->asked = v;
	return 0;
}

int conversation_load(
	struct conversation *c, const char *path, bool stands, struct err *e)
{
	struct talk talk = { 0 };
	json_t *settings = NULL;
	int ret = talk_load(&talk, &settings, path, e);

	if (ret)
		return ret;
	ret = take_settings(c, settings, stands, e);
	json_decref(settings);
	if (ret) {
		talk_release(&talk);
		return err_in(e, "'%s'", path);
	}
	talk_release(&c->talk);
	c->talk = talk;
	return 0;
}
