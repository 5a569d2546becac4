/* tandem bench price: computes the cost of a pass of a model whose layers are
 * read from flash, without running the model. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_price.h"
#include "host/cmd/bench_line.h"
#include "host/model/shape_type.h"
#include "host/model/shapes.h"

#include <string.h>

static struct bench_price_args args = { .clock = "soc:sd8gen3-lever",
	.runs = 6,
	.slots = 3,
	.seen = 200,
	.upper = -1,
	.drafted = -1,
	.length = -1 };
static const char *rows = "1,9,17,33,65", *vary;
static int target = -1, draft = -1, type;
static double budget;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 0, "clock", &args.clock, "soc:NAME",
		"phone for which times are computed (soc:sd8gen3-lever); "
		"'tandem help clocks' lists phones", .choices = clock_names + 1 },
	{ OPT_CHOICE, 0, "as", &target, "SHAPE",
		"shape of the streamed model (llama3.1-8b)",
		.choices = dense_shape_names },
	{ OPT_CHOICE, 0, "draft-as", &draft, "SHAPE",
		"shape of a draft model that runs on the CPU, node by node "
		"(none: drafting costs nothing)", .choices = dense_shape_names },
	{ OPT_CHOICE, 0, "as-type", &type, NULL,
		"type of the matrices (q4_0); with q4_0 the FFN down matrices "
		"are q8_0, with q4_0-all they are q4_0 too",
		.choices = shape_type_names },
	{ OPT_STRING, 0, "rows", &rows, "LIST",
		"numbers of rows (1,9,17,33,65); the cost of a pass is "
		"computed for each" },
	{ OPT_FLOAT, 0, "upper-rows", &args.upper, "N",
		"number of rows that pruning keeps in the upper half of the "
		"layers (all)", 1,
		PRICE_ROWS_MAX },
	{ OPT_FLOAT, 0, "drafted", &args.drafted, "N",
		"nodes of the drafted tree that the draft model expands (rows "
		"- 1)", 0,
		PRICE_ROWS_MAX },
	{ OPT_FLOAT, 0, "length", &args.length, "N",
		"accepted tokens of a pass; each needs a row of logits (1)",
		0.01,
		PRICE_ROWS_MAX },
	{ OPT_STRING, 0, "from", &args.from, "FILE",
		"instead of --rows, compute the mean pass of each method in "
		"FILE, the output of 'tandem bench lever --json': its numbers "
		"of rows, drafted nodes and accepted tokens" },
	{ OPT_STRING, 0, "vary", &vary, "fitted|KEY=A:B[:N]",
		"also vary the number KEY of the phone's profile from A to B, "
		"in N steps (5); fitted: vary each number that was fitted to "
		"measurements by +-30 %" },
	{ OPT_FLOAT, 0, "dram-budget", &budget, "PERCENT",
		"percentage of the layers that stay in memory (0)", 0, 100 },
	{ OPT_UINT, 0, "stage-slots", &args.slots, "N",
		"number of layers that can be read ahead (3)", 2, 16 },
	{ OPT_UINT, 0, "resident-runs", &args.runs, "N",
		"number of groups into which the layers in memory are divided, "
		"with streamed layers between the groups (6; 1: the first "
		"layers stay)", 1, SESSION_RESIDENT_RUNS },
	{ OPT_UINT, 0, "seen", &args.seen, "N",
		"number of positions that a row attends to (200)", 1, 1 << 20 },
	{ OPT_FLAG, 0, "json", &args.json, NULL,
		"print one JSON object instead of the table" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench price",
	.synopsis = "[--clock soc:NAME] [--as SHAPE] [--rows LIST | --from "
		    "FILE] [OPTIONS]",
	.summary = "show what a pass costs on a phone, without running it",
	.details =
		"Shows the parts of the time of a pass: reading flash, "
		"computing on the NPU, drafting and logits on the CPU, and how "
		"much of these times overlaps.",
	.examples =
		"  tandem bench price --as llama3.1-8b --rows 1,17,65\n"
		"  tandem bench price --rows 9,17 --vary row_weight_s=0:4e-12\n"
		"  tandem bench price --from lever.json --vary fitted",
	.common = "clock as draft-as as-type rows from vary dram-budget json",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int run(int argc, char **argv)
{
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_bench_price, argc, argv, &operands, &status))
		return status;
	args.target = target < 0 ? shape_named("llama3.1-8b") : &shapes[target];
	args.draft = draft < 0 ? NULL : &shapes[draft];
	args.resident = budget / 100;
	args.type = shape_type_at((unsigned)type);
	args.vary_fitted = vary && !strcmp(vary, "fitted");
	if (strncmp(args.clock, "soc:", 4) || !args.clock[4])
		return cmd_misuse(&cmd_bench_price,
			"--clock '%s' is not soc:NAME; try soc:sd8gen3-lever",
			args.clock);
	if (args.vary_fitted && !args.from)
		return cmd_misuse(&cmd_bench_price,
			"--vary fitted needs recorded methods; try --from "
			"FILE");
	if (vary && !args.vary_fitted && price_vary_parse(vary, &args.vary, &e))
		return cmd_refuse(&cmd_bench_price, &e);
	status = list_numbers(&cmd_bench_price, "rows", rows, 1, PRICE_ROWS_MAX,
		args.rows, &args.n_rows, BENCH_PRICE_ROWS);
	if (status)
		return status;
	ret = bench_price(&args, &e);
	if (!ret)
		ret = cmd_flush(&e);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_bench_price = { &usage, run };
