#include "host/cmd/talk.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "host/text/chat.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX     ((size_t)64 << 20)
#define TALK_VERSION 1

static const char *const roles[] = { "system", "user", "assistant" };

static void turn_release(struct talk_turn *t)
{
	free(t->text);
	free(t->tokens);
}

void talk_cut(struct talk *t, size_t n)
{
	while (t->n > n)
		turn_release(&t->turn[--t->n]);
}

void talk_release(struct talk *t)
{
	talk_cut(t, 0);
	free(t->turn);
	*t = (struct talk){ 0 };
}

int talk_add(struct talk *t, const char *role, const char *text, size_t bytes,
	const struct token_list *tokens, struct err *e)
{
	struct talk_turn new = { .role = role, .bytes = bytes },
			 *turn = t->turn;
	size_t cap = t->cap ? 2 * t->cap : 16;

	if (t->n == t->cap)
		turn = reallocarray(t->turn, cap, sizeof(*turn));
	if (turn && t->n == t->cap) {
		t->turn = turn;
		t->cap = cap;
	}
	new.text = malloc(bytes + 1);
	if (tokens && tokens->n) {
		new.tokens = calloc(tokens->n, sizeof(*new.tokens));
		new.n_tokens = tokens->n;
	}
	if (!turn || !new.text || (new.n_tokens && !new.tokens)) {
		turn_release(&new);
		return err_set(e, ENOMEM,
			"no memory for one turn of the conversation");
	}
	if (bytes)
		memcpy(new.text, text, bytes);
	new.text[bytes] = '\0';
	if (new.n_tokens)
		memcpy(new.tokens, tokens->id,
			new.n_tokens * sizeof(*new.tokens));
	t->turn[t->n++] = new;
	return 0;
}

static const char *talk_system(const struct talk *t)
{
	return t->n && t->turn[0].role == roles[CHAT_SYSTEM] ? t->turn[0].text
							     : NULL;
}

int talk_set_system(struct talk *t, const char *text, struct err *e)
{
	struct talk_turn first;
	int ret;

	if (talk_system(t)) {
		turn_release(&t->turn[0]);
		memmove(t->turn, t->turn + 1, --t->n * sizeof(*t->turn));
	}
	if (!text)
		return 0;
	ret = talk_add(t, roles[CHAT_SYSTEM], text, strlen(text), NULL, e);
	if (ret)
		return ret;
	first = t->turn[t->n - 1];
	memmove(t->turn + 1, t->turn, (t->n - 1) * sizeof(*t->turn));
	t->turn[0] = first;
	return 0;
}

void talk_reset(struct talk *t)
{
	size_t kept = talk_system(t) ? 1 : 0;

	talk_cut(t, kept);
}

struct tandem_turn *talk_turns(const struct talk *t)
{
	struct tandem_turn *out = calloc(t->n + 1, sizeof(*out));

	for (size_t i = 0; out && i < t->n; i++)
		out[i] = (struct tandem_turn){ .role = t->turn[i].role,
			.text = t->turn[i].text,
			.bytes = t->turn[i].bytes,
			.tokens = t->turn[i].tokens,
			.n_tokens = t->turn[i].n_tokens };
	return out;
}

/* ---- files --------------------------------------------------------------- */

int talk_save(
	const struct talk *t, json_t *settings, const char *path, struct err *e)
{
	json_t *turns = json_array(), *all;
	struct newfile file;
	char *text;
	int ret;

	for (size_t i = 0; i < t->n; i++)
		json_array_append_new(turns,
			json_pack("{ssss%}", "role", t->turn[i].role, "content",
				t->turn[i].text, t->turn[i].bytes));
	/* Jansson refuses a text that is not valid UTF-8. A turn with such a
	 * text is missing from the list, and the file must not be written
	 * without the turn. */
	if (json_array_size(turns) != t->n) {
		json_decref(turns);
		turns = NULL;
	}
	all = json_pack("{sisOso}", "version", TALK_VERSION, "settings",
		settings, "turns", turns);
	text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	if (!text)
		return err_set(e, ENOMEM,
			"the conversation cannot be written as JSON");
	ret = newfile_open(&file, path, NEWFILE_PRIVATE, e);
	if (ret) {
		free(text);
		return ret;
	}
	if (fd_write_all(file.fd, text, strlen(text)))
		ret = err_sys(e, errno, "cannot write '%s'", path);
	else
		ret = newfile_commit(&file, e);
	newfile_close(&file);
	free(text);
	return ret;
}

static int from_json(
	struct talk *t, json_t **settings, json_t *all, struct err *e)
{
	json_t *turns = json_object_get(all, "turns"), *turn;
	json_t *version = json_object_get(all, "version");
	size_t i;
	int ret;

	*settings = json_object_get(all, "settings");
	if (json_is_integer(version) &&
		json_integer_value(version) != TALK_VERSION)
		return err_set(e, ENOTSUP,
			"the conversation has version %" JSON_INTEGER_FORMAT
			"; this program supports version %d; load it with the "
			"tandem that saved it",
			json_integer_value(version), TALK_VERSION);
	if (!json_is_integer(version) || !json_is_array(turns) ||
		(*settings && !json_is_object(*settings)))
		return err_set(e, EINVAL,
			"this is not a saved conversation, a JSON object with "
			"version %d, turns (a list) and settings (an object)",
			TALK_VERSION);
	json_array_foreach(turns, i, turn)
	{
		const char *role =
			json_string_value(json_object_get(turn, "role"));
		json_t *text = json_object_get(turn, "content");
		int which = role ? chat_role_of(role) : -1;

		if (which < 0)
			return err_set(e, EINVAL,
				"turn %zu has no role that is system, user or "
				"assistant",
				i + 1);
		if (!json_is_string(text))
			return err_set(
				e, EINVAL, "turn %zu has no content", i + 1);
		if (which == CHAT_SYSTEM && i)
			return err_set(e, EINVAL,
				"turn %zu is a system turn; only the first "
				"turn can be one",
				i + 1);
		ret = talk_add(t, roles[which], json_string_value(text),
			json_string_length(text), NULL, e);
		if (ret)
			return ret;
	}
	if (t->n && t->turn[t->n - 1].role == roles[CHAT_USER])
		return err_set(e, EINVAL,
			"the conversation ends with a user turn that has no "
			"answer");
	json_incref(*settings);
	return 0;
}

int talk_load(
	struct talk *out, json_t **settings, const char *path, struct err *e)
{
	struct talk t = { 0 };
	json_error_t error;
	char *text = NULL;
	size_t len;
	int ret = fd_read_file(path, FILE_MAX, &text, &len, e);
	json_t *all = NULL;

	if (ret)
		return ret;
	/* When Jansson runs out of memory, it sometimes reports invalid JSON
	 * instead, but errno is ENOMEM. */
	errno = 0;
	all = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	if (all)
		ret = from_json(&t, settings, all, e);
	else if (errno == ENOMEM)
		ret = err_set(e, ENOMEM, "no memory for a conversation");
	else
		ret = err_set(e, EINVAL, "line %d is not JSON: %.120s",
			error.line, error.text);
	free(text);
	json_decref(all);
	if (ret) {
		talk_release(&t);
		return err_in(e, "'%s'", path);
	}
	talk_release(out);
	*out = t;
	return 0;
}
