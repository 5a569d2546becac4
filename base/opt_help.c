#include "base/opt.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/opt_impl.h"
#include "base/version.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define COLUMNS  80
#define HELP_COL 26 /* column at which the explanation of an option starts */

/* ---- breaking lines -------------------------------------------------- */

/* The width of UTF-8 text in columns. Every character is assumed to be one
 * column wide. */
static unsigned width(const char *s, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

static void pad(FILE *f, unsigned n)
{
	while (n--)
		fputc(' ', f);
}

/*
 * Break text without newlines into lines of at most COLUMNS columns. The first
 * line begins at column `col`, the following lines at column `indent`. If
 * `brackets` is set, text in brackets is not broken, so that a synopsis is
 * broken only between options.
 */
static void fill(FILE *f, const char *s, size_t len, unsigned col,
	unsigned indent, bool brackets)
{
	const char *end = s + len;
	bool first = true;

	while (s < end) {
		const char *word;
		unsigned w, depth = 0;

		while (s < end && *s == ' ')
			s++;
		for (word = s; s < end && (*s != ' ' || depth); s++)
			if (brackets)
				depth += *s == '[' ? 1u : *s == ']' ? -1u : 0u;
		w = width(word, (size_t)(s - word));
		if (!w)
			break;
		if (!first && col + 1 + w > COLUMNS) {
			fputc('\n', f);
			pad(f, indent);
			col = indent;
		} else if (!first) {
			fputc(' ', f);
			col++;
		}
		fwrite(word, 1, (size_t)(s - word), f);
		col += w;
		first = false;
	}
	fputc('\n', f);
}

/* Print text of several lines at column `indent`. Each line is broken
 * separately. A line that starts with a space is an example and is not
 * changed. */
static void fill_text(FILE *f, const char *text, unsigned indent)
{
	bool first = true;

	while (*text) {
		size_t len = strcspn(text, "\n");

		if (!first && len)
			pad(f, indent);
		if (*text == ' ' || *text == '\t')
			fprintf(f, "%.*s\n", (int)len, text);
		else
			fill(f, text, len, indent, indent, false);
		first = false;
		text += len + (text[len] == '\n');
	}
}

/* ---- one option ------------------------------------------------------ */

/* A function that writes text, plain or as roff. Returns the width of the text
 * in columns if it is plain, 0 if it is roff. */
typedef unsigned put_fn(FILE *f, const char *text);

static unsigned put_plain(FILE *f, const char *text)
{
	fputs(text, f);
	return width(text, strlen(text));
}

/* Print the name of the option's value: " FILE" or " off|strict|check"; nothing
 * for a flag. */
static unsigned put_arg(FILE *f, const struct opt *o, put_fn *put)
{
	unsigned w = 0;

	if (o->type == OPT_FLAG)
		return 0;
	if (o->arg || o->type != OPT_CHOICE)
		return put(f, " ") + put(f, o->arg ? o->arg : "VALUE");
	for (int i = 0; o->choices[i]; i++)
		w += put(f, i ? "|" : " ") + put(f, o->choices[i]);
	return w;
}

static void add_default(struct opt_text *b, const struct opt *o, const void *v)
{
	static const char *const unit[] = { "", "K", "M", "G" };
	unsigned i = 0;
	double size;

	switch (o->type) {
	case OPT_INT:
		opt_text_add(b, "%" PRId64, *(const int64_t *)v);
		break;
	case OPT_UINT:
		opt_text_add(b, "%" PRIu32, *(const uint32_t *)v);
		break;
	case OPT_FLOAT:
		opt_text_add(b, "%g", *(const double *)v);
		break;
	case OPT_SIZE: /* print 3584 MiB as "3.5G" */
		size = (double)*(const uint64_t *)v;
		for (; size >= 1024 && i + 1 < ARRAY_LEN(unit); i++)
			size /= 1024;
		opt_text_add(b, "%.6g%s", size, unit[i]);
		break;
	case OPT_CHOICE:
		opt_text_add(b, "%s", o->choices[*(const int *)v]);
		break;
	case OPT_STRING:
		opt_text_add(b, "%s", *(const char *const *)v);
		break;
	default:
		break;
	}
}

/* Get the help text of the current option, with the option's default in place
 * of {}. */
static void help_text(struct opt_text *b, const struct opt_walk *w)
{
	const char *help = w->opt.help ? w->opt.help : "", *at;

	b->len = 0;
	for (; w->standard && (at = strstr(help, "{}")); help = at + 2) {
		opt_text_add(b, "%.*s", (int)(at - help), help);
		add_default(b, &w->opt, w->standard);
	}
	opt_text_add(b, "%s", help);
}

/* Print the special words that the option accepts as its value, each with its
 * meaning. */
static void put_words(FILE *f, const struct opt *o)
{
	struct opt_word word;
	unsigned widest = 0;

	for (size_t i = 0; o->words && o->words(i, &word); i++) {
		const char *shown = word.shown ? word.shown : word.word;
		unsigned w = width(shown, strlen(shown));

		widest = w > widest ? w : widest;
	}
	for (size_t i = 0; o->words && o->words(i, &word); i++) {
		const char *shown = word.shown ? word.shown : word.word;
		unsigned w = width(shown, strlen(shown));

		if (!word.help)
			continue;
		pad(f, HELP_COL + 2);
		fputs(shown, f);
		pad(f, widest - w + 2);
		fill(f, word.help, strlen(word.help), HELP_COL + widest + 4,
			HELP_COL + widest + 4, false);
	}
}

/* Shorten the help text to its first clause: cut it at the first semicolon that
 * is not in parentheses and does not follow a quotation mark. Then remove
 * colons at the end. */
static void cut_short(struct opt_text *help)
{
	int depth = 0;
	size_t i = 0;

	for (; i < help->len &&
		(depth || help->data[i] != ';' ||
			(i && help->data[i - 1] == '\''));
		i++)
		depth += help->data[i] == '('  ? 1
			: help->data[i] == ')' ? -1
					       : 0;
	while (i && help->data[i - 1] == ':')
		i--;
	help->len = i;
	help->data[i] = '\0';
}

static void put_option(FILE *f, const struct opt_walk *w, bool briefly)
{
	const struct opt *o = &w->opt;
	const char letter[] = { o->letter, '\0' };
	struct opt_text help;
	unsigned col;

	/* print " -m, --model FILE" */
	col = put_plain(f, o->letter ? "  -" : "      ");
	col += put_plain(f, letter);
	if (o->name) {
		col += put_plain(f, o->letter ? ", --" : "--");
		col += put_plain(f, o->name);
	}
	col += put_arg(f, o, put_plain);
	help_text(&help, w);
	if (briefly)
		cut_short(&help);
	if (!help.len) {
		fputc('\n', f);
		return;
	}
	if (col + 2 > HELP_COL) {
		fputc('\n', f);
		col = 0;
	}
	pad(f, HELP_COL - col);
	fill_text(f, help.data, HELP_COL);
	if (!briefly)
		put_words(f, o);
}

/* ---- groups ---------------------------------------------------------- */

/* A group is the set of options with the same heading. A heading may occur
 * several times in the table. The options before the first heading form a group
 * whose name is NULL. */
#define GROUPS 32

struct groups {
	const char *name[GROUPS];
	unsigned n;
};

static bool same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* List the groups in the order of their first options. */
static void list_groups(const struct opt_command *c, struct groups *g)
{
	struct opt_walk w = { .cmd = c };
	const char *heading = NULL;
	unsigned i;

	g->n = 0;
	while (opt_walk(&w)) {
		if (w.opt.type == OPT_GROUP)
			heading = w.opt.name;
		if (w.opt.type == OPT_GROUP || w.opt.hidden)
			continue;
		for (i = 0; i < g->n && !same(g->name[i], heading);)
			i++;
		assert(i < GROUPS);
		g->name[i] = heading;
		g->n += i == g->n;
	}
}

/* Advance to the next option of one group. */
static bool walk_group(
	struct opt_walk *w, const char **heading, const char *group)
{
	while (opt_walk(w))
		if (w->opt.type == OPT_GROUP)
			*heading = w->opt.name;
		else if (!w->opt.hidden && same(*heading, group))
			return true;
	return false;
}

static void put_heading(const char *name, FILE *f)
{
	fputc(toupper((unsigned char)*name), f);
	fputs(name + 1, f);
}

static void put_group(const struct opt_command *c, const char *group, FILE *f)
{
	struct opt_walk w = { .cmd = c };
	const char *heading = NULL;

	put_heading(group ? group : "options", f);
	fputs(":\n", f);
	while (walk_group(&w, &heading, group))
		put_option(f, &w, false);
}

/* ---- help, man page --------------------------------------------------- */

/* Print the options that --help lists without a group (c->common), and the
 * names of the groups. */
static void put_common(
	const struct opt_command *c, const struct groups *g, FILE *f)
{
	const struct opt_walk help = opt_walk_help(c);
	struct opt_text names = { .len = 0 };
	const char *between = " --help GROUP, where GROUP is";

	fputs("\nOptions:\n", f);
	for (const char *name = c->common; *name;) {
		struct opt_walk w = { .cmd = c };
		size_t len = strcspn(name, " ");
		bool is = false;

		while (!is && opt_walk(&w))
			is = w.opt.type != OPT_GROUP && w.opt.name &&
				!strncmp(w.opt.name, name, len) &&
				!w.opt.name[len];
		assert(is);
		put_option(f, &w, true);
		name += len + strspn(name + len, " ");
	}
	put_option(f, &help, true);
	opt_text_add(&names, "%s", c->name);
	for (unsigned i = 0; i < g->n; i++)
		if (g->name[i]) {
			opt_text_add(&names, "%s %s", between, g->name[i]);
			between = ",";
		}
	opt_text_add(&names, *between == ',' ? ", or all" : " --help all");
	fputs("\nAll options: ", f);
	fill(f, names.data, names.len, 13, 2, false);
}

static void put_paragraphs(const char *title, const char *text, FILE *f)
{
	if (!text || !*text)
		return;
	fprintf(f, "\n%s", title);
	fill_text(f, text, 0);
}

int opt_help(
	const struct opt_command *c, const char *group, FILE *f, struct err *e)
{
	const struct opt_walk help = opt_walk_help(c);
	struct opt_nearest near = { .word = group };
	struct groups g;
	unsigned col;

	list_groups(c, &g);
	if (group && strcmp(group, "all")) {
		for (unsigned i = 0; i < g.n; i++) {
			if (!g.name[i])
				continue;
			if (same(g.name[i], group)) {
				put_group(c, g.name[i], f);
				return 0;
			}
			opt_nearest_offer(&near, g.name[i]);
		}
		return err_set(e, EINVAL, "%s has no group of options '%s'%s",
			c->name, group, opt_nearest_clause(&near));
	}
	col = (unsigned)fprintf(f, "Usage: %s ", c->name);
	if (c->synopsis && *c->synopsis)
		fill(f, c->synopsis, strlen(c->synopsis), col, col, true);
	else
		fputc('\n', f);
	fputc('\n', f);
	fill_text(f, c->summary, 0);
	if (!group && c->common) {
		put_paragraphs("Examples:\n", c->examples, f);
		put_common(c, &g, f);
		return 0;
	}
	put_paragraphs("", c->details, f);
	put_paragraphs("Examples:\n", c->examples, f);
	for (unsigned i = 0; i < g.n; i++) {
		fputc('\n', f);
		put_group(c, g.name[i], f);
	}
	put_option(f, &help, false);
	return 0;
}

/* Print one line of text as roff, where \ - and a leading . or ' are special
 * and must be escaped. */
static void roff(FILE *f, const char *s, size_t len)
{
	if (len && (*s == '.' || *s == '\''))
		fputs("\\&", f);
	for (size_t i = 0; i < len; i++)
		if (s[i] == '\\')
			fputs("\\e", f);
		else if (s[i] == '-')
			fputs("\\-", f);
		else
			fputc(s[i], f);
}

/* Print paragraphs as roff. Lines that start with a space are examples; .nf
 * keeps roff from joining them. */
static void roff_text(FILE *f, const char *text)
{
	bool example = false, gap = false;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		size_t len = strcspn(text, "\n");
		bool blank = *text == ' ' || *text == '\t';

		if (!len) {
			gap = true;
			continue;
		}
		if (example && !blank)
			fputs(".fi\n", f);
		if (gap || (blank && !example))
			fputs(".PP\n", f);
		if (blank && !example)
			fputs(".nf\n", f);
		example = blank;
		gap = false;
		roff(f, text, len);
		fputc('\n', f);
	}
	if (example)
		fputs(".fi\n", f);
}

static void roff_line(FILE *f, const char *text)
{
	roff(f, text, strlen(text));
	fputc('\n', f);
}

static unsigned put_roff(FILE *f, const char *text)
{
	roff(f, text, strlen(text));
	return 0;
}

static void roff_option(FILE *f, const struct opt_walk *w)
{
	const struct opt *o = &w->opt;
	struct opt_word word;
	struct opt_text help;
	bool any = false;

	fputs(".TP\n\\fB", f);
	if (o->letter)
		fprintf(f, "\\-%c%s", o->letter, o->name ? ", " : "");
	if (o->name) {
		fputs("\\-\\-", f);
		roff(f, o->name, strlen(o->name));
	}
	fputs("\\fR", f);
	put_arg(f, o, put_roff);
	fputc('\n', f);
	help_text(&help, w);
	if (help.len)
		roff_text(f, help.data);
	for (size_t i = 0; o->words && o->words(i, &word); i++) {
		if (!word.help)
			continue;
		fputs(any ? ".TP\n" : ".RS\n.TP\n", f);
		roff_line(f, word.shown ? word.shown : word.word);
		roff_line(f, word.help);
		any = true;
	}
	if (any)
		fputs(".RE\n", f);
}

/* Print the title of the man page: for the command "tandem bench lever" it is
 * tandem-bench-lever. */
static void roff_name(FILE *f, const char *name, bool capital)
{
	for (; *name; name++)
		if (*name == ' ' || *name == '-')
			fputs("\\-", f);
		else
			fputc(capital ? toupper((unsigned char)*name) : *name,
				f);
}

void opt_man(const struct opt_command *c, FILE *f)
{
	const struct opt_walk help = opt_walk_help(c);
	struct groups g;

	list_groups(c, &g);
	fputs(".TH ", f);
	roff_name(f, c->name, true);
	fputs(" 1 \"\" \"tandem " TANDEM_VERSION "\" \"User Commands\"\n"
	      ".SH NAME\n",
		f);
	roff_name(f, c->name, false);
	fputs(" \\- ", f);
	roff_line(f, c->summary);
	fputs(".SH SYNOPSIS\n.B ", f);
	roff_line(f, c->name);
	if (c->synopsis && *c->synopsis)
		roff_line(f, c->synopsis);
	fputs(".SH DESCRIPTION\n", f);
	roff_text(f, c->details && *c->details ? c->details : c->summary);
	if (c->examples) {
		fputs(".SH EXAMPLES\n", f);
		roff_text(f, c->examples);
	}
	fputs(".SH OPTIONS\n", f);
	for (unsigned i = 0; i < g.n; i++) {
		struct opt_walk w = { .cmd = c };
		const char *heading = NULL;

		if (g.name[i]) {
			fputs(".SS ", f);
			put_heading(g.name[i], f);
			fputc('\n', f);
		}
		while (walk_group(&w, &heading, g.name[i]))
			roff_option(f, &w);
	}
	roff_option(f, &help);
}
