/* tandem bench price: a pass of a streamed model priced, without running one.
 */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_price.h"
#include "host/cmd/bench_lists.h"
#include "host/model/shapes.h"
#include "host/session/session.h"

#include <string.h>

static const char *phone = "soc:sd8gen3-lever", *rows = "1,9,17,33,65", *from;
static int target = -1, draft = -1, type;
static double budget, length = -1, drafted = -1, upper = -1;
static int64_t slots = 3, seen = 200, runs = 6;
static bool vary, as_json;

static const char *const types[] = { "q4_0", "q8_0", "f16", NULL };

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 0, "clock", &phone, "soc:NAME",
		"the phone (soc:sd8gen3-lever): sd8gen2, sd8gen3, sd8gen3-lever, "
		"sd8elite or a file", .choices = clock_names + 1 },
	{ OPT_CHOICE, 0, "as", &target, "SHAPE",
		"the model that is streamed (llama3.1-8b)",
		.choices = shape_names },
	{ OPT_CHOICE, 0, "draft-as", &draft, "SHAPE",
		"the draft model, on the CPU and node by node (drafting is "
		"free)", .choices = shape_names },
	{ OPT_CHOICE, 0, "as-type", &type, NULL,
		"the type of their matrices", .choices = types },
	{ OPT_STRING, 0, "rows", &rows, "LIST",
		"rows of passes, the text's last token among them "
		"(1,9,17,33,65)" },
	{ OPT_FLOAT, 0, "upper-rows", &upper, "N",
		"of these, rows in the upper half of the layers (all)", 1,
		PRICE_ROWS_MAX },
	{ OPT_FLOAT, 0, "drafted", &drafted, "N",
		"nodes that the draft looks behind (one fewer than rows)", 0,
		PRICE_ROWS_MAX },
	{ OPT_FLOAT, 0, "length", &length, "N",
		"tokens that come of a pass, and rows of logits (1)", 0.01,
		PRICE_ROWS_MAX },
	{ OPT_STRING, 0, "from", &from, "FILE",
		"in place of these: the mean passes of all methods, from what "
		"'tandem bench lever --json' printed" },
	{ OPT_FLAG, 0, "vary", &vary, NULL,
		"with --from: what lever's ratios to the others become when "
		"each constant that a phone was fitted by is 30 % less or "
		"more" },
	{ OPT_FLOAT, 0, "dram-budget", &budget, "PERCENT",
		"share of the layers in memory (0)", 0, 100 },
	{ OPT_INT, 0, "stage-slots", &slots, "N",
		"layers that may be read ahead (3)", 2, 16 },
	{ OPT_INT, 0, "resident-runs", &runs, "N",
		"runs that those in memory lie in, among the others (6; 1: the "
		"first layers are in memory)", 1, SESSION_RESIDENT_RUNS },
	{ OPT_INT, 0, "seen", &seen, "N",
		"positions that a row sees (200)", 1, 1 << 20 },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"one JSON object instead of the table" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench price",
	.synopsis = "[--clock soc:NAME] [--as SHAPE] [--rows LIST | --from "
		    "FILE] [OPTIONS]",
	.summary = "what a pass costs on a phone",
	.details =
		"A pass of a streamed model on a phone, term by term: reading "
		"from flash, computing on the NPU, drafting and logits on the "
		"CPU, and what of these is hidden behind others. Nothing "
		"runs: shapes, the phone's numbers and the sizes of trees say "
		"it all.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 0,
};

static const struct shape *shape_at(int i, const struct shape *otherwise)
{
	return i < 0 ? otherwise : &shapes[i];
}

static const struct shape *named(const char *name)
{
	for (unsigned i = 0; i < SHAPES; i++)
		if (!strcmp(shapes[i].name, name))
			return &shapes[i];
	return NULL;
}

static int check_clock(void)
{
	if (!strncmp(phone, "soc:", 4) && phone[4])
		return EXIT_OK;
	return cmd_misuse(&cmd_bench_price,
		"--clock '%s' is not soc:NAME; try soc:sd8gen3-lever", phone);
}

static int run(int argc, char **argv)
{
	struct bench_price_args a = { 0 };
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_bench_price, argc, argv, &operands, &status))
		return status;
	a = (struct bench_price_args){ .clock = phone,
		.target = shape_at(target, named("llama3.1-8b")),
		.draft = shape_at(draft, NULL),
		.resident = budget / 100,
		.runs = (uint32_t)runs,
		.slots = (uint32_t)slots,
		.seen = (uint32_t)seen,
		.upper = upper,
		.drafted = drafted,
		.length = length,
		.from = from,
		.vary = vary,
		.json = as_json };
	dtype_parse(types[type], &a.type);
	status = check_clock();
	if (!status && vary && !from)
		status = cmd_misuse(&cmd_bench_price,
			"--vary compares recorded methods; try --from FILE");
	if (!status)
		status = list_numbers(&cmd_bench_price, "rows", rows, 1,
			PRICE_ROWS_MAX, a.rows, &a.n_rows, BENCH_PRICE_ROWS);
	if (status)
		return status;
	ret = bench_price(&a, &e);
	if (!ret)
		ret = cmd_flush(&e);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_bench_price = { &usage, run };
