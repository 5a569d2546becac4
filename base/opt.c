#include "base/opt.h"

#include "base/err.h"
#include "base/opt_impl.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values of the options in tables ------------------------------------- */

static const size_t none = SIZE_MAX;

static size_t place_of(const struct opt_values *v, const struct opt_table *t)
{
	for (unsigned i = 0; i < v->n; i++)
		if (v->table[i] == t)
			return v->at[i];
	return none;
}

void *opt_values_at(struct opt_values *v, const struct opt_table *t)
{
	const size_t unit = _Alignof(max_align_t);
	size_t at = place_of(v, t);

	if (at != none)
		return v->bytes + at;
	at = v->used;
	assert(v->n < OPT_VALUES_TABLES && t->size <= OPT_VALUES_BYTES - at);
	v->table[v->n] = t;
	v->at[v->n++] = at;
	v->used += (t->size + unit - 1) / unit * unit;
	return memcpy(v->bytes + at, t->defaults, t->size);
}

const void *opt_values_of(const struct opt_values *v, const struct opt_table *t)
{
	size_t at = place_of(v, t);

	return at == none ? t->defaults : v->bytes + at;
}

static size_t size_of(enum opt_type type)
{
	switch (type) {
	case OPT_FLAG:
		return sizeof(bool);
	case OPT_STRING:
		return sizeof(const char *);
	case OPT_INT:
	case OPT_FLOAT:
	case OPT_SIZE:
		return 8;
	case OPT_UINT:
	case OPT_CHOICE:
		return 4;
	case OPT_LIST:
		return sizeof(struct opt_list);
	case OPT_GROUP:
	case OPT_TABLES:
		break;
	}
	return 0;
}

/* Strings are compared by address: a string that the user gave never has the
 * address of the default string. */
bool opt_is_set(const struct opt_values *v, const struct opt_table *t,
	const struct opt *row)
{
	size_t at = (size_t)(uintptr_t)row->value;
	const char *is = opt_values_of(v, t), *was = t->defaults;

	return memcmp(is + at, was + at, size_of(row->type));
}

void opt_reset(
	struct opt_values *v, const struct opt_table *t, const struct opt *row)
{
	size_t at = (size_t)(uintptr_t)row->value;
	char *is = opt_values_at(v, t);

	memcpy(is + at, (const char *)t->defaults + at, size_of(row->type));
}

/* ---- iteration over the options ------------------------------------------ */

static bool in_table(struct opt_walk *w, const struct opt *row)
{
	const struct opt_table *t;

	for (; (t = row->tables(w->table)); w->table++, w->row = 0) {
		size_t i = w->row++, at;
		char *base;

		if (!i && t->heading) {
			w->opt = (struct opt){ .type = OPT_GROUP,
				.name = t->heading };
			return true;
		}
		if (!i)
			i = w->row++;
		if (i > t->n)
			continue;
		w->opt = t->rows[i - 1];
		at = (size_t)(uintptr_t)w->opt.value;
		base = opt_values_at(row->value, t);
		w->opt.value = base + at;
		w->standard = (const char *)t->defaults + at;
		return true;
	}
	w->table = w->row = 0;
	return false;
}

bool opt_walk(struct opt_walk *w)
{
	w->standard = NULL;
	for (; w->i < w->cmd->n_opts; w->i++) {
		const struct opt *row = &w->cmd->opts[w->i];

		if (row->type == OPT_TABLES) {
			if (in_table(w, row))
				return true;
			continue;
		}
		w->i++;
		w->opt = *row;
		return true;
	}
	return false;
}

struct opt_walk opt_walk_help(const struct opt_command *c)
{
	struct opt_walk w = { .cmd = c };
	struct opt_walk help = { .opt = { .type = OPT_FLAG,
					 .letter = 'h',
					 .name = "help",
					 .help = "show this help and exit" } };

	while (opt_walk(&w))
		if (w.opt.type != OPT_GROUP && w.opt.letter == 'h')
			help.opt.letter = 0;
	return help;
}

void opt_text_add(struct opt_text *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	b->len += (size_t)vsnprintf(
		b->data + b->len, sizeof(b->data) - b->len, fmt, ap);
	va_end(ap);
	assert(b->len < sizeof(b->data));
}

/* ---- names close to a misspelled name ------------------------------- */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Edit distance in which an exchange of two neighboring letters counts as one
 * edit (optimal string alignment). Returns UINT32_MAX if a word is too long. */
static unsigned distance(const char *a, const char *b)
{
	unsigned d[OPT_WORD_MAX + 1][OPT_WORD_MAX + 1];
	size_t na = strlen(a), nb = strlen(b);

	if (na > OPT_WORD_MAX || nb > OPT_WORD_MAX)
		return UINT32_MAX;
	for (size_t i = 0; i <= na; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= nb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= na; i++)
		for (size_t j = 1; j <= nb; j++) {
			unsigned cost = a[i - 1] != b[j - 1];

			d[i][j] = min3(d[i - 1][j] + 1, d[i][j - 1] + 1,
				d[i - 1][j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1])
				d[i][j] = min3(d[i][j], d[i - 2][j - 2] + 1,
					UINT32_MAX);
		}
	return d[na][nb];
}

void opt_nearest_offer(struct opt_nearest *n, const char *name)
{
	size_t len = strlen(n->word);
	unsigned d = distance(n->word, name);

	if (d > (len < 6 ? 1 : 2)) {
		/* A word that is the beginning of a valid name, such as
		 * --temper for --temperature, counts as close too. */
		if (len < 3 || strncmp(n->word, name, len))
			return;
		d = 3;
	}
	if (n->name && d >= n->distance)
		return;
	n->distance = d;
	n->name = name;
}

const char *opt_nearest_clause(struct opt_nearest *n)
{
	n->clause[0] = '\0';
	if (n->name)
		snprintf(n->clause, sizeof(n->clause), "; did you mean '%s'?",
			n->name);
	return n->clause;
}

const char *opt_nearest(const char *word, const char *const *names)
{
	struct opt_nearest n = { .word = word };

	while (*names)
		opt_nearest_offer(&n, *names++);
	return n.name;
}

const char *opt_closest(const struct opt_command *c, const char *word)
{
	struct opt_walk w = { .cmd = c };
	struct opt_nearest n = { .word = word };

	opt_nearest_offer(&n, "help");
	while (opt_walk(&w))
		if (w.opt.type != OPT_GROUP && !w.opt.hidden && w.opt.name)
			opt_nearest_offer(&n, w.opt.name);
	return n.name;
}

/* ---- parsing of option values ---------------------------------------- */

int opt_size(const char *text, uint64_t *out)
{
	static const char units[] = "KMG";
	unsigned __int128 whole = 0, part = 0, scale = 1;
	const char *p = text, *unit;
	int shift = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		whole = whole * 10 + (unsigned)(*p - '0');
		if (whole > UINT64_MAX)
			return -EINVAL;
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return -EINVAL;
		/* 15 digits times the unit fit in 128 bits. Later digits of the
		 * fraction are ignored, because the value of such a digit is
		 * far below one byte. */
		for (; isdigit((unsigned char)*p); p++) {
			if (scale >= 1000000000000000u)
				continue;
			part = part * 10 + (unsigned)(*p - '0');
			scale *= 10;
		}
	}
	if (*p) {
		unit = strchr(units, toupper((unsigned char)*p));
		if (!unit || (p[1] && strcasecmp(p + 1, "iB")))
			return -EINVAL;
		shift = 10 * (int)(unit - units + 1);
	}
	/* A fraction needs a unit: "3.5" is refused. */
	if (!shift && scale > 1)
		return -EINVAL;
	whole = (whole << shift) + (part << shift) / scale;
	if (whole > UINT64_MAX)
		return -EINVAL;
	*out = (uint64_t)whole;
	return 0;
}

/* Whether `v` is within the option's range. Both limits are 0 if the option has
 * no range. */
static bool in_range(const struct opt *o, double v)
{
	return (!o->min && !o->max) || (v >= o->min && v <= o->max);
}

/* Set a message such as "'--top-k' takes a whole number from 1 to 5, not 'x'".
 * `kind` is the part "a whole number" of the message. */
static int bad_value(const struct opt *o, const char *given, const char *kind,
	const char *text, struct err *e)
{
	if (!o->min && !o->max)
		return err_set(e, EINVAL, "'%s' takes %s, not '%s'", given,
			kind, text);
	return err_set(e, EINVAL, "'%s' takes %s from %.16g to %.16g, not '%s'",
		given, kind, o->min, o->max, text);
}

static int set_size(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	struct opt_word w;
	uint64_t v;

	for (size_t i = 0; o->words && o->words(i, &w); i++)
		/* If `text` is a special word, store the size that it stands
		 * for. */
		if (!strcmp(w.word, text)) {
			*(uint64_t *)o->value = w.size;
			return 0;
		}
	if (opt_size(text, &v) || !in_range(o, (double)v))
		return bad_value(o, given,
			"a size in bytes such as 4096, 64M or 3.5G", text, e);
	*(uint64_t *)o->value = v;
	return 0;
}

static int set_choice(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	char all[512] = "";
	const char *near;
	size_t used = 0;

	for (int i = 0; o->choices[i]; i++) {
		int n;

		if (!strcmp(o->choices[i], text)) {
			*(int *)o->value = i;
			return 0;
		}
		n = snprintf(all + used, sizeof(all) - used, "%s%s",
			!i                          ? ""
				: o->choices[i + 1] ? ", "
						    : " or ",
			o->choices[i]);
		used += (size_t)n;
		if (used >= sizeof(all))
			used = sizeof(all) - 1;
	}
	near = opt_nearest(text, o->choices);
	if (near)
		return err_set(e, EINVAL,
			"'%s' does not take '%s'; did you mean '%s'?", given,
			text, near);
	return err_set(e, EINVAL, "'%s' takes %s, not '%s'", given, all, text);
}

int opt_set_value(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	bool blank = isspace((unsigned char)*text);
	struct opt_list *list;
	long long whole;
	double number;
	char *end;

	switch (o->type) {
	case OPT_STRING:
		*(const char **)o->value = text;
		return 0;
	case OPT_INT:
	case OPT_UINT:
		errno = 0;
		whole = strtoll(text, &end, 10);
		if (blank || end == text || *end || errno ||
			!in_range(o, (double)whole))
			return bad_value(o, given, "a whole number", text, e);
		if (o->type == OPT_UINT)
			*(uint32_t *)o->value = (uint32_t)whole;
		else
			*(int64_t *)o->value = whole;
		return 0;
	case OPT_FLOAT:
		number = strtod(text, &end);
		if (blank || end == text || *end || !isfinite(number) ||
			!in_range(o, number))
			return bad_value(o, given, "a number", text, e);
		*(double *)o->value = number;
		return 0;
	case OPT_SIZE:
		return set_size(o, given, text, e);
	case OPT_CHOICE:
		return set_choice(o, given, text, e);
	case OPT_LIST:
		list = o->value;
		if (list->n == OPT_LIST_MAX)
			return err_set(e, EINVAL,
				"'%s' is given more than %d times", given,
				OPT_LIST_MAX);
		list->item[list->n++] = text;
		return 0;
	case OPT_FLAG:
	case OPT_GROUP:
	case OPT_TABLES:
		break;
	}
	return err_set(e, EINVAL, "'%s' takes no value", given);
}

/* ---- finding an option by name -------------------------------------- */

bool opt_by_name(const struct opt_command *c, const char *name, size_t len,
	struct opt *out)
{
	struct opt_walk w = { .cmd = c };

	while (opt_walk(&w))
		if (w.opt.type != OPT_GROUP && w.opt.name &&
			!strncmp(w.opt.name, name, len) && !w.opt.name[len]) {
			*out = w.opt;
			return true;
		}
	return false;
}

bool opt_by_letter(const struct opt_command *c, char letter, struct opt *out)
{
	struct opt_walk w = { .cmd = c };

	while (opt_walk(&w))
		if (w.opt.type != OPT_GROUP && w.opt.letter == letter) {
			*out = w.opt;
			return true;
		}
	return false;
}

int opt_refuse_name(
	const struct opt_command *c, const char *given, struct err *e)
{
	const char *advice = opt_foreign_advice(given);
	const char *meant = opt_closest(c, given + 2);

	if (advice)
		return err_set(
			e, EINVAL, "unknown option '%s': %s", given, advice);
	if (meant)
		return err_set(e, EINVAL,
			"unknown option '%s'; did you mean '--%s'?", given,
			meant);
	return err_set(e, EINVAL, "unknown option '%s'", given);
}

/* ---- setting an option by name ------------------------------------------- */

int opt_set(opt_tables *tables, struct opt_values *v, const char *name,
	const char *text, struct err *e)
{
	const struct opt all = { OPT_TABLES, .value = v, .tables = tables };
	const struct opt_command c = { .opts = &all, .n_opts = 1 };
	char given[2 * OPT_WORD_MAX];
	struct opt o;

	snprintf(given, sizeof(given), "--%s", name);
	if (!opt_by_name(&c, name, strlen(name), &o))
		return opt_refuse_name(&c, given, e);
	if (o.type == OPT_FLAG) {
		bool on = !text || !strcmp(text, "true");

		if (!on && strcmp(text, "false"))
			return err_set(e, EINVAL,
				"'%s' takes true or false, not '%s'", given,
				text);
		*(bool *)o.value = on;
		return 0;
	}
	if (!text)
		return err_set(e, EINVAL, "'%s' needs a value: %s %s", given,
			given, o.arg ? o.arg : "VALUE");
	return opt_set_value(&o, given, text, e);
}
