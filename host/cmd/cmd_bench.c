/* tandem bench: several benchmarks, each of which measures the cost of one part
 * of Tandem on this machine. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/workers.h"
#include "host/api/options.h"
#include "host/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bench_args args = { .rounds = 7, .prompt = 800 };

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &args.json, NULL,
		"print one JSON object instead of the table" },
	{ OPT_UINT, 0, "rounds", &args.rounds, "N",
		"rounds of measurement; medians are printed (7)", 1, 1000 },
	{ OPT_STRING, 'm', "model", &args.model, "FILE",
		"decode and texts: model to measure (target)"},
	{ OPT_UINT, 't', "threads", &args.threads, "N",
		"compute threads (0: one for each CPU)", 0, WORKERS_MAX },
	{ OPT_UINT, 0, "beside", &args.beside, "N",
		"decode: also measure with N other busy threads (0)",
		0, 64 },
	{ OPT_STRING, 0, "shapes", &args.shapes, "LIST",
		"kernels: shapes of models, or all (qwen2.5-1.5b)",
		.words = bench_shape_word },
	{ OPT_STRING, 0, "samples", &args.samples, "LIST",
		"decode: numbers of samples in a pass (1,8,16); texts: number "
		"of samples of each request"},
	{ OPT_UINT, 0, "prompt", &args.prompt, "N",
		"decode --samples, texts: prompt length in tokens "
		"(800)", 1, 1 << 20 },
	{ OPT_STRING, 0, "texts", &args.texts, "LIST",
		"texts: numbers of concurrent requests (1,4,16,32)" },
	{ OPT_STRING, 0, "task", &args.task, "TASK",
		"texts: task whose prompts are used (random prompts)" },
	{ OPT_STRING, 0, "method", &args.method, "NAME",
		"texts: decoding method (autoregressive)" },
	{ OPT_STRING, 0, "draft", &args.draft, "DRAFT",
		"texts: drafter, as --draft of 'tandem run'" },
	{ OPT_STRING, 0, "clock", &args.clock, "soc:NAME",
		"phone for which times are also computed (soc:sd8gen3)",
		.choices = clock_names + 1 },
	{ OPT_STRING, 0, "trace", &args.trace, "FILE",
		"decode and texts: write a timeline to FILE"},
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench",
	.synopsis =
		"(ipc | decode | texts | ...) [--json] [--rounds N] [OPTIONS]",
	.summary = "measure speed and compare methods",
	.details =
		"  ipc        round trips between processes, and the machine's "
		"own limits\n"
		"  decode     times of a prompt and of passes of 1 to 16 rows; "
		"machine limits\n"
		"  texts      several requests in shared passes\n"
		"  kernels    the matrices of a layer at 1 to 256 rows, and "
		"softmax\n"
		"  lever      drafting methods with layers streamed from flash "
		"*\n"
		"  methods    methods and sets of options, on your own prompts "
		"*\n"
		"  sdnpu      retrieval speculation, drafter by drafter *\n"
		"  diffusion  decoders of diffusion models *\n"
		"  tts        accuracy against cost by the number of samples "
		"*\n"
		"  price      time of a pass on a phone, computed without a run "
		"*\n"
		"  serve      servers under load, also of other programs *\n\n"
		"* has its own options and --help. Compare only figures of the "
		"same run.",
	.examples =
		"  tandem bench decode -m model.gguf\n"
		"  tandem bench texts --method chain --task math --texts 1,8\n"
		"  tandem bench lever --clock soc:sd8gen3 --items 4",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand =
		&(const struct opt){
			.arg = "ipc|decode|texts|kernels|lever|"
			       "methods|sdnpu|diffusion|tts|price|serve" },
};

/* ---- the command --------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(const struct bench_args *, struct err *);
} benches[] = {
	{ "ipc", bench_ipc_main },
	{ "decode", bench_decode_main },
	{ "texts", bench_texts_main },
	{ "kernels", bench_kernels_main },
};

/* Benchmarks that have options of their own. */
static const struct command *const own[] = { &cmd_bench_lever,
	&cmd_bench_methods, &cmd_bench_sdnpu, &cmd_bench_diffusion,
	&cmd_bench_tts, &cmd_bench_price, &cmd_bench_serve, NULL };

static int bench_main(int argc, char **argv)
{
	const struct command *one =
		argc > 1 ? command_find(own, argv[1]) : NULL;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (one)
		return one->run(argc - 1, argv + 1);
	if (!cmd_parse(&cmd_bench, argc, argv, &operands, &status))
		return status;
	if (!args.threads)
		args.threads = workers_online();
	args.progress = cmd_progress;
	for (size_t i = 0; i < ARRAY_LEN(benches); i++) {
		if (strcmp(benches[i].name, argv[1]))
			continue;
		ret = benches[i].run(&args, &e);
		if (!ret)
			ret = cmd_flush(&e);
		return ret ? cmd_fail(&e) : EXIT_OK;
	}
	if (command_find(own, argv[1]))
		return cmd_misuse(&cmd_bench,
			"options of '%s' must come after its name", argv[1]);
	return cmd_misuse(&cmd_bench, "there is no benchmark '%s'", argv[1]);
}

const struct command cmd_bench = { &usage, bench_main, own };
