/* tandem doctor: checks this machine, and reports what the findings mean for
 * Tandem. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/user_file.h"
#include "base/version.h"
#include "host/cmd/json_text.h"
#include "host/doctor/probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define JSON_VERSION 1
#define INDENT       24 /* columns before the text of a finding */
#define COLUMNS      80

struct tally {
	unsigned state[PROBE_STATE_COUNT];
	char lacks[128]; /* names of the missing requirements */
};

static bool as_json;
static const char *report_path;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object instead of the findings" },
	{ OPT_STRING, 0, "report", &report_path, "FILE|-",
		"write a bug report to FILE: the last command that failed and "
		"its error, versions, machine, limits and the findings, "
		"without prompts and generated texts" },
};

static const struct opt_command usage = {
	.name = "tandem doctor",
	.synopsis = "[--json | --report FILE]",
	.summary = "check what this machine offers, and what could be improved",
	.details =
		"Tries the features of this machine that Tandem uses or can "
		"use: shared memory, io_uring, huge pages, CPU features, "
		"limits, tracing, the device program. Each finding explains "
		"what it means and, if it can be improved, has the command "
		"that does so.\n\n"
		"State: ok; limited (works, but could do more); missing. Exits "
		"with 1 only when something is missing that 'tandem run' "
		"needs.\n\n"
		"For --report, the error of the last command that failed is "
		"kept in tandem/last-error below $XDG_STATE_HOME "
		"(~/.local/state), readable by the user only. Of prompts on "
		"the command line only the length is kept.",
	.examples = "  tandem doctor\n"
		    "  tandem doctor --report report.txt",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* Print the words of `text` from column INDENT on, wrapped at COLUMNS columns.
 * Continuation lines are indented. */
static void print_folded(const char *text, FILE *f)
{
	unsigned column = INDENT;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column > INDENT && column + 1 + n > COLUMNS) {
			fprintf(f, "\n%*s", INDENT, "");
			column = INDENT;
		} else if (column > INDENT) {
			putc(' ', f);
			column++;
		}
		fprintf(f, "%.*s", (int)n, text);
		column += (unsigned)n;
		text += n + (text[n] == ' ');
	}
	putc('\n', f);
}

/* Run all probes, one after another. If `list` is NULL, print each finding to
 * `out` before the next probe runs; otherwise add it to `list`. */
static void look_at_all(json_t *list, FILE *out, struct tally *t)
{
	for (size_t i = 0; i < n_probes; i++) {
		const struct probe *p = &probes[i];
		struct finding f;

		probe_look(p, &f);
		t->state[f.state]++;
		if (p->required && f.state == PROBE_MISSING) {
			size_t n = strlen(t->lacks);

			snprintf(t->lacks + n, sizeof(t->lacks) - n, "%s%s",
				n ? ", " : "", p->name);
		}
		if (list) {
			json_t *one = json_pack(
				"{s:s, s:s, s:b, s:o, s:o, s:O}", "name",
				p->name, "state", probe_state_name(f.state),
				"required", p->required, "found",
				json_ctext(f.found), "means",
				json_ctext(f.means), "numbers", f.numbers);

			put_str(one, "try", *f.fix ? f.fix : NULL);
			json_array_append_new(list, one);
		} else {
			fprintf(out, "%-8s %-15s", probe_state_name(f.state),
				p->name);
			print_folded(f.found, out);
			fprintf(out, "%*s", INDENT, "");
			print_folded(f.means, out);
			/* Print the fix without wrapping, so that it can be
			 * copied. */
			if (*f.fix)
				fprintf(out, "%*stry: %s\n", INDENT, "", f.fix);
		}
		finding_release(&f);
	}
}

/* Print the lines of a file, or `none` if the file cannot be read or is
 * empty. */
static void print_file(const char *path, const char *none, FILE *out)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	bool any = false;

	while (f && fgets(line, sizeof(line), f)) {
		fputs(line, out);
		any = true;
	}
	if (f)
		fclose(f);
	if (!any)
		fprintf(out, "%s\n", none);
}

static int write_report(struct tally *t, struct err *e)
{
	bool standard = !strcmp(report_path, "-");
	FILE *f = standard ? stdout : fopen(report_path, "we");
	char path[PATH_MAX], when[32], line[256] = "";
	struct utsname u;
	struct stat st;
	struct tm utc;
	FILE *info;
	int failed;

	if (!f)
		return err_sys(e, errno, "cannot write '%s'", report_path);
	fputs("# Report of a fault in Tandem " TANDEM_VERSION
	      "\n\nWhat was tried, the result, and what was expected:\n\n(please "
	      "add)\n\n# The last command that failed\n\n",
		f);
	if (user_file(USER_STATE, CMD_LAST_ERROR, path) || stat(path, &st)) {
		fputs("none is known\n", f);
	} else {
		strftime(when, sizeof(when), "%F %T UTC",
			gmtime_r(&st.st_mtime, &utc));
		fprintf(f, "time     %s\n", when);
		print_file(path, "unreadable", f);
	}
	fputs("\n# Machine\n\n", f);
	if (!uname(&u))
		fprintf(f, "%s %s %s\n", u.sysname, u.release, u.machine);
	info = fopen("/proc/cpuinfo", "re");
	while (info && strncmp(line, "model name", 10) &&
		fgets(line, sizeof(line), info))
		;
	if (info)
		fclose(info);
	if (!strncmp(line, "model name", 10))
		fputs(line, f);
	for (char **v = environ; *v; v++)
		if (!strncmp(*v, "TANDEM_", 7))
			fprintf(f, "%s\n", *v);
	fputs("\n# Limits\n\n", f);
	print_file("/proc/self/limits", "unknown", f);
	fputs("\n# Findings of tandem doctor\n\n", f);
	look_at_all(NULL, f, t);
	failed = ferror(f);
	if (standard)
		return 0;
	if (fclose(f) || failed)
		return err_sys(e, errno ? errno : EIO, "cannot write '%s'",
			report_path);
	printf("wrote %s; read it before you share it\n", report_path);
	return 0;
}

static int run(int argc, char **argv)
{
	struct tally t = { 0 };
	unsigned operands;
	struct err e;
	int status;

	if (!cmd_parse(&cmd_doctor, argc, argv, &operands, &status))
		return status;
	if (as_json && report_path)
		return cmd_misuse(
			&cmd_doctor, "--json and --report exclude each other");
	if (report_path)
		return write_report(&t, &e) ? cmd_fail(&e) : EXIT_OK;
	if (as_json) {
		json_t *list = json_array();

		if (list)
			look_at_all(list, NULL, &t);
		if (json_print(json_pack("{s:i, s:s, s:b, s:o}", "version",
				       JSON_VERSION, "command", "doctor", "ok",
				       !*t.lacks, "findings", list),
			    0, stdout)) {
			err_sys(&e, errno, "cannot write the report");
			return cmd_fail(&e);
		}
	} else {
		look_at_all(NULL, stdout, &t);
		printf("%u ok, %u limited, %u missing\n", t.state[PROBE_OK],
			t.state[PROBE_LIMITED], t.state[PROBE_MISSING]);
	}
	if (!*t.lacks)
		return EXIT_OK;
	err_set(&e, ENOENT,
		"'tandem run' cannot work on this machine, which "
		"lacks: %s",
		t.lacks);
	return cmd_fail(&e);
}

const struct command cmd_doctor = { &usage, run };
