/* tandem doctor: what this machine gives, and what that means. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/cmd/json_text.h"
#include "host/doctor/probe.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define JSON_VERSION 1
#define INDENT       24 /* columns before the text of a finding */
#define COLUMNS      80

struct tally {
	unsigned state[PROBE_STATE_COUNT];
	char lacks[128]; /* what is required and missing */
};

static bool as_json;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object instead of the report" },
};

static const struct opt_command usage = {
	.name = "tandem doctor",
	.synopsis = "[--json]",
	.summary = "check what this machine offers, and what could be improved",
	.details =
		"Tries what Tandem uses, or can use, of this machine: shared "
		"memory, io_uring, huge pages, CPU features, limits, "
		"tracing, the device program. Each finding explains what it "
		"means and, where something can be gained, the command to do "
		"so.\n\n"
		"State: ok; limited (works, but could do more); missing. "
		"Exits with 1 only when something is missing that 'tandem "
		"run' needs.",
	.examples = "  tandem doctor",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
};

/* Words of `text`, folded before column COLUMNS, each line indented. */
static void print_folded(const char *text, unsigned column)
{
	while (*text) {
		size_t n = strcspn(text, " ");

		if (column > INDENT && column + 1 + n > COLUMNS) {
			printf("\n%*s", INDENT, "");
			column = INDENT;
		} else if (column > INDENT) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)n, text);
		column += (unsigned)n;
		text += n + (text[n] == ' ');
	}
	putchar('\n');
}

static void print_finding(const struct probe *p, const struct finding *f)
{
	printf("%-8s %-15s", probe_state_name(f->state), p->name);
	print_folded(f->found, INDENT);
	printf("%*s", INDENT, "");
	print_folded(f->means, INDENT);
	/* Unfolded, to be copied. */
	if (*f->fix)
		printf("%*stry: %s\n", INDENT, "", f->fix);
}

static void add_finding(
	json_t *list, const struct probe *p, const struct finding *f)
{
	json_t *one = json_pack("{s:s, s:s, s:b, s:o, s:o, s:O}", "name",
		p->name, "state", probe_state_name(f->state), "required",
		p->required, "found", json_ctext(f->found), "means",
		json_ctext(f->means), "numbers", f->numbers);

	json_object_set_new(
		one, "try", *f->fix ? json_ctext(f->fix) : json_null());
	json_array_append_new(list, one);
}

/* Look at everything; `list` NULL: print each as it is found. */
static void look_at_all(json_t *list, struct tally *t)
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
		if (list)
			add_finding(list, p, &f);
		else
			print_finding(p, &f);
		finding_release(&f);
	}
}

static int report_json(struct tally *t, struct err *e)
{
	json_t *list = json_array(), *all;
	int ret;

	look_at_all(list, t);
	all = json_pack("{s:i, s:s, s:b, s:o}", "version", JSON_VERSION,
		"command", "doctor", "ok", !*t->lacks, "findings", list);
	ret = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
	if (ret)
		err_sys(e, errno, "cannot write the report");
	putchar('\n');
	json_decref(all);
	return ret;
}

static int run(int argc, char **argv)
{
	struct tally t = { 0 };
	unsigned operands;
	struct err e;
	int status;

	if (!cmd_parse(&cmd_doctor, argc, argv, &operands, &status))
		return status;
	if (as_json) {
		if (report_json(&t, &e))
			return cmd_fail(&e);
	} else {
		look_at_all(NULL, &t);
		printf("%u ok, %u limited, %u missing\n", t.state[PROBE_OK],
			t.state[PROBE_LIMITED], t.state[PROBE_MISSING]);
	}
	if (!*t.lacks)
		return EXIT_OK;
	err_set(&e, ENOENT, "'tandem run' cannot work here, it lacks: %s",
		t.lacks);
	return cmd_fail(&e);
}

const struct command cmd_doctor = { &usage, run };
