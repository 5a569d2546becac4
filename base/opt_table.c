#include "base/opt_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- values -------------------------------------------------------------- */

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

/* Text that was said is another, though it may read the same. */
bool opt_is_said(const struct opt_values *v, const struct opt_table *t,
	const struct opt *row)
{
	size_t at = (size_t)(uintptr_t)row->value;
	const char *is = opt_values_of(v, t), *was = t->defaults;

	return memcmp(is + at, was + at, size_of(row->type));
}

void opt_unsay(
	struct opt_values *v, const struct opt_table *t, const struct opt *row)
{
	size_t at = (size_t)(uintptr_t)row->value;
	char *is = opt_values_at(v, t);

	memcpy(is + at, (const char *)t->defaults + at, size_of(row->type));
}

/* ---- the walk ------------------------------------------------------------ */

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
