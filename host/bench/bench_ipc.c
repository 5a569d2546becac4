#include "host/bench/bench_ipc.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/workers.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

/* Before each batch, unrecorded: wakes the other side and warms caches. */
#define WARM_UP 200

/* A batch takes a tenth of a second at most; this is no batch any more. */
#define LATE_S 30

/* A batch of slow trips ends after about this long. */
#define BATCH_NS 500000000u

struct sampled {
	const struct bench_subject *subject;
	struct bench_peer *peer; /* NULL: not measured */
	uint64_t *ns;            /* [rounds * trips] */
	size_t n;
};

struct run {
	struct bench_ipc *out;
	const struct progress_sink *progress;
	struct sampled subject[16];
	struct sigaction was_alarm, was_pipe;
	cpu_set_t was_on;
};

/* ---- watchdog ------------------------------------------------------ */

static void on_alarm(int signo)
{
	bench_late = 1;
}

static void watchdog(unsigned seconds)
{
	/* Again each second: a wait that began just after it is woken too. */
	struct itimerval t = { { seconds ? 1 : 0, 0 }, { seconds, 0 } };

	setitimer(ITIMER_REAL, &t, NULL);
}

/* ---- processors ---------------------------------------------------- */

static int choose_cpus(struct run *r, struct err *e)
{
	struct bench_cpus *c = &r->out->cpus;

	if (sched_getaffinity(0, sizeof(r->was_on), &r->was_on))
		return err_sys(e, errno, "cannot see the processors");
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET((size_t)i, &r->was_on))
			continue;
		if (!c->usable++)
			c->host = i;
		if (c->usable <= 2)
			c->device = i;
	}
	return bench_pin(c->host, e);
}

/* ---- figures ------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t percentile(const uint64_t *sorted, size_t n, double p)
{
	size_t rank = (size_t)((double)n * p);

	return sorted[rank < n ? rank : n - 1];
}

static uint64_t less(uint64_t ns, uint64_t clock)
{
	return ns > clock ? ns - clock : 0;
}

static void summarise(
	struct bench_row *row, uint64_t *ns, size_t n, uint64_t clock)
{
	qsort(ns, n, sizeof(*ns), by_value);
	row->trips = n;
	row->min = less(ns[0], clock);
	row->median = less(percentile(ns, n, 0.5), clock);
	row->p90 = less(percentile(ns, n, 0.9), clock);
	row->p99 = less(percentile(ns, n, 0.99), clock);
	row->p999 = less(percentile(ns, n, 0.999), clock);
	row->max = less(ns[n - 1], clock);
}

/* The median cost of reading the clock, which every sample contains once. */
static uint64_t clock_cost(void)
{
	uint64_t ns[1001], last = clock_ns();

	for (size_t i = 0; i < 1001; i++) {
		uint64_t now = clock_ns();

		ns[i] = now - last;
		last = now;
	}
	qsort(ns, 1001, sizeof(ns[0]), by_value);
	return ns[500];
}

/* ---- measuring ----------------------------------------------------- */

static int warm_up(struct sampled *s, uint64_t *trip_ns, struct err *e)
{
	uint64_t began = clock_ns();
	int ret = bench_peer_batch(s->peer, WARM_UP, e);

	for (unsigned i = 0; !ret && i < WARM_UP; i++)
		ret = bench_peer_trip(s->peer, e);
	*trip_ns = (clock_ns() - began) / WARM_UP + 1;
	return ret;
}

/* On a machine whose processors others use too, a trip can take a turn of
 * the scheduler each way: fewer of those. */
static int batch(struct sampled *s, struct err *e)
{
	unsigned trips = s->subject->trips;
	uint64_t last, now, trip_ns;
	int ret;

	watchdog(LATE_S);
	ret = warm_up(s, &trip_ns, e);
	if (!ret && BATCH_NS / trip_ns < trips)
		trips = BATCH_NS / trip_ns + 1;
	if (!ret)
		ret = bench_peer_batch(s->peer, trips, e);
	last = clock_ns();
	for (unsigned i = 0; !ret && i < trips; i++) {
		ret = bench_peer_trip(s->peer, e);
		now = clock_ns();
		s->ns[s->n++] = now - last;
		last = now;
	}
	watchdog(0);
	return ret ? err_in(e, "measuring '%s'", s->subject->name) : 0;
}

/* There and back again, so that a drift of the machine falls on all alike. */
static int measure(struct run *r, struct err *e)
{
	unsigned n = r->out->n_rows, rounds = r->out->rounds;
	int ret = 0;

	for (unsigned i = 0; !ret && i < rounds * n; i++) {
		unsigned at = i % n;
		struct sampled *s = &r->subject[i / n % 2 ? n - 1 - at : at];

		if (s->peer)
			ret = batch(s, e);
		progress_tell(r->progress, "measuring", i, rounds * n);
	}
	progress_tell(r->progress, NULL, 0, 0);
	return ret;
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
			"one processor: two cannot spin on it");
		return 0;
	}
	s->ns = malloc(r->out->rounds * b->trips * sizeof(*s->ns));
	if (!s->ns)
		return err_set(e, ENOMEM, "no memory for the samples");
	ret = b->open(&s->peer, b, &r->out->cpus, &why);
	if (!ret)
		return 0;
	s->peer = NULL;
	if (b->tandem) { /* what we came for */
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
		struct sampled *s = &r->subject[i];

		if (s->peer)
			summarise(&r->out->rows[i], s->ns, s->n,
				r->out->clock_ns);
	}
	if (line->median && ring->median)
		r->out->ratio = (double)ring->median / (double)line->median;
}

static void prepare_signals(struct run *r)
{
	struct sigaction alarm = { .sa_handler = on_alarm };
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	/* Without SA_RESTART: it is to interrupt. */
	sigaction(SIGALRM, &alarm, &r->was_alarm);
	sigaction(SIGPIPE, &ignore, &r->was_pipe);
	bench_late = 0;
}

static void restore(struct run *r)
{
	watchdog(0);
	sigaction(SIGALRM, &r->was_alarm, NULL);
	sigaction(SIGPIPE, &r->was_pipe, NULL);
	sched_setaffinity(0, sizeof(r->was_on), &r->was_on);
}

int bench_ipc(unsigned rounds, const struct progress_sink *progress,
	struct bench_ipc *out, struct err *e)
{
	struct run r = { .out = out, .progress = progress };
	int ret;

	*out = (struct bench_ipc){ .rounds = rounds };
	ret = choose_cpus(&r, e);
	if (ret)
		return ret;
	prepare_signals(&r);
	out->clock_ns = clock_cost();
	while (!ret && bench_subjects[out->n_rows].name)
		ret = subject_open(&r, out->n_rows++, e);
	if (!ret)
		ret = measure(&r, e);
	if (!ret)
		conclude(&r);
	for (unsigned i = 0; i < out->n_rows; i++) {
		bench_peer_close(r.subject[i].peer);
		free(r.subject[i].ns);
	}
	restore(&r);
	return ret;
}
