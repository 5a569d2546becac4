/* tandem convert: a model file packed for flash. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "flash/image.h"
#include "host/cmd/convert_report.h"
#include "host/convert/convert.h"
#include "host/model/model.h"
#include "host/shipped/shipped_models.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const types[] = { "q4_0", "q8_0", "f16", "keep", NULL };

static int layout = LAYOUT_TILES, type = -1, down = -1;
static int64_t zstd;
static bool report, as_json;

static const struct opt opts[] = {
	{ OPT_CHOICE, 0, "layout", &layout, NULL,
		"layout of the weights (tiles); rows: as in the model file; "
		"tiles: the matrix engine's tiles, exact; groups, super: "
		"requantized to tile groups or super-groups",
		.choices = layout_names },
	{ OPT_CHOICE, 0, "type", &type, NULL,
		"type of the layers' matrices (keep: as in the model file)",
		.choices = types },
	{ OPT_CHOICE, 0, "down", &down, NULL,
		"type of the feed-forward output matrices (that of --type)",
		.choices = types },
	{ OPT_INT, 0, "zstd", &zstd, "LEVEL",
		"compress each extent that becomes at least 3 % smaller; "
		"LEVEL is 1 to 19",
		1, 19 },
	{ OPT_FLAG, 0, "report", &report, NULL,
		"print the error of each matrix relative to the model file" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print the report as one JSON object" },
};

static const struct opt_command usage = {
	.name = "tandem convert",
	.synopsis = "[--layout LAYOUT] [--type TYPE] [--down TYPE] "
		    "[--zstd LEVEL] [--report] [--json] IN.gguf OUT.tdm",
	.summary = "pack a model file into a flash image",
	.details = "Writes a flash image: the layers in the layout that the "
		   "device uses, each one contiguous read with a checksum. "
		   "Other commands take an image wherever they take a model "
		   "file; 'tandem inspect' shows one, 'tandem verify' checks "
		   "it.\n\n"
		   "The report has each matrix's error as a share of its root "
		   "mean square, and for groups and super-groups how that "
		   "compares with conventional groups of the same number of "
		   "bits.",
	.examples =
		"  tandem convert model.gguf model.tdm\n"
		"  tandem convert --layout super --report model.gguf model.tdm\n"
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

static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev &&
		x.st_ino == y.st_ino;
}

static int tell(const char *source, const char *path, const struct model *m,
	const struct conversion *done, struct err *e)
{
	struct convert_report r = { .source = source,
		.path = path,
		.layout = layout_names[layout],
		.source_bytes = gguf_file_bytes(m->gguf),
		.done = done };
	struct image *image;
	json_t *all;
	int ret = image_open(&image, path, e);

	if (ret)
		return ret;
	r.image = image;
	if (as_json) {
		all = convert_json(&r);
		if (!all || json_dumpf(all, stdout, JSON_COMPACT))
			ret = err_sys(
				e, errno, "cannot write the report as JSON");
		else
			putchar('\n');
		json_decref(all);
	} else {
		convert_print(&r, stdout);
	}
	image_close(image);
	return ret;
}

static int convert_file(const char *source, const char *path, struct err *e)
{
	struct convert_opts o = {
		.layout = (enum layout)layout,
		.type = type_of(type),
		.down = type_of(down < 0 ? type : down),
		.zstd = (int)zstd,
		.measure = report || as_json,
		.cancel = &cmd_interrupted,
		.progress = cmd_progress,
	};
	struct conversion done = { 0 };
	struct model *m;
	int ret;

	if (image_probe(source))
		return err_set(e, EINVAL,
			"'%s' is a flash image already; convert the model "
			"file it was made from",
			source);
	if (is_same_file(source, path))
		return err_set(e, EINVAL,
			"'%s' would take the place of the model file; name "
			"another",
			path);
	ret = model_open(&m, source, e);
	if (ret)
		return ret;
	ret = convert(m, path, &o, &done, e);
	if (!ret && o.measure)
		ret = tell(source, path, m, &done, e);
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
			"an image is written under another name and renamed "
			"when it is whole: it cannot go to standard output");
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
