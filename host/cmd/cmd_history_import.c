/* tandem history import: adds answers and documents from other programs to a
 * history file. */
#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/cmd/vocabulary.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INPUT_MAX  ((size_t)1 << 30)
#define INPUTS_MAX 1024
/* number of records that are appended with one lock and one sync */
#define BATCH        256
#define BATCH_TOKENS (1u << 20)

static const char *model;
static bool as_text, special;
static uint64_t max = HISTORY_MAX_DEFAULT;

static const struct opt opts[] = {
	VOCABULARY_OPTION(model),
	{ OPT_FLAG, 0, "text", &as_text, NULL,
		"read each INPUT as one document of plain text, without a "
		"prompt" },
	{ OPT_FLAG, 0, "special", &special, NULL,
		"handle control tokens such as <|im_start|> as tokens, not "
		"as text" },
	{ OPT_SIZE, 0, "max", &max, "SIZE",
		"size limit of the history (64M); the oldest records are "
		"dropped",
		4096, (double)((uint64_t)1 << 40) },
};

static const struct opt_command usage = {
	.name = "tandem history import",
	.synopsis = "[-m MODEL] [--text] [--special] [--max SIZE] FILE "
		    "[INPUT...]",
	.summary = "add answers from other programs to a history",
	.details =
		"Each line of the INPUTs is a JSON object with a member answer "
		"and optionally prompt and time (seconds since 1970; by "
		"default now); other members are ignored. Without INPUT, or "
		"with -, standard input is read. 'tandem history list --json' "
		"writes such lines, so a history can be moved to another "
		"vocabulary. The token that ends a text is added after each "
		"answer and each document.\n\n"
		"FILE is created if needed. If a line is wrong, the lines "
		"before it have been added to the file.",
	.examples = "  tandem history import answers answers.jsonl\n"
		    "  tandem history import --text answers manual.txt",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1 + INPUTS_MAX,
	.operand = &(const struct opt){ .arg = "FILE" },
};

struct import {
	struct tokenizer *tok;
	struct history *history;
	/* token ids of all records of the batch, concatenated */
	struct token_list ids;
	/* the member `id` of each record is set when the batch is appended */
	struct history_record record[BATCH];
	size_t n;
	/* numbers of records and tokens that were appended */
	uint64_t records, tokens;
};

static int append_batch(struct import *m, struct err *e)
{
	const int32_t *id = m->ids.id;
	int ret;

	for (size_t i = 0; i < m->n; i++) {
		m->record[i].id = id;
		id += m->record[i].n;
	}
	ret = m->n ? history_append(m->history, m->record, m->n, e) : 0;
	if (!ret) {
		m->records += m->n;
		m->tokens += m->ids.n;
	}
	m->n = m->ids.n = 0;
	return ret;
}

static int add_id(struct import *m, int32_t id, struct err *e)
{
	return token_list_add(&m->ids, id)
		? err_set(e, ENOMEM, "no memory for the token ids of a record")
		: 0;
}

/*
 * Add a record. both[n_both] is the text of the prompt followed by the answer.
 * The prompt and the answer are tokenized together, as a model sees them;
 * tokenized separately, the answer could begin with a different token. A token
 * that spans the boundary belongs to the answer.
 */
static int add_record(struct import *m, size_t n_prompt, const char *both,
	size_t n_both, int64_t at, struct err *e)
{
	const unsigned flags = special ? TOKENIZE_SPECIAL : 0;
	const int32_t eos = tokenizer_eos(m->tok);
	struct history_record *r = &m->record[m->n];
	struct token_list prompt = { 0 };
	const size_t from = m->ids.n;
	size_t begin, k = 0;
	int ret = 0;

	*r = (struct history_record){ .time = at };
	if (n_prompt && tokenizer_adds_bos(m->tok)) {
		ret = add_id(m, tokenizer_bos(m->tok), e);
		r->n_prompt = 1;
	}
	begin = m->ids.n;
	if (!ret)
		ret = tokenize(
			m->tok, both, n_prompt, flags, NULL, 0, &prompt, e);
	if (!ret)
		ret = tokenize(
			m->tok, both, n_both, flags, NULL, 0, &m->ids, e);
	while (!ret && k < prompt.n && begin + k < m->ids.n &&
		prompt.id[k] == m->ids.id[begin + k])
		k++;
	r->n_prompt += (uint32_t)k;
	free(prompt.id);
	if (!ret && eos >= 0)
		ret = add_id(m, eos, e);
	if (!ret && m->ids.n - from > HISTORY_TOKENS_MAX)
		ret = err_set(e, EFBIG, "a record has at most %u tokens",
			HISTORY_TOKENS_MAX);
	if (ret) {
		m->ids.n = from;
		return ret;
	}
	r->n = (uint32_t)(m->ids.n - from);
	m->n++;
	return m->n == BATCH || m->ids.n >= BATCH_TOKENS ? append_batch(m, e)
							 : 0;
}

/* ---- lines --------------------------------------------------------------- */

/* Get a string member of a line. *out is NULL if there is no such member.
 * Returns 0, or -EINVAL if the member is not a string. */
static int text_of(const json_t *line, const char *key, const char **out,
	size_t *len, struct err *e)
{
	const json_t *v = json_object_get(line, key);

	*out = json_string_value(v);
	*len = json_string_length(v);
	return !v || *out
		? 0
		: err_set(e, EINVAL, "member '%s' is not a string", key);
}

static int add_object(struct import *m, const json_t *line, struct err *e)
{
	const json_t *at = json_object_get(line, "time");
	const char *prompt, *answer;
	size_t n_prompt, n_answer;
	char *both;
	int ret = text_of(line, "prompt", &prompt, &n_prompt, e);

	if (!ret)
		ret = text_of(line, "answer", &answer, &n_answer, e);
	if (!ret && (!answer || !n_answer))
		ret = err_set(e, EINVAL,
			"the JSON object has no member "
			"'answer'");
	if (!ret && at && !json_is_integer(at))
		ret = err_set(e, EINVAL, "member 'time' is not an integer");
	if (ret)
		return ret;
	both = malloc(n_prompt + n_answer);
	if (!both)
		return err_set(e, ENOMEM, "no memory for a record's text");
	memcpy(both, prompt ? prompt : "", n_prompt);
	memcpy(both + n_prompt, answer, n_answer);
	ret = add_record(m, n_prompt, both, n_prompt + n_answer,
		at ? json_integer_value(at) : time(NULL), e);
	free(both);
	return ret;
}

/* ---- the command --------------------------------------------------------- */

static int add_input(struct import *m, const char *path, struct err *e)
{
	char *data;
	size_t len;
	int ret = fd_read_file(path, INPUT_MAX, &data, &len, e);

	if (ret)
		return ret;
	if (!as_text) {
		const char *text = data;
		const char *end = text + len;
		json_error_t error;

		ret = 0;
		for (size_t number = 1; text < end && !ret; number++) {
			const char *nl =
				memchr(text, '\n', (size_t)(end - text));
			size_t n = (size_t)((nl ? nl : end) - text);
			json_t *line = NULL;

			/* When Jansson runs out of memory, it sometimes reports
			 * invalid JSON instead, but errno is ENOMEM. */
			errno = 0;
			if (strspn(text, " \t\r") >= n)
				; /* skip an empty line */
			else if (!(line = json_loadb(text, n, 0, &error)))
				ret = errno == ENOMEM
					? err_set(e, ENOMEM,
						  "no memory for a line")
					: err_set(e, EINVAL,
						  "not a JSON object: %s",
						  error.text);
			else if (!json_is_object(line))
				ret = err_set(e, EINVAL, "not a JSON object");
			else
				ret = add_object(m, line, e);
			json_decref(line);
			if (ret)
				err_in(e, "line %zu", number);
			text += n + 1;
		}
	} else if (len)
		ret = add_record(m, 0, data, len, time(NULL), e);
	free(data);
	return ret ? err_in(e, "%s", path) : 0;
}

static int run(int argc, char **argv)
{
	static struct import m;
	struct history_opts o = { .write = true };
	struct err e = { 0 }, last = { 0 };
	unsigned operands;
	int status, ret, end;

	if (!cmd_parse(&cmd_history_import, argc, argv, &operands, &status))
		return status;
	o.max_bytes = max;
	ret = vocabulary_open(&m.tok, model, &o.vocabulary, &e);
	if (!ret) {
		o.n_vocab = tokenizer_n_vocab(m.tok);
		ret = history_open(&m.history, argv[1], &o, &e);
	}
	if (!ret) {
		if (operands == 1)
			ret = add_input(&m, "-", &e);
		for (unsigned i = 2; i <= operands && !ret; i++)
			ret = add_input(&m, argv[i], &e);
		/* If a line is invalid, still append the records of the lines
		 * that precede it. */
		end = append_batch(&m, &last);
		if (end && !ret) {
			e = last;
			ret = end;
		}
	}
	if (!ret)
		printf("%" PRIu64 " records added, %" PRIu64 " tokens\n",
			m.records, m.tokens);
	history_close(m.history);
	tokenizer_close(m.tok);
	free(m.ids.id);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_history_import = { &usage, run };
