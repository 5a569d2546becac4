#include "host/bench/setting.h"

#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the value in a change "NAME=VALUE", or NULL if the change has another
 * name. */
static const char *value_of(const char *change, const char *name, size_t len)
{
	return !strncmp(change, name, len) && change[len] == '='
		? change + len + 1
		: NULL;
}

int setting_change(struct setting *s, const char *text, struct err *e)
{
	size_t len = strcspn(text, "=");
	char *copy, **old = NULL;

	for (unsigned i = 0; i < s->n && !old; i++)
		if (value_of(s->change[i], text, len))
			old = &s->change[i];
	if (!len || !text[len])
		return err_set(e, EINVAL, "'%s' is not NAME=VALUE", text);
	if (!old && s->n == SETTING_CHANGES)
		return err_set(e, EINVAL,
			"at most %d options can be changed for a row",
			SETTING_CHANGES);
	copy = strdup(text);
	if (!copy)
		return err_set(e, ENOMEM, "no memory for the options of a run");
	if (!old)
		old = &s->change[s->n++];
	free(*old);
	*old = copy;
	return 0;
}

int setting_set(
	struct setting *s, const char *name, const char *value, struct err *e)
{
	char *text;
	int ret;

	if (asprintf(&text, "%s=%s", name, value) < 0)
		return err_set(e, ENOMEM, "no memory for the options of a run");
	ret = setting_change(s, text, e);
	free(text);
	return ret;
}

int setting_copy(struct setting *to, const struct setting *from, struct err *e)
{
	int ret = 0;

	*to = (struct setting){ .hook = from->hook,
		.in_a_row = from->in_a_row };
	for (unsigned i = 0; i < from->n && !ret; i++)
		ret = setting_change(to, from->change[i], e);
	return ret;
}

const char *setting_value(const struct setting *s, const char *name)
{
	const char *value = NULL;

	for (unsigned i = 0; i < s->n && !value; i++)
		value = value_of(s->change[i], name, strlen(name));
	return value;
}

bool setting_same(const struct setting *a, const struct setting *b)
{
	unsigned same = 0;

	for (unsigned i = 0; i < a->n; i++)
		for (unsigned k = 0; k < b->n; k++)
			same += !strcmp(a->change[i], b->change[k]);
	return a->hook == b->hook && a->in_a_row == b->in_a_row &&
		a->n == b->n && same == a->n;
}

const char *setting_text(const struct setting *s, char *text, unsigned size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < s->n && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s",
			i ? " " : "", s->change[i]);
	if (s->in_a_row && used < size)
		snprintf(text + used, size - used, " (in a row)");
	return text;
}

void setting_release(struct setting *s)
{
	for (unsigned i = 0; i < s->n; i++)
		free(s->change[i]);
	*s = (struct setting){ 0 };
}
