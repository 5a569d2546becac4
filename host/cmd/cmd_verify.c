/* tandem verify: checks that a flash image is not damaged. */
#include "host/cmd/cmd.h"

#include "base/err.h"
#include "base/progress.h"
#include "flash/image.h"

#include <errno.h>
#include <stdio.h>

static const struct opt_command usage = {
	.name = "tandem verify",
	.synopsis = "IMAGE",
	.summary = "check a flash image for damage",
	.details =
		"Reads the whole image, compares the checksum of each extent, "
		"and lists damaged extents. The exit status is 1 if an extent "
		"is damaged.",
	.examples = "  tandem verify model.tdm",
	.min_operands = 1,
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "FILE" },
};

static int run(int argc, char **argv)
{
	struct image *im;
	struct progress p;
	struct err e = { 0 };
	size_t n, damaged = 0;
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_verify, argc, argv, &operands, &status))
		return status;
	if (image_open(&im, argv[1], &e))
		return cmd_fail(&e);
	n = image_n_extents(im);
	ret = 0;
	progress_begin(&p, "verifying", image_file_bytes(im));
	for (size_t i = 0; i < n && !ret; i++) {
		const struct image_extent *x = image_extent_at(im, i);

		progress_at(&p, x->offset);
		ret = image_check(im, x, &e);
		/* Count a damaged extent (a contiguous part of the image) and
		 * check the next extent. Any other error ends the check. */
		if (ret != -EBADMSG)
			continue;
		progress_end(&p);
		cmd_fail(&e);
		damaged++;
		ret = 0;
	}
	progress_end(&p);
	if (!ret && damaged)
		ret = err_set(&e, EBADMSG, "'%s': %zu of %zu extents damaged",
			argv[1], damaged, n);
	else if (!ret)
		printf("%s: %zu extents, %.1f MiB, all as written\n", argv[1],
			n, (double)image_file_bytes(im) / 0x1p20);
	image_close(im);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_verify = { &usage, run };
