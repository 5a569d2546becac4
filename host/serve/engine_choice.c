/* The settings (options of the decoder) that a request chooses with its members
 * `method`, `draft` and `options`, and the checks of these members. */
#include "host/serve/engine_choice.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/serve/api_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- settings ------------------------------------------------------------ */

/* Append the option that the table row describes, as "name=value", if its value
 * is not the default. */
static void add_setting(char **list, size_t *n, const struct opt_values *v,
	const struct opt_table *t, const struct opt *row, bool *failed)
{
	const char *at = opt_values_of(v, t);
	struct strbuf s = STRBUF_INIT;

	if (row->type == OPT_GROUP || !opt_is_set(v, t, row))
		return;
	at += (size_t)(uintptr_t)row->value;
	strbuf_addf(&s, "%s", row->name);
	switch (row->type) {
	case OPT_STRING:
		strbuf_addf(&s, "=%s", *(const char *const *)at);
		break;
	case OPT_INT:
		strbuf_addf(&s, "=%" PRId64, *(const int64_t *)at);
		break;
	case OPT_UINT:
		strbuf_addf(&s, "=%" PRIu32, *(const uint32_t *)at);
		break;
	case OPT_FLOAT:
		strbuf_addf(&s, "=%.17g", *(const double *)at);
		break;
	case OPT_SIZE:
		strbuf_addf(&s, "=%" PRIu64, *(const uint64_t *)at);
		break;
	case OPT_CHOICE:
		strbuf_addf(&s, "=%s", row->choices[*(const int *)at]);
		break;
	/* A flag has no value. library_tables has no options of the type
	 * OPT_LIST. */
	default:
		break;
	}
	*failed |= s.failed;
	if (s.data)
		list[(*n)++] = s.data;
}

/* Returns the settings of all options that differ from their defaults, in the
 * order of the option tables; NULL if there is no memory. */
static char **settings_of(const struct opt_values *v)
{
	const struct opt_table *t;
	size_t n = 0, rows = 1;
	bool failed = false;
	char **list;

	for (size_t i = 0; (t = library_tables(i)); i++)
		rows += t->n;
	list = calloc(rows, sizeof(*list));
	for (size_t i = 0; list && (t = library_tables(i)); i++)
		for (size_t k = 0; k < t->n; k++)
			add_setting(list, &n, v, t, &t->rows[k], &failed);
	if (!list || !failed)
		return list;
	engine_choice_free(list);
	return NULL;
}

bool engine_choice_same(char *const *a, char *const *b)
{
	while (*a && *b && !strcmp(*a, *b)) {
		a++;
		b++;
	}
	return !*a && !*b;
}

json_t *engine_choice_json(char *const *choice, char *const *own)
{
	json_t *object = json_object();

	for (; *choice; choice++) {
		const char *s = *choice, *value = strchr(s, '=');
		size_t len = value ? (size_t)(value - s) : strlen(s);
		bool differs = true;
		char name[64];

		for (char *const *o = own; *o; o++)
			differs &= strcmp(*o, s) != 0;
		if (!differs)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)len, s);
		json_object_set_new(object, name,
			value ? json_string(value + 1) : json_true());
	}
	return object;
}

/* ---- what a request may choose ------------------------------------------- */

/* Whether a request omits a member (`said` is NULL) or gives the value `is`,
 * with which the server was started. */
static bool is_same(const char *said, const char *is)
{
	return !said || (is && !strcmp(said, is));
}

/* Check a member such as `clock`, for which a request may give only the
 * server's own value. */
static int check_fixed(
	const char *param, const char *is, const char *said, struct fault *f)
{
	if (is_same(said, is))
		return 0;
	return fault_set(f, 400, "not_offered", param,
		"this server was started with %s '%s'; a request cannot change "
		"this to '%s'",
		param, is ? is : "none", said);
}

static int check_method(
	const struct engine_menu *m, const char *said, struct fault *f)
{
	struct opt_nearest near = { .word = said };
	struct strbuf all = STRBUF_INIT;

	for (size_t i = 0; m->methods[i]; i++) {
		if (!strcmp(m->methods[i], said)) {
			strbuf_release(&all);
			return 0;
		}
		opt_nearest_offer(&near, m->methods[i]);
		strbuf_addf(&all, "%s%s", i ? ", " : "", m->methods[i]);
	}
	fault_set(f, 400, "not_offered", "method",
		"this server does not offer the method '%.40s'; it offers "
		"%s%s",
		said, all.data ? all.data : "none", opt_nearest_clause(&near));
	strbuf_release(&all);
	return -EINVAL;
}

/* Check that `draft` names only drafters or bundled draft models. Only the
 * operator of the server may set other values: the argument of a drafter (the
 * text after a colon) names a file or selects simulated drafts for
 * measurements, and a word that names no drafter is a path. */
static int check_draft(const char *draft, struct fault *f)
{
	static const char *const bundled[] = { "model", "eagle" };
	const struct opt *row = drafting_table.rows;
	struct opt_word w;
	bool known = true;

	while (strcmp(row->name, "draft") != 0)
		row++;
	for (const char *part = draft; known; part++) {
		size_t len = strcspn(part, "+");

		known = false;
		for (size_t i = 0; i < ARRAY_LEN(bundled); i++)
			known |= strlen(bundled[i]) == len &&
				!strncmp(bundled[i], part, len);
		for (size_t i = 0; row->words(i, &w); i++)
			known |= w.word && w.word[strlen(w.word) - 1] != ':' &&
				strlen(w.word) == len &&
				!strncmp(w.word, part, len);
		part += len;
		if (!*part)
			break;
	}
	return known
		? 0
		: fault_set(f, 400, "not_offered", "draft",
			  "'draft' is '%.40s'; a request may name drafters "
			  "such as pld, sam, model or eagle, joined by +, but "
			  "no file",
			  draft);
}

/* The option tables of methods, drafters and samples. The first table of
 * decoding_tables is left out, because requests cannot set its options (the
 * method itself, history files and others) in their member "options". */
static const struct opt_table *method_tables(size_t i)
{
	return decoding_tables(i + 1);
}

/* Set an option of the method. `room` is a buffer of OPTION_ROOM bytes that
 * receives a number as text. */
#define OPTION_ROOM 32
static int set_option(struct opt_values *v, const char *method,
	const char *name, const json_t *value, char *room, struct fault *f)
{
	const struct opt_table *of;
	const struct opt *row = NULL; /* the row of the option in `of` */
	const char *text = room;      /* the value as on a command line */
	struct err e = { 0 };
	char param[48];

	for (size_t i = 0; !row && (of = method_tables(i)); i++)
		for (size_t k = 0; !row && k < of->n; k++)
			if (of->rows[k].type != OPT_GROUP &&
				!strcmp(of->rows[k].name, name))
				row = &of->rows[k];
	if (json_is_string(value))
		text = json_string_value(value);
	else if (json_is_boolean(value))
		text = json_is_true(value) ? "true" : "false";
	else if (json_is_integer(value))
		snprintf(room, OPTION_ROOM, "%" JSON_INTEGER_FORMAT,
			json_integer_value(value));
	else if (json_is_real(value))
		snprintf(room, OPTION_ROOM, "%.17g", json_real_value(value));
	else
		text = NULL;

	snprintf(param, sizeof(param), "options.%.38s", name);
	if (row && !strcmp(row->name, "draft"))
		return fault_set(f, 400, "unsupported_parameter", param,
			"'draft' is a member of the request, not of 'options'");
	/* Refuse file names. Also refuse regular expressions, because matching
	 * a regular expression may take unlimited time and memory. */
	if (row &&
		(strstr(row->arg ? row->arg : "", "FILE") ||
			(text && !strncmp(text, "regex:", 6))))
		return fault_set(f, 400, "not_offered", param,
			"'%s' may name a file or a pattern, so requests cannot "
			"set it; give the option to tandem serve instead",
			name);
	if (row && !method_takes(method, of))
		return fault_set(f, 400, "invalid_value", param,
			"method '%s' has no option '%s'", method, name);
	if (!text)
		return fault_set(f, 400, "invalid_type", param,
			"'%s' must be a string, a number, true or false",
			param);
	if (opt_set(method_tables, v, name, text, &e))
		return fault_set(f, 400,
			row ? "invalid_value" : "unsupported_parameter", param,
			"'options': %s", e.text);
	return 0;
}

int engine_choose(char ***out, const struct engine_menu *m,
	const struct api_request *q, struct fault *f)
{
	static const struct opt_values defaults;
	struct opt_values v = m->values ? *m->values : defaults;
	const char *method, *name;
	struct err e = { 0 };
	json_t *value;
	char *texts, *room;
	int ret;

	*out = NULL;
	if (!q) {
		*out = settings_of(&v);
		return *out ? 0 : fault_no_memory(f);
	}
	if (check_fixed("clock", m->own.clock, q->clock, f) ||
		check_fixed("precision", m->own.precision, q->precision, f))
		return -EINVAL;
	if (!m->methods &&
		(check_fixed("method", m->own.method, q->method, f) ||
			check_fixed("draft", m->own.draft, q->draft, f)))
		return -EINVAL;
	if (!m->methods && q->options)
		return fault_set(f, 400, "not_offered", "options",
			"this server was started without --allow-methods, so "
			"requests cannot set options");
	if (is_same(q->method, m->own.method) &&
		is_same(q->draft, m->own.draft) &&
		!json_object_size(q->options))
		return 0;
	/* `v` points to the texts of the options, so this buffer must stay
	 * valid until settings_of has copied them. */
	room = texts = calloc(json_object_size(q->options) + 1, OPTION_ROOM);
	if (!texts)
		return fault_no_memory(f);
	ret = q->method ? check_method(m, q->method, f) : 0;
	if (!ret && !is_same(q->method, m->own.method)) {
		opt_set(decoding_tables, &v, "method", q->method, &e);
		/* Drop the server's own options that do not apply to this
		 * method. */
		tandem_drop_needless(&v);
	}
	if (!ret && !is_same(q->draft, m->own.draft)) {
		ret = check_draft(q->draft, f);
		if (!ret)
			opt_set(decoding_tables, &v, "draft", q->draft, &e);
	}
	method = q->method ? q->method : m->own.method;
	json_object_foreach((json_t *)(uintptr_t)q->options, name, value)
	{
		if (!ret)
			ret = set_option(&v, method, name, value, room, f);
		room += OPTION_ROOM;
	}
	if (!ret) {
		*out = settings_of(&v);
		ret = *out ? 0 : fault_no_memory(f);
	}
	free(texts);
	return ret;
}

void engine_choice_free(char **choice)
{
	for (size_t i = 0; choice && choice[i]; i++)
		free(choice[i]);
	free(choice);
}

int engine_choice_check(char *const *choice, const struct engine_menu *m,
	struct engine_offer *offer, struct fault *f)
{
	struct tandem_options o;
	struct tandem_report r;
	struct err e = { 0 };
	struct tandem *t;
	int ret;

	tandem_options_init(&o, sizeof(o));
	o.set = (const char *const *)choice;
	ret = tandem_create(&t, &o, NULL, &e);
	if (ret)
		return ret == -ENOMEM ? fault_no_memory(f)
				      : fault_set(f, 400, "invalid_value",
						"options", "%s", e.text);
	tandem_report(t, &r);
	*offer = m->own;
	offer->model = offer->draft = NULL;
	offer->method = r.method;
	for (; r.drafter && *choice; choice++)
		if (!strncmp(*choice, "draft=", 6))
			offer->draft = *choice + 6;
	tandem_end(t, NULL);
	return 0;
}
