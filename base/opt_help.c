#include "base/opt.h"

#include "base/checked.h"
#include "base/opt_table.h"
#include "base/version.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#define COLUMNS  80
#define HELP_COL 26 /* where the explanation of an option starts */

/* ---- filling lines --------------------------------------------------- */

/* The width of UTF-8 text, all characters taken as one column wide. */
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
 * Fill one line of text (no newline in it) into lines of COLUMNS, the first
 * going on at column `col`, the others indented. What stands in brackets is
 * one word when `brackets`, so that a synopsis breaks between options only.
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

/*
 * Text of several lines, beginning at column `indent`: each is filled on its
 * own; one that starts with a blank is an example and stays as it is.
 */
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

/* Writes text in one of two notations; returns its width where that counts. */
typedef unsigned put_fn(FILE *f, const char *text);

static unsigned put_plain(FILE *f, const char *text)
{
	fputs(text, f);
	return width(text, strlen(text));
}

/* What stands for the value: " FILE", " off|strict|check", "" for a flag. */
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

/* 3584 MiB is "3.5G". */
static void add_size(struct opt_text *b, uint64_t bytes)
{
	static const char *const unit[] = { "", "K", "M", "G" };
	double v = (double)bytes;
	unsigned i = 0;

	while (v >= 1024 && i + 1 < ARRAY_LEN(unit)) {
		v /= 1024;
		i++;
	}
	opt_text_add(b, "%.6g%s", v, unit[i]);
}

static void add_default(struct opt_text *b, const struct opt *o, const void *v)
{
	if (o->type == OPT_INT)
		opt_text_add(b, "%" PRId64, *(const int64_t *)v);
	else if (o->type == OPT_UINT)
		opt_text_add(b, "%" PRIu32, *(const uint32_t *)v);
	else if (o->type == OPT_FLOAT)
		opt_text_add(b, "%g", *(const double *)v);
	else if (o->type == OPT_SIZE)
		add_size(b, *(const uint64_t *)v);
	else if (o->type == OPT_CHOICE)
		opt_text_add(b, "%s", o->choices[*(const int *)v]);
	else if (o->type == OPT_STRING)
		opt_text_add(b, "%s", *(const char *const *)v);
}

/* The help of the option come to, with its default where {} stands. */
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

/* "  -m, --model FILE"; returns its width. */
static unsigned put_left(FILE *f, const struct opt *o)
{
	const char letter[] = { o->letter, '\0' };
	unsigned w = put_plain(f, o->letter ? "  -" : "      ");

	w += put_plain(f, letter);
	if (o->name) {
		w += put_plain(f, o->letter ? ", --" : "--");
		w += put_plain(f, o->name);
	}
	return w + put_arg(f, o, put_plain);
}

/* The words of a value, each with what it means. */
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

static void put_option(FILE *f, const struct opt_walk *w)
{
	unsigned col = put_left(f, &w->opt);
	struct opt_text help;

	help_text(&help, w);
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
	put_words(f, &w->opt);
}

/* The first line tells of more than a heading of its own. */
static bool begins_bare(const struct opt_command *c)
{
	struct opt_walk w = { .cmd = c };

	return !opt_walk(&w) || w.opt.type != OPT_GROUP;
}

/* ---- help, man page --------------------------------------------------- */

void opt_help(const struct opt_command *c, FILE *f)
{
	const struct opt_walk help = opt_walk_help(c);
	struct opt_walk w = { .cmd = c };
	unsigned col = (unsigned)fprintf(f, "Usage: %s ", c->name);

	if (c->synopsis && *c->synopsis)
		fill(f, c->synopsis, strlen(c->synopsis), col, col, true);
	else
		fputc('\n', f);
	fputc('\n', f);
	fill_text(f, c->summary, 0);
	if (c->details && *c->details) {
		fputc('\n', f);
		fill_text(f, c->details, 0);
	}
	if (begins_bare(c))
		fputs("\nOptions:\n", f);
	while (opt_walk(&w)) {
		if (w.opt.hidden)
			continue;
		if (w.opt.type == OPT_GROUP)
			fprintf(f, "\n%s:\n", w.opt.name);
		else
			put_option(f, &w);
	}
	put_option(f, &help);
}

/* One line of text for roff, where \ - and a leading . or ' are special. */
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

/* Paragraphs; lines that start with a blank are kept as they are. */
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

static void roff_words(FILE *f, const struct opt *o)
{
	struct opt_word word;
	bool any = false;

	for (size_t i = 0; o->words(i, &word); i++) {
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

static unsigned put_roff(FILE *f, const char *text)
{
	roff(f, text, strlen(text));
	return 0;
}

static void roff_option(FILE *f, const struct opt_walk *w)
{
	const struct opt *o = &w->opt;
	struct opt_text help;

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
	if (o->words)
		roff_words(f, o);
}

/* "tandem bench lever" is the page tandem-bench-lever. */
static void roff_name(FILE *f, const char *name, bool capital)
{
	for (; *name; name++)
		if (*name == ' ' || *name == '-')
			fputs("\\-", f);
		else
			fputc(capital ? toupper((unsigned char)*name) : *name,
				f);
}

static void roff_head(const struct opt_command *c, FILE *f)
{
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
}

void opt_man(const struct opt_command *c, FILE *f)
{
	const struct opt_walk help = opt_walk_help(c);
	struct opt_walk w = { .cmd = c };

	roff_head(c, f);
	fputs(".SH DESCRIPTION\n", f);
	roff_text(f, c->details && *c->details ? c->details : c->summary);
	fputs(".SH OPTIONS\n", f);
	while (opt_walk(&w)) {
		if (w.opt.hidden)
			continue;
		if (w.opt.type == OPT_GROUP) {
			fputs(".SS ", f);
			roff_line(f, w.opt.name);
		} else {
			roff_option(f, &w);
		}
	}
	roff_option(f, &help);
}
