#include "host/cmd/bench_line.h"

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/options.h"
#include "host/bench/bench_run.h"
#include "host/bench/run_options.h"
#include "host/cmd/cmd.h"
#include "host/eval/eval_tasks.h"
#include "host/eval/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(FIGURES_TASKS == EVAL_TASKS, "each task has its figures");

static const struct shards *merged;

void bench_line_merges(const struct shards *all)
{
	merged = all;
}

bool bench_line_parse(const struct command *c, struct bench_line *l, int argc,
	char **argv, const char *said_by, int *status)
{
	const struct decoding_options *unsaid = decoding_table.defaults;
	const struct decoding_options *decoding;
	struct shard s;
	struct err e = { 0 };
	unsigned operands;

	/* Copy the words of the command line before cmd_parse() reorders
	 * them. */
	l->arguments = shard_arguments(argc, argv);
	if (!cmd_parse(c, argc, argv, &operands, status))
		return false;
	decoding = opt_values_of(&l->values, &decoding_table);
	*status = EXIT_OK;
	if (l->json && l->csv)
		*status = cmd_misuse(c, "--json and --csv exclude each other");
	else if (strcmp(decoding->method, unsaid->method))
		*status = cmd_misuse(c,
			"--method cannot be used with this benchmark; the "
			"methods are set by %s",
			said_by);
	else if (shard_parse(&s, l->shard, &e))
		*status = cmd_refuse(c, &e);
	else if (l->shard && (l->csv || l->plot))
		*status = cmd_misuse(c,
			"--shard and %s exclude each other; give %s to 'tandem "
			"merge' instead",
			l->csv ? "--csv" : "--plot",
			l->csv ? "--csv" : "--plot");
	return *status == EXIT_OK;
}

int bench_line_check_decoder(
	const struct command *c, const struct bench_line *l, const char *method)
{
	struct opt_values values = l->values;
	struct tandem *t;
	struct err e = { 0 };
	int ret = opt_set(decoder_tables, &values, "method", method, &e);

	if (!ret)
		ret = tandem_create(&t, NULL, &values, &e);
	if (ret)
		return cmd_refuse(c, &e);
	tandem_end(t, NULL);
	return EXIT_OK;
}

void bench_line_take(struct bench_line *l, struct bench_options *a)
{
	struct run_options *o = opt_values_at(&l->values, &run_table);
	struct err e = { 0 };

	o->model = l->model;
	o->n_predict = (uint32_t)l->predict;
	a->options = &l->values;
	a->items = (uint32_t)l->items;
	a->rounds = (unsigned)l->rounds;
	a->form = l->json ? BENCH_JSON : l->csv ? BENCH_CSV : BENCH_TEXT;
	a->plot = l->plot;
	a->cancel = &cmd_interrupted;
	a->progress = cmd_progress;
	a->arguments = l->arguments;
	a->merged = merged;
	/* Parsing cannot fail, because bench_line_parse() has checked the
	 * text. */
	shard_parse(&a->shard, l->shard, &e);
	cmd_catch_signals();
}

int bench_line_end(int ret, const struct err *e)
{
	int status = ret ? cmd_fail(e) : EXIT_OK;

	return ret == -ECANCELED ? EXIT_INTERRUPTED : status;
}

/* ---- lists --------------------------------------------------------------- */

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
	return cmd_misuse(c, "--%s: unknown '%s'; choose from %s%s", option,
		near->word, there_is ? there_is : "", opt_nearest_clause(near));
}

int list_methods(const struct command *c, const char *list, bool diffusion,
	struct method_facts *out, unsigned *n, unsigned most)
{
	char part[LIST_PART];

	while (list_part(&list, part)) {
		struct opt_nearest near = { .word = part };
		struct strbuf names = STRBUF_INIT;
		struct method_facts m = { 0 }, at;
		bool twice = false;
		int status = EXIT_OK;

		for (size_t i = 0; method_facts(i, &at); i++) {
			if (at.diffusion && !diffusion)
				continue;
			opt_nearest_offer(&near, at.name);
			strbuf_addf(
				&names, "%s%s", names.len ? ", " : "", at.name);
			if (!strcmp(at.name, part))
				m = at;
		}
		if (!m.name)
			status = refuse(c, "methods", names.data, &near);
		strbuf_release(&names);
		if (status)
			return status;
		for (unsigned i = 0; i < *n; i++)
			twice |= out[i].method == m.method;
		if (twice)
			continue;
		if (*n == most)
			return cmd_misuse(c,
				"--methods lists more than %u methods", most);
		out[(*n)++] = m;
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--methods lists no method");
}

int list_tables(const struct command *c, const char *list,
	const char *const *names, int n, bool *out)
{
	char part[LIST_PART];

	while (list_part(&list, part)) {
		struct opt_nearest near = { .word = part };
		struct strbuf there_is = STRBUF_INIT;
		bool all = !strcmp(part, "all"), known = all;
		int status = EXIT_OK;

		for (int t = 0; t < n; t++) {
			if (all || !strcmp(part, names[t]))
				known = out[t] = true;
			opt_nearest_offer(&near, names[t]);
			strbuf_addf(&there_is, "%s%s", t ? ", " : "", names[t]);
		}
		strbuf_addf(&there_is, " and all");
		if (!known)
			status = refuse(c, "tables", there_is.data, &near);
		strbuf_release(&there_is);
		if (status)
			return status;
	}
	return EXIT_OK;
}

int list_tasks(const struct command *c, const char *list,
	const char *out[FIGURES_TASKS], unsigned *n)
{
	bool taken[EVAL_TASKS] = { false }, which[EVAL_TASKS];
	char part[LIST_PART];

	if (!strcmp(list, "none"))
		return EXIT_OK;
	while (list_part(&list, part)) {
		struct opt_nearest near = { .word = part };

		for (int i = 0; i < EVAL_TASKS; i++)
			opt_nearest_offer(&near, eval_task_names[i]);
		if (!eval_task_named(part, which))
			return refuse(c, "tasks",
				EVAL_TASK_NAMES "; " EVAL_TASK_GROUPS ", none",
				&near);
		for (int i = 0; i < EVAL_TASKS; i++) {
			if (!which[i])
				continue;
			if (taken[i])
				return cmd_misuse(c, "--tasks lists '%s' twice",
					eval_task_names[i]);
			taken[i] = true;
			out[(*n)++] = eval_task_names[i];
		}
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--tasks lists no task");
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
				"--%s: cannot use '%s'; give at most %u whole "
				"numbers from %u to %u",
				option, part, max, least, most);
		out[(*n)++] = (uint32_t)v;
	}
	return *n ? EXIT_OK : cmd_misuse(c, "--%s lists no number", option);
}
