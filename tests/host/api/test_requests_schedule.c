/*
 * Random schedules of concurrent requests on a fake device, which computes in
 * the test process (tests/host/npu/fake_device.h). Each seed opens a handle of
 * one method with up to 8 lanes (running sequences). It submits requests whose
 * prompts have common prefixes, cancels some requests, loses the device, makes
 * the device refuse work, and overwrites hidden states by NaN. The cache is
 * often too small for all requests.
 *
 * A request that ends without an error has the tokens that plain decoding gives
 * for that request alone. If the method decodes many samples, the request has
 * the tokens that this method gives for the request alone. No request waits
 * while the pass and the cache have room for it, and after the last request no
 * slot of the cache is in use. The handle works as long as the device can be
 * replaced; when it cannot, all running requests end with TANDEM_LOST.
 *
 * Failed allocations are tested elsewhere: tests/oom makes every single
 * allocation fail from outside the program.
 */
#include "base/checked.h"
#include "base/err.h"
#include "base/rng.h"
#include "host/api/tandem_impl.h"
#include "host/api/tandem_pass.h"
#include "host/api/request_impl.h"
#include "host/scheduler/scheduler.h"
#include "ipc/wire.h"
#include "tests/harness.h"
#include "tests/host/api/expected_requests.h"
#include "tests/host/npu/fake_device.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 12 /* maximum number of submitted requests at a time */
/* number of passes with free rows for which a request may wait */
#define PATIENCE  2
#define SLOTS_RUN 32 /* the cache is allocated in runs of this many slots */

/* ---- a schedule ---------------------------------------------------------- */

struct running {
	struct tandem_submitted *x; /* NULL if this entry is free */
	const struct expected *of;
	unsigned n; /* number of tokens that the sink received */
	/* Values of n at which the sink ends, or cancels, the request; -1 means
	 * never. */
	int stops_at, cancels_at;
	bool canceled, stopped;
	/* Before the current pass: number of the text's tokens, and whether the
	 * lane must be in the pass. */
	size_t tokens;
	bool due;
	/* number of passes with free rows since the most recent pass with a row
	 * of the lane */
	unsigned waited;
};

struct totals {
	/* numbers of requests by result */
	uint64_t ended, no_room, canceled, failed, lost;
	uint64_t passes, pauses, forgotten, cached, accepted;
	uint64_t losses, dead;
};

struct schedule {
	struct tandem *t;
	struct fake fake;
	unsigned way, texts;
	uint64_t seed, n_drawn; /* seed and counter of the random numbers */
	uint32_t slots, sequences;
	unsigned live;
	/* On average, one answer in `loses` loses the device, one run in
	 * `refuses` is refused, and one run in `spoils` gets a row of NaN; 0
	 * means never. `losses` is the number of losses that may still
	 * follow. */
	unsigned loses, refuses, spoils, losses;
	/* true if the device is lost more often than the handle may replace
	 * it */
	bool dies;
	bool stopping; /* tandem_cancel was called */
	bool refused, spoilt, over;
	struct running running[LIVE];
	struct totals sum;
};

static unsigned chance(struct schedule *p, unsigned below)
{
	return (unsigned)(rng_uniform(p->seed, 1, p->n_drawn++) * below);
}

static bool happens(struct schedule *p, unsigned once_in)
{
	return once_in && !chance(p, once_in);
}

/* ---- faults -------------------------------------------------------------- */

static void answer_wrongly(
	struct fake *f, const void *request, struct fake_answer *a)
{
	const uint32_t *op = request;
	struct schedule *p = f->arg;

	if (p->losses && happens(p, p->loses)) {
		p->losses--;
		p->sum.losses++;
		if (chance(p, 3))
			f->lives = 1;
		else /* the host treats a device with a wrong answer as lost */
			a->done.op = WIRE_NOP + (*op == WIRE_NOP);
	} else if (*op == WIRE_GRAPH_RUN && happens(p, p->refuses)) {
		a->done.status = -ENOMEM;
		p->refused = true;
	}
}

static void spoil_a_row(
	struct fake *f, float *hidden, uint32_t rows, uint32_t n)
{
	struct schedule *p = f->arg;

	if (!happens(p, p->spoils))
		return;
	hidden[(size_t)chance(p, rows) * n] = NAN;
	p->spoilt = true;
}

/* ---- submitting and ending requests -------------------------------------- */

static unsigned number_of(const struct running *g)
{
	return (unsigned)g->of->request.seed - 1;
}

static int receive_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct running *g = arg;
	const struct expected *a = g->of;

	if (id < 0)
		return 0;
	if (g->n >= a->n || a->token[g->n] != id)
		fail_msg("request %u: token %u is %d, alone %d", number_of(g),
			g->n, id, g->n < a->n ? a->token[g->n] : -1);
	if ((int)g->n == g->cancels_at) {
		g->canceled = true;
		tandem_request_cancel(g->x);
	}
	g->stopped = (int)g->n == g->stops_at;
	g->n++;
	return g->stopped;
}

static void submit_one(struct schedule *p)
{
	struct running *g = p->running;
	struct tandem_request r;

	while (g->x)
		g++;
	*g = (struct running){
		.of = &expected[p->way][chance(p, requests_of(p->way))],
		.stops_at = -1,
		.cancels_at = -1
	};
	if (happens(p, 12))
		g->stops_at = (int)chance(p, 12);
	if (happens(p, 12))
		g->cancels_at = (int)chance(p, 12);
	r = g->of->request;
	r.sink = receive_token;
	r.sink_arg = g;
	if (tandem_submit(p->t, &r, &g->x))
		fail_msg("submitting: %s", tandem_error(p->t));
	p->live++;
}

/* Whether the request's tokens fill the cache, even if no other request uses
 * slots of the cache. */
static bool has_filled(const struct schedule *p, const struct running *g)
{
	return g->of->request.n_tokens + g->n + 1 > p->slots;
}

static void check_end(struct schedule *p, const struct running *g, int state,
	const struct tandem_result *got)
{
	const struct expected *a = g->of;
	struct totals *sum = &p->sum;

	if (state == TANDEM_CANCELED) {
		assert_true(g->canceled);
		sum->canceled++;
	} else if (state == TANDEM_FAILED) {
		/* A refused pass fails only one request if the pass fills masks
		 * or if requests run one after another; otherwise it fails all
		 * requests. A request that runs alone fails if its prompt does
		 * not fit into the cache. */
		if (!p->spoilt && !p->over &&
			!(p->refused &&
				(p->way >= FIRST_MASKED || p->texts == 1)) &&
			!(p->texts == 1 && !g->n && has_filled(p, g)))
			fail_msg("request %u: %s", number_of(g),
				tandem_request_error(g->x));
		sum->failed++;
	} else if (state == TANDEM_LOST) {
		assert_true(p->dies);
		sum->lost++;
	} else if (got->stop == TANDEM_STOP_CONTEXT && g->n < a->n) {
		if (!has_filled(p, g))
			fail_msg("request %u: no room after %zu + %u tokens",
				number_of(g), a->request.n_tokens, g->n);
		sum->no_room++;
	} else {
		assert_int_equal(state, 0);
		assert_int_equal(got->tokens, g->n);
		if (!g->stopped) {
			assert_int_equal(g->n, a->n);
			assert_int_equal(got->stop, a->stop);
		}
		sum->ended++;
	}
	sum->cached += got->cached_tokens;
	sum->accepted += got->accepted;
}

static void end_request(struct schedule *p, struct running *g)
{
	struct tandem_result got = { .size = sizeof(got) };
	int state = tandem_request_state(g->x, &got);

	check_end(p, g, state, &got);
	tandem_request_close(g->x);
	g->x = NULL;
	p->live--;
}

static bool runs(const struct running *g)
{
	return g->x && tandem_request_state(g->x, NULL) == REQUEST_UNFINISHED;
}

static void cancel_some(struct schedule *p)
{
	struct running *g = &p->running[chance(p, LIVE)];

	if (!runs(g))
		return;
	g->canceled = true;
	if (chance(p, 3)) {
		tandem_request_cancel(g->x);
	} else {
		tandem_request_close(g->x);
		g->x = NULL;
		p->live--;
	}
}

/* ---- waiting lanes ------------------------------------------------------- */

static struct running *running_of(struct schedule *p, const struct lane *x)
{
	struct running *g = p->running;

	while (!g->x || &g->x->lane != x)
		g++;
	return g;
}

/* Number of slots that a lane with `tokens` tokens needs, rounded up to whole
 * runs. Slots that the lane shares with other lanes are counted in full. */
static uint32_t slots_of(uint64_t tokens)
{
	return (uint32_t)align_up(tokens, SLOTS_RUN);
}

static uint32_t slots_held(const struct scheduler *l, const struct lane *x)
{
	return x->sequence == LANE_NO_SEQUENCE
		? 0
		: slots_of(session_length(l->session, x->sequence));
}

/*
 * Mark the lanes that must be in the next pass. Running lanes come first, then
 * paused lanes, then waiting lanes. A lane is due if it is among the first
 * l->width lanes in this order, and the KV cache, less the slots that later
 * lanes hold, has enough slots for this lane and all lanes before it.
 */
static void mark_due(struct schedule *p)
{
	static const enum lane_state order[] = { LANE_RUNNING, LANE_PAUSED,
		LANE_WAITING };
	const struct scheduler *l = p->t->scheduler;
	uint32_t lanes = 0, slots = 0;

	for (uint32_t i = 0; i < l->n; i++)
		slots += slots_held(l, l->lane[i]);
	for (unsigned k = 0; k < ARRAY_LEN(order); k++)
		for (uint32_t i = 0; i < l->n; i++) {
			struct lane *x = l->lane[i];
			struct running *g;

			if (x->state != order[k])
				continue;
			g = running_of(p, x);
			gen_tokens(x->gen, &g->tokens);
			slots += slots_of(g->tokens) - slots_held(l, x);
			g->due = lanes++ < l->width && slots <= p->slots;
		}
}

static int64_t place_in_pass(const struct scheduler *l, const struct lane *x)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i] == x)
			return i;
	return -1;
}

/* Check after a pass that no due lane has been without a row in more than
 * PATIENCE passes that had free rows. */
static void check_waits(struct schedule *p)
{
	const struct scheduler *l = p->t->scheduler;
	bool full = l->n_rows == session_max_rows(l->session);

	for (struct running *g = p->running; g < p->running + LIVE; g++) {
		int64_t at = runs(g) ? place_in_pass(l, &g->x->lane) : -1;
		size_t tokens;

		if (!runs(g))
			continue;
		if (at >= 0 && l->got[at]) {
			gen_tokens(g->x->lane.gen, &tokens);
			if (l->got[at] > l->unread[at])
				assert_true(tokens > g->tokens);
			g->waited = 0;
			continue;
		}
		g->waited += g->due && !full;
		if (g->waited > PATIENCE)
			fail_msg("request %u: no row in %u passes that had "
				 "free ones; the last had %u of %u, with %u of "
				 "%u lanes; state %d, held %d",
				number_of(g), g->waited, l->n_rows,
				session_max_rows(l->session), l->n_in, l->width,
				g->x->lane.state, g->x->lane.held);
	}
}

/* ---- a handle ------------------------------------------------------------ */

#define SET_MOST 14

struct set {
	char text[SET_MOST][32];
	const char *option[SET_MOST + 1];
	unsigned n;
};

static void add(struct set *s, const char *option)
{
	s->option[s->n++] = option;
}

static void add_number(struct set *s, const char *name, unsigned value)
{
	snprintf(s->text[s->n], sizeof(s->text[0]), "%s=%u", name, value);
	add(s, s->text[s->n]);
}

static bool has_samples(const struct schedule *p)
{
	return p->way && p->way < FIRST_MASKED;
}

static void draw_options(struct schedule *p, struct set *s)
{
	static const char *const drafted[][4] = {
		{ NULL },
		{ NULL },
		{ "method=chain", "draft=pld" },
		{ "method=chain", draft },
		{ "method=specinfer", "draft=sam+recycle", "tree-rows=16" },
		{ "method=opt-tree", "draft=pld+recycle", "tree-rows=16" },
		{ "method=opt-tree", draft, "tree-rows=24" },
		{ "method=eagle2-tree", "draft=recycle", "tree-rows=16" },
		{ "method=edgellm", "draft=sam", "tree-rows=12" },
		{ "method=edgellm", draft, "tree-rows=12" },
		{ "method=lever", "draft=pld+recycle", "exit=none",
			"tree-rows=16" },
		{ "method=lever", draft, "exit=none", "tree-rows=16" },
		{ "method=sdnpu", "verify-rows=16" },
		{ "method=sample", "draft=pld" },
	};
	const char *const *m = drafted[chance(p, ARRAY_LEN(drafted))];
	unsigned restarts = chance(p, 4);

	add(s, "ctx=128");
	for (unsigned i = 0; !p->way && i < 4 && m[i]; i++)
		add(s, m[i]);
	for (unsigned i = 0; i < ARRAY_LEN(way_set[0]) && way_set[p->way][i];
		i++)
		add(s, way_set[p->way][i]);
	if (has_samples(p) && chance(p, 2))
		add_number(s, "parallel", 1 + chance(p, 3));
	if (has_samples(p) && !chance(p, 3))
		add(s, "draft=pld+recycle");
	p->texts = 1 + chance(p, 8);
	add_number(s, "texts", p->texts);
	if (p->way < FIRST_MASKED)
		add_number(s, "keep", chance(p, 4));
	add_number(s, "prefill-chunk", 8u << chance(p, 3));
	add_number(s, "restarts", restarts);
	/* A sample that finds no room in the cache would end earlier than it
	 * does alone, and the method might choose another sample. The smallest
	 * cache is therefore larger for methods with samples. */
	if (chance(p, 3))
		add_number(s, "text-slots",
			32 * ((p->way ? 5 : 2) + chance(p, 5)));
	/* With a simulated clock the shapes of draft trees do not depend on the
	 * wall clock. */
	if (chance(p, 2))
		add(s, "clock=soc:sd8gen3");
	p->dies = happens(p, 4);
	p->loses = 20u << chance(p, 6);
	p->losses = restarts + p->dies;
}

static uint32_t free_sequences(struct session *s)
{
	uint32_t id[ROWS_SEQUENCES + 8], n = 0;

	while (n < ARRAY_LEN(id) && !session_add(s, &id[n], NULL))
		n++;
	for (uint32_t i = 0; i < n; i++)
		session_remove(s, id[i]);
	return n;
}

/* Returns false if the device was lost for good before the session was open. */
static bool open_handle(struct schedule *p)
{
	struct set set = { 0 };
	int ret;

	draw_options(p, &set);
	print_message("seed %llu:", (unsigned long long)p->seed);
	for (unsigned i = 0; i < set.n; i++)
		print_message(" %s", set.option[i]);
	print_message("\n");
	p->t = open_model(p->way, set.option);
	fake_init(&p->fake);
	p->fake.arg = p;
	p->fake.forge = answer_wrongly;
	p->fake.spoil = spoil_a_row;
	p->t->decoder.session_opts.npu = &p->fake.ops;
	ret = tandem_start(p->t, 0);
	if (ret) {
		if (!p->dies)
			fail_msg("starting: %s", tandem_error(p->t));
		return false;
	}
	p->slots = session_free_slots(p->t->decoder.session);
	p->sequences = free_sequences(p->t->decoder.session);
	p->refuses = happens(p, 12) ? 60 : 0;
	p->spoils = happens(p, 4) && !p->way ? 60 : 0;
	return true;
}

/* After the device failed for good, a new request must still end, with
 * TANDEM_FAILED or TANDEM_LOST. */
static void check_after_loss(struct schedule *p)
{
	struct tandem_request r = expected[p->way][1].request;
	struct tandem_submitted *x;
	int ret = tandem_submit(p->t, &r, &x);
	unsigned left = 0;

	if (!ret)
		ret = tandem_advance(p->t, &left);
	assert_in_range(-ret, -TANDEM_FAILED, -TANDEM_LOST);
	assert_int_equal(left, 0);
	assert_true(!x || tandem_request_state(x, NULL) == ret);
	tandem_request_close(x);
}

/* After the last request, all slots of the cache are free once the cached
 * prefixes are evicted. */
static void check_slots_free(const struct schedule *p)
{
	struct session *s = p->t->decoder.session;
	uint32_t text = SESSION_TEXT;

	session_truncate(s, text, 0);
	assert_true(session_has_room(s, &text, &p->slots, 1));
	assert_int_equal(session_free_slots(s), p->slots);
	assert_int_equal(free_sequences(s), p->sequences);
}

/* ---- running ------------------------------------------------------------- */

/* Check a nonzero result of tandem_advance. After a cancel the requests
 * continue; after any other error all requests have ended. */
static void check_advance_error(struct schedule *p, int ret)
{
	if (ret == TANDEM_CANCELED) {
		assert_true(p->stopping);
		p->stopping = false;
		return;
	}
	p->over = true;
	if (!p->refused && (!p->dies || p->losses))
		fail_msg("advancing: %d, %s", ret, tandem_error(p->t));
	for (struct running *g = p->running; g < p->running + LIVE; g++)
		assert_false(runs(g));
}

static void advance(struct schedule *p)
{
	const struct scheduler *l = p->t->scheduler;
	uint64_t passes = l->stats.passes;
	/* waits are checked only for plain decoding (way 0) */
	bool waits = !p->way && p->texts > 1;
	unsigned left;
	int ret;

	if (happens(p, 40)) {
		tandem_cancel(p->t);
		p->stopping = true;
	}
	if (waits)
		mark_due(p);
	ret = tandem_advance(p->t, &left);
	if (ret)
		check_advance_error(p, ret);
	else if (l->stats.passes > passes && waits)
		check_waits(p);
	for (struct running *g = p->running; g < p->running + LIVE; g++)
		if (g->x && !runs(g))
			end_request(p, g);
	assert_int_equal(left, p->live);
}

static void run_schedule(struct schedule *p, unsigned requests)
{
	unsigned calls = (p->way ? 1000 : 200) * requests;

	while (!p->over && (requests || p->live)) {
		while (requests && p->live < LIVE && !chance(p, 3)) {
			submit_one(p);
			requests--;
		}
		if (happens(p, 25))
			cancel_some(p);
		if (p->t->scheduler)
			advance(p);
		if (!calls--)
			fail_msg("%u requests do not end", p->live);
	}
}

static void add_totals(struct totals *to, const struct schedule *p)
{
	const struct totals *of = &p->sum;
	const struct scheduler *l = p->t->scheduler;

	to->ended += of->ended;
	to->no_room += of->no_room;
	to->canceled += of->canceled;
	to->failed += of->failed;
	to->lost += of->lost;
	to->cached += of->cached;
	to->accepted += of->accepted;
	to->losses += of->losses;
	to->dead += p->over;
	if (!l)
		return;
	to->passes += l->stats.passes;
	to->pauses += l->stats.pauses;
	to->forgotten += l->stats.forgotten;
}

static void run_seed(uint64_t seed, unsigned way, struct totals *sum)
{
	struct schedule *p = calloc(1, sizeof(*p));

	p->seed = seed;
	p->way = way;
	if (open_handle(p)) {
		run_schedule(p, 4 + chance(p, 20));
		assert_int_equal(p->live, 0);
		if (p->over)
			check_after_loss(p);
		else
			check_slots_free(p);
	}
	add_totals(sum, p);
	if (tandem_close(p->t) && !p->dies)
		fail_msg("closing: %s", tandem_error(NULL));
	free(p);
}

static void print_totals(const struct totals *sum)
{
	const struct {
		const char *what;
		uint64_t n;
	} row[] = {
		{ "requests ended", sum->ended },
		{ "without room", sum->no_room },
		{ "canceled", sum->canceled },
		{ "failed", sum->failed },
		{ "lost", sum->lost },
		{ "passes", sum->passes },
		{ "pauses", sum->pauses },
		{ "forgotten", sum->forgotten },
		{ "tokens cached", sum->cached },
		{ "tokens accepted", sum->accepted },
		{ "devices lost", sum->losses },
		{ "devices that failed for good", sum->dead },
	};

	for (unsigned i = 0; i < ARRAY_LEN(row); i++)
		print_message("%8llu %s\n", (unsigned long long)row[i].n,
			row[i].what);
}

static void requests_of_any_schedule_have_the_text_they_have_alone(void **state)
{
	uint64_t seeds = harness_full() ? 1000 : 40, first = harness_seed();
	struct totals sum = { 0 };

	generate_alone(0);
	for (uint64_t i = 0; i < seeds; i++)
		run_seed(first + i, 0, &sum);
	print_totals(&sum);
	assert_true(sum.ended && sum.canceled && sum.lost && sum.no_room);
	assert_true(sum.pauses && sum.cached && sum.accepted);
}

static void requests_with_samples_have_the_text_they_have_alone(void **state)
{
	uint64_t seeds = harness_full() ? 1000 : 40, first = harness_seed();
	struct totals sum = { 0 };

	for (unsigned way = 1; way < FIRST_MASKED; way++)
		generate_alone(way);
	for (uint64_t i = 0; i < seeds; i++)
		run_seed(first + i, 1 + (unsigned)(i % (FIRST_MASKED - 1)),
			&sum);
	print_totals(&sum);
	assert_true(sum.ended && sum.canceled && sum.lost);
	assert_true(sum.pauses && sum.forgotten && sum.cached && sum.accepted);
}

static void requests_that_fill_masks_have_the_text_they_have_alone(void **state)
{
	uint64_t seeds = harness_full() ? 1000 : 12, first = harness_seed();
	struct totals sum = { 0 };

	for (unsigned way = FIRST_MASKED; way < WAYS; way++)
		generate_alone(way);
	for (uint64_t i = 0; i < seeds; i++)
		run_seed(first + i,
			FIRST_MASKED + (unsigned)(i % (WAYS - FIRST_MASKED)),
			&sum);
	print_totals(&sum);
	assert_true(sum.ended && sum.canceled && sum.losses);
}

/* The KV cache has a single sequence, which holds the cached prefix of an
 * earlier request (texts=1, keep=1). A request with the same prefix must take
 * over that sequence. */
static void the_only_kept_one_makes_room_for_a_request_like_it(void **state)
{
	static struct fake fake;
	const char *const set[] = { "ctx=128", "texts=1", "keep=1", NULL };
	struct tandem *t = open_model(0, set);

	fake_init(&fake);
	t->decoder.session_opts.npu = &fake.ops;
	for (unsigned i = 0; i < 3; i++) {
		const int32_t prompt[] = { 1, 2, 3, 4, 5, 6, (int32_t)i };
		struct tandem_result got = { .size = sizeof(got) };
		struct tandem_request r;
		struct tandem_submitted *x;
		unsigned left = 1;

		tandem_request_init(&r, sizeof(r));
		r.tokens = prompt;
		r.n_tokens = ARRAY_LEN(prompt);
		r.flags = TANDEM_IGNORE_EOS | TANDEM_NO_BOS;
		r.max_tokens = 9;
		assert_int_equal(tandem_submit(t, &r, &x), 0);
		while (left)
			assert_int_equal(tandem_advance(t, &left), 0);
		assert_int_equal(tandem_request_state(x, &got), 0);
		assert_int_equal(got.stop, TANDEM_STOP_LENGTH);
		assert_int_equal(got.tokens, 9);
		tandem_request_close(x);
	}
	assert_int_equal(tandem_close(t), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(
		the_only_kept_one_makes_room_for_a_request_like_it, setup),
	cmocka_unit_test_setup(
		requests_of_any_schedule_have_the_text_they_have_alone, setup),
	cmocka_unit_test_setup(
		requests_with_samples_have_the_text_they_have_alone, setup),
	cmocka_unit_test_setup(
		requests_that_fill_masks_have_the_text_they_have_alone, setup),
};

TEST_FILE(tests)
