/*
 * tandem: the host's program. Picks the command; its help, man page and shell
 * completion are made from the commands' option tables.
 */
#include "host/cmd/cmd.h"
#include "host/cmd/bash_completion.h"
#include "host/cmd/cut_short.h"
#include "host/cmd/json_text.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fault_plan.h"
#include "base/fd.h"
#include "base/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {
	&cmd_run,
	&cmd_eval,
	&cmd_score,
	&cmd_perplexity,
	&cmd_logits,
	&cmd_tokenize,
	&cmd_detokenize,
	&cmd_inspect,
	&cmd_synth,
	&cmd_convert,
	&cmd_verify,
	&cmd_history,
	&cmd_bench,
	&cmd_merge,
	&cmd_stress,
	&cmd_doctor,
	NULL,
};

static const char about[] =
	"Runs a language model on two processes, a phone's processor and an "
	"emulated\nNPU, joined by shared memory with one-way cache coherence.";

/* What the table of options cannot say; one text for help and man page. */
static const struct {
	const char *what, *means;
} exits[] = {
	{ "0", "success" },
	{ "1", "failure: the message says what, where and what to try" },
	{ "2", "misuse: an unknown option or command, a bad value" },
	{ "3", "the device process died or stopped making progress" },
	{ "4", "of a plan of faults something never came to pass" },
	{ "130", "interrupted (SIGINT)" },
}, environment[] = {
	{ "TANDEM_NPU", "the device program; else the tandem-npu beside this "
			"program, else the one in PATH" },
	{ "TANDEM_MODELS", "the folder of the models that come with the "
			   "program; else models beside this program, "
			   "flash/models of its source tree, or "
			   "share/tandem/models of where it is installed" },
	{ "TANDEM_CPU", "kernels to use instead of the best this processor "
			"has, in both processes: ref, base, avx2, avx512" },
	{ "TANDEM_NPU_FAULT", "faults for the device to have, for tests; "
			      "'tandem help faults' lists them" },
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(command_name(commands[i]), name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	unsigned least = UINT32_MAX;
	const char *meant = NULL;

	for (size_t i = 0; commands[i]; i++) {
		const char *known = command_name(commands[i]);
		unsigned d = opt_unlikeness(name, known);

		if (d < least) {
			least = d;
			meant = known;
		}
	}
	if (*name == '-' && opt_unlikeness(name, "--version") < UINT32_MAX)
		meant = "--version";
	fprintf(stderr, "tandem: unknown %s '%s'",
		*name == '-' ? "option" : "command", name);
	if (meant)
		fprintf(stderr, "; did you mean '%s'?", meant);
	fputs("\ntry 'tandem --help'\n", stderr);
	return EXIT_MISUSE;
}

static void print_help(FILE *f)
{
	fprintf(f,
		"Usage: tandem COMMAND [OPTIONS]\n"
		"       tandem help [COMMAND|faults]\n"
		"       tandem --version\n\n"
		"%s\n\n"
		"Commands:\n",
		about);
	for (size_t i = 0; commands[i]; i++)
		fprintf(f, "  %-12s%s\n", command_name(commands[i]),
			commands[i]->usage->summary);
	fputs("\nExit status:\n", f);
	for (size_t i = 0; i < ARRAY_LEN(exits); i++)
		fprintf(f, "  %-12s%s\n", exits[i].what, exits[i].means);
	fputs("\n'tandem COMMAND --help' explains one; 'man tandem' all of "
	      "them.\n",
		f);
}

static void print_man(FILE *f)
{
	fprintf(f,
		".TH TANDEM 1 \"\" \"tandem " TANDEM_VERSION "\"\n"
		".SH NAME\n"
		"tandem \\- run a language model on a CPU and an emulated NPU\n"
		".SH SYNOPSIS\n"
		".B tandem\n"
		".I COMMAND\n"
		"[OPTIONS]\n"
		".br\n"
		".B tandem help\n"
		"[\\fICOMMAND\\fR]\n"
		".SH DESCRIPTION\n"
		"%s\n"
		"The device is a process of its own, \\fBtandem\\-npu\\fR(1), "
		"started as needed.\n"
		"Results go to standard output, everything else to standard "
		"error.\n"
		".SH COMMANDS\n",
		about);
	for (size_t i = 0; commands[i]; i++)
		opt_man(commands[i]->usage, f);
	opt_man(cmd_bench_lever.usage, f);
	opt_man(cmd_bench_methods.usage, f);
	opt_man(cmd_bench_sdnpu.usage, f);
	opt_man(cmd_bench_diffusion.usage, f);
	opt_man(cmd_bench_tts.usage, f);
	opt_man(cmd_bench_price.usage, f);
	opt_man(cmd_history_list.usage, f);
	opt_man(cmd_history_stats.usage, f);
	opt_man(cmd_history_prune.usage, f);
	opt_man(cmd_history_import.usage, f);
	fputs(".SH EXIT STATUS\n", f);
	for (size_t i = 0; i < ARRAY_LEN(exits); i++)
		fprintf(f, ".TP\n%s\n%s\n", exits[i].what, exits[i].means);
	fputs(".SH ENVIRONMENT\n", f);
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		fprintf(f, ".TP\n.B %s\n%s\n", environment[i].what,
			environment[i].means);
	fputs(".SH SEE ALSO\n.BR tandem-npu (1)\n", f);
}

static int help(const char *topic)
{
	const struct command *c;

	if (!topic)
		print_help(stdout);
	else if (!strcmp(topic, "--man"))
		print_man(stdout);
	else if (!strcmp(topic, "--completion"))
		completion_print(stdout);
	else if (!strcmp(topic, "faults"))
		fputs(fault_plan_help, stdout);
	else if ((c = find_command(topic)))
		opt_help(c->usage, stdout);
	else
		return unknown_command(topic);
	return EXIT_OK;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
	return !strcmp(word, a) || !strcmp(word, b);
}

static int dispatch(int argc, char **argv)
{
	const struct command *c;
	struct fault_plan plan;
	struct err e = { 0 };

	if (argc < 2) {
		print_help(stderr);
		return EXIT_MISUSE;
	}
	if (!strcmp(argv[1], "help") || is_one_of(argv[1], "--help", "-h"))
		return help(argc > 2 ? argv[2] : NULL);
	if (is_one_of(argv[1], "--version", "-v") ||
		!strcmp(argv[1], "version")) {
		puts("tandem " TANDEM_VERSION);
		return EXIT_OK;
	}
	c = find_command(argv[1]);
	if (c &&
		fault_plan_parse_device(
			&plan, getenv("TANDEM_NPU_FAULT"), &e)) {
		fprintf(stderr, "tandem: TANDEM_NPU_FAULT: %s\n", e.text);
		return EXIT_MISUSE;
	}
	return c ? c->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	int status;

	fd_keep_standard();
	/* A file that may grow no more (ulimit -f) is a failed write, which is
	 * told of. */
	signal(SIGXFSZ, SIG_IGN);
	cut_short_catch();
	json_all_or_nothing();
	status = dispatch(argc, argv);
	/* A full disk shows at the last write: say so, do not succeed. */
	if (cmd_flush(&e) && status == EXIT_OK)
		status = cmd_fail(&e);
	/* A test that ordered what there was not shall not pass. */
	if (status == EXIT_OK && fault_plan_unfired())
		status = FAULT_EXIT_UNFIRED;
	return status;
}
