/* tandem trace: what a timeline that --trace wrote says. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/cmd/trace_report.h"
#include "host/trace/trace_sum.h"

#include <errno.h>
#include <stdio.h>

static bool as_json;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object, times in nanoseconds and, of the "
		"phone, picoseconds" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem trace",
	.synopsis = "FILE [--json]",
	.summary = "sum up a timeline",
	.details =
		"Sums up a timeline that --trace FILE of tandem run and of "
		"others has written: where the time went by track and kind of "
		"work, when the device had nothing to do, what went on beside "
		"what, and which requests took longest. Where texts were "
		"written it is of these, and counts are those of --stats.\n\n"
		"  tandem run -n 20 --trace a.pftrace 'Once upon a time'\n"
		"  tandem trace a.pftrace\n\n"
		"https://ui.perfetto.dev shows the file itself "
		"(docs/trace.md).",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
};

static int report(const char *path, const struct timeline *t, struct err *e)
{
	struct trace_sum sum;
	int ret = trace_sum(&sum, t, e);

	if (ret)
		return ret;
	if (!as_json) {
		trace_report_text(path, t, &sum, stdout);
		return 0;
	}
	ret = trace_report_json(path, t, &sum, stdout);
	return ret ? err_sys(e, -ret, "cannot write the report") : 0;
}

static int trace_main(int argc, char **argv)
{
	struct timeline t;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_trace, argc, argv, &operands, &status))
		return status;
	if (!operands)
		return cmd_misuse(&cmd_trace, "which FILE?");
	ret = timeline_read_file(&t, argv[1], &e);
	if (ret)
		return cmd_fail(&e);
	ret = report(argv[1], &t, &e);
	timeline_release(&t);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_trace = { .usage = &usage, .run = trace_main };
