#include "host/api/prompt.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/decoder.h"
#include "host/api/tandem.h"
#include "host/model/model.h"
#include "host/text/chat.h"
#include "host/text/chat_tools.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A conversation formatted by the chat template. */
struct chat {
	const struct tandem_turn *given; /* [n] the caller's turns */
	size_t n;
	/* [n] the same turns, with roles as enum values */
	struct chat_turn *turn;
	const struct chat_tools *tools; /* NULL if there are none */
	/* the turns in the form that the template needs */
	struct chat_plan plan;
	/* [plan.n] where the text of each turn lies in the formatted text */
	struct text_span *part;
	/* [plan.n] the spans of `part`, sorted by position */
	struct text_span *quote;
	/* [plan.n] the spans of `quote` that lie in the bytes which add_stretch
	 * tokenizes, relative to the first of these bytes */
	struct text_span *here;
	/* whether special tokens in the text of turns are treated as ordinary
	 * text */
	bool quotes;
	struct strbuf text;
};

static int take_turn(const struct chat *c, size_t i, struct err *e)
{
	const struct tandem_turn *said = &c->given[i];
	const char *name = said->role ? said->role : "";
	struct chat_turn *t = &c->turn[i];
	int role = !strcmp(name, "call") ? (int)CHAT_CALL
		: !strcmp(name, "tool")  ? (int)CHAT_RESULT
					 : chat_role_of(name);

	if (role < 0)
		return err_set(e, EINVAL,
			"turn %zu has the role '%s'; the roles are system, "
			"user, assistant, call and tool",
			i + 1, name);
	t->role = (enum chat_role)role;
	t->text = said->text;
	t->len = said->bytes || !said->text ? said->bytes : strlen(said->text);
	t->written = said->tokens;
	if (!said->text && !said->tokens)
		return err_set(e, EINVAL, "turn %zu has no text", i + 1);
	if (said->tokens && t->role != CHAT_ASSISTANT)
		return err_set(e, EINVAL,
			"turn %zu (%s) has tokens; only an assistant turn may "
			"have them",
			i + 1, said->role);
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct text_span *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Append the tokens of bytes [from, to) of the formatted text. If c->quotes is
 * set, special tokens are recognized only in text that the template added. */
static int add_stretch(const struct decoder *d, const struct chat *c,
	size_t from, size_t to, struct token_list *out, struct err *e)
{
	unsigned flags = TOKENIZE_SPECIAL | (from ? TOKENIZE_GOES_ON : 0);
	size_t n = 0;

	for (size_t i = 0; i < c->plan.n && c->quotes; i++)
		if (c->quote[i].at >= from && c->quote[i].at < to)
			c->here[n++] =
				(struct text_span){ c->quote[i].at - from,
					c->quote[i].len };
	return tokenize(d->tokenizer, c->text.data + from, to - from, flags,
		c->here, n, out, e);
}

static int read_chat(const struct decoder *d, const struct prompt *p,
	struct token_list *out, struct err *e)
{
	const struct tandem_turn both[] = {
		{ .role = "system", .text = p->system },
		{ .role = "user",
			.text = p->text ? p->text : "",
			.bytes = p->len },
	};
	struct chat c = { .given = p->turns,
		.n = p->n_turns,
		.quotes = !p->special,
		.tools = p->tools };
	const struct gguf *file = d->model->gguf;
	size_t n, from = 0;
	int ret = 0;

	if (!p->turns) {
		c.given = p->system ? both : both + 1;
		c.n = p->system ? 2 : 1;
	}
	c.turn = calloc(c.n + 1, sizeof(*c.turn));
	if (!c.turn)
		return err_set(e, ENOMEM, "no memory for %zu turns", c.n);
	for (size_t i = 0; i < c.n && !ret; i++)
		ret = take_turn(&c, i, e);
	if (!ret)
		ret = chat_plan(
			&c.plan, call_style_of(file), c.tools, c.turn, c.n, e);
	if (ret)
		goto out;
	n = c.plan.n;
	c.part = calloc(n + 1, sizeof(*c.part));
	c.quote = calloc(n + 1, sizeof(*c.quote));
	c.here = calloc(n + 1, sizeof(*c.here));
	if (!c.part || !c.quote || !c.here) {
		ret = err_set(e, ENOMEM, "no memory for %zu turns", n);
		goto out;
	}
	ret = chat_format(chat_of(file), c.plan.turn, n, &c.text, c.part, e);
	if (ret)
		goto out;
	memcpy(c.quote, c.part, n * sizeof(*c.part));
	qsort(c.quote, n, sizeof(*c.quote), by_place);
	/*
	 * Turns that are given as tokens are inserted unchanged, but without an
	 * end-of-text token at their end. The text between these turns is
	 * tokenized separately. So, up to the end of an earlier answer, the
	 * prompt has the same tokens as the sequence that was cached when this
	 * answer was generated. The cached keys and values of these tokens can
	 * then be reused.
	 */
	for (size_t i = 0; i < n && !ret; i++) {
		const struct tandem_turn *said = &c.given[c.plan.given[i]];
		size_t written = said->n_tokens;

		if (!c.plan.turn[i].written)
			continue;
		ret = add_stretch(d, &c, from, c.part[i].at, out, e);
		if (written &&
			tokenizer_is_eog(
				d->tokenizer, said->tokens[written - 1]))
			written--;
		for (size_t k = 0; k < written && !ret; k++)
			if (token_list_add(out, said->tokens[k]))
				ret = err_set(e, ENOMEM,
					"no memory for the %zu tokens of an "
					"answer",
					written);
		from = c.part[i].at;
	}
	if (!ret)
		ret = add_stretch(d, &c, from, c.text.len, out, e);
out:
	free(c.turn);
	chat_plan_release(&c.plan);
	free(c.part);
	free(c.quote);
	free(c.here);
	strbuf_release(&c.text);
	return ret;
}

int prompt_read(const struct decoder *d, const struct prompt *p,
	struct token_list *out, struct err *e)
{
	int ret = p->chat
		? read_chat(d, p, out, e)
		: tokenize(d->tokenizer, p->text, p->len,
			  p->special ? TOKENIZE_SPECIAL : 0, NULL, 0, out, e);

	if (!ret && !p->no_bos)
		ret = decoder_add_bos(d, out, e);
	if (!ret && p->eos && tokenizer_adds_eos(d->tokenizer) &&
		token_list_add(out, tokenizer_eos(d->tokenizer)))
		ret = err_set(e, ENOMEM, "no memory for the prompt");
	return ret;
}

int prompt_check_room(const struct decoder *d, size_t n, uint64_t n_predict,
	uint32_t context, struct err *e)
{
	if (n < context || (n == context && !n_predict))
		return 0;
	return model_no_room(d->model, "the prompt", n,
		n + (n_predict ? 1u : 0u), context, e);
}
