/* tandem convert: packs a model file into a flash image, or changes the types
 * of its matrices. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/image.h"
#include "host/cmd/json_text.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/model/shape_type.h"
#include "host/shipped/shipped_models.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define JSON_VERSION 1
/* The report marks a tensor whose rounding error is more than WORSE times the
 * error that the tensor would have with conventional quantization groups of 32
 * values along a row. */
#define WORSE 1.05

static const char *const types[] = { "q4_0", "iq4_nl", "nf4", "fp4", "mxfp4",
	"q8_0", "f16", "keep", NULL };

static int layout = LAYOUT_DEFAULT, type = -1, down = -1;
static int64_t zstd;
static bool report, as_json, per_channel;

static const struct opt opts[] = {
	{ OPT_CHOICE, 0, "layout", &layout, NULL,
		"layout of the weights (tiles); rows: as in the model file; "
		"tiles: 32 by 32 weights each, values unchanged; groups, "
		"super: tiles quantized again",
		.choices = layout_names },
	{ OPT_CHOICE, 0, "type", &type, NULL,
		"type of the layers' matrices (keep: as in the model file); "
		"nf4 and fp4 only in flash images",
		.choices = types },
	{ OPT_CHOICE, 0, "down", &down, NULL,
		"type of the FFN down matrices (the same as --type, but q8_0 "
		"if --type has 4 bits)",
		.choices = types },
	{ OPT_FLAG, 0, "per-channel", &per_channel, NULL,
		"round the layers' matrices to 4 bits with one scale an "
		"output row, stored as f16; OUT ends in .gguf" },
	{ OPT_INT, 0, "zstd", &zstd, "LEVEL",
		"compress parts that shrink by 3 % or more (level 1-19)", 1,
		19 },
	{ OPT_FLAG, 0, "report", &report, NULL,
		"print the rounding error of each converted matrix" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print the report as one JSON object" },
};

static const struct opt_command usage = {
	.name = "tandem convert",
	.synopsis = "[--layout LAYOUT] [--type TYPE] [--down TYPE] "
		    "[--zstd LEVEL] [--report] [--json] IN.gguf OUT",
	.summary = "pack a model file into a flash image, or change its types",
	.details =
		"Writes a flash image: the layers in the device's layout, each "
		"contiguous and with a checksum. Other commands take an image "
		"wherever they take a model file; 'tandem inspect' shows one, "
		"'tandem verify' checks it.\n\n"
		"If OUT ends in .gguf, writes a model file in which only the "
		"types of the layers' matrices change (--type, --down). A "
		"flash image of the same types generates the same text.\n\n"
		"The report has the rounding error of each matrix as a share "
		"of the matrix's root mean square, and for groups and "
		"super-groups the ratio of this error to that of conventional "
		"groups (in one row) of as many bits.",
	.examples =
		"  tandem convert model.gguf model.tdm\n"
		"  tandem convert --layout super --report model.gguf model.tdm\n"
		"  tandem convert --type q4_0 model.gguf model-q4.gguf\n"
		"  tandem run -m model.tdm --dram-budget 40% 'Once upon a time'",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 2,
	.max_operands = 2,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int type_of(int choice)
{
	enum dtype t;

	return choice < 0 || dtype_parse(types[choice], &t) ? CONVERT_KEEP
							    : (int)t;
}

static int down_type(void)
{
	int t = type_of(down < 0 ? type : down);

	if (down < 0 && t != CONVERT_KEEP)
		return (int)shape_down_type((enum dtype)t);
	return t;
}

/* ---- the report ---------------------------------------------------------- */

static bool is_worse(const struct convert_tensor *t)
{
	return t->loss.is_grouped && t->loss.ratio > WORSE;
}

struct tally {
	size_t worse;
	/* number of tensors that would have no rounding error with conventional
	 * groups (32 values along a row) */
	size_t lossless;
	/* the tensor with the largest finite ratio of its rounding error to the
	 * error with conventional groups */
	const struct convert_tensor *most;
};

static struct tally tally_of(const struct conversion *c)
{
	struct tally tally = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		const struct convert_tensor *t = &c->tensor[i];

		tally.worse += is_worse(t);
		if (t->loss.is_grouped && isinf(t->loss.ratio))
			tally.lossless++;
		else if (t->loss.is_grouped &&
			(!tally.most || t->loss.ratio > tally.most->loss.ratio))
			tally.most = t;
	}
	return tally;
}

static json_t *report_json(const char *source, const char *path, uint64_t bytes,
	const struct convert_opts *how, const struct model *m,
	const struct conversion *done)
{
	struct tally tally = tally_of(done);
	json_t *tensors = json_array();

	for (size_t i = 0; i < done->n; i++) {
		const struct convert_tensor *t = &done->tensor[i];
		json_t *o;

		if (!t->of_device)
			continue;
		o = json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:o}", "name",
			json_text(t->tensor->name), "from",
			layout_type_name(t->tensor->type), "to",
			layout_type_name(t->type), "rows",
			(json_int_t)t->tensor->dim[1], "columns",
			(json_int_t)t->tensor->dim[0], "bytes",
			(json_int_t)(t->bytes * t->tensor->dim[2]), "error",
			json_finite(t->loss.error));
		if (t->loss.is_grouped) {
			put_real(o, "conventional_error", t->loss.conventional);
			put_real(o, "ratio", t->loss.ratio);
			json_object_set_new(
				o, "worse", json_boolean(is_worse(t)));
		}
		json_array_append_new(tensors, o);
	}
	return json_pack("{s:i, s:s, s:o, s:o, s:s?, s:I, s:I, s:I, s:I, s:o, "
			 "s:o}",
		"version", JSON_VERSION, "command", "convert", "source",
		json_ctext(source), "file", json_ctext(path), "layout",
		how->gguf ? NULL : layout_names[how->layout], "source_bytes",
		(json_int_t)gguf_file_bytes(m->gguf), "bytes",
		(json_int_t)bytes, "extents", (json_int_t)done->n_extents,
		"worse", (json_int_t)tally.worse, "largest_ratio",
		tally.most ? json_finite(tally.most->loss.ratio) : json_null(),
		"tensors", tensors);
}

/* ---- the command --------------------------------------------------------- */

static bool is_gguf(const char *path)
{
	static const char end[] = ".gguf";
	size_t n = strlen(path);

	return n >= strlen(end) && !strcmp(path + n - strlen(end), end);
}

static int convert_file(const char *source, const char *path, struct err *e)
{
	struct convert_opts o = {
		.gguf = is_gguf(path),
		.layout = layout == LAYOUT_DEFAULT ? LAYOUT_TILES
						   : (enum layout)layout,
		.type = per_channel ? DTYPE_F16 : type_of(type),
		.down = per_channel ? DTYPE_F16 : down_type(),
		.by_channel = per_channel,
		.zstd = (int)zstd,
		.measure = report || as_json,
		.cancel = &cmd_interrupted,
		.progress = cmd_progress,
	};
	struct conversion done = { 0 };
	struct stat from, to;
	struct model *m;
	int ret;

	if (image_probe(source))
		return err_set(e, EINVAL,
			"'%s' is already a flash image; convert its original "
			"model file instead",
			source);
	if (!stat(source, &from) && !stat(path, &to) &&
		from.st_dev == to.st_dev && from.st_ino == to.st_ino)
		return err_set(e, EINVAL,
			"'%s' would overwrite the model file; choose another "
			"name",
			path);
	ret = model_open(&m, source, NULL, NULL, e);
	if (ret)
		return ret;
	ret = convert(m, path, &o, &done, e);
	if (!ret && o.measure && stat(path, &to))
		ret = err_sys(e, errno, "cannot read '%s'", path);
	if (!ret && o.measure && !as_json) {
		struct tally tally = tally_of(&done);
		size_t matrices = 0;
		char name[48];

		printf("%-28s %-6s %-12s %9s %12s %7s\n", "matrix", "from",
			"to", "error", "conventional", "ratio");
		for (size_t i = 0; i < done.n; i++) {
			const struct convert_tensor *t = &done.tensor[i];

			if (!t->of_device)
				continue;
			matrices++;
			printf("%-28s %-6s %-12s %9.6f",
				gguf_show(t->tensor->name, name, sizeof(name)),
				layout_type_name(t->tensor->type),
				layout_type_name(t->type), t->loss.error);
			if (t->loss.is_grouped)
				printf(" %12.6f %7.3f", t->loss.conventional,
					t->loss.ratio);
			if (is_worse(t))
				printf("  worse than conventional groups");
			putchar('\n');
		}
		printf("\n%zu matrices\n", matrices);
		if (tally.most || tally.lossless)
			printf("%zu worse than conventional groups by more "
			       "than %.0f %%\n",
				tally.worse, (WORSE - 1) * 100);
		if (tally.most)
			printf("the largest ratio is %.3f (%s)\n",
				tally.most->loss.ratio,
				gguf_show(tally.most->tensor->name, name,
					sizeof(name)));
		if (tally.lossless)
			printf("%zu have ratio inf: the model file already has "
			       "conventional groups of as\n"
			       "many bits; convert a file with more bits\n",
				tally.lossless);
		printf("%s: ", path);
		if (!o.gguf)
			printf("%u extents, ", done.n_extents);
		printf("%.1f MiB; the model file has %.1f MiB\n",
			(double)to.st_size / 0x1p20,
			(double)gguf_file_bytes(m->gguf) / 0x1p20);
	} else if (!ret && o.measure &&
		json_print(report_json(source, path, (uint64_t)to.st_size, &o,
				   m, &done),
			0, stdout))
		ret = err_sys(e, errno, "cannot write the report as JSON");
	conversion_release(&done);
	model_close(m);
	return ret;
}

static int run(int argc, char **argv)
{
	char source[PATH_MAX];
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_convert, argc, argv, &operands, &status))
		return status;
	if (!strcmp(argv[2], "-"))
		return cmd_misuse(&cmd_convert,
			"standard output cannot be used: the output is written "
			"to a file under another name and renamed when "
			"complete");
	if (is_gguf(argv[2]) && (layout != LAYOUT_DEFAULT || zstd))
		return cmd_misuse(&cmd_convert,
			"%s is only for flash images, but '%s' ends in .gguf; "
			"omit the option, or choose a name with another ending",
			zstd ? "--zstd" : "--layout", argv[2]);
	if (per_channel && (!is_gguf(argv[2]) || type >= 0 || down >= 0))
		return cmd_misuse(&cmd_convert,
			"--per-channel writes a model file in f16; omit --type "
			"and --down, and choose a name that ends in .gguf");
	if (is_gguf(argv[2]) && !per_channel && type_of(type) == CONVERT_KEEP &&
		down_type() == CONVERT_KEEP)
		return cmd_misuse(&cmd_convert,
			"'%s' would be a copy of the model file; give --type, "
			"or choose a name with another ending for a flash "
			"image",
			argv[2]);
	for (int i = 0; i < 2; i++) {
		int t = i ? down_type() : type_of(type);

		if (is_gguf(argv[2]) && t != CONVERT_KEEP &&
			!dtype_in_gguf((uint32_t)t))
			return cmd_misuse(&cmd_convert,
				"GGUF files have no type %s; choose another "
				"type, such as iq4_nl or mxfp4, or, to write a "
				"flash image, an output name that does not end "
				"in .gguf",
				dtype_info((uint32_t)t)->name);
	}
	cmd_catch_endings();
	ret = models_choose(argv[1], MODEL_TARGET, source, &e);
	if (!ret)
		ret = convert_file(source, argv[2], &e);
	if (!ret)
		return EXIT_OK;
	status = cmd_fail(&e);
	return ret == -ECANCELED ? 128 + (int)cmd_interrupted : status;
}

const struct command cmd_convert = { &usage, run };
