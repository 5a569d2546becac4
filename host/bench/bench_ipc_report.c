/*
 * What bench_ipc found, as a table or as JSON.
 */
#include "host/bench/bench.h"
#include "host/bench/bench_ipc.h"
#include "host/bench/print_json.h"

#include "base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

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

	for (unsigned i = 0; i < b->n_rows; i++)
		json_array_append_new(rows, ipc_row_json(&b->rows[i]));
	o = json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:f}",
		"version", BENCH_JSON_VERSION, "bench", "ipc", "clock", "wall",
		"rounds", (int)b->rounds, "processors", (int)b->cpus.usable,
		"host_processor", b->cpus.host, "device_processor",
		b->cpus.device, "clock_read_ns", (json_int_t)b->clock_ns,
		"rows", rows, "target", BENCH_IPC_TARGET);
	json_object_set_new(
		o, "ratio", b->ratio > 0 ? json_real(b->ratio) : json_null());
	return print_json(o, 6, e);
}

int bench_ipc_main(const struct bench_args *a, struct err *e)
{
	struct bench_ipc b;
	int ret = bench_ipc(a->rounds, &a->progress, &b, e);

	if (ret)
		return ret;
	if (a->json)
		return ipc_print_json(&b, e);
	ipc_print(&b);
	return 0;
}
