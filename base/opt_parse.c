/* Parser of the command line. */
#include "base/err.h"
#include "base/opt_impl.h"
#include "base/strbuf.h"

#include <errno.h>
#include <string.h>

struct parser {
	const struct opt_command *cmd;
	int argc;
	char **argv;
	int at; /* index of the current argument */
	unsigned operands;
	struct err *err;
};

/* Whether `arg` is the name of an option of this command, without a value: "-m"
 * or "--model". */
static bool names_option(const struct opt_command *c, const char *arg)
{
	struct opt o;

	if (arg[0] != '-' || !arg[1])
		return false;
	if (arg[1] != '-')
		return !arg[2] && opt_by_letter(c, arg[1], &o);
	return opt_by_name(c, arg + 2, strlen(arg + 2), &o);
}

/* Set option `o` from the value in the same argument (`attached`) or, if
 * `attached` is NULL, from the next argument. */
static int take_value(struct parser *p, const struct opt *o, const char *given,
	const char *attached)
{
	const char *next;

	if (o->type == OPT_FLAG) {
		if (attached)
			return err_set(
				p->err, EINVAL, "'%s' takes no value", given);
		*(bool *)o->value = true;
		return 0;
	}
	if (attached)
		return opt_set_value(o, given, attached, p->err);
	if (p->at + 1 >= p->argc)
		return err_set(p->err, EINVAL, "'%s' needs a value: %s %s",
			given, given, o->arg ? o->arg : "VALUE");
	next = p->argv[++p->at];
	/* If the next argument is an option of this command, the value is most
	 * likely missing. */
	if (o->name && names_option(p->cmd, next))
		return err_set(p->err, EINVAL,
			"'%s' needs a value, but the option '%s' follows; if "
			"that is the value, write '--%s=%s'",
			given, next, o->name, next);
	return opt_set_value(o, given, next, p->err);
}

static int parse_long(struct parser *p, const char *arg)
{
	const char *name = arg + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	char given[2 * OPT_WORD_MAX];
	struct opt o;

	snprintf(given, sizeof(given), "--%.*s", (int)len, name);
	if (opt_by_name(p->cmd, name, len, &o))
		return take_value(p, &o, given, eq ? eq + 1 : NULL);
	if (!strcmp(arg, "--help"))
		return 1;
	return opt_refuse_name(p->cmd, given, p->err);
}

static int parse_letter(struct parser *p, const char *arg)
{
	struct opt found, named;
	const struct opt *o =
		opt_by_letter(p->cmd, arg[1], &found) ? &found : NULL;
	const char *rest = arg + 2, *meant;
	char given[] = { '-', arg[1], '\0' };
	/* try the names of llama.cpp's options first: -ngl is such a name, not
	 * -n with the value "gl" */
	const char *advice = *rest || !o ? opt_foreign_advice(arg) : NULL;

	if (!*rest && o)
		return take_value(p, o, arg, NULL);
	if (!*rest && arg[1] == 'h')
		return 1;
	if (advice)
		return err_set(
			p->err, EINVAL, "unknown option '%s': %s", arg, advice);
	/* -n5 means -n 5, but -model is a misspelled --model, not -m odel. */
	if (o && o->type != OPT_FLAG && *rest != '=' &&
		!opt_by_name(p->cmd, arg + 1, strcspn(arg + 1, "="), &named))
		return take_value(p, o, given, rest);

	/* The text after the letter is not a value. Suggest --model for -model,
	 * -n 5 for -n=5, and -a -b for -ab. */
	meant = *rest ? opt_closest(p->cmd, arg + 1) : NULL;
	if (meant)
		return err_set(p->err, EINVAL,
			"unknown option '%s'; did you mean '--%s'?", arg,
			meant);
	if (o && o->type != OPT_FLAG)
		return err_set(p->err, EINVAL,
			"unknown option '%s'; did you mean '-%c %s'?", arg,
			arg[1], rest + (*rest == '='));
	if (o)
		return err_set(p->err, EINVAL,
			"unknown option '%s': give each letter as a separate "
			"option, as in '-%c -%c'",
			arg, arg[1], *rest);
	return err_set(p->err, EINVAL, "unknown option '%s'", arg);
}

int opt_parse(const struct opt_command *c, int argc, char **argv,
	unsigned *operands, struct err *e)
{
	struct parser p = { c, argc, argv, 1, 0, e };
	bool only_operands = false;

	for (; p.at < argc; p.at++) {
		char *arg = argv[p.at];
		int ret;

		if (only_operands || arg[0] != '-' || !arg[1]) {
			argv[++p.operands] = arg;
			continue;
		}
		if (!strcmp(arg, "--")) {
			only_operands = true;
			continue;
		}
		ret = arg[1] == '-' ? parse_long(&p, arg)
				    : parse_letter(&p, arg);
		if (ret < 0)
			return ret;
		if (ret > 0) {
			const char *group = argv[p.at + 1];

			if (group && *group == '-')
				group = NULL;
			ret = opt_help(c, group, stdout, e);
			return ret ? ret : 1;
		}
	}
	*operands = p.operands;
	if (p.operands > c->max_operands)
		return err_set(e, EINVAL, "unexpected argument '%s'",
			argv[c->max_operands + 1]);
	if (p.operands < c->min_operands)
		return err_set(e, EINVAL, "an argument is missing: %s %s",
			c->name, c->synopsis);
	return 0;
}

/* ---- the command line without the user's text --------------------------- */

/* Replace a value that may be text of the user by its length. Paths, numbers
 * and words defined by Tandem are not replaced. */
static void add_value(
	const struct opt *o, const char *value, struct strbuf *out)
{
	if (!o ||
		(o->arg &&
			(strstr(o->arg, "TEXT") || strstr(o->arg, "JSON") ||
				strstr(o->arg, "IDS"))))
		strbuf_addf(out, "(%zu bytes)", strlen(value));
	else
		strbuf_addf(out, "%s", value);
}

void opt_without_texts(
	const struct opt_command *c, int argc, char **argv, struct strbuf *out)
{
	bool only_operands = false;

	strbuf_addf(out, "%s", c->name);
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i], *value = NULL;
		struct opt o = { 0 };
		size_t name;
		bool known;

		strbuf_addf(out, " ");
		if (only_operands || arg[0] != '-' || !arg[1]) {
			add_value(c->operand, arg, out);
			continue;
		}
		only_operands = !strcmp(arg, "--");
		name = arg[1] == '-' ? strcspn(arg, "=") : 2;
		known = arg[1] == '-' ? opt_by_name(c, arg + 2, name - 2, &o)
				      : opt_by_letter(c, arg[1], &o);
		strbuf_add(out, arg, name);
		if (arg[name]) {
			value = arg + name + (arg[name] == '=');
			strbuf_addf(out, arg[1] == '-' ? "=" : " ");
		} else if (known && o.type != OPT_FLAG && i + 1 < argc) {
			value = argv[++i];
			strbuf_addf(out, " ");
		}
		if (value)
			add_value(known ? &o : NULL, value, out);
	}
}
