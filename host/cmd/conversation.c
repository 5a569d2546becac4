#include "host/cmd/conversation.h"

#include "base/err.h"
#include "host/api/options.h"
#include "host/api/report.h"
#include "host/api/tandem_pass.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/model/model.h"
#include "host/text/chat.h"
#include "host/text/generation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ------------------------------------------------------------- */

static bool is_plain(const struct model *m)
{
	enum chat_family family = chat_of(m->gguf);

	return family == CHAT_NONE || family == CHAT_UNKNOWN;
}

int conversation_start(struct conversation *c, struct err *e)
{
	struct tandem_report r;

	if (tandem_read_model(c->tandem, c->model_path) ||
		tandem_start(c->tandem, 0))
		return tandem_failure(c->tandem, e);
	tandem_report(c->tandem, &r);
	c->plain = is_plain(r.model);
	c->room = r.context;
	c->tokenizer = r.tokenizer;
	return 0;
}

int conversation_stop(struct conversation *c, struct err *e)
{
	int ret = c->tandem ? tandem_end(c->tandem, e) : 0;

	c->tandem = NULL;
	return ret;
}

void conversation_release(struct conversation *c)
{
	talk_release(&c->talk);
	strbuf_release(&c->text);
	free(c->tokens.id);
	for (size_t i = 0; i < c->n_set; i++)
		free(c->set[i]);
	free(c->set);
}

/* ---- a turn -------------------------------------------------------------- */

static int tell(void *arg, int32_t id, const char *text, size_t len)
{
	struct conversation *c = arg;

	strbuf_add(&c->text, text, len);
	if (id >= 0 && token_list_add(&c->tokens, id))
		c->text.failed = true;
	if (c->text.failed)
		return -ENOMEM;
	if (c->as_json || !len)
		return 0;
	c->newline_due = text[len - 1] != '\n';
	fwrite(text, 1, len, stdout);
	if (fflush(stdout) || ferror(stdout))
		c->write_errno = errno ? errno : EIO;
	return -c->write_errno;
}

/* All that was said, without a template: answers by their tokens, so that each
 * prompt begins with the last. */
static int add_plain(
	const struct conversation *c, struct token_list *out, struct err *e)
{
	int ret = 0;

	for (size_t i = 0; i < c->talk.n && !ret; i++) {
		const struct talk_turn *t = &c->talk.turn[i];
		size_t n = t->n_tokens;

		if (n && tokenizer_is_eog(c->tokenizer, t->tokens[n - 1]))
			n--;
		for (size_t k = 0; k < n && !ret; k++)
			ret = token_list_add(out, t->tokens[k]);
		if (!t->tokens)
			ret = tokenize(c->tokenizer, t->text, t->bytes,
				i ? TOKENIZE_GOES_ON : 0, out, e);
	}
	if (ret == -ENOMEM)
		return err_set(e, ENOMEM, "no memory for the prompt");
	return ret ? ret : tandem_add_bos(c->tandem, out, e);
}

static void fill_request(struct conversation *c, struct tandem_request *q)
{
	const struct drawing *d = drawing(c);

	tandem_request_init(q, sizeof(*q));
	q->max_tokens = d->predict;
	q->temperature = d->temperature;
	q->top_k = (uint32_t)d->top_k;
	q->top_p = d->top_p;
	q->min_p = d->min_p;
	q->repeat_penalty = d->repeat_penalty;
	q->repeat_last = (uint32_t)d->repeat_last;
	q->seed = (uint64_t)d->seed;
	q->sink = tell;
	q->sink_arg = c;
}

static int read_prompt(
	struct conversation *c, struct token_list *out, struct err *e)
{
	struct tandem_request q;
	struct tandem_turn *turns;
	int ret;

	if (c->plain)
		return add_plain(c, out, e);
	turns = talk_turns(&c->talk);
	if (!turns)
		return err_set(e, ENOMEM, "no memory for the turns");
	fill_request(c, &q);
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = c->talk.n;
	ret = cmd_prompt(c->tandem, &q, out, e);
	free(turns);
	return ret;
}

static int check_room(const struct conversation *c, size_t n, struct err *e)
{
	if (n < c->room)
		return 0;
	return err_set(e, EFBIG,
		"with this turn the conversation has %zu tokens, and the "
		"context has room for %u; nothing was dropped: /reset begins a "
		"new conversation, /save FILE saves this one",
		n, c->room);
}

static int generate(
	struct conversation *c, const struct token_list *prompt, struct err *e)
{
	struct tandem_request q;
	int ret;

	fill_request(c, &q);
	q.tokens = prompt->id;
	q.n_tokens = prompt->n;
	strbuf_reset(&c->text);
	c->tokens.n = 0;
	c->newline_due = false;
	c->last = (struct tandem_result){ .size = sizeof(c->last) };
	cmd_interrupts(c->tandem);
	ret = tandem_generate(c->tandem, &q, &c->last);
	cmd_interrupts(NULL);
	if (c->newline_due || (!c->as_json && !c->text.len && !ret)) {
		putchar('\n');
		fflush(stdout);
	}
	if (c->write_errno)
		return err_sys(e, c->write_errno, "cannot write the answer");
	if (c->text.failed)
		return err_set(e, ENOMEM, "no memory for an answer");
	if (ret == TANDEM_CANCELED) {
		cmd_interrupted = 0;
		return 0;
	}
	return ret ? tandem_failure(c->tandem, e) : 0;
}

const char *conversation_stop_name(const struct conversation *c)
{
	static const char *const names[] = { "interrupted", "eos", "stop",
		"length", "context", "error" };

	return names[c->last.stop];
}

static int print_object(const struct conversation *c)
{
	json_t *o = json_pack("{sisisosssIsIsIsf}", "version", 1, "turn",
		(int)c->turns, "text",
		json_text((struct gguf_str){
			c->text.data ? c->text.data : "", c->text.len }),
		"stop", conversation_stop_name(c), "prompt_tokens",
		(json_int_t)c->last.prompt_tokens, "cached_tokens",
		(json_int_t)c->last.cached_tokens, "tokens",
		(json_int_t)c->last.tokens, "time_s", c->last.seconds);
	int ret = o ? json_dumpf(o, stdout, JSON_COMPACT) : -1;

	json_decref(o);
	if (!ret)
		putchar('\n');
	return ret || fflush(stdout) ? -EIO : 0;
}

static void note_full(const struct conversation *c)
{
	if (c->last.stop == TANDEM_STOP_CONTEXT)
		cmd_warn("the context of %u tokens is full: %llu of the "
			 "conversation, %llu of this answer, which was cut; "
			 "/reset begins a new conversation, /save FILE saves "
			 "this one",
			c->room, (unsigned long long)c->last.prompt_tokens,
			(unsigned long long)c->last.tokens);
}

/* The turn and its answer become part of what was said, or neither does. */
int conversation_answer(
	struct conversation *c, const struct strbuf *said, struct err *e)
{
	struct token_list prompt = { 0 };
	int ret = talk_add(&c->talk, "user", said->data ? said->data : "",
		said->len, NULL, e);

	if (ret)
		return ret;
	ret = read_prompt(c, &prompt, e);
	if (!ret)
		ret = check_room(c, prompt.n, e);
	if (!ret)
		ret = generate(c, &prompt, e);
	if (!ret)
		ret = talk_add(&c->talk, "assistant",
			c->text.data ? c->text.data : "", c->text.len,
			&c->tokens, e);
	free(prompt.id);
	if (ret) {
		talk_drop(&c->talk);
		return ret;
	}
	c->turns++;
	note_full(c);
	return c->as_json && print_object(c)
		? err_sys(e, errno ? errno : EIO,
			  "cannot write to standard output")
		: 0;
}
