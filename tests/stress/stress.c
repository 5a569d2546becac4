#include "tests/stress/stress.h"

#include "base/clock.h"
#include "tests/stress/confined.h"
#include "tests/stress/scratch.h"
#include "tests/stress/shrink.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NS       1000000000u
#define BATCH_NS (NS / 2) /* interval of progress reports */
/* Each run of a schedule that hangs takes the whole time limit. Minimizing
 * therefore uses this smaller limit, and only the minimized schedule is run
 * with the full limit. */
#define HUNG_SECONDS 8

int stress_broken(struct stress_run *r, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(r->e, EILSEQ, "%s", text);
	return STRESS_BROKEN;
}

const struct stress_area *stress_area_named(const char *name)
{
	for (size_t i = 0; stress_areas[i]; i++)
		if (!strcmp(stress_areas[i]->verbs.area, name))
			return stress_areas[i];
	return NULL;
}

/* ---- minimizing a failure ------------------------------------------------ */

struct trial {
	struct stress_batch batch;
	struct stress_shrink shrink;
	uint64_t until_ns;
	struct err what; /* message of the last schedule that failed */
};

static bool still_fails(void *arg, const struct stress_schedule *s)
{
	struct trial *t = arg;
	struct stress_outcome out;
	struct err e;

	t->batch.given = s;
	if (clock_ns() > t->until_ns || stress_confined(&t->batch, &out, &e) ||
		out.ret == -ECANCELED) {
		t->shrink.tries = 0;
		return false;
	}
	if (out.ret != STRESS_BROKEN)
		return false;
	t->what = out.e;
	return true;
}

/* Run the minimized schedule with the full time limit. If it ends within the
 * full limit, it does not hang, and the original schedule becomes the result.
 */
static void confirm(struct trial *t, const struct stress_schedule *whole,
	struct stress_result *r)
{
	t->batch.seconds = 0;
	t->until_ns = UINT64_MAX;
	if (still_fails(t, &r->schedule))
		return;
	r->schedule = *whole;
	r->smallest = false;
}

/* Run the failing schedule alone to check whether it fails again, and minimize
 * it. */
static void make_small(
	const struct stress_batch *batch, bool hung, struct stress_result *r)
{
	struct trial t = { .batch = *batch,
		.shrink = { still_fails, &t, STRESS_SHRINK_TRIES },
		.until_ns = UINT64_MAX };
	const struct stress_schedule whole = r->schedule;

	r->steps = whole.n;
	r->again = still_fails(&t, &whole);
	if (!r->again)
		return;
	if (hung && HUNG_SECONDS < batch->area->seconds)
		t.batch.seconds = HUNG_SECONDS;
	t.until_ns = clock_ns() +
		(hung ? STRESS_SHRINK_HUNG_SECONDS : STRESS_SHRINK_SECONDS) *
			(uint64_t)NS;
	r->smallest =
		stress_make_small(&r->schedule, &batch->area->verbs, &t.shrink);
	if (t.batch.seconds)
		confirm(&t, &whole, r);
	r->what = t.what;
}

/* ---- running ------------------------------------------------------------- */

static void take_outcome(
	struct stress_result *r, const struct stress_outcome *out)
{
	bool unable = out->ret < 0 && out->ret != -ECANCELED;

	/* The batch counts the schedule that could not run; do not count it
	 * here. */
	r->runs += out->runs - (unable && out->runs);
	for (size_t i = 0; i < STRESS_TALLIES; i++)
		r->tally[i] += out->tally[i];
}

static void found(const struct stress_opts *o, const struct stress_batch *batch,
	const struct stress_outcome *out, struct stress_result *r)
{
	struct stress_draw d = { .seed = o->seed, .run = r->runs - 1 };

	r->broken = true;
	r->run = r->runs - 1;
	r->what = out->e;
	r->schedule.n = 0;
	if (o->replay)
		r->schedule = *o->replay;
	else
		batch->area->draw(&d, &r->schedule);
	if (o->report)
		o->report(o->arg, batch->area, r);
	make_small(batch, out->hung, r);
}

static uint64_t soonest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Run one batch after another. Returns 0 or a negative errno. */
static int run_all(const struct stress_area *a, void *world,
	const struct stress_opts *o, struct stress_result *r, struct err *e)
{
	uint64_t began = clock_ns(), now = began;
	uint64_t until = o->seconds > 0 ? began + (uint64_t)(o->seconds * NS)
					: UINT64_MAX;
	uint64_t runs = o->replay ? 1 : o->runs ? o->runs : UINT64_MAX;

	while (r->runs < runs && now < until) {
		struct stress_batch batch = { .area = a,
			.world = world,
			.plant = o->plant,
			.seed = o->seed,
			.first = r->runs,
			.count = runs - r->runs,
			.until_ns = soonest(until, now + BATCH_NS),
			.given = o->replay,
			.cancel = o->cancel };
		struct stress_outcome out;
		int ret = stress_confined(&batch, &out, e);

		if (ret)
			return ret;
		take_outcome(r, &out);
		now = clock_ns();
		r->seconds = (double)(now - began) / NS;
		if (o->report)
			o->report(o->arg, a, r);
		if (out.ret == STRESS_BROKEN)
			found(o, &batch, &out, r);
		r->stopped = out.ret < 0;
		if (out.ret == -ECANCELED || out.ret == STRESS_BROKEN)
			return 0;
		if (out.ret) {
			*e = out.e;
			return out.ret;
		}
	}
	return 0;
}

int stress(const struct stress_area *a, const struct stress_opts *o,
	struct stress_result *r, struct err *e)
{
	char folder[SCRATCH_MAX];
	void *world = NULL;
	int ret;

	*r = (struct stress_result){ 0 };
	ret = scratch_make(folder, e);
	if (ret)
		return ret;
	if (a->prepare)
		ret = a->prepare(&world, folder, e);
	if (!ret)
		ret = run_all(a, world, o, r, e);
	if (a->discard && world)
		a->discard(world);
	scratch_remove(folder);
	return ret;
}
