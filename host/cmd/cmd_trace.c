/* tandem trace: summarizes or draws a timeline that option --trace has
 * written. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "host/cmd/json_text.h"
#include "host/trace/draw.h"
#include "host/trace/trace_sum.h"

#include <errno.h>
#include <inttypes.h>
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
		"write the timeline to FILE as an HTML page that can be zoomed "
		"and scrolled" },
};
/* clang-format on */

static const struct opt_command usage = {
	.name = "tandem trace",
	.synopsis = "FILE [--json] [--svg FILE] [--html FILE]",
	.summary = "summarize or draw a timeline written by --trace",
	.details =
		"Shows the time by track, kind of work and operator, how long "
		"the device was idle, which work overlapped, and which "
		"requests took longest. If the trace contains the generation "
		"of text, the summary covers only the generation, and its "
		"counts equal those of --stats.\n\n"
		"https://ui.perfetto.dev shows the file itself "
		"(docs/trace.md).",
	.examples = "  tandem run -n 20 --trace a.pftrace 'Once upon a time'\n"
		    "  tandem trace a.pftrace\n"
		    "  tandem trace a.pftrace --html a.html",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
};

#define JSON_VERSION 1

static const char *const role_names[TIMELINE_ROLES] = {
	[TIMELINE_OTHER] = "other",
	[TIMELINE_THREAD] = "host",
	[TIMELINE_TEXTS] = "texts",
	[TIMELINE_REQUESTS] = "requests",
	[TIMELINE_FLASH] = "flash",
	[TIMELINE_DEVICE] = "device",
	[TIMELINE_DMA] = "DMA",
};

static double s_of(uint64_t ns)
{
	return (double)ns * 1e-9;
}

static double ms_of(uint64_t ns)
{
	return (double)ns * 1e-6;
}

static double phone_s(uint64_t ps)
{
	return (double)ps * 1e-12;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100 * (double)part / (double)whole : 0;
}

static double mean(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

/* ---- text ---------------------------------------------------------------- */

static void counts_text(const struct trace_sum *s, FILE *f)
{
	uint64_t requests = s->round_trips + s->unanswered;

	fprintf(f,
		"passes       %" PRIu64 ", %" PRIu64 " rows and %" PRIu64
		" of padding\n"
		"requests     %" PRIu64 ", on average %.3f ms from publish "
		"to completion; for %.3f ms of these the device works",
		s->passes, s->rows, s->padded_rows, requests,
		ms_of(1) * mean(s->round_trip_ns, requests),
		ms_of(1) * mean(s->busy_ns, requests));
	if (s->unanswered)
		fprintf(f, "; %" PRIu64 " were never answered", s->unanswered);
	fprintf(f,
		"\ndevice       busy %.3f s, %.1f MiB by DMA, %" PRIu64
		" lines invalidated, %" PRIu64 " cleaned, %" PRIu64
		" evicted, %" PRIu64 " violations\n",
		s_of(s->busy_ns), mib(s->dma_bytes), s->invalidated_lines,
		s->cleaned_lines, s->evicted_lines, s->violations);
	if (s->lost || s->restarts)
		fprintf(f,
			"restarts     %" PRIu64 " losses of the device, "
			"%" PRIu64 " restarts\n",
			s->lost, s->restarts);
	if (s->events_lost)
		fprintf(f,
			"lost         %" PRIu64 " events of the device, "
			"because its buffer was full\n",
			s->events_lost);
}

static void report_text(const char *path, const struct timeline *t,
	const struct trace_sum *s, FILE *f)
{
	fprintf(f, "trace        %s: %.3f s in %" PRIu64 " packets%s\n", path,
		s_of(t->end - t->begin), t->packets,
		t->cut_short ? ", cut short at its end" : "");
	if (s->texts)
		fprintf(f,
			"texts        %" PRIu64 ", %.6f s in all, prompts of "
			"%" PRIu64 " tokens; the lines below cover only "
			"these\n",
			s->texts, s_of(s->texts_ns), s->prompt_tokens);
	else
		fputs("texts        none; the lines below cover the whole "
		      "trace\n",
			f);
	if (s->rotated)
		fprintf(f,
			"rotated      %" PRIu64 " packets, the oldest, are "
			"no longer in this file (--trace-limit)\n",
			s->rotated);
	if (s->queued)
		fprintf(f,
			"queued       %" PRIu64 " requests waited, %.3f ms "
			"each on average\n",
			s->queued, mean(s->queued_ns, s->queued) * 1e-6);
	counts_text(s, f);
	/* Print the time by track and kind of work. An event's time does not
	 * include the time of the events nested in it. */
	fprintf(f, "\n%-10s %-10s %9s %12s %10s %8s\n", "track", "kind",
		"times", "seconds", "ms each", "time %");
	for (unsigned r = 0; r < TIMELINE_ROLES; r++)
		for (unsigned k = 0; k < TRACE_KINDS; k++) {
			const struct trace_work *w = &s->work[r][k];

			if (!w->n || !role_names[r])
				continue;
			fprintf(f,
				"%-10s %-10s %9" PRIu64
				" %12.6f %10.4f %8.1f\n",
				role_names[r], trace_kinds[k], w->n,
				s_of(w->ns), mean(w->ns, w->n) * 1e-6,
				percent(w->ns, s->texts_ns));
		}
	if (s->n_operators)
		fprintf(f, "\n%-21s %9s %12s %10s %8s %10s\n", "operator",
			"times", "seconds", "ms each", "time %", "DMA MiB");
	for (unsigned i = 0; i < s->n_operators; i++) {
		const struct trace_operator *o = &s->operator[i];

		fprintf(f, "%-21s %9" PRIu64 " %12.6f %10.4f %8.1f %10.1f\n",
			o->name, o->n, s_of(o->ns), mean(o->ns, o->n) * 1e-6,
			percent(o->ns, s->texts_ns), mib(o->dma_bytes));
	}
	fprintf(f,
		"\nbubbles      %" PRIu64 " times the device had nothing to "
		"do, %.6f s in all (%.1f %%), %.3f ms at most\n"
		"overlap      the host worked during %.6f s of the %.6f s "
		"that the device worked (%.1f %%)\n",
		s->bubbles, s_of(s->bubble_ns),
		percent(s->bubble_ns, s->texts_ns), ms_of(s->longest_bubble_ns),
		s_of(s->host_beside_ns), s_of(s->device_ns),
		percent(s->host_beside_ns, s->device_ns));
	if (s->flash_reads)
		fprintf(f,
			"             the device worked during %.6f s of the "
			"%.6f s that flash was read (%.1f %%); %" PRIu64
			" reads, %.1f MiB in all\n",
			s_of(s->flash_beside_ns), s_of(s->flash_ns),
			percent(s->flash_beside_ns, s->flash_ns),
			s->flash_reads, mib(s->flash_bytes));
	for (unsigned i = 0; i < s->n_longest; i++) {
		const struct timeline_slice *x = &t->slice[s->longest[i]];

		fprintf(f,
			"%-12s %.3f ms, for %.3f ms of these the device "
			"works: %s, request %" PRIu64 ", at %.6f s\n",
			i ? "" : "longest", ms_of(x->end - x->begin),
			ms_of(timeline_arg(t, x, "busy_ns")), t->text[x->name],
			timeline_arg(t, x, "seq"), s_of(x->begin - t->begin));
	}
	if (s->phone.there) {
		fprintf(f,
			"phone        %.4f s in all: the CPU worked %.4f s and "
			"waited %.4f s; NPU %.4f s (%.1f %%)",
			phone_s(s->phone.total_ps), phone_s(s->phone.cpu_ps),
			phone_s(s->phone.wait_ps), phone_s(s->phone.npu_ps),
			percent(s->phone.npu_ps, s->phone.total_ps));
		if (s->phone.read_ps)
			fprintf(f, ", flash %.4f s (%.1f %%)",
				phone_s(s->phone.read_ps),
				percent(s->phone.read_ps, s->phone.total_ps));
		if (s->phone.loader_ps)
			fprintf(f, ", loader %.4f s",
				phone_s(s->phone.loader_ps));
		if (s->phone.copy_ps)
			fprintf(f, ", copies %.4f s",
				phone_s(s->phone.copy_ps));
		fprintf(f,
			"\n             the CPU's time for logits %.4f s, "
			"for drafting %.4f s\n",
			phone_s(s->phone.kind_ps[TRACE_KIND_LOGITS]),
			phone_s(s->phone.kind_ps[TRACE_KIND_DRAFT]));
	}
}

/* ---- JSON ---------------------------------------------------------------- */

struct number {
	const char *key;
	uint64_t value;
};

static void put_numbers(json_t *o, const struct number *n, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_u64(o, n[i].key, n[i].value);
}

static json_t *report_json(
	const char *path, const struct timeline *t, const struct trace_sum *s)
{
	const struct number n[] = { { "packets", t->packets },
		{ "slices", t->n_slice }, { "unfinished", t->unfinished },
		{ "total_ns", t->end - t->begin },
#define NUMBER(type, name) { #name, s->name },
		TRACE_SUMS(NUMBER)
#undef NUMBER
	};
	const struct trace_phone *p = &s->phone;
	const struct number times[] = {
		{ "total_ps", p->total_ps }, { "cpu_busy_ps", p->cpu_ps },
		{ "cpu_wait_ps", p->wait_ps }, { "npu_busy_ps", p->npu_ps },
		{ "loader_busy_ps", p->loader_ps },
		{ "flash_busy_ps", p->read_ps }, { "copy_busy_ps", p->copy_ps },
#define NUMBER(type, name) { #name, p->price.name },
		PRICE_TIMES(NUMBER)
#undef NUMBER
	};
	json_t *o = json_object(), *work = json_array(),
	       *operators = json_array(), *longest = json_array(), *phone;

	put_u64(o, "version", JSON_VERSION);
	put_str(o, "command", "trace");
	put_str(o, "file", path);
	put_numbers(o, n, ARRAY_LEN(n));
	json_object_set_new(o, "cut_short", json_boolean(t->cut_short));
	for (unsigned r = 0; r < TIMELINE_ROLES; r++)
		for (unsigned k = 0; k < TRACE_KINDS; k++) {
			const struct trace_work *w = &s->work[r][k];

			if (!w->n || !role_names[r])
				continue;
			json_array_append_new(work,
				json_pack("{s:s, s:s, s:I, s:I}", "track",
					role_names[r], "kind", trace_kinds[k],
					"times", (json_int_t)w->n, "ns",
					(json_int_t)w->ns));
		}
	json_object_set_new(o, "work", work);
	for (unsigned i = 0; i < s->n_operators; i++) {
		const struct trace_operator *x = &s->operator[i];

		json_array_append_new(operators,
			json_pack("{s:o, s:I, s:I, s:I}", "operator",
				json_ctext(x->name), "times", (json_int_t)x->n,
				"ns", (json_int_t)x->ns, "dma_bytes",
				(json_int_t)x->dma_bytes));
	}
	json_object_set_new(o, "operators", operators);
	for (unsigned i = 0; i < s->n_longest; i++) {
		const struct timeline_slice *x = &t->slice[s->longest[i]];

		json_array_append_new(longest,
			json_pack("{s:o, s:I, s:I, s:I, s:I}", "request",
				json_ctext(t->text[x->name]), "seq",
				(json_int_t)timeline_arg(t, x, "seq"), "at_ns",
				(json_int_t)(x->begin - t->begin), "ns",
				(json_int_t)(x->end - x->begin), "busy_ns",
				(json_int_t)timeline_arg(t, x, "busy_ns")));
	}
	json_object_set_new(o, "longest", longest);
	phone = p->there ? json_object() : json_null();
	if (p->there)
		put_numbers(phone, times, ARRAY_LEN(times));
	json_object_set_new(o, "phone", phone);
	return o;
}

/* ---- the command --------------------------------------------------------- */

/* Write the output of draw() to a file, which appears only if it is complete.
 * Returns 0 or a negative errno. */
static int draw_to(const char *path, const struct timeline *t,
	int (*draw)(const struct timeline *, FILE *, struct err *),
	struct err *e)
{
	struct newfile n;
	int ret = newfile_open(&n, path, NEWFILE_PUBLIC, e), fd;
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

static int trace_main(int argc, char **argv)
{
	struct trace_sum sum;
	struct timeline t;
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_trace, argc, argv, &operands, &status))
		return status;
	if (!operands)
		return cmd_misuse(&cmd_trace,
			"no trace: give the FILE that option --trace has "
			"written");
	ret = timeline_read_file(&t, argv[1], &e);
	if (ret)
		return cmd_fail(&e);
	if (svg_path)
		ret = draw_to(svg_path, &t, draw_svg, &e);
	if (!ret && html_path)
		ret = draw_to(html_path, &t, draw_page, &e);
	if (!ret && (as_json || (!svg_path && !html_path))) {
		ret = trace_sum(&sum, &t, &e);
		if (!ret && !as_json)
			report_text(argv[1], &t, &sum, stdout);
		else if (!ret &&
			json_print(report_json(argv[1], &t, &sum), 0, stdout))
			ret = err_sys(&e, errno, "cannot write the report");
	}
	timeline_release(&t);
	return ret ? cmd_fail(&e) : EXIT_OK;
}

const struct command cmd_trace = { .usage = &usage, .run = trace_main };
