/* tandem bench: what things cost on this machine, one table a benchmark. */
#include "host/cmd.h"

#include "base/checked.h"
#include "base/err.h"
#include "host/bench_ipc.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_VERSION 1

static bool as_json;
static int64_t rounds = 7;

static const struct opt opts[] = {
	{ OPT_FLAG, 0, "json", &as_json, NULL,
		"one JSON object instead of the table" },
	{ OPT_INT, 0, "rounds", &rounds, "N",
		"batches of each thing measured (7), in alternation", 1, 1000 },
};

static const struct opt_command usage = {
	.name = "tandem bench",
	.synopsis = "ipc [--json] [--rounds N]",
	.summary = "what things cost on this machine",
	.details =
		"Benchmarks:\n"
		"\n"
		"  ipc  round trips between two processes, pinned to two "
		"processors: the\n"
		"       machine's own limits, and an empty request to the "
		"device process\n"
		"       through each doorbell\n"
		"\n"
		"Wall clock, in ns: median and tails. Everything is measured "
		"in alternating batches of one run, so compare figures of "
		"one run.",
	.opts = opts,
	.n_opts = ARRAY_LEN(opts),
	.min_operands = 1,
	.max_operands = 1,
};

/* ---- ipc ----------------------------------------------------------- */

static double per_second(const struct bench_row *r)
{
	return r->median ? 1e9 / (double)r->median : 0;
}

static void ipc_row(const struct bench_row *r)
{
	if (*r->skipped) {
		printf("%-13s not measured: %s\n", r->name, r->skipped);
		return;
	}
	printf("%-13s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64
	       " %8" PRIu64 " %9" PRIu64 " %9.0f\n",
		r->name, r->median, r->p90, r->p99, r->p999, r->min, r->max,
		per_second(r));
}

static void ipc_rows(const struct bench_ipc *b, bool tandem)
{
	for (unsigned i = 0; i < b->n_rows; i++)
		if (b->rows[i].tandem == tandem)
			ipc_row(&b->rows[i]);
}

static void ipc_print(const struct bench_ipc *b)
{
	if (b->cpus.usable > 1)
		printf("Round trips between processors %d and %d, ",
			b->cpus.host, b->cpus.device);
	else
		printf("Round trips on the one processor there is, ");
	printf("wall clock, ns\n\n%-13s %8s %8s %8s %8s %8s %9s %9s\n", "",
		"median", "p90", "p99", "p99.9", "min", "max", "a second");
	printf("the machine\n");
	ipc_rows(b, false);
	printf("tandem\n");
	ipc_rows(b, true);
	putchar('\n');
	for (unsigned i = 0; i < b->n_rows; i++)
		printf("%-13s %s\n", b->rows[i].name, b->rows[i].means);
	if (b->ratio > 0)
		printf("\nring poll takes %.2f times a cache line's round trip; "
		       "at most %.0f is the aim\n",
			b->ratio, BENCH_IPC_TARGET);
}

static json_t *ipc_row_json(const struct bench_row *r)
{
	json_t *o = json_pack("{s:s, s:s, s:s}", "name", r->name, "of",
		r->tandem ? "tandem" : "machine", "means", r->means);

	if (!o)
		return NULL;
	if (*r->skipped) {
		json_object_set_new(o, "skipped", json_string(r->skipped));
		return o;
	}
	json_object_update_new(o,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "trips",
			(json_int_t)r->trips, "median_ns",
			(json_int_t)r->median, "p90_ns", (json_int_t)r->p90,
			"p99_ns", (json_int_t)r->p99, "p99_9_ns",
			(json_int_t)r->p999, "min_ns", (json_int_t)r->min,
			"max_ns", (json_int_t)r->max, "per_second",
			per_second(r)));
	return o;
}

static int ipc_print_json(const struct bench_ipc *b, struct err *e)
{
	json_t *rows = json_array();
	json_t *o;
	int ret;

	for (unsigned i = 0; i < b->n_rows; i++)
		json_array_append_new(rows, ipc_row_json(&b->rows[i]));
	o = json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:f}",
		"version", JSON_VERSION, "bench", "ipc", "clock", "wall",
		"rounds", (int)b->rounds, "processors", (int)b->cpus.usable,
		"host_processor", b->cpus.host, "device_processor",
		b->cpus.device, "clock_read_ns", (json_int_t)b->clock_ns,
		"rows", rows, "target", BENCH_IPC_TARGET);
	if (!o)
		return err_set(e, ENOMEM, "no memory for the JSON object");
	json_object_set_new(
		o, "ratio", b->ratio > 0 ? json_real(b->ratio) : json_null());
	ret = json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(o);
	return ret ? err_sys(e, EIO, "cannot write the JSON object") : 0;
}

static int run_ipc(struct err *e)
{
	struct bench_ipc b;
	int ret = bench_ipc((unsigned)rounds, &b, e);

	if (ret)
		return ret;
	if (as_json)
		return ipc_print_json(&b, e);
	ipc_print(&b);
	return 0;
}

/* ---- the command --------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(struct err *);
} benches[] = {
	{ "ipc", run_ipc },
};

static int bench_main(int argc, char **argv)
{
	struct err e = { 0 };
	unsigned operands;
	int status, ret;

	if (!cmd_parse(&cmd_bench, argc, argv, &operands, &status))
		return status;
	for (size_t i = 0; i < ARRAY_LEN(benches); i++) {
		if (strcmp(benches[i].name, argv[1]))
			continue;
		ret = benches[i].run(&e);
		if (!ret && fflush(stdout))
			/* A reader that went away is no lost device. */
			ret = err_set(&e, EIO, "cannot write the results: %s",
				strerror(errno));
		return ret ? cmd_fail(&e) : EXIT_OK;
	}
	return cmd_misuse(&cmd_bench, "there is no benchmark '%s'", argv[1]);
}

const struct command cmd_bench = { &usage, bench_main };
