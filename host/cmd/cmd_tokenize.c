/*
 * tandem tokenize and tandem detokenize: convert text to token ids and back,
 * with the vocabulary of a model file.
 */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "host/cmd/vocabulary.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_VERSION 1
#define INPUT_MAX    ((size_t)1 << 30)

static const char *model, *file, *text, *id_text;
static bool bos, special, raw, as_json;

/* ---- common ---------------------------------------------------------- */

/* Read the operand `given`; or the file of --file if `given` is NULL; or
 * standard input if there is no file either. The caller frees *data. */
static int read_input(
	const char *given, char **data, size_t *len, struct err *e)
{
	if (!given)
		return fd_read_file(file ? file : "-", INPUT_MAX, data, len, e);
	*data = strdup(given);
	if (!*data)
		return err_sys(e, ENOMEM, "cannot store the input");
	*len = strlen(given);
	return 0;
}

static int write_output(const struct strbuf *b, struct err *e)
{
	if (b->failed)
		return err_sys(e, ENOMEM, "cannot store the output");
	fwrite(b->data ? b->data : "", 1, b->len, stdout);
	return cmd_flush(e);
}

/* Check that there is only one input. Returns true if so, otherwise false with
 * an exit status in *status. */
static bool check_usage(const struct command *c, const char *given, int *status)
{
	if (!given || !file)
		return true;
	*status = cmd_misuse(
		c, "more than one input: '%s' and --file '%s'", given, file);
	return false;
}

/* ---- tokenize -------------------------------------------------------- */

static const struct opt tokenize_opts[] = {
	VOCABULARY_OPTION(model),
	{ OPT_STRING, 'p', "prompt", &text, "TEXT", "text to tokenize" },
	{ OPT_STRING, 'f', "file", &file, "FILE",
		"read from FILE; - is standard input, the default" },
	{ OPT_FLAG, 0, "bos", &bos, NULL,
		"add the tokens that the model expects at the beginning and "
		"end of a text" },
	{ OPT_FLAG, 0, "special", &special, NULL,
		"handle control tokens such as <|im_start|> as tokens, not "
		"as text" },
	{ OPT_FLAG, 0, "json", &as_json, NULL, "print one JSON object" },
};

static const struct opt_command tokenize_usage = {
	.name = "tandem tokenize",
	.synopsis = "[-m MODEL] [--bos] [--special] [-p TEXT | -f FILE|-] "
		    "[--json]",
	.summary = "print the token ids of a text",
	.details =
		"Prints the ids of the whole input, including a line feed at "
		"its end, on one line, separated by blanks.",
	.examples = "  tandem tokenize -p 'Once upon a time'\n"
		    "  tandem tokenize -m model.gguf <text.txt",
	.opts = tokenize_opts,
	.n_opts = ARRAY_LEN(tokenize_opts),
};

static int run_tokenize(int argc, char **argv)
{
	struct strbuf out = STRBUF_INIT;
	struct token_list ids = { 0 };
	struct tokenizer *tok = NULL;
	char *data = NULL;
	size_t len = 0;
	unsigned operands, flags;
	struct err e;
	int status, ret;

	if (!cmd_parse(&cmd_tokenize, argc, argv, &operands, &status) ||
		!check_usage(&cmd_tokenize, text, &status))
		return status;
	flags = (bos ? TOKENIZE_BOS : 0) | (special ? TOKENIZE_SPECIAL : 0);
	ret = vocabulary_open(&tok, model, NULL, &e);
	if (!ret)
		ret = read_input(text, &data, &len, &e);
	if (!ret)
		ret = tokenize(tok, data, len, flags, NULL, 0, &ids, &e);
	if (!ret) {
		if (as_json)
			strbuf_addf(&out,
				"{\"version\":%d,\"command\":\"tokenize\","
				"\"count\":%zu,\"ids\":[",
				JSON_VERSION, ids.n);
		for (size_t i = 0; i < ids.n; i++)
			strbuf_addf(&out, "%s%d",
				!i                ? ""
					: as_json ? ","
						  : " ",
				ids.id[i]);
		strbuf_addf(&out, as_json ? "]}\n" : "\n");
		ret = write_output(&out, &e);
	}
	strbuf_release(&out);
	free(ids.id);
	free(data);
	tokenizer_close(tok);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_tokenize = { &tokenize_usage, run_tokenize };

/* ---- detokenize ------------------------------------------------------ */

static const struct opt detokenize_opts[] = {
	VOCABULARY_OPTION(model),
	{ OPT_STRING, 0, "ids", &id_text, "IDS",
		"token ids, such as \"1 403 261\"" },
	{ OPT_STRING, 'f', "file", &file, "FILE",
		"read from FILE; - is standard input, the default" },
	{ OPT_FLAG, 0, "special", &special, NULL,
		"handle control tokens such as <|im_start|> as tokens, not "
		"as text" },
	{ OPT_FLAG, 0, "raw", &raw, NULL,
		"write bytes that are not UTF-8 unchanged, not as U+FFFD" },
};

static const struct opt_command detokenize_usage = {
	.name = "tandem detokenize",
	.synopsis = "[-m MODEL] [--special] [--raw] [--ids IDS | -f FILE|-]",
	.summary = "print the text of token ids",
	.details =
		"Reads ids separated by white space or commas and writes their "
		"text, and nothing else except, on a terminal, a line feed at "
		"the end. Bytes that are not UTF-8 are written as U+FFFD.",
	.examples = "  tandem detokenize --ids '1 403 261'\n"
		    "  tandem run --ids 'Once upon a time' | tandem detokenize",
	.opts = detokenize_opts,
	.n_opts = ARRAY_LEN(detokenize_opts),
};

static int run_detokenize(int argc, char **argv)
{
	struct detokenizer d = { 0 };
	struct strbuf out = STRBUF_INIT;
	struct tokenizer *tok = NULL;
	struct ids in;
	char *data = NULL;
	size_t len = 0;
	int32_t id;
	unsigned operands;
	struct err e;
	int status, ret;

	if (!cmd_parse(&cmd_detokenize, argc, argv, &operands, &status) ||
		!check_usage(&cmd_detokenize, id_text, &status))
		return status;
	ret = vocabulary_open(&tok, model, NULL, &e);
	if (!ret)
		ret = read_input(id_text, &data, &len, &e);
	if (!ret) {
		d = (struct detokenizer){
			.tok = tok, .special = special, .raw = raw
		};
		in = (struct ids){ data, data + len, tokenizer_n_vocab(tok),
			0 };
		while ((ret = ids_next(&in, &id, &e)) == 1)
			if (detokenize(&d, id, &out)) {
				ret = err_sys(
					&e, ENOMEM, "cannot store the text");
				break;
			}
	}
	if (!ret) {
		detokenize_end(&d, &out);
		if (isatty(STDOUT_FILENO))
			strbuf_add(&out, "\n", 1);
		ret = write_output(&out, &e);
	}
	strbuf_release(&out);
	free(data);
	tokenizer_close(tok);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_detokenize = { &detokenize_usage, run_detokenize };
