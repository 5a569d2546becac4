/* Replaces the calls and results in a conversation with tools by turns that
 * chat_format can write (chat_tools.h). */
#include "host/text/chat_tools.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/text/call_style.h"
#include "host/text/list_grow.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Append a turn to the plan. `given` is the index of the caller's turn from
 * which the new turn was made. */
static void push(struct chat_plan *p, struct chat_turn turn, size_t given)
{
	if (list_grow(&p->turn, p->n, &p->cap, sizeof(*p->turn)) ||
		list_grow(&p->given, p->n, &p->cap_given, sizeof(*p->given))) {
		p->failed = true;
		return;
	}
	p->turn[p->n] = turn;
	p->given[p->n++] = given;
}

/* Make the plan the owner of a text. Returns the text, or "" if memory is
 * short. */
static const char *own(struct chat_plan *p, char *text)
{
	if (!text ||
		list_grow(
			&p->text, p->n_text, &p->cap_text, sizeof(*p->text))) {
		free(text);
		p->failed = true;
		return "";
	}
	p->text[p->n_text++] = text;
	return text;
}

static const char *own_buffer(struct chat_plan *p, struct strbuf *text)
{
	if (!text->failed)
		return own(p, text->data);
	strbuf_release(text);
	return own(p, NULL);
}

/* ---- calls and results --------------------------------------------------- */

/* Format of the id of a tool call, from the number of the call in the
 * conversation: nine letters and digits, as Mistral's templates require. */
#define ID "call%05zu"

/* Append turn[i] of the n turns to the plan. The turn is a tool call, and
 * `number` is its number in the conversation. */
static int push_call(struct chat_plan *p, const struct call_style *s,
	const struct chat_turn *turn, size_t i, size_t n, size_t number,
	struct err *e)
{
	bool first = !i || turn[i - 1].role != CHAT_CALL;
	bool last = i + 1 == n || turn[i + 1].role != CHAT_CALL;
	/* A call is written into the turn before it if that turn is a call or,
	 * unless bare_calls is set, an answer with text. */
	bool joins = !first ||
		(!s->bare_calls && i && turn[i - 1].role == CHAT_ASSISTANT &&
			turn[i - 1].len);
	const char *text = turn[i].text;
	const char *space = text ? memchr(text, ' ', turn[i].len) : NULL;
	size_t name = space ? (size_t)(space - text) : 0;
	struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;
	struct chat_turn call = turn[i];

	if (i + 1 == n || !chat_tool_is_name(text, name))
		return err_set(e, EINVAL,
			i + 1 == n
				? "turn %zu is a tool call, but the next turn "
				  "is not its result"
				: "turn %zu is a tool call, but does "
				  "not consist of a tool's name, a "
				  "space and arguments",
			i + 1);
	strbuf_addf(&before, "%s{\"name\": \"%.*s%s",
		joins ? s->next : s->first, (int)name, text, s->middle);
	if (s->ids)
		strbuf_addf(&after, ", \"id\": \"" ID "\"", number);
	strbuf_addf(&after, "%s%s", s->close, last ? s->last : "");
	call.role = s->bare_calls ? CHAT_BARE : CHAT_ASSISTANT;
	call.joins = joins && !s->bare_calls;
	call.text = space + 1;
	call.len -= name + 1;
	call.before = own_buffer(p, &before);
	call.after = own_buffer(p, &after);
	push(p, call, i);
	return 0;
}

/* Returns the text as a JSON value. If the text is valid JSON and `quoted` is
 * false, the value is the text itself; otherwise it is a JSON string. */
static char *as_json(const char *text, size_t len, bool quoted)
{
	json_t *v =
		quoted ? NULL : json_loadb(text, len, JSON_DECODE_ANY, NULL);
	char *out;

	if (v) {
		json_decref(v);
		return strndup(text, len);
	}
	v = json_stringn(text, len);
	out = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
	json_decref(v);
	return out;
}

static int push_result(struct chat_plan *p, const struct call_style *s,
	const struct chat_turn *turn, size_t i, size_t number, struct err *e)
{
	bool again = i && turn[i - 1].role == CHAT_RESULT;
	struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;
	struct chat_turn result = turn[i];

	if (!i ||
		(!again && turn[i - 1].role != CHAT_CALL &&
			!(turn[i - 1].role == CHAT_ASSISTANT &&
				turn[i - 1].written)))
		return err_set(e, EINVAL,
			"turn %zu is the result of a tool call, but the turn "
			"before it is not a tool call",
			i + 1);
	result.role = s->bare_results ? CHAT_BARE : CHAT_USER;
	result.joins = again && !s->bare_results;
	result.before = result.joins ? s->result_again : s->result_open;
	result.after = s->result_close;
	if (s->result_quoted || (s->ids && !s->result_id)) {
		result.text = own(p,
			as_json(turn[i].text, turn[i].len, s->result_quoted));
		result.len = strlen(result.text);
	}
	if (s->ids && s->result_id) {
		strbuf_addf(&before, "%s" ID "%s", s->result_open, number,
			s->result_id);
		result.before = own_buffer(p, &before);
	} else if (s->ids) {
		strbuf_addf(&before, "%s{\"content\": ", s->result_open);
		strbuf_addf(&after, ", \"call_id\": \"" ID "\"}%s", number,
			s->result_close);
		result.before = own_buffer(p, &before);
		result.after = own_buffer(p, &after);
	}
	push(p, result, i);
	return 0;
}

/* Append an assistant turn, unless it is empty and a call follows. With
 * bare_calls, calls are outside of assistant turns; an answer before a call or
 * a result is then written outside of turns, too. */
static void push_answer(struct chat_plan *p, const struct call_style *s,
	const struct chat_turn *turn, size_t i, size_t n)
{
	enum chat_role next = i + 1 < n ? turn[i + 1].role : CHAT_ROLES;
	struct chat_turn answer = turn[i];

	if (next == CHAT_CALL && !answer.written && !answer.len)
		return;
	if (s->bare_calls && (next == CHAT_CALL || next == CHAT_RESULT)) {
		answer.role = CHAT_BARE;
		answer.before = answer.written ? NULL : s->answer_lead;
		answer.after = next == CHAT_RESULT ? s->answer_end : NULL;
	}
	push(p, answer, i);
}

/* ---- all turns ----------------------------------------------------------- */

int chat_plan(struct chat_plan *p, const struct call_style *s,
	const struct chat_tools *tools, const struct chat_turn *turn, size_t n,
	struct err *e)
{
	size_t first_user = n, last_user = n, calls = 0, results = 0;
	struct chat_turn list = { .role = CHAT_SYSTEM }, one;
	bool in_system = tools && s->place == TOOLS_IN_SYSTEM;
	int ret = 0;

	*p = (struct chat_plan){ 0 };
	for (size_t i = 0; i < n; i++)
		if (turn[i].role == CHAT_USER) {
			first_user = first_user == n ? i : first_user;
			last_user = i;
		}
	if (tools) {
		list.text = tools->text;
		list.len = strlen(tools->text);
		list.before = s->tools_open;
		list.after = s->tools_close;
		list.joins = in_system && n && turn[0].role == CHAT_SYSTEM;
	}
	if (in_system && !list.joins)
		push(p, list, 0);
	for (size_t i = 0; i < n && !ret; i++) {
		one = turn[i];
		switch (one.role) {
		case CHAT_CALL:
			ret = push_call(p, s, turn, i, n, calls++, e);
			break;
		case CHAT_RESULT:
			ret = push_result(p, s, turn, i, results++, e);
			break;
		case CHAT_ASSISTANT:
			push_answer(p, s, turn, i, n);
			break;
		case CHAT_USER:
			list.role = CHAT_BARE;
			if (tools && s->place == TOOLS_BEFORE_LAST_USER &&
				i == last_user)
				push(p, list, 0);
			list.role = CHAT_USER;
			one.joins = tools && s->place == TOOLS_IN_FIRST_USER &&
				i == first_user;
			if (one.joins)
				push(p, list, 0);
			push(p, one, i);
			break;
		default:
			one.after = list.joins && !i ? "\n\n" : NULL;
			push(p, one, i);
			if (list.joins && !i)
				push(p, list, 0);
		}
	}
	if (!ret && p->failed)
		ret = err_set(e, ENOMEM, "no memory for %zu turns", n);
	return ret;
}

void chat_plan_release(struct chat_plan *p)
{
	for (size_t i = 0; i < p->n_text; i++)
		free(p->text[i]);
	free(p->text);
	free(p->turn);
	free(p->given);
	*p = (struct chat_plan){ 0 };
}
