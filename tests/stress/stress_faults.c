/*
 * Stress test with random fault plans (base/fault_plan.h) while short texts are
 * decoded, each with its own device. The text must equal the text without
 * faults, or the run must end with an error message and a status that the plan
 * explains. The text must be equal if the program can recover from every fault
 * of the plan: a lost device that may be replaced, a late completion, a lost or
 * repeated doorbell, a read that fails once. Afterwards nothing may be leaked:
 * no descriptor, process, thread or mapped buffer.
 */
#include "tests/stress/areas.h"
#include "tests/stress/decodes.h"
#include "tests/stress/leftovers.h"

#include "base/checked.h"
#include "base/fault_plan.h"
#include "host/api/tandem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAIR, FAULT };

static const char *const bells[] = { "poll", "eventfd", "socket" };
static const char *const restarts[] = { "0", "1", "3", "100" };
static const unsigned n_restarts[] = { 0, 1, 3, 100 };
static const char *const noyes[] = { "no", "yes" };
static const char *const levels[] = { "off", "strict", "check" };

/* The verbs in the order of enum fault_verb, without the verbs that omit a
 * maintenance call, because a missing call changes the text. Faults of flash
 * follow the faults of the device. */
static const char *const names[] = { "die", "hang", "late", "die-inside",
	"die-answered", "hang-inside", "hang-answered", "enomem", "bell-drop",
	"bell-repeat", "bell-merge", "tear", "seq", "full", "eio", "short",
	"flip", "stall", "shrink", "slow" };
static const enum fault_verb numbers[] = { FAULT_DIE, FAULT_HANG, FAULT_LATE,
	FAULT_DIE_INSIDE, FAULT_DIE_ANSWERED, FAULT_HANG_INSIDE,
	FAULT_HANG_ANSWERED, FAULT_ENOMEM, FAULT_BELL_DROP, FAULT_BELL_REPEAT,
	FAULT_BELL_MERGE, FAULT_TEAR, FAULT_SEQ, FAULT_FULL, FAULT_EIO,
	FAULT_SHORT, FAULT_FLIP, FAULT_STALL, FAULT_SHRINK, FAULT_SLOW };
/* The names of the kinds: any request, the kinds of request from WIRE_NOP to
 * WIRE_SOC, and the start of the device. */
static const char *const kinds[] = { "any", "nop", "map", "unmap", "load",
	"drop", "run", "soc", "start" };

#define VERBS ARRAY_LEN(names)
#define FLASH 14 /* index of the first fault of flash */

static const struct stress_verb verbs[] = {
	[PAIR] = { "pair",
		{ { "way", 0, DECODE_WAYS - 1, decode_ways },
			{ "bell", 0, 2, bells }, { "restarts", 0, 3, restarts },
			{ "coherence", 0, 2, levels } } },
	[FAULT] = { "fault",
		{ { "verb", 0, VERBS - 1, names },
			{ "kind", 0, FAULT_KINDS - 1, kinds },
			{ "at", 1, 1000 }, { "on", 0, 1, noyes },
			{ "ms", 1, 60 } } },
};

enum { TEXTS, FAULTS, REPLACED, FAILED, LOST };
static const char *const tallies[] = { "texts as wanted", "faults", "replaced",
	"failed", "lost", NULL };

/* ---- drawing ------------------------------------------------------------- */

static bool hangs(enum fault_verb v)
{
	return v == FAULT_HANG || v == FAULT_HANG_INSIDE ||
		v == FAULT_HANG_ANSWERED || v == FAULT_SEQ || v == FAULT_STALL;
}

static void draw_fault(struct stress_draw *d, struct stress_schedule *s)
{
	static const uint32_t some[] = { FAULT_ANY, 2, 4, 6, 6, 6 };
	uint32_t verb = stress_below(d, VERBS);
	uint32_t kind = some[stress_below(d, ARRAY_LEN(some))];

	/* Faults that last until a time limit take long, so draw fewer such
	 * faults. */
	if (hangs(numbers[verb]) && !stress_once_in(d, 3))
		verb = 0;
	if (stress_once_in(d, 25))
		kind = FAULT_START;
	STRESS_ADD(s, FAULT, verb, kind,
		1 + stress_below(d, stress_once_in(d, 3) ? 60 : 12),
		stress_once_in(d, 12), 1 + stress_below(d, 30));
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	uint32_t n = 1 + stress_below(d, 5);

	STRESS_ADD(s, PAIR, stress_below(d, DECODE_WAYS), stress_below(d, 3),
		stress_below(d, 4), stress_once_in(d, 3) ? 2 : 0);
	for (uint32_t i = 0; i < n; i++)
		draw_fault(d, s);
}

/* ---- a plan, and the failures that it explains --------------------------- */

struct plan {
	struct fault_plan faults;
	bool may_fail, may_lose;
	bool lies;     /* a device may be lost because of a wrong completion */
	bool slow;     /* a wait may last until its time limit */
	unsigned lost; /* number of devices that are lost */
	unsigned passing, flips;
};

/* Make a fault event from random numbers. Invalid numbers are replaced. Returns
 * false for a fault that cannot occur at the start of the device. */
static bool event_of(const uint32_t *v, struct fault_event *out)
{
	*out = (struct fault_event){ .verb = numbers[v[0]],
		.kind = v[1],
		.ms = v[4],
		.at = v[2],
		.later = v[3] };
	if (v[0] >= FLASH)
		out->kind = FAULT_ANY;
	if (out->verb == FAULT_ENOMEM)
		out->kind = 2;
	if (out->verb != FAULT_LATE && out->verb != FAULT_FULL &&
		out->verb != FAULT_SLOW)
		out->ms = 0;
	/* Do not delay every later completion or read, because such a run would
	 * take too long. */
	if (out->ms)
		out->later = false;
	return out->kind != FAULT_START || out->verb == FAULT_DIE ||
		out->verb == FAULT_HANG || out->verb == FAULT_LATE;
}

static void explain(struct plan *p, const struct fault_event *f)
{
	switch (f->verb) {
	case FAULT_DIE:
	case FAULT_DIE_INSIDE:
	case FAULT_DIE_ANSWERED:
	case FAULT_HANG:
	case FAULT_HANG_INSIDE:
	case FAULT_HANG_ANSWERED:
	case FAULT_SEQ:
	case FAULT_TEAR:
		p->lost++;
		p->lies |= f->verb == FAULT_SEQ || f->verb == FAULT_TEAR;
		/* If a device dies or hangs at its start, the run may fail. */
		p->may_lose |= f->kind == FAULT_START;
		break;
	case FAULT_ENOMEM:
	case FAULT_SHRINK:
	case FAULT_STALL:
		p->may_fail = true;
		break;
	case FAULT_EIO:
	case FAULT_SHORT:
		p->passing++;
		p->may_fail |= f->later;
		break;
	case FAULT_FLIP:
		p->flips++;
		p->may_fail |= f->later;
		break;
	default:
		break;
	}
	p->slow |= hangs(f->verb);
}

static void plan_of(const struct stress_schedule *s, struct plan *p)
{
	*p = (struct plan){ 0 };
	for (uint32_t i = 0; i < s->n && p->faults.n < FAULT_PLAN_MAX; i++) {
		struct fault_event *f = &p->faults.event[p->faults.n];

		if (s->step[i].verb == FAULT && event_of(s->step[i].value, f)) {
			explain(p, f);
			p->faults.n++;
		}
	}
	p->may_fail |= p->passing > 3 || p->flips > 1;
}

/* ---- one text ------------------------------------------------------------ */

/* The resources that are in use with the first device (`one`), and the name of
 * a resource of which more was in use after a device was replaced (`more`). */
struct at_hand {
	struct stress_run *run;
	bool known;
	struct leftovers one;
	char more[256]; /* "" if nothing increased */
};

static void look_at_first(void *arg)
{
	struct at_hand *h = arg;
	struct err e;

	h->known = h->known || !leftovers_look(&h->one, &e);
}

/* Called when a device was replaced. If a bug is to be inserted, this callback
 * leaks a descriptor. */
static void look_again(void *arg, const char *sentence)
{
	struct at_hand *h = arg;
	struct leftovers now;
	struct err e;

	if (!h->known) {
		look_at_first(h);
		return;
	}
	if (h->run->plant)
		h->run->tally[REPLACED] += dup(STDERR_FILENO) < 0;
	if (!*h->more && !leftovers_look(&now, &e))
		leftovers_no_more(&h->one, &now, h->more, sizeof(h->more));
}

static int check_run(struct stress_run *r, const uint32_t *v, struct plan *p,
	const struct decoded *got, const struct decoded *want)
{
	const char *plan_is = decode_ways[v[0]];
	char how[80];
	bool lost = got->status == TANDEM_LOST;

	/* If a fault depends on time and the machine is slow, more devices may
	 * be lost than the plan says. */
	if (p->lost > n_restarts[v[2]] || (p->slow && v[2] < 3))
		p->may_lose = true;
	/* If a device that broke the protocol is not replaced, the run fails.
	 */
	p->may_fail |= p->may_lose && p->lies;
	r->tally[REPLACED] += got->restarts;
	r->tally[FAILED] += got->status == TANDEM_FAILED;
	r->tally[LOST] += lost;
	if (!got->status && decode_same(got, want, how, sizeof(how))) {
		r->tally[TEXTS]++;
		return 0;
	}
	if (!got->status)
		return stress_broken(r, "another text (%s): %s", plan_is, how);
	if (!*got->error)
		return stress_broken(r,
			"status %d of %s without an error "
			"message",
			got->status, plan_is);
	if ((lost && p->may_lose) ||
		(got->status == TANDEM_FAILED && p->may_fail))
		return 0;
	return stress_broken(r,
		"%s ends with status %d, which the plan does "
		"not explain: %s",
		plan_is, got->status, got->error);
}

static int check_leftovers(struct stress_run *r, const uint32_t *v,
	const struct leftovers *before, const struct at_hand *hand,
	const struct decoded *got)
{
	char what[256];

	if (*hand->more)
		return stress_broken(r,
			"%s: after a device was replaced (%u in total): %s",
			decode_ways[v[0]], got->restarts, hand->more);
	if (leftovers_none(before, what, sizeof(what)))
		return 0;
	return stress_broken(r, "after %s (status %d): %s", decode_ways[v[0]],
		got->status, what);
}

static int decode_with(struct stress_run *r, const uint32_t *v, struct plan *p)
{
	char plan[FAULT_TEXT_MAX + 8] = "fault=", bell[32], again[32],
				   level[32];
	const char *set[] = { bell, again, level,
		p->slow ? "device-timeout=0.5" : "device-timeout=60", plan,
		NULL };
	struct at_hand hand = { .run = r };
	const struct decode_watch watch = { look_at_first, look_again, &hand };
	struct leftovers before;
	const struct decoded *want;
	struct decoded got;
	int ret = decode_wanted(r->world, v[0], &want, r->e);

	if (!ret)
		ret = leftovers_look(&before, r->e);
	if (ret)
		return ret;
	fault_plan_print(&p->faults, plan + strlen(plan));
	if (!p->faults.n)
		set[4] = NULL;
	snprintf(bell, sizeof(bell), "doorbell=%s", bells[v[1]]);
	snprintf(again, sizeof(again), "restarts=%s", restarts[v[2]]);
	snprintf(level, sizeof(level), "coherence=%s", levels[v[3]]);
	decode(r->world, v[0], set, &watch, &got);
	r->tally[FAULTS] += p->faults.n;
	ret = check_run(r, v, p, &got, want);
	return ret ? ret : check_leftovers(r, v, &before, &hand, &got);
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	static const uint32_t plain[STRESS_PARAMS];
	const uint32_t *pair = plain;
	struct plan p;

	for (uint32_t i = 0; i < s->n; i++)
		if (s->step[i].verb == PAIR)
			pair = s->step[i].value;
	plan_of(s, &p);
	return decode_with(r, pair, &p);
}

static int prepare(void **world, const char *folder, struct err *e)
{
	return decodes_open((struct decodes **)world, folder, e);
}

static void discard(void *world)
{
	decodes_close(world);
}

const struct stress_area stress_faults = {
	.verbs = { "faults", verbs, ARRAY_LEN(verbs) },
	.tally = tallies,
	.seconds = 120,
	.prepare = prepare,
	.discard = discard,
	.draw = draw,
	.run = run,
};
