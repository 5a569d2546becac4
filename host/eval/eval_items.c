#include "host/eval/eval_items.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/eval/eval_check.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)64 << 20)

const char *const eval_check_names[] = { "exact", "number", "text", "facts",
	NULL };

static int read_text(
	const json_t *line, const char *name, const char **out, struct err *e)
{
	const json_t *member = json_object_get(line, name);

	*out = json_string_value(member);
	if (!*out)
		return err_set(e, EINVAL, "member '%s' is %s", name,
			member ? "no string" : "missing");
	if (!**out)
		return err_set(e, EINVAL, "member '%s' is empty", name);
	return 0;
}

static int read_check(struct eval_item *item, struct err *e)
{
	const char *name;
	int ret = read_text(item->line, "check", &name, e);

	if (ret)
		return ret;
	for (unsigned i = 0; eval_check_names[i]; i++) {
		if (!strcmp(eval_check_names[i], name)) {
			item->check = (enum eval_check)i;
			return 0;
		}
	}
	return err_set(e, EINVAL,
		"member 'check' is '%.40s'; exact, number, text and facts are "
		"known",
		name);
}

static int read_facts(struct eval_item *item, struct err *e)
{
	const json_t *fact;
	size_t i;

	item->facts = json_object_get(item->line, "facts");
	if (item->facts && !json_is_array(item->facts))
		return err_set(e, EINVAL, "member 'facts' is no list");
	json_array_foreach(item->facts, i,
		fact) if (!json_string_length(fact)) return err_set(e, EINVAL,
		"member 'facts': number %zu is no string or "
		"an empty one",
		i + 1);
	if (item->check == EVAL_FACTS && !json_array_size(item->facts))
		return err_set(e, EINVAL,
			"member 'facts' is %s, and the check is 'facts'",
			item->facts ? "empty" : "missing");
	return 0;
}

static int read_level(struct eval_item *item, struct err *e)
{
	const json_t *level = json_object_get(item->line, "level");

	if (!level)
		return 0;
	if (!json_is_integer(level) || json_integer_value(level) < 0 ||
		json_integer_value(level) >= EVAL_LEVELS)
		return err_set(e, EINVAL,
			"member 'level' is no number from 0 to %d",
			EVAL_LEVELS - 1);
	item->level = (unsigned)json_integer_value(level);
	return 0;
}

/* Where an empty output, or any, would be right, nothing is checked. */
static int check_answer(const struct eval_item *item, struct err *e)
{
	static const char *const wanted[] = {
		[EVAL_EXACT] = "an empty first line",
		[EVAL_NUMBER] = "no number",
		[EVAL_TEXT] = "no text",
	};

	if (item->check == EVAL_FACTS ||
		eval_right(item, item->answer, strlen(item->answer)))
		return 0;
	return err_set(e, EINVAL,
		"member 'answer' has %s, and the check is '%s'",
		wanted[item->check], eval_check_names[item->check]);
}

static int read_members(struct eval_item *item, struct err *e)
{
	int ret;

	if (!json_is_object(item->line))
		return err_set(e, EINVAL, "not a JSON object");
	if ((ret = read_text(item->line, "id", &item->id, e)) ||
		(ret = read_text(item->line, "prompt", &item->prompt, e)) ||
		(ret = read_text(item->line, "answer", &item->answer, e)) ||
		(ret = read_check(item, e)) || (ret = read_facts(item, e)) ||
		(ret = read_level(item, e)))
		return ret;
	return check_answer(item, e);
}

static int add_item(
	struct eval_items *items, const char *line, size_t len, struct err *e)
{
	struct eval_item *more;
	json_error_t error;

	more = reallocarray(items->item, items->n + 1, sizeof(*more));
	if (!more)
		return err_set(e, ENOMEM, "no memory for the items");
	items->item = more;
	more += items->n++;
	*more = (struct eval_item){ .line = json_loadb(line, len,
					    JSON_REJECT_DUPLICATES, &error) };
	if (!more->line)
		return err_set(e, EINVAL, "not JSON: %s", error.text);
	return read_members(more, e);
}

static bool is_blank(const char *line, size_t len)
{
	return strspn(line, " \t\r\n") >= len;
}

int eval_items_read(struct eval_items *items, const char *path, struct err *e)
{
	size_t size, number = 0;
	char *data = NULL, *at, *end;
	int ret = fd_read_file(path, FILE_MAX, &data, &size, e);

	*items = (struct eval_items){ 0 };
	if (ret)
		return ret;
	end = data + size;
	for (at = data; at < end && !ret; number++) {
		char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);

		if (!is_blank(at, len))
			ret = add_item(items, at, len, e);
		at += len + 1;
	}
	if (ret)
		err_in(e, "'%s', line %zu", path, number);
	else if (!items->n)
		ret = err_set(e, EINVAL, "'%s' has no items", path);
	free(data);
	return ret;
}

void eval_items_release(struct eval_items *items)
{
	for (size_t i = 0; i < items->n; i++)
		json_decref(items->item[i].line);
	free(items->item);
	*items = (struct eval_items){ 0 };
}
