#include "host/eval/eval_items.h"

#include "base/err.h"
#include "base/fd.h"
#include "host/eval/eval_check.h"
#include "host/text/utf8.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)64 << 20)

/* names of the values of enum eval_check, in the order of these values; ended
 * by NULL */
static const char *const eval_check_names[] = { "exact", "number", "boxed",
	"text", "facts", NULL };

static int read_text(
	const json_t *line, const char *name, const char **out, struct err *e)
{
	const json_t *member = json_object_get(line, name);

	*out = json_string_value(member);
	if (!*out)
		return err_set(e, EINVAL, "member '%s' is %s", name,
			member ? "not a string" : "missing");
	if (!**out)
		return err_set(e, EINVAL, "member '%s' is empty", name);
	return 0;
}

/* Check that a member that is a list consists of non-empty strings. */
static int check_strings(const json_t *list, const char *name, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		if (!json_string_length(one))
			return err_set(e, EINVAL,
				"member '%s': element %zu is not a string, "
				"or is empty",
				name, i + 1);
	}
	return 0;
}

static int read_marked(struct eval_item *item, struct err *e)
{
	/* For error messages: what is wrong with an expected answer if no
	 * output can pass the check. Such an answer is refused. */
	static const char *const wanted[] = {
		[EVAL_EXACT] = "an empty first line",
		[EVAL_NUMBER] = "no number",
		[EVAL_BOXED] = "no \\boxed{...}",
		[EVAL_TEXT] = "no text",
	};
	const json_t *level = json_object_get(item->line, "level");
	const char *name;
	unsigned check = 0;
	bool right;
	int ret;

	if ((ret = read_text(item->line, "id", &item->id, e)) ||
		(ret = read_text(item->line, "prompt", &item->prompt, e)) ||
		(ret = read_text(item->line, "answer", &item->answer, e)) ||
		(ret = read_text(item->line, "check", &name, e)))
		return ret;
	while (eval_check_names[check] && strcmp(eval_check_names[check], name))
		check++;
	if (!eval_check_names[check])
		return err_set(e, EINVAL,
			"member 'check' is '%.40s', must be exact, number, "
			"boxed, text or facts",
			name);
	item->check = (enum eval_check)check;
	item->facts = json_object_get(item->line, "facts");
	if (item->facts && !json_is_array(item->facts))
		return err_set(e, EINVAL, "member 'facts' is not a list");
	ret = check_strings(item->facts, "facts", e);
	if (ret)
		return ret;
	if (item->check == EVAL_FACTS && !json_array_size(item->facts))
		return err_set(e, EINVAL,
			"member 'facts' is %s, but the check 'facts' needs it",
			item->facts ? "empty" : "missing");
	if (level &&
		(!json_is_integer(level) || json_integer_value(level) < 0 ||
			json_integer_value(level) >= EVAL_LEVELS))
		return err_set(e, EINVAL,
			"member 'level' is not a number from 0 to %d",
			EVAL_LEVELS - 1);
	item->level = (unsigned)json_integer_value(level);
	if (item->check == EVAL_FACTS)
		return 0;
	ret = eval_check(item, item->answer, strlen(item->answer), &right, e);
	if (!ret && !right)
		return err_set(e, EINVAL,
			"member 'answer' has %s, so no output can pass the "
			"check '%s'; give another answer or check",
			wanted[item->check], name);
	return ret;
}

/* The prompt is the member "prompt", or the first element of the member "turns"
 * (the user's turns of a chat). */
static int read_prompt(struct eval_item *item, struct err *e)
{
	const json_t *turns = json_object_get(item->line, "turns");

	if (!turns || json_object_get(item->line, "prompt"))
		return read_text(item->line, "prompt", &item->prompt, e);
	if (!json_array_size(turns))
		return err_set(e, EINVAL, "member 'turns' is %s",
			json_is_array(turns) ? "empty" : "not a list");
	item->prompt = json_string_value(json_array_get(turns, 0));
	return check_strings(turns, "turns", e);
}

/* ---- reading lines ------------------------------------------------------- */

struct reader {
	struct eval_items *items;
	size_t *number; /* line number of each item */
	size_t line;    /* number of the current line */
	bool plain;     /* whether the lines are plain text instead of JSON */
	bool answers;   /* whether at least one line has an answer or a check */
};

static int add_item(
	struct reader *r, const char *text, size_t len, struct err *e)
{
	struct eval_items *items = r->items;
	struct eval_item *item;
	json_error_t error;
	json_t *line = NULL;
	size_t *number;
	int ret = 0;

	/* When Jansson runs out of memory, it may report invalid JSON instead.
	 * errno tells the two cases apart: it is ENOMEM if memory ran out. */
	errno = 0;
	if (r->plain && len && text[len - 1] == '\r')
		len--;
	if (!r->plain)
		line = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	else if (memchr(text, '\0', len))
		return err_set(e, EINVAL, "the line contains a NUL byte");
	else if (!utf8_is_valid(text, len))
		return err_set(e, EINVAL, "not valid UTF-8");
	else if (!(line = json_pack("{ss%}", "prompt", text, len)))
		errno = ENOMEM;
	if (!line && errno == ENOMEM)
		ret = err_set(e, ENOMEM, "no memory for the items");
	else if (!line)
		ret = err_set(e, EINVAL, "not JSON: %s", error.text);
	else if (!json_is_object(line))
		ret = err_set(e, EINVAL, "not a JSON object");
	if (ret) {
		json_decref(line);
		return ret;
	}
	r->answers |= json_object_get(line, "answer") ||
		json_object_get(line, "check");
	item = reallocarray(items->item, items->n + 1, sizeof(*item));
	items->item = item ? item : items->item;
	number = reallocarray(r->number, items->n + 1, sizeof(*number));
	r->number = number ? number : r->number;
	if (!item || !number) {
		json_decref(line);
		return err_set(e, ENOMEM, "no memory for the items");
	}
	number[items->n] = r->line;
	item[items->n++] = (struct eval_item){ .line = line };
	return 0;
}

int eval_items_read(struct eval_items *items, const char *path,
	enum eval_need need, struct err *e)
{
	struct reader r = { .items = items };
	char *data = NULL;
	size_t size;
	int ret = fd_read_file(path, FILE_MAX, &data, &size, e);
	const char *at, *end;

	*items = (struct eval_items){ 0 };
	if (ret)
		return ret;
	r.plain = need != EVAL_NEED_ANSWERS &&
		data[strspn(data, " \t\r\n")] != '{';

	end = data + size;
	for (at = data; at < end && !ret;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline ? newline : end) - at);

		r.line++;
		if (strspn(at, " \t\r\n") < len)
			ret = add_item(&r, at, len, e);
		at += len + 1;
	}

	items->marked = need == EVAL_NEED_ANSWERS ||
		(need == EVAL_NEED_ANY && r.answers);
	for (size_t i = 0; i < items->n && !ret; i++) {
		struct eval_item *item = &items->item[i];
		json_t *line = item->line;

		r.line = r.number[i];
		if (items->marked)
			ret = read_marked(item, e);
		else if (!json_object_get(line, "id") &&
			json_object_set_new(
				line, "id", json_sprintf("line-%zu", r.line)))
			ret = err_set(e, ENOMEM, "no memory for the items");
		else if (!(ret = read_text(line, "id", &item->id, e)))
			ret = read_prompt(item, e);
	}
	if (ret)
		err_in(e, "'%s', line %zu", path, r.line);
	else if (!items->n)
		ret = err_set(e, EINVAL, "'%s' has no %s", path,
			items->marked ? "items" : "prompts");
	free(r.number);
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
