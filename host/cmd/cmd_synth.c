/* tandem synth: writes a model file with the shape of a real model and random
 * weights. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/convert/synth.h"
#include "host/convert/synth_grown.h"
#include "host/model/model_arch.h"
#include "host/model/model_keys.h"
#include "host/model/shape_type.h"
#include "host/model/shapes.h"
#include "host/shipped/shipped_models.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const quants[] = { "q4_0", "iq4_nl", "mxfp4", "q8_0", "f16",
	"bf16", "f32", NULL };

/* heads[i] is the name of value i + 1 of enum synth_head; value 0 has no name
 */
static const char *const heads[] = { "classes", "value", NULL };

static int like = -1, quant = -1, ffn_down = -1, head = -1;
static int64_t seed = -1;             /* -1 if not set */
static int64_t layers, experts, used; /* 0 if not set */
static const char *output, *from;

static const struct opt opts[] = {
	{ OPT_CHOICE, 0, "like", &like, "SHAPE",
		"shape of the model (with --grow: MODEL's); 'tandem help "
		"shapes' lists shapes",
		.choices = shape_names },
	{ OPT_CHOICE, 0, "quant", &quant, "TYPE",
		"type of the matrices (q4_0; with --grow: MODEL's); q4_0, "
		"iq4_nl, mxfp4, q8_0, f16, bf16 or f32",
		.choices = quants },
	{ OPT_CHOICE, 0, "ffn-down", &ffn_down, "TYPE",
		"type of the FFN down matrices (as --quant, but q8_0 in place "
		"of a --quant of 4 bits)",
		.choices = quants },
	{ OPT_CHOICE, 0, "head", &head, "KIND",
		"make a process reward model with this head; classes: as in "
		"Qwen2.5-Math-PRM; value: as in Skywork-o1-Open-PRM",
		.choices = heads },
	{ OPT_INT, 0, "layers", &layers, "N",
		"number of layers (as in the shape)", 1, MODEL_MAX_LAYERS },
	{ OPT_INT, 0, "experts", &experts, "N",
		"experts of each layer (as in the shape)", 2,
		WIRE_MAX_EXPERTS },
	{ OPT_INT, 0, "used", &used, "N",
		"experts for each token (as in the shape, else 4)", 1,
		WIRE_MAX_USED },
	{ OPT_STRING, 0, "grow", &from, "MODEL",
		"enlarge MODEL; its generated text stays the same" },
	{ OPT_INT, 0, "seed", &seed, "N", "seed of the random weights (1)", 0,
		0x1p53 },
	{ OPT_STRING, 'o', "output", &output, "FILE", "file to write" },
};

static const struct opt_command usage = {
	.name = "tandem synth",
	.synopsis = "[--like SHAPE] [--quant TYPE] [--seed N] [--layers N] "
		    "[--experts N] [--head KIND | --grow MODEL] -o FILE",
	.summary =
		"write a model file of a real model's shape, with synthetic weights",
	.details =
		"The file is a GGUF with the keys, tensors, vocabulary size "
		"and special tokens of the real model; other programs read it "
		"too. Anyone can make the same file from its seed, to compare "
		"speeds. Weights are random; generated text has no meaning.\n\n"
		"With --grow the new model generates the same text as the "
		"smaller MODEL, whose weights fill a corner of each matrix; "
		"other weights are zero. So drafts are accepted as often as "
		"with the small model, and a pass takes as long as with random "
		"weights. All experts are copies of the small model's "
		"feed-forward.\n\n"
		"'tiny' is a small llama (4 layers, width 128); 'tiny-moe' and "
		"'tiny-shared' have experts; 'tiny-llada' and 'tiny-dream' are "
		"masked and 'tiny-block' is a block diffusion model; rows of "
		"'tiny-dream' predict the next position.",
	.examples = "  tandem synth --like qwen2.5-1.5b --seed 2 -o 15b.gguf\n"
		    "  tandem synth --grow target --experts 16 -o moe.gguf\n"
		    "  tandem synth --like tiny --head value -o prm.gguf",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

static enum dtype type_of(int choice, enum dtype otherwise)
{
	enum dtype t = otherwise;

	if (choice >= 0)
		dtype_parse(quants[choice], &t);
	return t;
}

static int run(int argc, char **argv)
{
	struct synth_opts o = { .quant = DTYPE_Q4_0 };
	struct shape shape = { 0 };
	char path[PATH_MAX];
	struct grown grown;
	struct err e = { 0 };
	unsigned operands;
	int status, ret = 0;

	if (!cmd_parse(&cmd_synth, argc, argv, &operands, &status))
		return status;
	if (like < 0 && !from)
		return cmd_misuse(&cmd_synth,
			"no shape for the model: give one with --like SHAPE "
			"('tandem help shapes' lists shapes)");
	if (!output)
		return cmd_misuse(
			&cmd_synth, "no file to write: give one with -o FILE");
	if (!strcmp(output, "-"))
		return cmd_misuse(&cmd_synth,
			"-o needs a file: the model is written under another "
			"name and renamed when complete");
	if (from && seed >= 0)
		return cmd_misuse(&cmd_synth,
			"--seed cannot be used with --grow, which takes all "
			"weights from the smaller model");
	if (from && head >= 0)
		return cmd_misuse(&cmd_synth,
			"--head cannot be used with --grow: the smaller model "
			"has no head that scores");
	if (like >= 0)
		shape = shapes[like];
	else if (layers)
		return cmd_misuse(&cmd_synth, "--layers needs --like SHAPE");
	if (head >= 0 && !model_arch_named(shape.arch)->causal)
		return cmd_misuse(&cmd_synth,
			"--head makes a reward model, which must be causal, "
			"but --like %s is a diffusion model",
			shape.name);
	if (layers)
		shape.n_layer = (uint32_t)layers;
	if (experts && !from &&
		model_arch_named(shape.arch)->experts == EXPERTS_NEVER)
		return cmd_misuse(&cmd_synth,
			"--experts cannot be used with --like %s: models of "
			"this architecture have none",
			shape.name);
	if (experts) {
		shape.n_used = shape.n_expert ? shape.n_used : 4;
		shape.n_expert = (uint32_t)experts;
	}
	if (used)
		shape.n_used = (uint32_t)used;
	if (shape.n_used > shape.n_expert)
		return cmd_misuse(&cmd_synth,
			"a token cannot use %u of %u experts; give a smaller "
			"--used or a larger --experts",
			shape.n_used, shape.n_expert);

	o.shape = &shape;
	o.seed = seed < 0 ? 1 : (uint64_t)seed;
	o.progress = cmd_progress;
	o.head = (enum synth_head)(head + 1);
	if (from) {
		ret = models_choose(from, MODEL_TARGET, path, &e);
		if (!ret)
			ret = grown_open(&grown, path, &shape, &e);
		if (ret)
			return cmd_fail(&e);
		o.grown = &grown;
		o.quant = grown_type(&grown);
	}
	o.quant = type_of(quant, o.quant);
	o.ffn_down = type_of(ffn_down,
		from && quant < 0 ? o.quant : shape_down_type(o.quant));
	ret = synth_write(output, &o, &e);
	if (from)
		grown_close(&grown);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_synth = { &usage, run };
