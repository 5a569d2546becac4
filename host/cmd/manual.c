#include "host/cmd/manual.h"

#include "base/checked.h"
#include "base/version.h"
#include "host/cmd/cmd.h"
#include "host/cmd/help_topics.h"

static const char about[] =
	"Runs language models in two processes, a host (a phone's CPU) and a "
	"device (its\nemulated NPU), joined by shared memory with one-way cache "
	"coherence.";

/* What the table of options cannot say; one text for help and man page. */
static const struct {
	const char *what, *means;
} exits[] = {
	{ "0", "success" },
	{ "1", "failure: the message says what, where and what to try" },
	{ "2", "misuse: an unknown option or command, a bad value" },
	{ "3", "the device process died or stopped making progress" },
	{ "4", "a planned fault was never triggered" },
	{ "130", "interrupted (SIGINT)" },
}, environment[] = {
	{ "TANDEM_NPU", "the device program (tandem-npu beside this program, "
			"otherwise the one in PATH)" },
	{ "TANDEM_MODELS", "the folder of the bundled models (models beside "
			   "this program, flash/models of its source tree, or "
			   "share/tandem/models where it is installed)" },
	{ "TANDEM_CPU", "kernels to use instead of the best that this CPU "
			"has, in both processes: ref, base; avx2, avx512, vnni, "
			"amx; on Arm dotprod, i8mm" },
	{ "TANDEM_NPU_FAULT", "faults to inject into the device, for tests; "
			      "'tandem help faults' lists them" },
};

void manual_help(FILE *f)
{
	fprintf(f,
		"Usage: tandem COMMAND [OPTIONS]\n"
		"       tandem help [COMMAND [GROUP] | TOPIC]\n"
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
	fputs("\nTopics: ", f);
	for (const struct help_topic *t = help_topics; t->name; t++)
		fprintf(f, "%s, ", t->name);
	fputs("faults\n"
	      "'tandem COMMAND --help' explains a command, as does 'man "
	      "tandem-COMMAND'.\n",
		f);
}

/* ---- manual pages ------------------------------------------------------- */

/* "tandem bench lever" as the name of its page, tandem\-bench\-lever. */
static void put_page_name(FILE *f, const char *name)
{
	for (; *name; name++)
		fputs(*name == ' ' ? "\\-" : (const char[]){ *name, '\0' }, f);
}

static void put_entry(FILE *f, const struct command *c)
{
	fputs(".TP\n\\fB", f);
	put_page_name(f, c->usage->name);
	fprintf(f, "\\fR(1)\n%s\n", c->usage->summary);
}

static void put_exits(FILE *f)
{
	fputs(".SH EXIT STATUS\n", f);
	for (size_t i = 0; i < ARRAY_LEN(exits); i++)
		fprintf(f, ".TP\n%s\n%s\n", exits[i].what, exits[i].means);
}

void manual_overview(FILE *f)
{
	fprintf(f,
		".TH TANDEM 1 \"\" \"tandem " TANDEM_VERSION
		"\" \"User Commands\"\n"
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
	for (size_t i = 0; commands[i]; i++) {
		const struct command *const *inner = commands[i]->inner;

		put_entry(f, commands[i]);
		for (size_t j = 0; inner && inner[j]; j++)
			put_entry(f, inner[j]);
	}
	put_exits(f);
	fputs(".SH ENVIRONMENT\n", f);
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		fprintf(f, ".TP\n.B %s\n%s\n", environment[i].what,
			environment[i].means);
	fputs(".SH SEE ALSO\n.BR tandem\\-npu (1),\n.BR tandem\\-stress (1)\n",
		f);
}

void manual_page(const struct command *c, FILE *f)
{
	opt_man(c->usage, f);
	put_exits(f);
	fputs(".SH SEE ALSO\n.BR tandem (1)", f);
	for (size_t i = 0; c->inner && c->inner[i]; i++) {
		fputs(",\n.BR ", f);
		put_page_name(f, c->inner[i]->usage->name);
		fputs(" (1)", f);
	}
	fputc('\n', f);
}
