/* tandem trace: what a timeline that --trace wrote says. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "host/cmd/trace_report.h"
#include "host/trace/draw.h"
#include "host/trace/trace_sum.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static bool as_json;
static const char *svg_path, *html_path;

/* clang-format off */
static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object; times in nanoseconds, phone times in "
		"picoseconds" },
	{ OPT_STRING, 0, "svg", &svg_path, "FILE",
		"draw the timeline to FILE" },
	{ OPT_STRING, 0, "html", &html_path, "FILE",
		"write the timeline to FILE as a page to zoom and scroll in" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem trace",
	.synopsis = "FILE [--json] [--svg FILE] [--html FILE]",
	.summary = "summarize or draw a timeline written by --trace",
	.details = "Shows where the time went, by track and kind of work; when "
		   "the device was idle, what overlapped, and which requests "
		   "took longest. Where text was generated, it covers that "
		   "part, and its counts are those of --stats.\n\n"
		   "https://ui.perfetto.dev shows the file itself "
		   "(docs/trace.md).",
	.examples = "  tandem run -n 20 --trace a.pftrace 'Once upon a time'\n"
		    "  tandem trace a.pftrace\n"
		    "  tandem trace a.pftrace --html a.html",
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

/* To a file that is there whole or not at all. */
static int draw_to(const char *path, const struct timeline *t,
	int (*draw)(const struct timeline *, FILE *, struct err *),
	struct err *e)
{
	struct newfile n;
	int ret = newfile_open(&n, path, e), fd;
	FILE *f;

	if (ret)
		return ret;
	fd = dup(n.fd);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		ret = err_sys(e, errno, "cannot write '%s'", path);
		fd_close(&fd);
		goto out;
	}
	ret = draw(t, f, e);
	if (fflush(f) || ferror(f))
		ret = ret ? ret
			  : err_sys(e, errno ? errno : EIO, "cannot write '%s'",
				    path);
	fclose(f);
	if (!ret)
		ret = newfile_commit(&n, e);
out:
	newfile_close(&n);
	return ret;
}

static int draw_page(const struct timeline *t, FILE *f, struct err *e)
{
	draw_html(t, f);
	return 0;
}

static int show(const char *path, const struct timeline *t, struct err *e)
{
	int ret = 0;

	if (!svg_path && !html_path)
		return report(path, t, e);
	if (svg_path)
		ret = draw_to(svg_path, t, draw_svg, e);
	if (!ret && html_path)
		ret = draw_to(html_path, t, draw_page, e);
	return !ret && as_json ? report(path, t, e) : ret;
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
	ret = show(argv[1], &t, &e);
	timeline_release(&t);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_trace = { .usage = &usage, .run = trace_main };
