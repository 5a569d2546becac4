/* tandem stress: random schedules against a model of what must hold. */
#include "host/cmd/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/newfile.h"
#include "host/cmd/json_text.h"
#include "host/stress/stress.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define JSON_VERSION 1
#define PLAN_MAX     ((size_t)1 << 20) /* bytes of a file of one */
#define COLUMNS      80
#define TEXT_OF(x)   #x
#define NUMBER(x)    TEXT_OF(x)
#define TRIES        NUMBER(STRESS_SHRINK_TRIES)
#define SECONDS      NUMBER(STRESS_SHRINK_SECONDS)
#define SECONDS_HUNG NUMBER(STRESS_SHRINK_HUNG_SECONDS)

static double minutes;
static int64_t runs, seed = -1;
static const char *replay, *out_folder = ".";
static bool as_json, plant;

static const struct opt opts[] = {
	{ OPT_FLOAT, 0, "minutes", &minutes, "M",
		"time in all, the same for each area (1 without --runs)", 0,
		100000 },
	{ OPT_INT, 0, "runs", &runs, "N", "schedules for each area", 1,
		(double)(1ll << 53) },
	{ OPT_INT, 0, "seed", &seed, "S", "seed of the schedules (random)", 0,
		(double)(1ll << 53) },
	{ OPT_STRING, 0, "replay", &replay, "FILE",
		"run the one schedule in FILE" },
	{ OPT_STRING, 0, "out", &out_folder, "DIR",
		"folder for schedules that failed (.)" },
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"print one JSON object for each area" },
	{ .type = OPT_FLAG,
		.name = "plant",
		.value = &plant,
		.help = "plant a failure that must be found",
		.hidden = true },
};

static const char *const areas[] = { "va", "coherence", "faults", "flash",
	"ring", "all", NULL };

static const struct opt_command usage = {
	.name = "tandem stress",
	.synopsis = "(AREA | all | --replay FILE) [OPTIONS]",
	.summary = "test with random schedules against simple models",
	.details =
		"AREA is one of\n\n"
		"  va         the address window, its slots and guards, late releases, the\n"
		"             extended region, and decoding in small windows\n"
		"  coherence  the device's cache and its checker, with missing cache\n"
		"             maintenance, and decoding under --coherence check\n"
		"  ring       the ring and its doorbells, with a peer that misbehaves\n"
		"  faults     decoding under random fault plans, and what they leave behind\n"
		"  flash      extents streamed from flash, with failing reads and torn files\n\n"
		"Each area draws schedules from the seed, runs them on the "
		"real code in a process of its own, and compares the results "
		"with a simple model. One seed gives the same schedules on "
		"every machine. The first schedule that fails is made "
		"smaller: steps are removed and numbers lowered while it "
		"still fails, with at most " TRIES
		" tries that begin within " SECONDS " s (" SECONDS_HUNG
		" s where it hangs). What is left "
		"is printed and written to a file, with the command that "
		"runs it again.\n\n"
		"Exit status: 0 when all passed, 1 when something failed, "
		"130 after Ctrl-C when nothing had failed. docs/stress.md "
		"describes the models and the file.",
	.examples = "  tandem stress all --minutes 10\n"
		    "  tandem stress va --seed 7 --runs 1000\n"
		    "  tandem stress --replay stress-va-7.txt",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.max_operands = 1,
	.operand = &(const struct opt){ .arg = "AREA", .choices = areas },
};

/* ---- while it runs ----------------------------------------------------------
 */

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
	strbuf_addf(&text, "stress %s: ", a->verbs.area);
	if (r->broken)
		strbuf_addf(&text, "run %" PRIu64 " failed, and is made small",
			r->run);
	else
		strbuf_addf(&text, "%" PRIu64 " runs in %.0f s: ", r->runs,
			r->seconds);
	if (!r->broken)
		add_tally(&text, a, r);
	/* What is longer than a line would stay there. */
	if (!text.failed)
		fprintf(stderr, "%.*s", COLUMNS - 1, text.data);
	strbuf_release(&text);
	fflush(stderr);
	drawn = true;
}

/* ---- what came of it --------------------------------------------------------
 */

/* The shell's quotes, where it needs them. */
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
			" steps, made small: %" PRIu32 "\n# %s\n%s",
			(int)(steps - plan.data), plan.data, seed, r->run,
			r->steps, r->schedule.n, r->what.text, steps);
	else if (steps)
		strbuf_addf(text, "%.*s# %s\n%s", (int)(steps - plan.data),
			plan.data, r->what.text, steps);
	text->failed |= plan.failed;
	strbuf_release(&plan);
	return text->failed ? err_set(e, ENOMEM, "no memory for the plan") : 0;
}

static int write_plan(
	const char *path, const struct strbuf *text, struct err *e)
{
	struct newfile f = { .fd = -1 };
	int ret = newfile_open(&f, path, e);

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
	fprintf(stderr, "tandem: stress %s: %s\n", a->verbs.area, r->what.text);
	if (!r->again)
		fputs("tandem: alone the same schedule does not fail: it is a "
		      "matter of time, or of what ran before it\n",
			stderr);
	else if (!r->smallest)
		fputs("tandem: it might be made smaller still: the time for "
		      "that is over\n",
			stderr);
	if (!*path)
		return;
	fputs("tandem: the plan is in ", stderr);
	print_quoted(stderr, path);
	fputs("; again: tandem stress --replay ", stderr);
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
	int ret;

	for (size_t i = 0; a->tally[i]; i++)
		json_object_set_new(tally, a->tally[i],
			json_integer((json_int_t)r->tally[i]));
	json_object_set_new(all, "tally", tally);
	if (r->broken)
		json_object_set_new(all, "failure",
			json_pack("{s:I, s:s, s:b, s:b, s:i, s:i, s:s, s:o}",
				"run", (json_int_t)r->run, "what", r->what.text,
				"again", r->again, "smallest", r->smallest,
				"drawn_steps", (int)r->steps, "steps",
				(int)r->schedule.n, "plan", plan->data, "file",
				*path ? json_ctext(path) : json_null()));
	ret = all ? json_dumpf(all, stdout, JSON_COMPACT) : -1;
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
		strbuf_addf(&text, "the plan");
	else
		strbuf_addf(&text, "seed %" PRId64, seed);
	strbuf_addf(&text, " in %.1f s, %s: ", r->seconds,
		r->broken            ? "1 failed"
			: r->stopped ? "all held until the interruption"
				     : "all held");
	add_tally(&text, a, r);
	if (text.failed)
		ret = err_set(e, ENOMEM, "no memory for the result");
	else
		printf("%s\n%s", text.data, r->broken ? plan->data : "");
	strbuf_release(&text);
	fflush(stdout);
	return ret;
}

/* `given`: of --replay. */
static int report(const struct stress_area *a, const struct stress_result *r,
	const struct stress_schedule *given, struct err *e)
{
	struct strbuf plan = STRBUF_INIT;
	char path[PATH_MAX] = "";
	int ret = 0;

	if (r->broken)
		ret = print_plan(a, r, &plan, e);
	/* What cannot be made smaller lies in a file already. */
	if (r->broken &&
		(!given || r->schedule.n != given->n ||
			memcmp(r->schedule.step, given->step,
				given->n * sizeof(given->step[0]))))
		plan_path(a, r, path);
	if (!ret && as_json)
		ret = report_json(a, r, path, &plan, e);
	else if (!ret)
		ret = report_line(a, r, &plan, e);
	/* It has been printed, should this fail. */
	if (!ret && *path)
		ret = write_plan(path, &plan, e);
	if (!ret && r->broken)
		say_broken(a, r, path);
	strbuf_release(&plan);
	return ret;
}

/* ---- the command ------------------------------------------------------------
 */

static int run_area(const struct stress_area *a, struct stress_opts *o,
	bool *broken, struct err *e)
{
	static struct stress_result r;
	struct err unsaid;
	int ret = stress(a, o, &r, e), said = 0;

	wipe();
	*broken |= r.broken;
	/* Also what there was before the machine could do no more. */
	if (!ret || r.runs)
		said = report(a, &r, o->replay, &unsaid);
	if (ret)
		return err_in(e, "stress %s", a->verbs.area);
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
	for (size_t i = 0; stress_areas[i] && !ret && !cmd_interrupted; i++)
		if (!only || only == stress_areas[i])
			ret = run_area(stress_areas[i], o, &broken, e);
	if (ret)
		return cmd_fail(e);
	if (broken)
		return EXIT_FAIL;
	return cmd_interrupted ? EXIT_INTERRUPTED : EXIT_OK;
}

/* The area and the schedule of --replay. */
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
			 : err_set(e, EINVAL, "there is no area '%s'", area);
	}
	free(text);
	return ret ? err_in(e, "'%s'", replay) : 0;
}

static int check_usage(const char *operand, const struct stress_area **a)
{
	if (!operand && !replay)
		return cmd_misuse(
			&cmd_stress, "AREA is missing: what to try, or all");
	if (replay && (operand || minutes > 0 || runs || seed >= 0))
		return cmd_misuse(&cmd_stress,
			"--replay takes everything from its file: leave out "
			"AREA, --minutes, --runs and --seed");
	if (!*out_folder)
		return cmd_misuse(&cmd_stress, "--out is empty");
	if (!operand || !strcmp(operand, "all"))
		return EXIT_OK;
	*a = stress_area_named(operand);
	return *a ? EXIT_OK
		  : cmd_misuse(&cmd_stress, "there is no area '%s'", operand);
}

static int run(int argc, char **argv)
{
	static struct stress_schedule given;
	const struct stress_area *area = NULL;
	struct stress_opts o = { .cancel = &cmd_interrupted, .tell = draw };
	struct err e = { 0 };
	unsigned operands;
	int status;

	if (!cmd_parse(&cmd_stress, argc, argv, &operands, &status))
		return status;
	status = check_usage(operands ? argv[1] : NULL, &area);
	if (status)
		return status;
	if (replay && read_plan(&area, &given, &e))
		return e.code == -EINVAL ? cmd_misuse(&cmd_stress, "%s", e.text)
					 : cmd_fail(&e);
	if (seed < 0)
		seed = time(NULL);
	if (!(minutes > 0) && !runs)
		minutes = 1;
	cmd_catch_signals();
	o.seed = (uint64_t)seed;
	o.runs = (uint64_t)runs;
	o.plant = plant;
	o.replay = replay ? &given : NULL;
	return run_areas(area, &o, &e);
}

const struct command cmd_stress = { &usage, run };
