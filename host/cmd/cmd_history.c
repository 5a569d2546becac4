/* tandem history: what is kept in a history, and how it is made shorter; its
 * parts list and import have files of their own. */
#include "host/cmd/cmd_history.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/cmd/cmd.h"
#include "host/cmd/json_text.h"
#include "host/text/history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY 86400

void history_when(int64_t at, char out[HISTORY_WHEN])
{
	time_t t = at;
	struct tm tm;

	if (!localtime_r(&t, &tm) ||
		!strftime(out, HISTORY_WHEN, "%Y-%m-%d %H:%M", &tm))
		snprintf(out, HISTORY_WHEN, "?");
}

void history_warn(const struct history *h, const char *file)
{
	struct history_stats s;

	history_stats(h, &s);
	if (s.damaged_bytes)
		cmd_warn(
			"%" PRIu64
			" bytes of '%s' are damaged, and the records there are "
			"lost; 'tandem history prune' removes them",
			s.damaged_bytes, file);
	if (s.tail_bytes)
		cmd_warn("%" PRIu64
			 " bytes at the end of '%s' are an incomplete record: "
			 "an append was cut off or is still running; the next "
			 "append overwrites them",
			s.tail_bytes, file);
}

int history_run(const struct command *c, int argc, char **argv,
	int (*part)(const char *file, struct err *))
{
	struct err e = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(c, argc, argv, &operands, &status))
		return status;
	return part(argv[1], &e) ? cmd_fail(&e) : EXIT_OK;
}

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

static void print_stats(const char *file, const struct history_stats *s)
{
	char from[HISTORY_WHEN], to[HISTORY_WHEN];

	history_when(s->oldest, from);
	history_when(s->newest, to);
	printf("file         %s, %" PRIu64 " bytes\n"
	       "records      %" PRIu64,
		file, s->file_bytes, s->records);
	if (s->records)
		printf(", number %" PRIu64 " to %" PRIu64 ", %s to %s",
			s->first, s->last, from, to);
	printf("\n"
	       "tokens       %" PRIu64 " of prompts, %" PRIu64 " of answers\n"
	       "vocabulary   %u tokens, hash %016" PRIx64 "\n"
	       "damaged      %" PRIu64 " bytes between records, %" PRIu64
	       " at the end\n",
		s->prompt_tokens, s->answer_tokens, s->n_vocab, s->vocabulary,
		s->damaged_bytes, s->tail_bytes);
}

static int print_stats_json(
	const char *file, const struct history_stats *s, struct err *e)
{
	char hash[20];
	json_t *o;
	int ret;

	snprintf(hash, sizeof(hash), "%016" PRIx64, s->vocabulary);
	o = json_pack("{si ss so sI sI sI sI sI sI sI sI sI sI sI ss}",
		"version", 1, "command", "history stats", "file",
		json_ctext(file), "bytes", (json_int_t)s->file_bytes, "records",
		(json_int_t)s->records, "first", (json_int_t)s->first, "last",
		(json_int_t)s->last, "oldest", (json_int_t)s->oldest, "newest",
		(json_int_t)s->newest, "prompt_tokens",
		(json_int_t)s->prompt_tokens, "answer_tokens",
		(json_int_t)s->answer_tokens, "vocabulary_tokens",
		(json_int_t)s->n_vocab, "damaged_bytes",
		(json_int_t)s->damaged_bytes, "tail_bytes",
		(json_int_t)s->tail_bytes, "vocabulary", hash);
	if (!o)
		return err_set(e, ENOMEM, "no memory for the figures");
	errno = 0;
	ret = json_dumpf(o, stdout, JSON_COMPACT);
	if (ret)
		err_sys(e, errno ? errno : EIO, "cannot write JSON");
	json_decref(o);
	putchar('\n');
	return ret ? e->code : 0;
}

static int stats(const char *file, struct err *e)
{
	const struct history_opts o = { 0 };
	struct history_stats st;
	struct history *h;
	int ret = history_open(&h, file, &o, e);

	if (ret)
		return ret;
	history_stats(h, &st);
	history_close(h);
	if (stats_json)
		return print_stats_json(file, &st, e);
	print_stats(file, &st);
	return 0;
}

static int run_stats(int argc, char **argv)
{
	return history_run(&cmd_history_stats, argc, argv, stats);
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
		"keep only the newest records that fit into a file of this "
		"size" },
	{ OPT_FLOAT, 0, "older-than", &days, "DAYS",
		"drop records older than this; 0.5 is half a day", 0, 1e6 },
};

static const struct opt_command prune_usage = {
	.name = "tandem history prune",
	.synopsis = "[--keep N] [--max SIZE] [--older-than DAYS] FILE",
	.summary = "drop the oldest records of a history",
	.details = "Drops what any of the options says, and always what is "
		   "damaged. The file is written anew and replaced: processes "
		   "that use it lose nothing that stays. Records keep their "
		   "numbers. Needs no model.",
	.examples = "  tandem history prune --keep 1000 answers",
	.opts = prune_opts,
	.n_opts = ARRAY_LEN(prune_opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int prune(const char *file, struct err *e)
{
	const struct history_opts o = { .write = true };
	struct history_bound bound = HISTORY_ALL;
	uint64_t dropped;
	struct history *h;
	int ret = history_open(&h, file, &o, e);

	if (ret)
		return ret;
	bound.bytes = max;
	if (keep >= 0)
		bound.records = (uint64_t)keep;
	if (days >= 0)
		bound.since = (int64_t)time(NULL) - (int64_t)(days * DAY);
	ret = history_prune(h, &bound, &dropped, e);
	if (!ret)
		printf("%" PRIu64 " records dropped, %zu left\n", dropped,
			history_count(h));
	history_close(h);
	return ret;
}

static int run_prune(int argc, char **argv)
{
	return history_run(&cmd_history_prune, argc, argv, prune);
}

const struct command cmd_history_prune = { &prune_usage, run_prune };

/* ---- the command --------------------------------------------------------- */

static const struct opt_command usage = {
	.name = "tandem history",
	.synopsis = "(list | stats | prune | import) FILE [OPTIONS]",
	.summary = "manage the answers kept by --history",
	.details =
		"A history is the file in which 'tandem run --history FILE' "
		"and other commands keep finished answers with their "
		"prompts, to draft later ones from.\n\n"
		"  list    print its records\n"
		"  stats   show how many there are, and of which vocabulary\n"
		"  prune   drop the oldest ones, by number, size or age\n"
		"  import  add answers or documents from elsewhere\n\n"
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
	return cmd_misuse(
		&cmd_history, "unknown action '%s' on a history", argv[1]);
}

const struct command cmd_history = { &usage, run, parts };
