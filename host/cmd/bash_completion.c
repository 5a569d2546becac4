#include "host/cmd/bash_completion.h"

#include "host/cmd/cmd.h"

#include <stdio.h>

static void print_names(const struct command *const *list, FILE *f)
{
	for (size_t i = 0; list && list[i]; i++)
		fprintf(f, "%s%s", i ? " " : "", command_name(list[i]));
}

/* What stands behind a command of a command has options of its own. */
static void print_inner_cases(const struct command *c, FILE *f)
{
	char name[64];

	for (size_t i = 0; c->inner && c->inner[i]; i++) {
		snprintf(name, sizeof(name), "%s-%s", command_name(c),
			command_name(c->inner[i]));
		opt_completion(c->inner[i]->usage, name, f);
	}
	if (!c->inner)
		return;
	fprintf(f, "\thelp:%s) words='", command_name(c));
	print_names(c->inner, f);
	fputs("' ;;\n", f);
}

static void print_cases(FILE *f)
{
	fputs("\tcase $command:$before in\n\t:*) words='help --version ", f);
	print_names(commands, f);
	fputs("' ;;\n\thelp:help|help:--man) words='", f);
	print_names(commands, f);
	fputs("' ;;\n", f);
	for (size_t i = 0; commands[i]; i++)
		print_inner_cases(commands[i], f);
	for (size_t i = 0; commands[i]; i++)
		opt_completion(
			commands[i]->usage, command_name(commands[i]), f);
	fputs("\tesac\n", f);
}

static void print_inner_names(FILE *f)
{
	fputs("\tcase ${COMP_WORDS[1]-}:${COMP_WORDS[2]-} in\n", f);
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
