#include "host/cmd/bash_completion.h"

#include "base/checked.h"
#include "host/cmd/cmd.h"

#include <stdio.h>

/* Commands of commands: what stands behind them has options of its own. */
static const struct {
	const char *name, *word; /* "bench" "lever", of `tandem bench lever` */
	const struct command *command;
} inner[] = {
	{ "bench", "lever", &cmd_bench_lever },
	{ "bench", "methods", &cmd_bench_methods },
	{ "bench", "sdnpu", &cmd_bench_sdnpu },
	{ "bench", "diffusion", &cmd_bench_diffusion },
	{ "bench", "tts", &cmd_bench_tts },
	{ "bench", "price", &cmd_bench_price },
	{ "history", "list", &cmd_history_list },
	{ "history", "stats", &cmd_history_stats },
	{ "history", "prune", &cmd_history_prune },
	{ "history", "import", &cmd_history_import },
};

static void print_cases(FILE *f)
{
	fputs("\tcase $command:$before in\n\t:*) words='help --version", f);
	for (size_t i = 0; commands[i]; i++)
		fprintf(f, " %s", command_name(commands[i]));
	fputs("' ;;\n\thelp:*) words='", f);
	for (size_t i = 0; commands[i]; i++)
		fprintf(f, "%s%s", i ? " " : "", command_name(commands[i]));
	fputs("' ;;\n", f);
	for (size_t i = 0; i < ARRAY_LEN(inner); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s-%s", inner[i].name,
			inner[i].word);
		opt_completion(inner[i].command->usage, name, f);
	}
	for (size_t i = 0; commands[i]; i++)
		opt_completion(
			commands[i]->usage, command_name(commands[i]), f);
	fputs("\tesac\n", f);
}

static void print_inner_names(FILE *f)
{
	fputs("\tcase ${COMP_WORDS[1]-}:${COMP_WORDS[2]-} in\n", f);
	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		fprintf(f,
			"\t%s:%s) [[ $COMP_CWORD -le 2 ]] || "
			"command=%s-%s ;;\n",
			inner[i].name, inner[i].word, inner[i].name,
			inner[i].word);
	fputs("\tesac\n", f);
}

void completion_print(FILE *f)
{
	fputs("# bash completion for tandem, made by 'tandem help "
	      "--completion'\n"
	      "_tandem()\n{\n"
	      "\tlocal line=${COMP_LINE:0:COMP_POINT} command='' before='' name=''\n"
	      "\tlocal words='' options='' paths='' list='' head='' reply cut\n"
	      "\tlocal cur=${line##*[[:blank:]]}\n"
	      "\t[[ $COMP_CWORD -le 1 ]] || command=${COMP_WORDS[1]}\n",
		f);
	print_inner_names(f);
	fputs("\tread -ra reply <<<\"${line%\"$cur\"}\"\n"
	      "\tbefore=${reply[${#reply[@]} - 1]}\n"
	      "\tif [[ $cur == --*=* ]]; then\n"
	      "\t\tbefore=${cur%%=*} cur=${cur#*=} name=$before=\n"
	      "\tfi\n",
		f);
	print_cases(f);
	fputs("\t[[ $cur != -* || -z $options ]] || words=$options paths=\n"
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
