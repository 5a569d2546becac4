/* tandem bench diffusion: parses the options of the benchmark, of the decoding
 * methods, and of the host and device processes. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/api/options.h"
#include "host/bench/bench_diffusion.h"
#include "host/bench/run_options.h"
#include "host/cmd/bench_line.h"
#include "host/eval/eval_tasks.h"

static struct bench_line line = { .items = 2, .predict = ASKED_PREDICT };
static const char *tasks = "short";
static const char *tables = "all";
static const char *windows = "3584", *slots = "4,16";

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_STRING, 'm', "model", &line.model, "FILE",
		"masked diffusion model: a GGUF file or a flash image (the "
		"bundled one); block diffusion and plain decoding always use "
		"bundled models" },
	{ OPT_STRING, 0, "tables", &tables, "LIST",
		"tables to make (all); some of decoders, blocks, curve (of "
		"thresholds), ablation, sensitivity, phones, window (address "
		"windows), exact (outputs that must be equal)" },
	BENCH_TASKS(tasks),
	{ OPT_INT, 0, "items", &line.items, "N",
		"items of each task (2)", 1, 1000 },
	BENCH_PREDICT(line),
	{ OPT_STRING, 0, "windows", &windows, "LIST",
		"sizes of the address window for the table window, in MiB "
		"(3584)" },
	{ OPT_STRING, 0, "slots", &slots, "LIST",
		"limits on the number of mapped buffers for the table window "
		"(4,16)" },
	BENCH_RUN(line),
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench diffusion",
	.synopsis = "[-m MODEL] [--tables LIST] [--tasks LIST] "
		    "[--clock soc:NAME] [OPTIONS]",
	.summary = "compare decoders of diffusion models",
	.details =
		"Measures decoders of masked and block diffusion, each at its "
		"usual settings and at several thresholds: accuracy, tokens "
		"per pass, and the share of computed rows that were needed. "
		"Also measures the gain by each technique of llada-npu, as in "
		"llada.cpp's paper, the sensitivity of llada-npu to its "
		"settings, the cost of small address windows, and, for "
		"comparison, plain and drafted decoding of the bundled target. "
		"Outputs that must be equal are compared: those of all "
		"lossless decoders of a model, and those of all placements of "
		"its buffers.\n\n"
		"With --clock soc:sd8elite all figures are computed for that "
		"phone and always the same; otherwise they are measured on "
		"this machine. With --as llada-8b phone times are those of a "
		"model of that shape.",
	.examples =
		"  tandem bench diffusion --clock soc:sd8elite\n"
		"  tandem bench diffusion --tables ablation --as llada-8b --clock soc:sd8elite\n"
		"  tandem bench diffusion --tables curve --tasks math",
	.common = "model tables tasks items predict windows slots rounds shard "
		  "threads clock as json csv plot",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static int run(int argc, char **argv)
{
	const struct command *c = &cmd_bench_diffusion;
	struct bench_diffusion_args a = { 0 };
	struct err e = { 0 };
	int status;

	if (!bench_line_parse(
		    c, &line, argc, argv, "the tables of --tables", &status) ||
		(status = bench_line_check_decoder(c, &line, "llada-npu")) ||
		(status = list_tables(c, tables, diffusion_table_names,
			 DIFFUSION_TABLES, a.table)) ||
		(status = list_tasks(c, tasks, a.run.task, &a.run.n_tasks)) ||
		(status = list_numbers(c, "windows", windows, 16, 1 << 20,
			 a.window, &a.n_windows, TABLE_LEVELS)) ||
		(status = list_numbers(c, "slots", slots, 3, 256, a.slots,
			 &a.n_slots, TABLE_LEVELS)))
		return status;
	bench_line_take(&line, &a.run);
	return bench_line_end(bench_diffusion(&a, &e), &e);
}

const struct command cmd_bench_diffusion = { &usage, run };
