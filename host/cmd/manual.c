#include "host/cmd/manual.h"

#include "base/checked.h"
#include "base/version.h"
#include "host/api/options.h"
#include "host/cmd/cmd.h"
#include "host/eval/eval_tasks.h"
#include "host/model/shapes.h"
#include "host/shipped/shipped_models.h"

#include <string.h>

/* ---- topics -------------------------------------------------------------- */

#define WIDTH 16

static void line(FILE *f, const char *name, const char *text)
{
	fprintf(f, "  %-*s  %s\n", WIDTH, name, text);
}

/* Print the values of a decoder's option, each with its meaning. */
static void option_words(FILE *f, const char *name)
{
	const struct opt_table *t;
	struct opt_word w;

	for (size_t i = 0; (t = decoder_tables(i)); i++)
		for (size_t r = 0; r < t->n; r++) {
			const struct opt *o = &t->rows[r];

			if (!o->name || strcmp(o->name, name) || !o->words)
				continue;
			for (size_t k = 0; o->words(k, &w); k++)
				if (w.help)
					line(f, w.shown ? w.shown : w.word,
						w.help);
		}
}

static void methods(FILE *f)
{
	fputs("Decoding methods, for --method:\n\n", f);
	option_words(f, "method");
}

static void drafts(FILE *f)
{
	fputs("Drafters, for --draft; a GGUF file is a draft model or an EAGLE "
	      "head:\n\n",
		f);
	option_words(f, "draft");
	fputs("\n"
	      "sam+recycle pools the candidates of both drafters.\n",
		f);
}

static void tasks(FILE *f)
{
	static const char *const text[] = {
		"summarize a story or report in two sentences",
		"answer a question about a passage with one sentence",
		"turn a request into commands for a screen",
		"reply to a message in a given manner",
		"solve a word problem step by step",
		"write a small function from its description",
		"summarize one of several reports whose parts are mixed",
		"answer a question about a long notice",
		"turn a request into commands for a long screen",
		"reply in a long conversation",
		"write a story of two parts from a plan",
		"write a report from several notes",
		"reply to an email and answer each of its questions",
		"change a program as requested",
		"give the last answer of a conversation",
	};
	_Static_assert(ARRAY_LEN(text) == EVAL_TASKS, "one for each task");

	fputs("Tasks of held-out items, for eval, perplexity and bench:\n\n",
		f);
	for (unsigned i = 0; i < EVAL_TASKS; i++)
		line(f, eval_task_names[i], text[i]);
	fputs("\nGroups: " EVAL_TASK_GROUPS ".\n", f);
}

static void all_shapes(FILE *f)
{
	fputs("Shapes of models, for --as, --draft-as and synth --like; shapes "
	      "with\n"
	      "experts only for synth --like:\n\n",
		f);
	for (unsigned i = 0; i < SHAPES; i++) {
		const struct shape *s = &shapes[i];

		fprintf(f, "  %-*s  %2u layers, width %4u, %2u heads (%u KV)",
			WIDTH + 1, s->name, s->n_layer, s->n_embd, s->n_head,
			s->n_kv_head);
		if (s->n_expert)
			fprintf(f, ", %u experts", s->n_expert);
		fputc('\n', f);
	}
}

static void clocks(FILE *f)
{
	static const char *const text[] = {
		"the time of this machine",
		"Snapdragon 8 Gen 2, Hexagon V73",
		"Snapdragon 8 Gen 2, with the runtime of sd.npu's paper",
		"Snapdragon 8 Gen 3, Hexagon V75",
		"Snapdragon 8 Gen 3, with the runtime of Lever's paper",
		"Snapdragon 8 Elite, Hexagon V79",
		"Snapdragon 8 Elite Gen 5, Hexagon V81 (numbers estimated)",
	};

	fputs("Clocks, for --clock; soc:FILE is a profile of your own:\n\n", f);
	for (unsigned i = 0; i < ARRAY_LEN(text) && clock_names[i]; i++)
		fprintf(f, "  %-*s  %s\n", WIDTH + 2, clock_names[i], text[i]);
	fputs("\nsoc:NAME,KEY=VALUE,... changes numbers of a profile for one "
	      "run, as in\nsoc:sd8gen3,operator_s=0,flash_queue=2; KEY is a "
	      "name in the profile.\n",
		f);
}

static void models(FILE *f)
{
	static const char *const text[] = {
		[MODEL_TARGET] = "12.6 M parameters: the default of -m",
		[MODEL_SMALL] = "4.1 M parameters: a smaller target",
		[MODEL_DRAFT] = "1.1 M parameters: drafts for the target",
		[MODEL_EAGLE] = "EAGLE head: drafts from the target's states",
		[MODEL_DIFFUSION] = "masked diffusion, 12.6 M parameters",
		[MODEL_BLOCK] = "block diffusion, 12.6 M parameters",
		[MODEL_EXIT] = "exit predictor after 6 target layers",
		[MODEL_EXIT_THIRD] = "exit predictor after 4 target layers",
		[MODEL_REWARD] = "reward head of the target",
		[MODEL_REWARD_SMALL] = "reward head of the small target",
	};

	fputs("Bundled models, for -m and options that name a model:\n\n", f);
	for (unsigned i = 0; i < ARRAY_LEN(text); i++)
		line(f, model_role_name(i), text[i]);
}

const struct help_topic help_topics[] = {
	{ "methods", methods },
	{ "drafts", drafts },
	{ "tasks", tasks },
	{ "shapes", all_shapes },
	{ "clocks", clocks },
	{ "models", models },
	{ 0 },
};

/* ---- help about the program ---------------------------------------------- */

static const char about[] =
	"Runs language models in two processes that share memory: a host (a "
	"phone's CPU)\n"
	"and a device (its emulated NPU, with a non-coherent cache).";

/* Texts about the whole program, used in both the help and the manual page. */
static const struct {
	const char *what, *means;
} exits[] = {
	{ "0", "success" },
	{ "1", "failure: the message has the error, its place, and what to try" },
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

/* Print a command's name such as "tandem bench lever" as the name of its page,
 * tandem\-bench\-lever. */
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

/* ---- completion by bash -------------------------------------------------- */

static void print_names(const struct command *const *list, FILE *f)
{
	for (size_t i = 0; list && list[i]; i++)
		fprintf(f, "%s%s", i ? " " : "", command_name(list[i]));
}

void completion_print(FILE *f)
{
	fputs("# bash completion for tandem, made by 'tandem help "
	      "--completion'\n"
	      "_tandem()\n{\n"
	      "\tlocal line=${COMP_LINE:0:COMP_POINT} command='' before='' name=''\n"
	      "\tlocal words='' options='' paths='' list='' head='' reply cut\n"
	      "\tlocal cur=${line##*[[:blank:]]}\n"
	      "\t[[ $COMP_CWORD -le 1 ]] || command=${COMP_WORDS[1]}\n"
	      "\tcase ${COMP_WORDS[1]-}:${COMP_WORDS[2]-} in\n",
		f);
	for (size_t i = 0; commands[i]; i++) {
		const struct command *const *inner = commands[i]->inner;
		const char *name = command_name(commands[i]);

		for (size_t j = 0; inner && inner[j]; j++)
			fprintf(f,
				"\t%s:%s) [[ $COMP_CWORD -le 2 ]] || "
				"command=%s-%s ;;\n",
				name, command_name(inner[j]), name,
				command_name(inner[j]));
	}
	fputs("\tesac\n"
	      "\tread -ra reply <<<\"${line%\"$cur\"}\"\n"
	      "\tbefore=${reply[${#reply[@]} - 1]}\n"
	      "\tif [[ $cur == --*=* ]]; then\n"
	      "\t\tbefore=${cur%%=*} cur=${cur#*=} name=$before=\n"
	      "\tfi\n"
	      "\tcase $command:$before in\n\t:*) words='help --version ",
		f);
	print_names(commands, f);
	fputs("' ;;\n\thelp:help|help:--man) words='", f);
	print_names(commands, f);
	fputs("' ;;\n", f);
	/* Print the cases of each subcommand in the script's `case` statement,
	 * because subcommands have options of their own. */
	for (size_t i = 0; commands[i]; i++) {
		const struct command *const *inner = commands[i]->inner;
		char name[64];

		for (size_t j = 0; inner && inner[j]; j++) {
			snprintf(name, sizeof(name), "%s-%s",
				command_name(commands[i]),
				command_name(inner[j]));
			opt_completion(inner[j]->usage, name, f);
		}
		if (!inner)
			continue;
		fprintf(f, "\thelp:%s) words='", command_name(commands[i]));
		print_names(inner, f);
		fputs("' ;;\n", f);
	}
	for (size_t i = 0; commands[i]; i++)
		opt_completion(
			commands[i]->usage, command_name(commands[i]), f);
	fputs("\tesac\n"
	      "\t[[ $cur != -* || -z $options ]] || words=$options paths=\n"
	      "\t[[ -z $list ]] || head=${cur%\"${cur##*,}\"}\n"
	      "\tmapfile -t COMPREPLY < <(\n"
	      "\t\tcompgen -P \"$head\" -W \"$words\" -- "
	      "\"${cur#\"$head\"}\"\n"
	      "\t\t[[ -z $paths ]] || compgen $paths -- \"$cur\")\n"
	      "\t[[ -z $paths ]] || compopt -o filenames 2>/dev/null\n"
	      "\t[[ ${COMPREPLY[*]} != *: ]] || compopt -o nospace "
	      "2>/dev/null\n"
	      "\tif [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then\n"
	      "\t\tcut=${cur%\"${cur##*:}\"}\n"
	      "\t\tCOMPREPLY=(\"${COMPREPLY[@]#\"$cut\"}\")\n"
	      "\telif [[ -n $name && $COMP_WORDBREAKS != *=* ]]; then\n"
	      "\t\tCOMPREPLY=(\"${COMPREPLY[@]/#/$name}\")\n"
	      "\tfi\n"
	      "}\n"
	      "complete -F _tandem tandem\n",
		f);
}
