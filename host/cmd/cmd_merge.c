/* tandem merge: combines the results of the shards of an evaluation or a
 * benchmark into the report that a single run would produce. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/cmd/bench_line.h"
#include "host/cmd/eval_report.h"
#include "host/eval/shard.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool as_json, as_csv;
static const char *plot;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object instead of the tables" },
	{ OPT_FLAG, 0, "csv", &as_csv, NULL,
		"print a benchmark as CSV, one line for each figure" },
	{ OPT_STRING, 0, "plot", &plot, "DIR",
		"draw each table of a benchmark to DIR/TABLE.svg; needs "
		"gnuplot" },
};

static const struct opt_command usage = {
	.name = "tandem merge",
	.synopsis = "[--json] FILE...",
	.summary = "join the results of shards",
	.details =
		"The FILEs are the outputs of 'tandem eval', or of 'tandem "
		"bench' lever, methods, sdnpu or diffusion, with --shard 1/N, "
		"2/N ... N/N: all N files, in any order, made with the same "
		"options. Counts, intervals and figures are computed from the "
		"sums over all shards. On a phone's clock they equal those of "
		"one run to the last digit; wall-clock times are added up, as "
		"if the shards had run one after another.\n\n"
		"Wall-clock times of different machines are added too: merge "
		"them only from equal machines.",
	.examples =
		"  tandem eval math --shard 1/2 >a & tandem eval math --shard 2/2 >b\n"
		"  tandem merge a b",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = SHARDS_MAX,
	.operand = &(const struct opt){ .arg = "FILE" },
};

/* ---- a benchmark --------------------------------------------------------- */

static const struct command *const benches[] = { &cmd_bench_lever,
	&cmd_bench_methods, &cmd_bench_sdnpu, &cmd_bench_diffusion, NULL };

/* ---- the command --------------------------------------------------------- */

static int merge(const struct shards *all, struct err *e)
{
	const char *command = json_string_value(
			   json_object_get(all->one[0], "command")),
		   *bench = json_string_value(
			   json_object_get(all->one[0], "bench"));
	const struct command *c = bench ? command_find(benches, bench) : NULL;

	if (c) {
		/*
		 * Run the benchmark with the command line of the shards, but
		 * with the output form that the options of `tandem merge`
		 * request. The benchmark then plans the same runs as each shard
		 * did, and takes the results of these runs from the shards.
		 */
		unsigned n;
		char **words = shards_arguments(all, &n), **more;
		int status;

		more = words ? reallocarray(words, n + 5, sizeof(*words))
			     : NULL;
		if (!more) {
			free(words);
			err_set(e, ENOMEM, "no memory for a command line");
			return cmd_fail(e);
		}
		if (as_json)
			more[n++] = (char *)(uintptr_t) "--json";
		if (as_csv)
			more[n++] = (char *)(uintptr_t) "--csv";
		if (plot) {
			more[n++] = (char *)(uintptr_t) "--plot";
			more[n++] = (char *)(uintptr_t)plot;
		}
		more[n] = NULL;
		bench_line_merges(all);
		status = c->run((int)n, more);
		bench_line_merges(NULL);
		free(more);
		return status;
	}
	if (command && !strcmp(command, "eval")) {
		struct eval_report rep;
		int ret;

		if (as_csv || plot)
			return cmd_misuse(&cmd_merge,
				"%s is only for benchmarks, but these are "
				"shards of an evaluation; omit this option",
				as_csv ? "--csv" : "--plot");
		ret = eval_report_merge(&rep, all, e);
		if (!ret && !as_json) {
			eval_head_text(
				&rep.subject, rep.result[0].marked, stdout);
			for (size_t i = 0; i < rep.n; i++)
				eval_row_text(
					&rep.subject, &rep.result[i], stdout);
			eval_mean_text(&rep, stdout);
		} else if (!ret && eval_json(&rep, stdout))
			ret = err_sys(e, errno ? errno : EIO,
				"cannot write to standard output");
		free(rep.result);
		return ret ? cmd_fail(e) : EXIT_OK;
	}
	err_set(e, EINVAL,
		"'%s' is not a shard of an evaluation or a "
		"benchmark",
		all->path[0]);
	return cmd_fail(e);
}

static int run(int argc, char **argv)
{
	struct shards all = { 0 };
	struct err e = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(&cmd_merge, argc, argv, &operands, &status))
		return status;
	if (as_json && as_csv)
		return cmd_misuse(
			&cmd_merge, "--json and --csv exclude each other");
	status = shards_read(&all, argv + 1, operands, &e) ? cmd_fail(&e)
							   : merge(&all, &e);
	shards_release(&all);
	return status;
}

const struct command cmd_merge = { &usage, run };
