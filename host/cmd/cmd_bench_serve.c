/* tandem bench serve: measures servers under load. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_serve.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"

#include <string.h>

#define TASK_ITEMS 10 /* default number of items of each task */

static struct bench_serve_args args = {
	.n_predict = 128, .rounds = 1, .cancel = &cmd_interrupted
};
static const char *method_list, *tasks, *at = "1,4,16";
static struct opt_list urls;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &args.model, "FILE",
		"model of the servers that are started (the bundled one)" },
	{ OPT_STRING, 0, "methods", &method_list, "LIST",
		"methods; a server is started for each (autoregressive, or "
		"none with --url)", .words = method_name_word },
	{ OPT_LIST, 0, "url", &urls, "http://HOST:PORT",
		"also measure this running server; may be repeated" },
	{ OPT_STRING, 0, "at", &at, "LIST",
		"numbers of clients (1,4,16)" },
	{ OPT_STRING, 0, "prompts", &args.prompts, "FILE|-",
		"prompts: one a line, or JSON lines with the member prompt or "
		"turns (of a chat), and optionally category" },
	{ OPT_STRING, 0, "tasks", &tasks, "LIST",
		"tasks whose prompts are sent (short): some of "
		EVAL_TASK_NAMES "; or " EVAL_TASK_GROUPS,
		.choices = eval_task_names },
	{ OPT_UINT, 0, "items", &args.items, "N",
		"prompts of each task (10), or of the file (all)", 1, 1000000 },
	{ OPT_UINT, 'n', "predict", &args.n_predict, "N",
		"generate at most N tokens for each answer (128)", 1, 1 << 20 },
	{ OPT_FLAG, 0, "chat", &args.chat, NULL,
		"send prompts as chats, with all turns that a prompt has" },
	{ OPT_UINT, 0, "rounds", &args.rounds, "N",
		"number of rounds (1); each round measures all servers in "
		"turn, and the requests of all rounds are reported together",
		1, 1000 },
	{ OPT_FLAG, 0, "json", &args.json, NULL,
		"print a JSON object for each row instead of the table" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench serve",
	.synopsis = "[-m MODEL] [--methods LIST] [--url URL] [--at LIST] "
		    "[OPTIONS] [-- SERVE-OPTIONS]",
	.summary = "measure servers under load",
	.details =
		"Each client sends a prompt, reads the answer as a stream, and "
		"sends the next prompt. Answers are greedy. Options after -- "
		"are those of 'tandem serve'. The servers that are started "
		"keep no caches of finished requests (--keep 0), because the "
		"same prompts are sent for each number of clients.\n\n"
		"A server of another program (llama-server, vLLM) is measured "
		"by its URL; docs/performance.md has an example. The objects "
		"of --json have the members of the results of 'vllm bench "
		"serve', and of the summary of SPEED-Bench's client for "
		"llama-server; for a server of Tandem also tokens_per_pass and "
		"phone_s_per_token.",
	.examples = "  tandem bench serve --methods autoregressive,chain\n"
		    "  tandem bench serve --at 8 -- --clock soc:sd8gen3 -t 1\n"
		    "  tandem bench serve --url http://127.0.0.1:8080 --chat",
	.common = "model methods url at prompts tasks items predict chat "
		  "rounds json",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 64,
	.operand = &(const struct opt){ .arg = "SERVE-OPTIONS" },
};

static int run(int argc, char **argv)
{
	const struct command *c = &cmd_bench_serve;
	static struct method_facts method[SERVE_ROWS_MAX];
	struct err e = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(c, argc, argv, &operands, &status))
		return status;
	if (operands && argv[1][0] != '-')
		return cmd_misuse(c,
			"unknown argument '%s'; put options of 'tandem serve' "
			"after --",
			argv[1]);
	if (args.prompts && tasks)
		return cmd_misuse(
			c, "--prompts and --tasks exclude each other");
	args.option = (const char *const *)(argv + 1);
	args.n_options = operands;
	if (!method_list && !urls.n)
		method_list = "autoregressive";
	if (method_list &&
		(status = list_methods(c, method_list, true, method,
			 &args.n_methods, SERVE_ROWS_MAX)))
		return status;
	if (args.n_methods + urls.n > SERVE_ROWS_MAX)
		return cmd_misuse(c,
			"--methods and --url together may list at most %d "
			"servers",
			SERVE_ROWS_MAX);
	for (unsigned i = 0; i < args.n_methods; i++)
		args.row[args.n_rows++] = method[i].name;
	for (unsigned i = 0; i < urls.n; i++) {
		const char *u = urls.item[i], *host = strstr(u, "://");

		if ((strncmp(u, "http://", 7) && strncmp(u, "https://", 8)) ||
			!host[3] || strpbrk(host + 3, "/ "))
			return cmd_misuse(c,
				"--url: '%s' is not http://HOST:PORT, without "
				"a path",
				u);
		args.row[args.n_rows++] = u;
	}
	if (!args.n_methods && (args.model || args.n_options))
		return cmd_misuse(c,
			"%s sets options of started servers, but --url alone "
			"starts none; give --methods too",
			args.model ? "--model" : "'--'");
	if ((status = list_numbers(c, "at", at, 1, SERVE_CLIENTS_MAX, args.at,
		     &args.n_at, SERVE_AT_MAX)) ||
		(!args.prompts &&
			(status = list_tasks(c, tasks ? tasks : "short",
				 args.task, &args.n_tasks))))
		return status;
	if (!args.prompts && !args.n_tasks)
		return cmd_misuse(c,
			"--tasks none cannot be used with this benchmark, "
			"because it sends the prompts of tasks; name a task");
	if (!args.items && !args.prompts)
		args.items = TASK_ITEMS;
	args.progress = cmd_progress;
	cmd_catch_signals();
	return bench_line_end(bench_serve(&args, &e), &e);
}

const struct command cmd_bench_serve = { &usage, run };
