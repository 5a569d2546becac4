#include "host/bench/sets.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char space[] = " \t\r\n";

static int add_name(struct options_set *set, const char *word, struct err *e)
{
	size_t used = strlen(set->name);
	int n = snprintf(set->name + used, sizeof(set->name) - used, "%s%s",
		used ? " " : "", word);

	if (n < (int)(sizeof(set->name) - used))
		return 0;
	return err_set(e, EINVAL,
		"the set that begins with '%s' is longer than %d characters, "
		"too long to be its own name; put a name before it: 'name: "
		"OPTION=VALUE ...'",
		set->name, TABLE_NAME - 1);
}

static int parse_set(struct sets *s, char *text, struct err *e)
{
	struct options_set *set = &s->set[s->n];
	char *rest, *word = strtok_r(text, space, &rest);
	size_t len = word ? strlen(word) : 0;
	bool named = len >= 2 && word[len - 1] == ':' && !strchr(word, '=');
	int ret = 0;

	if (s->n == SETS_MAX)
		return err_set(
			e, EINVAL, "there are more than %d sets", SETS_MAX);
	s->n++;
	/* If the first word ends in `:` it is the name of the set. Otherwise
	 * the text of the set is its name. */
	if (named) {
		word[len - 1] = '\0';
		ret = add_name(set, word, e);
		word = strtok_r(NULL, space, &rest);
	}
	if (!word)
		return err_set(e, EINVAL,
			"a set of options is empty; give "
			"NAME=VALUE");
	for (; word && !ret; word = strtok_r(NULL, space, &rest)) {
		char name[TABLE_NAME];

		len = strcspn(word, "=");
		snprintf(name, sizeof(name), "%.*s", (int)len, word);
		if (!named)
			ret = add_name(set, word, e);
		if (!ret && !len)
			ret = err_set(
				e, EINVAL, "'%s' is not NAME=VALUE", word);
		else if (!ret && setting_value(&set->changes, name))
			ret = err_set(e, EINVAL,
				"a set of options sets '%s' twice; leave one "
				"out",
				name);
		else if (!ret)
			ret = word[len]
				? setting_change(&set->changes, word, e)
				: setting_set(&set->changes, word, "true", e);
	}
	for (unsigned i = 0; i + 1 < s->n && !ret; i++)
		if (!strcmp(s->set[i].name, set->name))
			ret = err_set(e, EINVAL,
				"two sets have the name '%s'; "
				"rename one",
				set->name);
	return ret;
}

int sets_parse(struct sets *s, const char *text, struct err *e)
{
	char *copy = strdup(text), *at = copy, *set;
	int ret = copy
		? 0
		: err_set(e, ENOMEM, "no memory for the sets of options");

	while (!ret && (set = strsep(&at, ";"))) {
		/* Ignore the empty set after a `;` at the end of the list. */
		if (!at && s->n && !set[strspn(set, space)])
			break;
		ret = parse_set(s, set, e);
	}
	free(copy);
	return ret;
}

void sets_release(struct sets *s)
{
	for (unsigned i = 0; i < s->n; i++)
		setting_release(&s->set[i].changes);
	*s = (struct sets){ 0 };
}
