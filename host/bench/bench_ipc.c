/*
 * tandem bench ipc: measures the time of a round trip between two processes.
 * First it measures the limits of this machine: round trips between two pinned
 * processes with minimal code. Then it measures an empty request of Tandem to
 * the real device process, with each kind of doorbell (the means by which one
 * process wakes the other). Each kind of round trip is a subject. All subjects
 * are measured in one run in alternating batches, so that other load on the
 * machine affects all subjects alike.
 *
 * Figures are wall-clock ns, minus the cost of reading the clock. Do not run
 * two of these benchmarks at the same time.
 */
#include "host/bench/bench.h"
#include "host/bench/bench_peer.h"
#include "host/bench/print_json.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

/* Number of unrecorded round trips before each batch. These round trips wake
 * the peer process and warm the caches. */
#define WARM_UP 200

/* A batch normally takes at most a tenth of a second. A batch that takes more
 * than LATE_S seconds is considered hung. */
#define LATE_S 30

/* Time limit of a batch in ns. If the batch would take longer at the speed of
 * the unrecorded round trips, its number of round trips is reduced. */
#define BATCH_NS 500000000u

/* The round trip through Tandem's request ring should take at most this many
 * times as long as the round trip of a single cache line. */
#define BENCH_IPC_TARGET 2.0

struct bench_row {
	const char *name;  /* name of the subject, such as "cache line" */
	const char *means; /* description in the table */
	/* whether the subject is Tandem's round trip; otherwise it is a limit
	 * of the machine */
	bool tandem;
	/* why this subject was not measured; "" if it was measured */
	char skipped[128];
	uint64_t trips;
	uint64_t median, p90, p99, p999, min, max; /* round-trip times in ns */
};

struct bench_ipc {
	unsigned rounds;
	struct bench_cpus cpus;
	/* cost of one clock reading, which is subtracted from each figure */
	uint64_t clock_ns;
	unsigned n_rows;
	struct bench_row rows[16];
	/* median round trip of the subject "ring poll" divided by that of
	 * "cache line"; 0 if not measured */
	double ratio;
};

struct sampled {
	const struct bench_subject *subject;
	struct bench_peer *peer; /* NULL if not measured */
	uint64_t *ns;            /* [rounds * trips] round-trip times */
	size_t n;
};

struct run {
	struct bench_ipc *out;
	struct sampled subject[16];
	cpu_set_t was_on;
};

/* ---- watchdog ------------------------------------------------------ */

static void on_alarm(int signo)
{
	bench_late = 1;
}

static void watchdog(unsigned seconds)
{
	/* Repeat the signal each second. A signal that arrives just before a
	 * wait begins does not interrupt the wait; the next signal does. */
	struct itimerval t = { { seconds ? 1 : 0, 0 }, { seconds, 0 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/* ---- figures ------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Return the p-th quantile (0 to 1) of the sorted times, without the cost of
 * reading the clock. */
static uint64_t percentile(
	const uint64_t *sorted, size_t n, double p, uint64_t clock)
{
	size_t rank = (size_t)((double)n * p);
	uint64_t ns = sorted[rank < n ? rank : n - 1];

	return ns > clock ? ns - clock : 0;
}

/* ---- measuring ----------------------------------------------------- */

/* Measure one batch. If other processes use the CPUs, each direction of a round
 * trip may wait for a time slice of the scheduler. The batch then has fewer
 * trips, so that it ends within LATE_S seconds. */
static int batch(struct sampled *s, struct err *e)
{
	const struct bench_peer_ops *ops = s->peer->ops;
	unsigned trips = s->subject->trips;
	uint64_t last = clock_ns(), now, trip_ns;
	int ret;

	watchdog(LATE_S);
	ret = ops->batch(s->peer, WARM_UP, e);
	for (unsigned i = 0; !ret && i < WARM_UP; i++)
		ret = ops->trip(s->peer, e);
	trip_ns = (clock_ns() - last) / WARM_UP + 1;
	if (!ret && BATCH_NS / trip_ns < trips)
		trips = BATCH_NS / trip_ns + 1;
	if (!ret)
		ret = ops->batch(s->peer, trips, e);
	last = clock_ns();
	for (unsigned i = 0; !ret && i < trips; i++) {
		ret = ops->trip(s->peer, e);
		now = clock_ns();
		s->ns[s->n++] = now - last;
		last = now;
	}
	watchdog(0);
	return ret ? err_in(e, "measuring '%s'", s->subject->name) : 0;
}

static int subject_open(struct run *r, unsigned i, struct err *e)
{
	const struct bench_subject *b = &bench_subjects[i];
	struct bench_row *row = &r->out->rows[i];
	struct sampled *s = &r->subject[i];
	struct err why = { 0 };
	int ret;

	s->subject = b;
	*row = (struct bench_row){
		.name = b->name, .means = b->means, .tandem = b->tandem
	};
	if (b->spins && r->out->cpus.usable < 2) {
		snprintf(row->skipped, sizeof(row->skipped),
			"needs two CPUs, because both sides busy-wait");
		return 0;
	}
	s->ns = malloc(r->out->rounds * b->trips * sizeof(*s->ns));
	if (!s->ns)
		return err_set(e, ENOMEM, "no memory for the measured times");
	ret = b->open(&s->peer, b, &r->out->cpus, &why);
	if (!ret)
		return 0;
	s->peer = NULL;
	/* The purpose of the benchmark is to measure Tandem's round trips, so
	 * the benchmark fails if one of these cannot be measured. */
	if (b->tandem) {
		*e = why;
		return ret;
	}
	snprintf(row->skipped, sizeof(row->skipped), "%.*s",
		(int)sizeof(row->skipped) - 1, why.text);
	return 0;
}

static const struct bench_row *find_row(
	const struct bench_ipc *b, const char *name)
{
	for (unsigned i = 0; i < b->n_rows; i++)
		if (!strcmp(b->rows[i].name, name))
			return &b->rows[i];
	return NULL;
}

static void conclude(struct run *r)
{
	const struct bench_row *line = find_row(r->out, "cache line");
	const struct bench_row *ring = find_row(r->out, "ring poll");

	for (unsigned i = 0; i < r->out->n_rows; i++) {
		const struct sampled *s = &r->subject[i];
		struct bench_row *row = &r->out->rows[i];
		uint64_t clock = r->out->clock_ns;

		if (!s->peer)
			continue;
		qsort(s->ns, s->n, sizeof(*s->ns), by_value);
		row->trips = s->n;
		row->min = percentile(s->ns, s->n, 0, clock);
		row->median = percentile(s->ns, s->n, 0.5, clock);
		row->p90 = percentile(s->ns, s->n, 0.9, clock);
		row->p99 = percentile(s->ns, s->n, 0.99, clock);
		row->p999 = percentile(s->ns, s->n, 0.999, clock);
		row->max = percentile(s->ns, s->n, 1, clock);
	}
	if (line->median && ring->median)
		r->out->ratio = (double)ring->median / (double)line->median;
}

/* Measure `rounds` batches of each subject. Returns 0 on success, -EPIPE if a
 * peer process died, or another negative errno. */
static int measure_all(unsigned rounds, const struct progress_sink *progress,
	struct bench_ipc *out, struct err *e)
{
	const struct sigaction alarm = { .sa_handler = on_alarm };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction was_alarm, was_pipe;
	struct run r = { .out = out };
	unsigned n;
	int ret;
	struct bench_cpus *c;
	uint64_t ns[1001];
	uint64_t last;

	*out = (struct bench_ipc){ .rounds = rounds };

	c = &r.out->cpus;
	if (sched_getaffinity(0, sizeof(r.was_on), &r.was_on))
		return err_sys(e, errno, "cannot read the CPU affinity");
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET((size_t)i, &r.was_on))
			continue;
		if (!c->usable++)
			c->host = i;
		if (c->usable <= 2)
			c->device = i;
	}
	ret = bench_pin(c->host, e);
	if (ret)
		return ret;

	/* Install the handler without SA_RESTART, so that the alarm interrupts
	 * waits. */
	sigaction(SIGALRM, &alarm, &was_alarm);
	sigaction(SIGPIPE, &ignore, &was_pipe);
	bench_late = 0;

	/* Find the median cost of one clock reading, which every sample
	 * includes. */
	last = clock_ns();
	for (size_t i = 0; i < 1001; i++) {
		uint64_t now = clock_ns();

		ns[i] = now - last;
		last = now;
	}
	qsort(ns, 1001, sizeof(ns[0]), by_value);
	out->clock_ns = ns[500];

	while (!ret && bench_subjects[out->n_rows].name)
		ret = subject_open(&r, out->n_rows++, e);
	n = out->n_rows;
	/* Measure one batch of each subject per round, alternately in order and
	 * in reverse order, so that a drift of the machine's speed affects all
	 * subjects alike. */
	for (unsigned i = 0; !ret && i < rounds * n; i++) {
		unsigned at = i / n % 2 ? n - 1 - i % n : i % n;

		if (r.subject[at].peer)
			ret = batch(&r.subject[at], e);
		progress_report(progress, "measuring", i, rounds * n);
	}
	progress_report(progress, NULL, 0, 0);
	if (!ret)
		conclude(&r);
	for (unsigned i = 0; i < out->n_rows; i++) {
		struct bench_peer *peer = r.subject[i].peer;

		if (peer)
			peer->ops->close(peer);
		free(r.subject[i].ns);
	}
	watchdog(0);
	sigaction(SIGALRM, &was_alarm, NULL);
	sigaction(SIGPIPE, &was_pipe, NULL);
	sched_setaffinity(0, sizeof(r.was_on), &r.was_on);
	return ret;
}

/* ---- report -------------------------------------------------------------- */

static double per_second(const struct bench_row *r)
{
	return r->median ? 1e9 / (double)r->median : 0;
}

static void ipc_rows(const struct bench_ipc *b, bool tandem)
{
	for (unsigned i = 0; i < b->n_rows; i++) {
		const struct bench_row *r = &b->rows[i];

		if (r->tandem != tandem)
			continue;
		if (*r->skipped)
			printf("%-13s not measured: %s\n", r->name, r->skipped);
		else
			printf("%-13s %8" PRIu64 " %8" PRIu64 " %8" PRIu64
			       " %8" PRIu64 " %8" PRIu64 " %9" PRIu64
			       " %9.0f\n",
				r->name, r->median, r->p90, r->p99, r->p999,
				r->min, r->max, per_second(r));
	}
}

int bench_ipc_main(const struct bench_args *a, struct err *e)
{
	struct bench_ipc b;
	int ret = measure_all(a->rounds, &a->progress, &b, e);

	if (ret)
		return ret;
	if (a->json) {
		json_t *rows = json_array();
		json_t *o;

		for (unsigned i = 0; i < b.n_rows; i++) {
			const struct bench_row *r = &b.rows[i];

			o = json_pack("{s:s, s:s, s:s}", "name", r->name, "of",
				r->tandem ? "tandem" : "machine", "means",
				r->means);
			json_array_append_new(rows, o);
			if (*r->skipped)
				json_object_set_new(
					o, "skipped", json_string(r->skipped));
			else
				json_object_update_new(o,
					json_pack("{s:I, s:I, s:I, s:I, s:I, "
						  "s:I, s:I, s:f}",
						"trips", (json_int_t)r->trips,
						"median_ns",
						(json_int_t)r->median, "p90_ns",
						(json_int_t)r->p90, "p99_ns",
						(json_int_t)r->p99, "p99_9_ns",
						(json_int_t)r->p999, "min_ns",
						(json_int_t)r->min, "max_ns",
						(json_int_t)r->max,
						"per_second", per_second(r)));
		}
		o = json_pack(
			"{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:o, s:f}",
			"version", BENCH_JSON_VERSION, "bench", "ipc", "clock",
			"wall", "rounds", (int)b.rounds, "processors",
			(int)b.cpus.usable, "host_processor", b.cpus.host,
			"device_processor", b.cpus.device, "clock_read_ns",
			(json_int_t)b.clock_ns, "rows", rows, "target",
			BENCH_IPC_TARGET);
		json_object_set_new(o, "ratio",
			b.ratio > 0 ? json_real(b.ratio) : json_null());
		return print_json(o, 6, e);
	}

	if (b.cpus.usable > 1)
		printf("Round trips between processors %d and %d, ",
			b.cpus.host, b.cpus.device);
	else
		printf("Round trips on the only processor, ");
	printf("wall clock, ns\n\n%-13s %8s %8s %8s %8s %8s %9s %9s\n", "",
		"median", "p90", "p99", "p99.9", "min", "max", "a second");
	printf("the machine\n");
	ipc_rows(&b, false);
	printf("tandem\n");
	ipc_rows(&b, true);
	putchar('\n');
	for (unsigned i = 0; i < b.n_rows; i++)
		printf("%-13s %s\n", b.rows[i].name, b.rows[i].means);
	if (b.ratio > 0)
		printf("\nA round trip of 'ring poll' takes %.2f times as long "
		       "as one of\n'cache line' (target: at most %.0f).\n",
			b.ratio, BENCH_IPC_TARGET);

	return 0;
}
