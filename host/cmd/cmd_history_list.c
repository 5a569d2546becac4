/* tandem history list: the records of a history, as text. */
#include "host/cmd/cmd_history.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/cmd/vocabulary.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHOWN       24 /* bytes of a text's beginning, and a NUL */
#define SHOWN_IDS   64 /* tokens are looked at for that */
#define ALL_OF_THEM UINT32_MAX

static const char *model;
static bool as_json, special;

static const struct opt opts[] = {
	VOCABULARY_OPTION(model),
	{ OPT_FLAG, 0, "special", &special, NULL,
		"print control tokens such as <|im_start|>" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object for each record, with both texts "
		"complete; 'tandem history import' reads them" },
};

static const struct opt_command usage = {
	.name = "tandem history list",
	.synopsis = "[-m MODEL] [--special] [--json] FILE",
	.summary = "print the records of a history",
	.details = "Prints one line for each record, the oldest first: its "
		   "number, when it was kept, the tokens of prompt and answer, "
		   "and how both begin. MODEL has the vocabulary of the ids.",
	.examples = "  tandem history list answers\n"
		    "  tandem history list --json answers >answers.jsonl",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

struct listing {
	struct tokenizer *tok;
	struct strbuf prompt, answer; /* of one record */
};

/* The first `most` tokens of a part. Its text goes on from what `d` has seen,
 * which has the space between the two. */
static void add_text(struct detokenizer *d, const int32_t *id, uint32_t n,
	uint32_t most, struct strbuf *out)
{
	for (uint32_t i = 0; i < n && i < most; i++)
		detokenize(d, id[i], out);
}

/* Both parts anew. */
static int read_texts(struct listing *l, const struct history_record *r,
	uint32_t most, struct err *e)
{
	struct detokenizer d = { .tok = l->tok, .special = special };

	strbuf_reset(&l->prompt);
	strbuf_reset(&l->answer);
	add_text(&d, r->id, r->n_prompt, most, &l->prompt);
	add_text(&d, r->id + r->n_prompt, r->n - r->n_prompt, most, &l->answer);
	detokenize_end(&d, &l->answer);
	return l->prompt.failed || l->answer.failed
		? err_set(e, ENOMEM, "no memory for a record's text")
		: 0;
}

/* In one line of a terminal, whatever it holds. */
static const char *beginning(struct strbuf *text, char out[SHOWN])
{
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] == '\n' || text->data[i] == '\t')
			text->data[i] = ' ';
	return gguf_show(
		(struct gguf_str){ text->data, text->len }, out, SHOWN);
}

static int print_line(
	struct listing *l, const struct history_record *r, struct err *e)
{
	char prompt[SHOWN], answer[SHOWN], when[HISTORY_WHEN];
	int ret = read_texts(l, r, SHOWN_IDS, e);

	if (ret)
		return ret;
	history_when(r->time, when);
	printf("%6" PRIu64 "  %s %6u %5u  %-22s %s\n", r->number, when,
		r->n_prompt, r->n - r->n_prompt, beginning(&l->prompt, prompt),
		beginning(&l->answer, answer));
	return 0;
}

static json_t *text_json(const struct strbuf *b)
{
	return json_stringn(b->len ? b->data : "", b->len);
}

static int print_json(
	struct listing *l, const struct history_record *r, struct err *e)
{
	int ret = read_texts(l, r, ALL_OF_THEM, e);
	json_t *o;

	if (ret)
		return ret;
	o = json_pack("{si ss sI sI sI sI so so}", "version", 1, "command",
		"history list", "number", (json_int_t)r->number, "time",
		(json_int_t)r->time, "prompt_tokens", (json_int_t)r->n_prompt,
		"answer_tokens", (json_int_t)(r->n - r->n_prompt), "prompt",
		text_json(&l->prompt), "answer", text_json(&l->answer));
	if (!o)
		return err_set(e, ENOMEM, "no memory for a record's text");
	errno = 0;
	ret = json_dumpf(o, stdout, JSON_COMPACT);
	if (ret)
		err_sys(e, errno ? errno : EIO, "cannot write JSON");
	json_decref(o);
	putchar('\n');
	return ret ? e->code : 0;
}

static int list(struct listing *l, const struct history *h, struct err *e)
{
	int ret = 0;

	if (!as_json && history_count(h))
		printf("%6s  %-16s %6s %5s  %-22s %s\n", "number", "when",
			"prompt", "ans.", "prompt begins", "answer begins");
	for (size_t i = 0; i < history_count(h) && !ret; i++) {
		struct history_record r = history_at(h, i);

		ret = as_json ? print_json(l, &r, e) : print_line(l, &r, e);
		/* Nobody reads on: there is no use in all the rest. */
		if (!ret && ferror(stdout))
			break;
	}
	return ret ? ret : cmd_flush(e);
}

static int list_file(const char *file, struct err *e)
{
	struct history_opts o = { 0 };
	struct listing l = { .prompt = STRBUF_INIT };
	struct history *h = NULL;
	int ret = vocabulary_open(&l.tok, model, &o.vocabulary, e);

	if (!ret) {
		o.n_vocab = tokenizer_n_vocab(l.tok);
		ret = history_open(&h, file, &o, e);
	}
	if (!ret)
		ret = list(&l, h, e);
	if (!ret)
		history_warn(h, file);
	history_close(h);
	strbuf_release(&l.prompt);
	strbuf_release(&l.answer);
	tokenizer_close(l.tok);
	return ret;
}

static int run(int argc, char **argv)
{
	return history_run(&cmd_history_list, argc, argv, list_file);
}

const struct command cmd_history_list = { &usage, run };
