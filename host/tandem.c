/*
 * The main program of the host, `tandem`: runs the command that the first word
 * of the command line names. Help, manual page and shell completion are made
 * from the option tables of the commands.
 */
#include "host/cmd/cmd.h"
#include "host/cmd/cut_short.h"
#include "host/cmd/json_text.h"
#include "host/cmd/manual.h"

#include "base/err.h"
#include "base/fault_plan.h"
#include "base/fd.h"
#include "base/version.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {
	&cmd_run,
	&cmd_chat,
	&cmd_serve,
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
	&cmd_trace,
	&cmd_doctor,
	NULL,
};

static int unknown_command(const char *name)
{
	struct opt_nearest near = { .word = name };

	for (size_t i = 0; commands[i]; i++)
		opt_nearest_offer(&near, command_name(commands[i]));
	opt_nearest_offer(&near, "--version");
	fprintf(stderr, "tandem: unknown %s '%s'%s\ntry 'tandem --help'\n",
		*name == '-' ? "option" : "command", name,
		!strcmp(name, "stress") ? "; did you mean 'tandem-stress'?"
					: opt_nearest_clause(&near));
	return EXIT_MISUSE;
}

/* Find the command whose name follows `tandem help` or `tandem help --man`.
 * words[1] may be the name of one of its subcommands. */
static const struct command *command_named(char **words)
{
	const struct command *c = command_find(commands, words[0]);
	const struct command *inner =
		c && words[1] ? command_find(c->inner, words[1]) : NULL;

	return inner ? inner : c;
}

static int man(char **words)
{
	const struct command *c = *words ? command_named(words) : NULL;

	if (*words && !c)
		return unknown_command(*words);
	if (c)
		manual_page(c, stdout);
	else
		manual_overview(stdout);
	return EXIT_OK;
}

/*
 * Print the help of a command. `words` are the name of the command and,
 * optionally, the name of a group of options; then only this group is printed.
 */
static int help_of(const struct command *c, char **words)
{
	const char *group = words[1];
	struct err e = { 0 };

	if (group && !strcmp(group, command_name(c)))
		group = words[2];
	return opt_help(c->usage, group, stdout, &e) ? cmd_refuse(c, &e)
						     : EXIT_OK;
}

static const struct help_topic *topic_named(const char *name)
{
	const struct help_topic *t = help_topics;

	while (t->name && strcmp(t->name, name))
		t++;
	return t->name ? t : NULL;
}

static int help(char **words)
{
	const struct help_topic *topic;
	const struct command *c;

	if (!*words)
		manual_help(stdout);
	else if (!strcmp(*words, "--man"))
		return man(words + 1);
	else if (!strcmp(*words, "--completion"))
		completion_print(stdout);
	else if (!strcmp(*words, "faults"))
		fputs(fault_plan_help, stdout);
	else if ((topic = topic_named(*words)))
		topic->print(stdout);
	else if ((c = command_named(words)))
		return help_of(c, words);
	else
		return unknown_command(*words);
	return EXIT_OK;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
	return !strcmp(word, a) || !strcmp(word, b);
}

/*
 * Find the command that the first word names. Returns NULL if no command is to
 * be run, because help, the version or an error was printed instead; *status is
 * then the exit status of the program.
 */
static const struct command *command_of(int argc, char **argv, int *status)
{
	const struct command *c = NULL;
	struct fault_plan plan;
	struct err e = { 0 };

	*status = EXIT_OK;
	if (argc < 2) {
		manual_help(stderr);
		*status = EXIT_MISUSE;
	} else if (!strcmp(argv[1], "help") ||
		is_one_of(argv[1], "--help", "-h")) {
		*status = help(argv + 2);
	} else if (is_one_of(argv[1], "--version", "-v") ||
		!strcmp(argv[1], "version")) {
		puts("tandem " TANDEM_VERSION);
	} else if (!(c = command_find(commands, argv[1]))) {
		*status = unknown_command(argv[1]);
	} else if (fault_plan_parse_device(
			   &plan, getenv("TANDEM_NPU_FAULT"), &e)) {
		fprintf(stderr, "tandem: TANDEM_NPU_FAULT: %s\n", e.text);
		*status = EXIT_MISUSE;
		c = NULL;
	}
	return c;
}

int main(int argc, char **argv)
{
	const struct command *c;
	struct err e = { 0 };
	int status;

	fd_keep_standard();
	/* Ignore the signal of the file size limit (ulimit -f). A write beyond
	 * the limit then fails with an error, which is reported. */
	signal(SIGXFSZ, SIG_IGN);
	cut_short_catch();
	json_set_alloc_funcs(json_all_or_nothing, free);
	c = command_of(argc, argv, &status);
	if (c)
		status = c->run(argc - 1, argv + 1);
	/* If the disk is full, this last write of buffered output may be the
	 * only write that fails. So report its failure, and let the program
	 * fail. */
	if (cmd_flush(&e) && status == EXIT_OK)
		status = cmd_fail(&e);
	/* The user can plan faults, which Tandem then injects. A run must fail
	 * if not all of its planned faults were triggered. */
	if (status == EXIT_OK && atomic_load(&fault_plan_unfired))
		status = FAULT_EXIT_UNFIRED;
	cmd_end();
	return status;
}
