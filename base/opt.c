#include "base/opt.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt_impl.h"
#include "base/opt_table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- close misspellings --------------------------------------------- */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/*
 * Edit distance with neighbouring letters swapped counted as one edit
 * (optimal string alignment); UINT32_MAX when a word is too long.
 */
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

/* How far `word` is from `name`, UINT32_MAX when too far to be meant. */
static unsigned unlikeness(const char *word, const char *name)
{
	size_t n = strlen(word);
	unsigned d = distance(word, name);

	if (d <= (n < 6 ? 1 : 2))
		return d;
	/* Cut short: --temper for --temperature. */
	if (n >= 3 && !strncmp(word, name, n))
		return 3;
	return UINT32_MAX;
}

void opt_nearest_offer(struct opt_nearest *n, const char *name)
{
	unsigned d = unlikeness(n->word, name);

	if (d == UINT32_MAX || (n->name && d >= n->distance))
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

/* ---- values ---------------------------------------------------------- */

static int unit_shift(const char *unit)
{
	static const char letters[] = "KMG";
	const char *at;

	if (!*unit)
		return 0;
	at = strchr(letters, toupper((unsigned char)*unit));
	if (!at || (unit[1] && strcasecmp(unit + 1, "iB")))
		return -1;
	return 10 * (int)(at - letters + 1);
}

int opt_size(const char *text, uint64_t *out)
{
	unsigned __int128 whole = 0, part = 0, scale = 1;
	const char *p = text;
	int shift;

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
		/* 15 digits fit beside the unit in 128 bits; the rest is
		 * far below one byte. */
		for (; isdigit((unsigned char)*p); p++) {
			if (scale >= 1000000000000000u)
				continue;
			part = part * 10 + (unsigned)(*p - '0');
			scale *= 10;
		}
	}
	shift = unit_shift(p);
	/* A fraction of a byte is a forgotten unit. */
	if (shift < 0 || (!shift && scale > 1))
		return -EINVAL;
	whole = (whole << shift) + (part << shift) / scale;
	if (whole > UINT64_MAX)
		return -EINVAL;
	*out = (uint64_t)whole;
	return 0;
}

static bool any_range(const struct opt *o)
{
	return o->min == 0 && o->max == 0;
}

static bool in_range(const struct opt *o, double v)
{
	return any_range(o) || (v >= o->min && v <= o->max);
}

/* "'--top-k' takes KIND from 1 to 5, not 'x'" */
static int bad_value(const struct opt *o, const char *given, const char *kind,
	const char *text, struct err *e)
{
	if (any_range(o))
		return err_set(e, EINVAL, "'%s' takes %s, not '%s'", given,
			kind, text);
	return err_set(e, EINVAL, "'%s' takes %s from %.16g to %.16g, not '%s'",
		given, kind, o->min, o->max, text);
}

static int set_int(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (isspace((unsigned char)*text) || end == text || *end || errno ||
		!in_range(o, (double)v))
		return bad_value(o, given, "a whole number", text, e);
	if (o->type == OPT_UINT)
		*(uint32_t *)o->value = (uint32_t)v;
	else
		*(int64_t *)o->value = v;
	return 0;
}

static int set_float(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	char *end;
	double v = strtod(text, &end);

	if (isspace((unsigned char)*text) || end == text || *end ||
		!isfinite(v) || !in_range(o, v))
		return bad_value(o, given, "a number", text, e);
	*(double *)o->value = v;
	return 0;
}

/* A size that has a name. */
static bool named_size(const struct opt *o, const char *text, uint64_t *out)
{
	struct opt_word w;

	for (size_t i = 0; o->words && o->words(i, &w); i++) {
		if (strcmp(w.word, text))
			continue;
		*out = w.size;
		return true;
	}
	return false;
}

static int set_size(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	uint64_t v;

	if (!named_size(o, text, &v) &&
		(opt_size(text, &v) || !in_range(o, (double)v)))
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

static int add_item(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	struct opt_list *list = o->value;

	if (list->n == OPT_LIST_MAX)
		return err_set(e, EINVAL, "'%s' given more than %d times",
			given, OPT_LIST_MAX);
	list->item[list->n++] = text;
	return 0;
}

int opt_set_value(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	switch (o->type) {
	case OPT_STRING:
		*(const char **)o->value = text;
		return 0;
	case OPT_INT:
	case OPT_UINT:
		return set_int(o, given, text, e);
	case OPT_FLOAT:
		return set_float(o, given, text, e);
	case OPT_SIZE:
		return set_size(o, given, text, e);
	case OPT_CHOICE:
		return set_choice(o, given, text, e);
	case OPT_LIST:
		return add_item(o, given, text, e);
	case OPT_FLAG:
	case OPT_GROUP:
	case OPT_TABLES:
		break;
	}
	return err_set(e, EINVAL, "'%s' takes no value", given);
}

/* ---- by name -------------------------------------------------------- */

/* The option of that name, or else of that letter, in *out. */
static bool find(const struct opt_command *c, const char *name, size_t len,
	char letter, struct opt *out)
{
	struct opt_walk w = { .cmd = c };

	while (opt_walk(&w)) {
		const struct opt *o = &w.opt;

		if (o->type == OPT_GROUP ||
			(name ? !o->name || strncmp(o->name, name, len) ||
						o->name[len]
			      : o->letter != letter))
			continue;
		*out = *o;
		return true;
	}
	return false;
}

bool opt_by_name(const struct opt_command *c, const char *name, size_t len,
	struct opt *out)
{
	return find(c, name, len, 0, out);
}

bool opt_by_letter(const struct opt_command *c, char letter, struct opt *out)
{
	return find(c, NULL, 0, letter, out);
}

int opt_refuse_name(
	const struct opt_command *c, const char *given, struct err *e)
{
	const char *meant = opt_closest(c, given + 2);

	if (meant)
		return err_set(e, EINVAL,
			"unknown option '%s'; did you mean '--%s'?", given,
			meant);
	return err_set(e, EINVAL, "unknown option '%s'", given);
}

/* ---- one option ---------------------------------------------------------- */

static int set_flag(
	const struct opt *o, const char *given, const char *text, struct err *e)
{
	bool on = !text || !strcmp(text, "true");

	if (!on && strcmp(text, "false"))
		return err_set(e, EINVAL, "'%s' takes true or false, not '%s'",
			given, text);
	*(bool *)o->value = on;
	return 0;
}

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
	if (o.type == OPT_FLAG)
		return set_flag(&o, given, text, e);
	if (!text)
		return err_set(e, EINVAL, "'%s' needs a value: %s %s", given,
			given, o.arg ? o.arg : "VALUE");
	return opt_set_value(&o, given, text, e);
}
