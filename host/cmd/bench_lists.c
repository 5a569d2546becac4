#include "host/cmd/bench_lists.h"

#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/cmd/cmd.h"
#include "host/eval/eval_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(FIGURES_TASKS == EVAL_TASKS, "each task has its figures");

bool list_part(const char **list, char part[LIST_PART])
{
	size_t len;

	*list += strspn(*list, ", ");
	len = strcspn(*list, ", ");
	snprintf(part, LIST_PART, "%.*s",
		(int)(len < LIST_PART ? len : LIST_PART - 1), *list);
	*list += len;
	return len;
}

static int refuse(const struct command *c, const char *option,
	const char *there_is, struct opt_nearest *near)
{
	return cmd_misuse(c, "--%s: unknown '%s'; there is %s%s", option,
		near->word, there_is, opt_nearest_clause(near));
}

static int refuse_method(
	const struct command *c, const char *part, bool diffusion)
{
	struct opt_nearest near = { .word = part };
	struct strbuf names = STRBUF_INIT;
	struct method_facts m;
	int status;

	for (size_t i = 0; method_facts(i, &m); i++)
		if (diffusion || !m.diffusion) {
			opt_nearest_offer(&near, m.name);
			strbuf_addf(
				&names, "%s%s", names.len ? ", " : "", m.name);
		}
	status = refuse(c, "methods", names.data ? names.data : "", &near);
	strbuf_release(&names);
	return status;
}

int list_methods(const struct command *c, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most)
{
	char part[LIST_PART];

	while (list_part(&list, part)) {
		struct method_facts m;
		bool known = false, twice = false;

		for (size_t i = 0; !known && method_facts(i, &m); i++)
			known = !strcmp(m.name, part);
		if (!known || (m.diffusion && !diffusion))
			return refuse_method(c, part, diffusion);
		for (unsigned i = 0; i < *n; i++)
			twice |= out[i].method == m.method;
		if (twice)
			continue;
		if (*n == most)
			return cmd_misuse(c,
				"--methods names more than %u "
				"methods",
				most);
		out[(*n)++] = m;
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--methods names none");
}

static int refuse_table(const struct command *c, const char *part,
	const char *const *names, int n)
{
	struct opt_nearest near = { .word = part };
	struct strbuf all = STRBUF_INIT;
	int status;

	for (int t = 0; t < n; t++) {
		opt_nearest_offer(&near, names[t]);
		strbuf_addf(&all, "%s%s", t ? ", " : "", names[t]);
	}
	strbuf_addf(&all, " and all");
	status = refuse(c, "tables", all.data ? all.data : "", &near);
	strbuf_release(&all);
	return status;
}

int list_tables(const struct command *c, const char *list,
	const char *const *names, int n, bool *out)
{
	char part[LIST_PART];

	while (list_part(&list, part)) {
		bool all = !strcmp(part, "all"), known = all;

		for (int t = 0; t < n; t++)
			if (all || !strcmp(part, names[t]))
				known = out[t] = true;
		if (!known)
			return refuse_table(c, part, names, n);
	}
	return EXIT_OK;
}

static int refuse_task(const struct command *c, const char *part)
{
	struct opt_nearest near = { .word = part };

	for (int i = 0; i < EVAL_TASKS; i++)
		opt_nearest_offer(&near, eval_task_names[i]);
	return refuse(c, "tasks",
		EVAL_TASK_NAMES "; " EVAL_TASK_GROUPS ", none", &near);
}

int list_tasks(const struct command *c, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n)
{
	bool taken[EVAL_TASKS] = { false }, which[EVAL_TASKS];
	char part[LIST_PART];

	if (!strcmp(list, "none"))
		return EXIT_OK;
	while (list_part(&list, part)) {
		if (!eval_task_named(part, which))
			return refuse_task(c, part);
		for (int i = 0; i < EVAL_TASKS; i++) {
			if (!which[i])
				continue;
			if (taken[i])
				return cmd_misuse(c, "--tasks names '%s' twice",
					eval_task_names[i]);
			taken[i] = true;
			out[(*n)++] = eval_task_names[i];
		}
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--tasks names none");
}

int list_numbers(const struct command *c, const char *option, const char *list,
	uint32_t least, uint32_t most, uint32_t *out, unsigned *n, unsigned max)
{
	char part[LIST_PART], *end;

	while (list_part(&list, part)) {
		unsigned long v = strtoul(part, &end, 10);

		if (part[0] < '0' || part[0] > '9' || *end || v < least ||
			v > most || *n == max)
			return cmd_misuse(c,
				"--%s: '%s' is not one of at most %u whole "
				"numbers from %u to %u",
				option, part, max, least, most);
		out[(*n)++] = (uint32_t)v;
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--%s names none", option);
}
