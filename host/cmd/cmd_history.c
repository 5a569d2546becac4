/* tandem history: lists, summarizes and prunes a history file of answers.
 * cmd_history_import.c has the subcommand import. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "host/cmd/json_text.h"
#include "host/cmd/vocabulary.h"
#include "host/text/history.h"
#include "host/text/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY  86400
#define WHEN 32 /* buffer size of a formatted time */
/* maximum bytes that are shown of a text, including the NUL */
#define SHOWN 24
/* maximum number of tokens that are converted to text to get SHOWN bytes */
#define SHOWN_IDS   64
#define ALL_OF_THEM UINT32_MAX

/* Format a time as local time, such as "2026-11-22 09:31". */
static void format_time(int64_t at, char out[WHEN])
{
	time_t t = at;
	struct tm tm;

	if (!localtime_r(&t, &tm) ||
		!strftime(out, WHEN, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, WHEN, "?");
}

/* ---- list ---------------------------------------------------------------- */

static const char *model;
static bool list_json, special;

static const struct opt list_opts[] = {
	VOCABULARY_OPTION(model),
	{ OPT_FLAG, 0, "special", &special, NULL,
		"print control tokens such as <|im_start|>" },
	{ OPT_FLAG, 0, "json", &list_json, NULL,
		"print one JSON object for each record, with the whole prompt "
		"and answer; 'tandem history import' reads them" },
};

static const struct opt_command list_usage = {
	.name = "tandem history list",
	.synopsis = "[-m MODEL] [--special] [--json] FILE",
	.summary = "print the records of a history",
	.details = "Prints one line for each record, the oldest first: its "
		   "number, the time when it was kept, the numbers of tokens "
		   "of prompt and answer, and the beginnings of both. MODEL is "
		   "a model with the vocabulary of the history.",
	.examples = "  tandem history list answers\n"
		    "  tandem history list --json answers >answers.jsonl",
	.opts = list_opts,
	.n_opts = ARRAY_LEN(list_opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

/* Append the text of the first `most` of n tokens to *out. Use the same `d` for
 * the answer as for the prompt, so that a space between the two is kept. */
static void add_text(struct detokenizer *d, const int32_t *id, uint32_t n,
	uint32_t most, struct strbuf *out)
{
	for (uint32_t i = 0; i < n && i < most; i++)
		detokenize(d, id[i], out);
}

/* Escape the text for one line on a terminal, and truncate it. */
static const char *beginning(struct strbuf *text, char out[SHOWN])
{
	for (size_t i = 0; i < text->len; i++)
		if (text->data[i] == '\n' || text->data[i] == '\t')
			text->data[i] = ' ';
	return gguf_show(
		(struct gguf_str){ text->data, text->len }, out, SHOWN);
}

static int run_list(int argc, char **argv)
{
	struct history_opts o = { 0 };
	struct strbuf prompt = STRBUF_INIT, answer = STRBUF_INIT;
	struct tokenizer *tok = NULL;
	struct history *h = NULL;
	struct history_stats s;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_history_list, argc, argv, &operands, &status))
		return status;
	ret = vocabulary_open(&tok, model, &o.vocabulary, &e);
	if (!ret) {
		o.n_vocab = tokenizer_n_vocab(tok);
		ret = history_open(&h, argv[1], &o, &e);
	}
	if (!ret && !list_json && history_count(h))
		printf("%6s  %-16s %6s %5s  %-22s %s\n", "number", "when",
			"prompt", "ans.", "prompt begins", "answer begins");
	/* Stop if the output cannot be written, because its reader has
	 * exited. */
	for (size_t i = 0; !ret && i < history_count(h) && !ferror(stdout);
		i++) {
		struct history_record r = history_at(h, i);
		struct detokenizer d = { .tok = tok, .special = special };
		const uint32_t most = list_json ? ALL_OF_THEM : SHOWN_IDS;
		char from[SHOWN], to[SHOWN], when[WHEN];

		strbuf_reset(&prompt);
		strbuf_reset(&answer);
		add_text(&d, r.id, r.n_prompt, most, &prompt);
		add_text(
			&d, r.id + r.n_prompt, r.n - r.n_prompt, most, &answer);
		detokenize_end(&d, &answer);
		if (prompt.failed || answer.failed) {
			ret = -ENOMEM;
		} else if (list_json) {
			ret = json_print(
				json_pack("{si ss sI sI sI sI ss% ss%}",
					"version", 1, "command", "history list",
					"number", (json_int_t)r.number, "time",
					(json_int_t)r.time, "prompt_tokens",
					(json_int_t)r.n_prompt, "answer_tokens",
					(json_int_t)(r.n - r.n_prompt),
					"prompt", prompt.len ? prompt.data : "",
					prompt.len, "answer",
					answer.len ? answer.data : "",
					answer.len),
				0, stdout);
		} else {
			format_time(r.time, when);
			printf("%6" PRIu64 "  %s %6u %5u  %-22s %s\n", r.number,
				when, r.n_prompt, r.n - r.n_prompt,
				beginning(&prompt, from),
				beginning(&answer, to));
		}
		if (ret == -ENOMEM)
			err_set(&e, ENOMEM, "no memory for a record's text");
		else if (ret)
			err_sys(&e, errno, "cannot write JSON");
	}
	if (!ret)
		ret = cmd_flush(&e);
	if (!ret) {
		history_stats(h, &s);
		if (s.damaged_bytes)
			cmd_warn("%" PRIu64
				 " bytes of '%s' are damaged, and the records "
				 "in these bytes are lost; 'tandem history "
				 "prune' removes them",
				s.damaged_bytes, argv[1]);
		if (s.tail_bytes)
			cmd_warn("%" PRIu64
				 " bytes at the end of '%s' are an incomplete "
				 "record: an append was cut off or is still "
				 "running; the next append overwrites them",
				s.tail_bytes, argv[1]);
	}
	history_close(h);
	strbuf_release(&prompt);
	strbuf_release(&answer);
	tokenizer_close(tok);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_history_list = { &list_usage, run_list };

/* ---- stats --------------------------------------------------------------- */

static bool stats_json;

static const struct opt stats_opts[] = {
	{ OPT_FLAG, 0, "json", &stats_json, NULL, "print one JSON object" },
};

static const struct opt_command stats_usage = {
	.name = "tandem history stats",
	.synopsis = "[--json] FILE",
	.summary = "show how much a history contains",
	.details = "Prints the numbers of records and tokens, the time of the "
		   "oldest and the newest, the vocabulary, and how many bytes "
		   "are damaged. Needs no model.",
	.examples = "  tandem history stats answers",
	.opts = stats_opts,
	.n_opts = ARRAY_LEN(stats_opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int run_stats(int argc, char **argv)
{
	const struct history_opts o = { 0 };
	struct history_stats s;
	struct history *h;
	struct err e = { 0 };
	char hash[20], from[WHEN], to[WHEN];
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_history_stats, argc, argv, &operands, &status))
		return status;
	if (history_open(&h, argv[1], &o, &e))
		return cmd_fail(&e);
	history_stats(h, &s);
	history_close(h);
	snprintf(hash, sizeof(hash), "%016" PRIx64, s.vocabulary);
	if (stats_json) {
		ret = json_print(
			json_pack(
				"{si ss so sI sI sI sI sI sI sI sI sI sI sI ss}",
				"version", 1, "command", "history stats",
				"file", json_ctext(argv[1]), "bytes",
				(json_int_t)s.file_bytes, "records",
				(json_int_t)s.records, "first",
				(json_int_t)s.first, "last", (json_int_t)s.last,
				"oldest", (json_int_t)s.oldest, "newest",
				(json_int_t)s.newest, "prompt_tokens",
				(json_int_t)s.prompt_tokens, "answer_tokens",
				(json_int_t)s.answer_tokens,
				"vocabulary_tokens", (json_int_t)s.n_vocab,
				"damaged_bytes", (json_int_t)s.damaged_bytes,
				"tail_bytes", (json_int_t)s.tail_bytes,
				"vocabulary", hash),
			0, stdout);
		if (ret == -ENOMEM)
			err_set(&e, ENOMEM,
				"no memory for the history's figures as JSON");
		else if (ret)
			err_sys(&e, errno, "cannot write JSON");
		return ret ? cmd_fail(&e) : EXIT_OK;
	}
	format_time(s.oldest, from);
	format_time(s.newest, to);
	printf("file         %s, %" PRIu64 " bytes\n"
	       "records      %" PRIu64,
		argv[1], s.file_bytes, s.records);
	if (s.records)
		printf(", number %" PRIu64 " to %" PRIu64 ", %s to %s", s.first,
			s.last, from, to);
	printf("\n"
	       "tokens       %" PRIu64 " of prompts, %" PRIu64 " of answers\n"
	       "vocabulary   %u tokens, hash %s\n"
	       "damaged      %" PRIu64 " bytes between records, %" PRIu64
	       " at the end\n",
		s.prompt_tokens, s.answer_tokens, s.n_vocab, hash,
		s.damaged_bytes, s.tail_bytes);
	return EXIT_OK;
}

const struct command cmd_history_stats = { &stats_usage, run_stats };

/* ---- prune --------------------------------------------------------------- */

static int64_t keep = -1;
static uint64_t max = UINT64_MAX;
static double days = -1;

static const struct opt prune_opts[] = {
	{ OPT_INT, 0, "keep", &keep, "N", "keep only the newest N records", 0,
		(double)(1ll << 53) },
	{ OPT_SIZE, 0, "max", &max, "SIZE",
		"keep only the newest records that fit into a file of SIZE" },
	{ OPT_FLOAT, 0, "older-than", &days, "DAYS",
		"drop records older than DAYS; 0.5 is half a day", 0, 1e6 },
};

static const struct opt_command prune_usage = {
	.name = "tandem history prune",
	.synopsis = "[--keep N] [--max SIZE] [--older-than DAYS] FILE",
	.summary = "drop the oldest records of a history",
	.details = "Drops each record that an option selects, and damaged "
		   "records. A new file replaces the old one, so that "
		   "processes that use the history keep all other records. "
		   "Records keep their numbers. Needs no model.",
	.examples = "  tandem history prune --keep 1000 answers",
	.opts = prune_opts,
	.n_opts = ARRAY_LEN(prune_opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int run_prune(int argc, char **argv)
{
	const struct history_opts o = { .write = true };
	struct history_bound bound = HISTORY_ALL;
	uint64_t dropped;
	struct history *h;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_history_prune, argc, argv, &operands, &status))
		return status;
	if (history_open(&h, argv[1], &o, &e))
		return cmd_fail(&e);
	bound.bytes = max;
	if (keep >= 0)
		bound.records = (uint64_t)keep;
	if (days >= 0)
		bound.since = (int64_t)time(NULL) - (int64_t)(days * DAY);
	ret = history_prune(h, &bound, &dropped, &e);
	if (!ret)
		printf("%" PRIu64 " records dropped, %zu left\n", dropped,
			history_count(h));
	history_close(h);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_history_prune = { &prune_usage, run_prune };

/* ---- the command --------------------------------------------------------- */

static const struct opt_command usage = {
	.name = "tandem history",
	.synopsis = "(list | stats | prune | import) FILE [OPTIONS]",
	.summary = "manage the answers kept by --history",
	.details =
		"A history is the file in which 'tandem run --history FILE' "
		"and other commands keep finished answers with their prompts, "
		"as drafts for later answers.\n\n"
		"  list    print the records\n"
		"  stats   show the number of records and tokens, and the "
		"vocabulary\n"
		"  prune   drop the oldest records, by number, size or age\n"
		"  import  add answers or documents from other programs\n\n"
		"'tandem history list --help' and so on explain each. To "
		"forget everything, remove the file.",
	.examples = "  tandem history list answers\n"
		    "  tandem history prune --older-than 30 answers",
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "list|stats|prune|import" },
};

static const struct command *const parts[] = { &cmd_history_list,
	&cmd_history_stats, &cmd_history_prune, &cmd_history_import, NULL };

static int run(int argc, char **argv)
{
	const struct command *part =
		argc > 1 ? command_find(parts, argv[1]) : NULL;
	unsigned operands;
	int status;

	if (part)
		return part->run(argc - 1, argv + 1);
	if (!cmd_parse(&cmd_history, argc, argv, &operands, &status))
		return status;
	return cmd_misuse(&cmd_history,
		"unknown action '%s'; the actions are list, "
		"stats, prune and import",
		argv[1]);
}

const struct command cmd_history = { &usage, run, parts };
