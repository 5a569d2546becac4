/* tandem bench: what things cost on this machine, one table a benchmark. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/workers.h"
#include "host/api/options.h"
#include "host/bench/bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool as_json;
static int64_t rounds = 7, threads, beside, prompt = 800;
static const char *model, *shapes, *phone, *samples, *texts, *trace;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"one JSON object instead of the table" },
	{ OPT_INT, 0, "rounds", &rounds, "N",
		"batches of each thing measured (7), in alternation", 1, 1000 },
	{ OPT_STRING, 'm', "model", &model, "FILE",
		"the model of decode: a GGUF file or an image (the one that "
		"comes with the program); see tandem synth for large ones" },
	{ OPT_INT, 't', "threads", &threads, "N",
		"threads that compute (0: one a processor)", 0, WORKERS_MAX },
	{ OPT_INT, 0, "beside", &beside, "N",
		"decode also while N threads beside it want the processors (0)",
		0, 64 },
	{ OPT_STRING, 0, "shapes", &shapes, "LIST",
		"the models of kernels, by their sizes: some of qwen2.5-0.5b, "
		"qwen2.5-1.5b (the default), qwen2.5-3b, llama3.2-1b, "
		"llama3.2-3b and tiny with commas between them, or all",
		.words = bench_shape_word },
	{ OPT_STRING, 0, "samples", &samples, "LIST",
		"decode with rows of so many samples of one prompt: numbers "
		"with commas between them, 1,8,16,32; the prompt's keys and "
		"values read once, and for each in turn" },
	{ OPT_INT, 0, "prompt", &prompt, "N",
		"tokens of that prompt, or of each text's (800)", 1, 1 << 20 },
	{ OPT_STRING, 0, "texts", &texts, "LIST",
		"so many texts at a time, as samples are listed (1,4,16,32)" },
	{ OPT_STRING, 0, "clock", &phone, "soc:NAME",
		"the phone of kernels, samples and texts (soc:sd8gen3)", .choices = clock_names + 1 },
	{ OPT_STRING, 0, "trace", &trace, "FILE",
		"write a timeline of decode or texts to FILE (docs/trace.md)" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem bench",
	.synopsis =
		"(ipc | decode | texts | kernels | lever | methods) [--json] "
		"[--rounds N] "
		"[-m MODEL]",
	.summary = "what things cost on this machine",
	.details =
		"Benchmarks:\n"
		"\n"
		"  ipc     round trips between two processes, pinned to two "
		"processors: the\n"
		"          machine's own limits, and an empty request to the "
		"device process\n"
		"          through each doorbell\n"
		"  decode  tokens/s of the pair with a model: a prompt of 512 "
		"tokens, then\n"
		"          passes of 1 to 16 rows, all with logits; beside them "
		"the same kernels\n"
		"          in one process, and the memory bandwidth and integer "
		"peak they can\n"
		"          reach; with --samples, passes of many samples of one "
		"prompt\n"
		"  texts   tokens/s of many texts at a time, each of a prompt of "
		"its own, in\n"
		"          passes that they share: wall clock and phone\n"
		"  kernels the matrices of a layer at 1 to 256 rows, each matrix "
		"in each\n"
		"          layout, and softmax: wall clock, and what they would "
		"take on a\n"
		"          phone; fewer rounds where a model's would take more "
		"than a minute\n"
		"  lever   decoding of a model that is streamed from flash, by "
		"all methods that\n"
		"          draft; 'tandem bench lever --help' tells its own "
		"options\n"
		"  methods methods and sets of options compared on prompts of "
		"yours; see\n"
		"          'tandem bench methods --help'\n"
		"  sdnpu   retrieval speculation, drafter by drafter; see "
		"'tandem bench sdnpu\n"
		"          --help'\n"
		"  diffusion\n"
		"          decoders of diffusion models; see 'tandem bench "
		"diffusion --help'\n"
		"  tts     accuracy against cost by the number of samples; see "
		"'tandem bench\n"
		"          tts --help'\n"
		"  price   a pass of a streamed model on a phone, term by term, "
		"without running\n"
		"          one; see 'tandem bench price --help'\n"
		"\n"
		"Wall clock where no phone is named. Everything is measured in "
		"alternating batches of one run, so compare figures of one "
		"run.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(
		const struct opt){ .arg = "ipc|decode|texts|kernels|lever|"
					  "methods|sdnpu|diffusion|tts|price" },
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

/* Those with options of their own. */
static const struct command *const own[] = { &cmd_bench_lever,
	&cmd_bench_methods, &cmd_bench_sdnpu, &cmd_bench_diffusion,
	&cmd_bench_tts, &cmd_bench_price, NULL };

static int bench_main(int argc, char **argv)
{
	const struct command *one =
		argc > 1 ? command_find(own, argv[1]) : NULL;
	struct err e = { 0 };
	unsigned operands;
	struct bench_args args;
	int status, ret;

	if (one)
		return one->run(argc - 1, argv + 1);
	if (!cmd_parse(&cmd_bench, argc, argv, &operands, &status))
		return status;
	args = (struct bench_args){ .json = as_json,
		.rounds = (unsigned)rounds,
		.threads = threads ? (unsigned)threads : workers_online(),
		.beside = (unsigned)beside,
		.model = model,
		.shapes = shapes,
		.clock = phone,
		.samples = samples,
		.texts = texts,
		.prompt = (unsigned)prompt,
		.trace = trace,
		.progress = cmd_progress };
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
			"the options of %s stand behind its name", argv[1]);
	return cmd_misuse(&cmd_bench, "there is no benchmark '%s'", argv[1]);
}

const struct command cmd_bench = { &usage, bench_main, own };
