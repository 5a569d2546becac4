/* Prints the options of a command as a bash completion. */
#include "base/opt_impl.h"

#include <ctype.h>
#include <string.h>

/* The values that shell completion offers for an option. */
struct offer {
	/* the words to offer, each preceded by a space */
	struct opt_text words;
	/* paths to offer: "-f" for files, "-d" for folders */
	const char *paths;
	bool list;
};

static bool is_one_of(const char *s, size_t n, const char *const *names)
{
	for (; *names; names++)
		if (strlen(*names) == n && !memcmp(s, *names, n))
			return true;
	return false;
}

/* Print the completions of an option's value or of an operand; `row` describes
 * the option or the operand. If `row` is NULL, the operand may be any text, so
 * nothing is offered. */
static void put_offer(const struct opt *row, FILE *f)
{
	static const char *const files[] = { "FILE", "PATH", "MODEL", NULL };
	static const char *const folders[] = { "DIR", NULL };
	static const char *const lists[] = { "LIST", NULL };
	const char *s = row && row->arg ? row->arg : "";
	struct offer o = { .words.len = 0 };
	struct opt_word w;

	/* Handle each alternative of an argument such as "FILE|none". An
	 * alternative in capitals names a kind of value. An alternative that
	 * begins in lower case is offered as a word, up to its first capital
	 * letter. */
	while (*s) {
		size_t n = strcspn(s, "|"), word = 0;

		if (is_one_of(s, n, files))
			o.paths = "-f";
		else if (is_one_of(s, n, folders))
			o.paths = "-d";
		else if (is_one_of(s, n, lists))
			o.list = true;
		while (word < n && !isupper((unsigned char)s[word]))
			word++;
		/* "-" means standard input, which needs no completion. */
		if (!row->choices && !row->words && word &&
			!(word == 1 && *s == '-'))
			opt_text_add(&o.words, " %.*s", (int)word, s);
		s += n;
		s += *s == '|';
	}
	for (size_t i = 0; row && row->choices && row->choices[i]; i++)
		opt_text_add(&o.words, " %s", row->choices[i]);
	for (size_t i = 0; row && row->words && row->words(i, &w); i++)
		if (w.word)
			opt_text_add(&o.words, " %s", w.word);
	if (o.words.len)
		fprintf(f, " words='%s'", o.words.data + 1);
	if (o.paths)
		fprintf(f, " paths=%s", o.paths);
	if (o.list)
		fputs(" list=yes", f);
	fputs(" ;;\n", f);
}

static void put_names(const struct opt *o, FILE *f)
{
	if (o->name)
		fprintf(f, " --%s", o->name);
	if (o->letter)
		fprintf(f, " -%c", o->letter);
}

void opt_completion(const struct opt_command *c, const char *name, FILE *f)
{
	const struct opt_walk help = opt_walk_help(c);
	struct opt_walk w = { .cmd = c };

	while (opt_walk(&w)) {
		if (w.opt.type == OPT_GROUP || w.opt.type == OPT_FLAG ||
			w.opt.hidden)
			continue;
		fprintf(f, "\t%s:--%s", name, w.opt.name);
		if (w.opt.letter)
			fprintf(f, "|%s:-%c", name, w.opt.letter);
		fputs(")", f);
		put_offer(&w.opt, f);
	}
	fprintf(f, "\t%s:*) options='", name);
	w = (struct opt_walk){ .cmd = c };
	while (opt_walk(&w))
		if (w.opt.type != OPT_GROUP && !w.opt.hidden)
			put_names(&w.opt, f);
	put_names(&help.opt, f);
	fputs("'", f);
	put_offer(c->operand, f);
}
