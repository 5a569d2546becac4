/*
 * The program tandem-stress, which compares random schedules with a model.
 * tests/stress/stress.h declares the areas and the engine; this file has the
 * options and the output.
 */
#include "tests/stress/stress.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "base/opt.h"
#include "base/version.h"
#include "tensor/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JSON_VERSION 1
/* largest size of the file of a schedule, in bytes */
#define PLAN_MAX     ((size_t)1 << 20)
#define COLUMNS      80
#define TEXT_OF(x)   #x
#define NUMBER(x)    TEXT_OF(x)
#define TRIES        NUMBER(STRESS_SHRINK_TRIES)
#define SECONDS      NUMBER(STRESS_SHRINK_SECONDS)
#define SECONDS_HUNG NUMBER(STRESS_SHRINK_HUNG_SECONDS)

enum exit_status {
	EXIT_OK,
	EXIT_FAIL,
	EXIT_MISUSE,
	EXIT_LOST,
	EXIT_INTERRUPTED = 128 + SIGINT,
};

static double minutes;
static int64_t runs, seed = -1;
static const char *replay, *out_folder = ".";
static bool as_json, plant, version, man_page;

static const struct opt opts[] = {
	{ OPT_FLOAT, 0, "minutes", &minutes, "M",
		"total time in minutes, divided equally among the areas (1 "
		"without --runs)",
		0, 100000 },
	{ OPT_INT, 0, "runs", &runs, "N", "schedules for each area", 1,
		(double)(1ll << 53) },
	{ OPT_INT, 0, "seed", &seed, "S",
		"seed of the random schedules (chosen at random)", 0,
		(double)(1ll << 53) },
	{ OPT_STRING, 0, "replay", &replay, "FILE",
		"run only the schedule in FILE" },
	{ OPT_STRING, 0, "out", &out_folder, "DIR",
		"folder for schedules that failed (.)" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object for each area" },
	{ OPT_FLAG, 'v', "version", &version, NULL, "print the version" },
	{ OPT_FLAG, 0, "man", &man_page, NULL, "print the manual page" },
	{ .type = OPT_FLAG,
		.name = "plant",
		.value = &plant,
		.help = "insert a bug that the tests must find",
		.hidden = true },
};

static const char *const areas[] = { "va", "coherence", "faults", "flash",
	"ring", "all", NULL };

static const struct opt_command usage = {
	.name = "tandem-stress",
	.synopsis = "(AREA | all | --replay FILE) [OPTIONS]",
	.summary = "test with random schedules against simple models",
	.details =
		"AREA is one of\n"
		"\n"
		"  va         the address window, its slots and guards, late "
		"releases, the\n"
		"             extended region, and decoding in small windows\n"
		"  coherence  the device's cache and its checker, with missing "
		"cache\n"
		"             maintenance, and decoding under --coherence "
		"check\n"
		"  ring       the ring and its doorbells, with a peer that "
		"misbehaves\n"
		"  faults     decoding under random fault plans, and resources "
		"that leak\n"
		"  flash      extents streamed from flash, with failing reads "
		"and torn files\n"
		"\n"
		"Each area draws schedules from the seed, runs them on the "
		"real code in a process of its own, and compares the results "
		"with a simple model. A seed gives the same schedules on every "
		"machine. The first schedule that fails is reduced: steps are "
		"removed and numbers lowered while it still fails, with at "
		"most " TRIES " tries that begin within " SECONDS
		" s (" SECONDS_HUNG
		" s if it hangs). The reduced schedule is printed and "
		"written to a file, with the command that runs it "
		"again.\n\n"
		"Exit status: 0 when all passed, 1 when something failed, "
		"130 after Ctrl-C when nothing had failed. docs/stress.md "
		"describes the models and the file.",
	.examples = "  tandem-stress all --minutes 10\n"
		    "  tandem-stress va --seed 7 --runs 1000\n"
		    "  tandem-stress --replay stress-va-7.txt",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "AREA", .choices = areas },
};

/* ---- while it runs ------------------------------------------------------- */

static bool drawn;

static void wipe(void)
{
	if (drawn)
		fputs("\r\033[K", stderr);
	drawn = false;
}

static void add_tally(struct strbuf *text, const struct stress_area *a,
	const struct stress_result *r)
{
	for (size_t i = 0; a->tally[i]; i++)
		strbuf_addf(text, "%s%" PRIu64 " %s", i ? ", " : "",
			r->tally[i], a->tally[i]);
}

static void draw(
	void *arg, const struct stress_area *a, const struct stress_result *r)
{
	struct strbuf text = STRBUF_INIT;

	if (!isatty(STDERR_FILENO))
		return;
	wipe();
	strbuf_addf(&text, "%s: ", a->verbs.area);
	if (r->broken)
		strbuf_addf(&text,
			"run %" PRIu64 " failed and is being reduced", r->run);
	else
		strbuf_addf(&text, "%" PRIu64 " runs in %.0f s: ", r->runs,
			r->seconds);
	if (!r->broken)
		add_tally(&text, a, r);
	/* Print at most one terminal line, because a longer text could not be
	 * erased. */
	if (!text.failed)
		fprintf(stderr, "%.*s", COLUMNS - 1, text.data);
	strbuf_release(&text);
	fflush(stderr);
	drawn = true;
}

/* ---- results ------------------------------------------------------------- */

/* Print a text as an argument for the shell, in quotation marks if necessary.
 */
static void print_quoted(FILE *f, const char *text)
{
	if (!text[strspn(text,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST"
		    "UVWXYZ0123456789_-./+,:")]) {
		fputs(text, f);
		return;
	}
	putc('\'', f);
	for (; *text; text++)
		*text == '\'' ? fputs("'\\''", f) : putc(*text, f);
	putc('\'', f);
}

static int print_plan(const struct stress_area *a,
	const struct stress_result *r, struct strbuf *text, struct err *e)
{
	struct strbuf plan = STRBUF_INIT;
	char *steps;

	stress_print(&a->verbs, &r->schedule, &plan);
	steps = plan.failed ? NULL : strchr(plan.data, '\n') + 1;
	if (steps && !replay)
		strbuf_addf(text,
			"%.*s# seed %" PRId64 ", run %" PRIu64 ": %" PRIu32
			" steps, reduced to %" PRIu32 "\n# %s\n%s",
			(int)(steps - plan.data), plan.data, seed, r->run,
			r->steps, r->schedule.n, r->what.text, steps);
	else if (steps)
		strbuf_addf(text, "%.*s# %s\n%s", (int)(steps - plan.data),
			plan.data, r->what.text, steps);
	text->failed |= plan.failed;
	strbuf_release(&plan);
	return text->failed ? err_set(e, ENOMEM, "no memory for the schedule")
			    : 0;
}

static int write_plan(
	const char *path, const struct strbuf *text, struct err *e)
{
	struct newfile f = { .fd = -1 };
	int ret = newfile_open(&f, path, NEWFILE_PUBLIC, e);

	if (!ret && fd_write_all(f.fd, text->data, text->len))
		ret = err_sys(e, errno, "cannot write '%s'", path);
	if (!ret)
		ret = newfile_commit(&f, e);
	newfile_close(&f);
	return ret;
}

static void say_broken(const struct stress_area *a,
	const struct stress_result *r, const char *path)
{
	fprintf(stderr, "tandem-stress: %s: %s\n", a->verbs.area, r->what.text);
	if (!r->again)
		fputs("tandem-stress: the schedule does not fail when it runs alone: "
		      "the failure depends on timing, or on earlier schedules\n",
			stderr);
	else if (!r->smallest)
		fputs("tandem-stress: the reduction ended at its limit, so a smaller "
		      "schedule may exist\n",
			stderr);
	if (!*path)
		return;
	fputs("tandem-stress: the schedule is in ", stderr);
	print_quoted(stderr, path);
	fputs("; to run it again: tandem-stress --replay ", stderr);
	print_quoted(stderr, path);
	fputs(plant ? " --plant\n" : "\n", stderr);
}

static void plan_path(const struct stress_area *a,
	const struct stress_result *r, char path[PATH_MAX])
{
	const char *slash =
		out_folder[strlen(out_folder) - 1] == '/' ? "" : "/";

	if (replay)
		snprintf(path, PATH_MAX, "%s%sstress-%s-replayed.plan",
			out_folder, slash, a->verbs.area);
	else
		snprintf(path, PATH_MAX,
			"%s%sstress-%s-%" PRId64 "-%" PRIu64 ".plan",
			out_folder, slash, a->verbs.area, seed, r->run);
}

/* Make a JSON string from a path. Bytes that are not UTF-8 are escaped. */
static json_t *json_path(const char *path)
{
	json_t *whole = json_string(path);
	char shown[PATH_MAX];

	return whole
		? whole
		: json_string(gguf_show((struct gguf_str){ path, strlen(path) },
			  shown, sizeof(shown)));
}

static int report_json(const struct stress_area *a,
	const struct stress_result *r, const char *path,
	const struct strbuf *plan, struct err *e)
{
	json_t *all = json_pack("{s:i, s:s, s:s, s:o, s:I, s:f, s:b, s:b}",
		"version", JSON_VERSION, "command", "stress", "area",
		a->verbs.area, "seed",
		replay ? json_null() : json_integer(seed), "runs",
		(json_int_t)r->runs, "seconds", r->seconds, "held", !r->broken,
		"interrupted", r->stopped);
	json_t *tally = json_object();
	int ret = 0;

	for (size_t i = 0; a->tally[i]; i++)
		ret |= json_object_set_new(tally, a->tally[i],
			json_integer((json_int_t)r->tally[i]));
	ret |= json_object_set_new(all, "tally", tally);
	if (r->broken)
		ret |= json_object_set_new(all, "failure",
			json_pack("{s:I, s:s, s:b, s:b, s:i, s:i, s:s, s:o}",
				"run", (json_int_t)r->run, "what", r->what.text,
				"again", r->again, "smallest", r->smallest,
				"drawn_steps", (int)r->steps, "steps",
				(int)r->schedule.n, "plan", plan->data, "file",
				*path ? json_path(path) : json_null()));
	if (!ret)
		ret = json_dumpf(all, stdout, JSON_COMPACT);
	json_decref(all);
	if (ret)
		return err_sys(e, errno, "cannot write the result as JSON");
	putchar('\n');
	return 0;
}

static int report_line(const struct stress_area *a,
	const struct stress_result *r, const struct strbuf *plan, struct err *e)
{
	struct strbuf text = STRBUF_INIT;
	int ret = 0;

	strbuf_addf(
		&text, "%-10s %" PRIu64 " runs of ", a->verbs.area, r->runs);
	if (replay)
		strbuf_addf(&text, "the schedule");
	else
		strbuf_addf(&text, "seed %" PRId64, seed);
	strbuf_addf(&text, " in %.1f s, %s: ", r->seconds,
		r->broken            ? "1 failed"
			: r->stopped ? "all passed until the interruption"
				     : "all passed");
	add_tally(&text, a, r);
	if (text.failed)
		ret = err_set(e, ENOMEM, "no memory for the result");
	else
		printf("%s\n%s", text.data, r->broken ? plan->data : "");
	strbuf_release(&text);
	fflush(stdout);
	return ret;
}

/* Report the result. `given` is the schedule of --replay, or NULL. */
static int report(const struct stress_area *a, const struct stress_result *r,
	const struct stress_schedule *given, struct err *e)
{
	struct strbuf plan = STRBUF_INIT;
	char path[PATH_MAX] = "";
	int ret = 0;

	if (r->broken)
		ret = print_plan(a, r, &plan, e);
	/* If the schedule of --replay is already minimal, it need not be saved
	 * again. */
	if (r->broken &&
		(!given || r->schedule.n != given->n ||
			memcmp(r->schedule.step, given->step,
				given->n * sizeof(given->step[0]))))
		plan_path(a, r, path);
	if (!ret && as_json)
		ret = report_json(a, r, path, &plan, e);
	else if (!ret)
		ret = report_line(a, r, &plan, e);
	/* If the file cannot be written, the schedule has been printed anyway.
	 */
	if (!ret && *path)
		ret = write_plan(path, &plan, e);
	if (!ret && r->broken)
		say_broken(a, r, path);
	strbuf_release(&plan);
	return ret;
}

/* ---- the program --------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	interrupted = sig;
}

/* The first Ctrl-C ends the schedules, the second ends the program. Ignore
 * SIGPIPE, so that a write to a closed standard output fails instead of ending
 * the program. */
static void catch_signals(void)
{
	const struct sigaction once = { .sa_handler = on_interrupt,
		.sa_flags = SA_RESTART | SA_RESETHAND };

	sigaction(SIGINT, &once, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int fail(const struct err *e)
{
	fflush(stdout);
	fprintf(stderr, "tandem-stress: %s\n", e->text);
	return e->code == -ERR_DEVICE_LOST ? EXIT_LOST : EXIT_FAIL;
}

static int misuse(const char *text)
{
	fprintf(stderr, "tandem-stress: %s\ntry 'tandem-stress --help'\n",
		text);
	return EXIT_MISUSE;
}

static int run_area(const struct stress_area *a, struct stress_opts *o,
	bool *broken, struct err *e)
{
	static struct stress_result r;
	struct err unsaid;
	int ret = stress(a, o, &r, e), said = 0;

	wipe();
	*broken |= r.broken;
	/* After a failure of the machine, report the results of the runs before
	 * the failure. */
	if (!ret || r.runs)
		said = report(a, &r, o->replay, &unsaid);
	if (ret)
		return err_in(e, "%s", a->verbs.area);
	if (said)
		*e = unsaid;
	return said;
}

static unsigned n_areas(void)
{
	unsigned n = 0;

	while (stress_areas[n])
		n++;
	return n;
}

static int run_areas(
	const struct stress_area *only, struct stress_opts *o, struct err *e)
{
	bool broken = false;
	int ret = 0;

	o->seconds = minutes * 60 / (only ? 1 : n_areas());
	for (size_t i = 0; stress_areas[i] && !ret && !interrupted; i++)
		if (!only || only == stress_areas[i])
			ret = run_area(stress_areas[i], o, &broken, e);
	if (ret)
		return fail(e);
	if (broken)
		return EXIT_FAIL;
	return interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}

/* Read the area and the schedule of --replay. */
static int read_plan(
	const struct stress_area **a, struct stress_schedule *s, struct err *e)
{
	char area[STRESS_AREA_NAME], *text;
	size_t len;
	int ret = fd_read_file(replay, PLAN_MAX, &text, &len, e);

	if (ret)
		return ret;
	ret = stress_text_area(text, area, e);
	if (!ret) {
		*a = stress_area_named(area);
		ret = *a ? stress_parse(s, &(*a)->verbs, text, e)
			 : err_set(e, EINVAL, "unknown area '%s'", area);
	}
	free(text);
	return ret ? err_in(e, "'%s'", replay) : 0;
}

/* Run the program. `operand` is the argument AREA or NULL. */
static int run(const char *operand)
{
	static struct stress_schedule given;
	const struct stress_area *area = NULL; /* NULL means all areas */
	struct stress_opts o = { .cancel = &interrupted, .report = draw };
	struct err e = { 0 };

	if (!operand && !replay)
		return misuse("no AREA; give the name of an area, or all");
	if (replay && (operand || minutes > 0 || runs || seed >= 0))
		return misuse(
			"--replay takes the area and the schedule from its "
			"file; omit AREA, --minutes, --runs and --seed");
	if (!*out_folder)
		return misuse("--out is empty");
	if (operand && strcmp(operand, "all")) {
		area = stress_area_named(operand);
		if (!area) {
			err_set(&e, EINVAL,
				"unknown area '%s'; choose from va, coherence, "
				"ring, faults, flash and all",
				operand);
			return misuse(e.text);
		}
	}
	if (replay && read_plan(&area, &given, &e))
		return e.code == -EINVAL ? misuse(e.text) : fail(&e);
	if (seed < 0)
		seed = time(NULL);
	if (!(minutes > 0) && !runs)
		minutes = 1;
	catch_signals();
	o.seed = (uint64_t)seed;
	o.runs = (uint64_t)runs;
	o.plant = plant;
	o.replay = replay ? &given : NULL;
	return run_areas(area, &o, &e);
}

static int dispatch(int argc, char **argv)
{
	struct err e = { 0 };
	unsigned operands;
	int ret = opt_parse(&usage, argc, argv, &operands, &e);

	if (ret < 0)
		return misuse(e.text);
	if (ret > 0)
		return EXIT_OK;
	if (man_page) {
		opt_man(&usage, stdout);
		puts(".SH SEE ALSO\n.BR tandem (1),\n.BR tandem\\-npu (1)");
		return EXIT_OK;
	}
	if (version) {
		puts("tandem-stress " TANDEM_VERSION);
		return EXIT_OK;
	}
	return run(operands ? argv[1] : NULL);
}

int main(int argc, char **argv)
{
	struct err e = { 0 };
	int status;

	fd_keep_standard();
	/* A write beyond the file size limit (ulimit -f) fails instead of
	 * ending the program. */
	signal(SIGXFSZ, SIG_IGN);
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && status == EXIT_OK) {
		err_sys(&e, errno ? errno : EIO,
			"cannot write to standard output");
		status = fail(&e);
	}
	return status;
}
