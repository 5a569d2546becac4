/* tandem inspect: shows the contents of a model file, or the address window of
 * a running device process (the buffers that the emulated NPU has mapped). */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/process_maps.h"
#include "flash/image.h"
#include "host/cmd/inspect.h"
#include "host/cmd/inspect_window.h"
#include "host/cmd/json_text.h"
#include "host/doctor/window_look.h"
#include "host/model/packed.h"
#include "host/shipped/shipped_models.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static bool as_json, window;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL, "print one JSON object" },
	{ OPT_FLAG, 0, "window", &window, NULL,
		"show the address window of a running device; PID is the "
		"process id of the device or its host; it may be omitted if "
		"only one device runs" },
};

static const struct opt_command usage = {
	.name = "tandem inspect",
	.synopsis = "[--json] (FILE | --window [PID])",
	.summary = "show a model file, or the address window of a device",
	.details = "Checks a GGUF file and shows its contents: the model's "
		   "shape, its tokenizer and chat template, every key (long "
		   "values shortened) and every tensor with type, shape, bytes "
		   "and offset. Works with any well-formed GGUF file, also of "
		   "architectures that Tandem does not run. For a flash image "
		   "it shows the model, the extents and where the tensors are. "
		   "FILE may be the name of a bundled model.\n\n"
		   "With --window it draws which buffers a running device has "
		   "mapped, and where. The device publishes its mappings in a "
		   "memfd, so neither process is disturbed.",
	.examples = "  tandem inspect model.gguf\n"
		    "  tandem inspect target\n"
		    "  tandem inspect --window",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int print_json(const char *path, json_t *all, struct err *e)
{
	return json_print(all, 0, stdout)
		? err_sys(e, errno, "cannot write '%s' as JSON", path)
		: 0;
}

static int run(int argc, char **argv)
{
	struct packed *image = NULL;
	struct gguf *g = NULL;
	struct err e = { 0 };
	char path[PATH_MAX];
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_inspect, argc, argv, &operands, &status))
		return status;
	if (window) {
		const char *text = operands ? argv[1] : NULL;
		struct window_view view;
		pid_t device;
		char *end;
		long pid = text ? strtol(text, &end, 10) : 0;
		uint64_t huge;

		/* Show the address window of the device process with the
		 * process id `text`. If `text` is NULL, show the window of the
		 * only device process. */
		if (text && (pid <= 0 || pid > INT_MAX || *end))
			ret = err_set(
				&e, EINVAL, "'%s' is not a process id", text);
		else
			ret = window_look((pid_t)pid, &view, &device, &e);
		if (ret)
			return cmd_fail(&e);
		huge = process_huge_bytes(device);
		if (as_json)
			ret = print_json("the window",
				inspect_window_json(&view, device, huge), &e);
		else
			inspect_window_print(&view, device, huge, stdout);
		return ret ? cmd_fail(&e) : EXIT_OK;
	}
	if (!operands)
		return cmd_misuse(&cmd_inspect,
			"no file to inspect; give a model file, "
			"a flash image or the name of a bundled model");
	ret = models_choose(argv[1], MODEL_TARGET, path, &e);
	if (!ret)
		ret = image_probe(path) ? packed_open(&image, &g, path, &e)
					: gguf_open(&g, path, &e);
	if (!ret && as_json)
		ret = print_json(path,
			image ? inspect_image_json(path, image, g)
			      : inspect_json(path, g),
			&e);
	else if (!ret && image)
		inspect_image_print(path, image, g, stdout);
	else if (!ret)
		inspect_print(path, g, stdout);
	gguf_close(g);
	packed_close(image);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_inspect = { &usage, run };
