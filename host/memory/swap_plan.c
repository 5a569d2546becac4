#include "host/memory/swap_plan.h"

#include "base/checked.h"
#include "base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- stall of a choice of temporary operators ---------------------------- */

/*
 * The state between two forward passes consists of four instants (times): the
 * end of the last run of an operator, the end of the last copy, and the times
 * when the two slots become free. A struct instant expresses a later instant by
 * the four instants before a pass: the later instant is the largest of the four
 * sums (instant i before the pass) + after[i].
 */
enum { RAN, COPIED, FREED, FREED_NEXT, INSTANTS };
#define NEVER (INT64_MIN / 8)

struct instant {
	int64_t after[INSTANTS];
};

static struct instant later(struct instant a, const struct instant *b)
{
	for (unsigned i = 0; i < INSTANTS; i++)
		if (b->after[i] > a.after[i])
			a.after[i] = b->after[i];
	return a;
}

static struct instant plus(struct instant a, int64_t time)
{
	for (unsigned i = 0; i < INSTANTS; i++)
		a.after[i] += time;
	return a;
}

/* Compute one forward pass: x[i] becomes instant i after the pass, expressed by
 * the four instants before the pass. */
static void forward(const struct swap_op *op, uint32_t n, const bool *temporary,
	struct instant x[INSTANTS])
{
	for (unsigned i = 0; i < INSTANTS; i++)
		for (unsigned k = 0; k < INSTANTS; k++)
			x[i].after[k] = i == k ? 0 : NEVER;
	for (uint32_t i = 0; i < n; i++) {
		if (temporary[i]) {
			x[COPIED] = plus(later(x[COPIED], &x[FREED]),
				(int64_t)op[i].copy);
			x[RAN] = later(x[RAN], &x[COPIED]);
		}
		x[RAN] = plus(x[RAN], (int64_t)op[i].run);
		if (temporary[i]) {
			x[FREED] = x[FREED_NEXT];
			x[FREED_NEXT] = x[RAN];
		}
	}
}

/* Compose the effects of passes: `to` is the effect of `b`, followed by `a`. */
static void compose(struct instant to[INSTANTS],
	const struct instant a[INSTANTS], const struct instant b[INSTANTS])
{
	for (unsigned i = 0; i < INSTANTS; i++) {
		struct instant sum;

		for (unsigned k = 0; k < INSTANTS; k++)
			sum.after[k] = NEVER;
		for (unsigned j = 0; j < INSTANTS; j++) {
			struct instant via = plus(b[j], a[i].after[j]);

			sum = later(sum, &via);
		}
		for (unsigned k = 0; k < INSTANTS; k++)
			if (sum.after[k] < NEVER / 2)
				sum.after[k] = NEVER;
		to[i] = sum;
	}
}

uint64_t swap_stall(const struct swap_op *op, uint32_t n, const bool *temporary)
{
	struct instant once[INSTANTS], often[INSTANTS], next[INSTANTS];
	int64_t most = 0, run = 0;

	for (uint32_t i = 0; i < n; i++)
		run += (int64_t)op[i].run;
	forward(op, n, temporary, once);
	memcpy(often, once, sizeof(often));
	for (int64_t forwards = 1;; forwards++) {
		for (unsigned i = 0; i < INSTANTS; i++) {
			int64_t round = often[i].after[i];

			if (round > NEVER / 2 &&
				round * (SWAP_TWELFTH / forwards) > most)
				most = round * (SWAP_TWELFTH / forwards);
		}
		if (forwards == INSTANTS)
			break;
		compose(next, once, often);
		memcpy(often, next, sizeof(often));
	}
	return (uint64_t)(most - run * SWAP_TWELFTH);
}

/* ---- comparing choices --------------------------------------------------- */

struct search {
	const struct swap_op *op;
	uint32_t n;
	const struct swap_room *room;
	/* total: bytes of all operators. largest: bytes of the largest
	 * operator. */
	uint64_t total, largest;
	/* [n] whether operator i is temporary (copied before each use). now: in
	 * the choice that is tried now. best: in the best choice so far. */
	bool *now, *best;
	bool found;
	/* stall and copied bytes of the best choice so far */
	uint64_t stall, copied;
};

static uint64_t copied_by(const struct search *s, const bool *temporary)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < s->n; i++)
		bytes += temporary[i] ? s->op[i].bytes : 0;
	return bytes;
}

static uint64_t mapped(const struct swap_room *r, uint64_t bytes)
{
	return align_up(bytes, r->page) + r->page;
}

/*
 * Whether `bytes` bytes of resident operators fit into the device's window
 * together with the staging slots. The operators may be divided into mappings
 * in any way: each mapping except the last has less free space than the largest
 * operator needs, so `mappings` is the largest possible number of mappings.
 */
static bool fits(const struct search *s, uint64_t bytes)
{
	const struct swap_room *r = s->room;
	uint64_t mappings =
		bytes ? bytes / (r->mapping - s->largest + 1) + 1 : 0;
	uint64_t taken = SWAP_SLOTS * mapped(r, s->largest);

	if (mappings == 1)
		taken += mapped(r, bytes);
	else
		taken += bytes + mappings * 2 * r->page;
	return taken <= r->bytes && SWAP_SLOTS + mappings <= r->slots;
}

/* If the choice fits into the device's window, compare it with the best choice
 * so far. Keep the choice with less stall or, if the stall is equal, with fewer
 * bytes to copy. */
static void consider(struct search *s, const bool *temporary)
{
	uint64_t copied = copied_by(s, temporary), stall;

	if (!fits(s, s->total - copied))
		return;
	stall = swap_stall(s->op, s->n, temporary);
	if (s->found &&
		(stall > s->stall ||
			(stall == s->stall && copied >= s->copied)))
		return;
	s->found = true;
	s->stall = stall;
	s->copied = copied;
	memcpy(s->best, temporary, s->n * sizeof(*temporary));
}

/* ---- the pool of choices ------------------------------------------------- */

#define EXCHANGES 300 /* maximum number of steps (try_step) for one choice */
/* The pool has choices for each total size of the temporary operators, in steps
 * of a quarter (1/PARTS) of the average size of an operator. */
#define PARTS 4

/*
 * Choose temporary operators as llada.cpp does: an operator becomes temporary
 * if the operators since the previous temporary operator run at least as long
 * as the operator's copy takes. Then make further operators temporary, until
 * `need` bytes are temporary: first the operators with the largest min(run,
 * copy) per byte, which is the copy time that the operator's own run can hide.
 */
static void walk(struct search *s, uint64_t need)
{
	uint64_t credit = 0, left = need;

	memset(s->now, 0, s->n * sizeof(*s->now));
	for (uint32_t i = 0; i < s->n; i++) {
		const struct swap_op *op = &s->op[i];

		if (left && credit >= op->copy) {
			s->now[i] = true;
			left -= left < op->bytes ? left : op->bytes;
			credit = 0;
		}
		credit += op->run;
	}
	while (left) {
		uint32_t pick = s->n;
		double most = -1;

		for (uint32_t i = 0; i < s->n; i++) {
			const struct swap_op *op = &s->op[i];
			double hidden =
				(double)(op->run < op->copy ? op->run
							    : op->copy) /
				(double)(op->bytes ? op->bytes : 1);

			if (!s->now[i] && hidden > most) {
				most = hidden;
				pick = i;
			}
		}
		if (pick == s->n)
			return;
		s->now[pick] = true;
		left -= left < s->op[pick].bytes ? left : s->op[pick].bytes;
	}
}

/*
 * Make operators temporary until they have `need` bytes, those with the least
 * copy time per byte first.
 */
static void cheapest(struct search *s, uint64_t need)
{
	uint64_t left = need;

	memset(s->now, 0, s->n * sizeof(*s->now));
	while (left) {
		const struct swap_op *pick = NULL;

		for (uint32_t i = 0; i < s->n; i++) {
			const struct swap_op *op = &s->op[i];

			if (!s->now[i] &&
				(!pick ||
					(double)op->copy * (double)pick->bytes <
						(double)pick->copy *
							(double)op->bytes))
				pick = op;
		}
		if (!pick)
			return;
		s->now[pick - s->op] = true;
		left -= left < pick->bytes ? left : pick->bytes;
	}
}

/*
 * One step of improve_chain: make the temporary operator `out` resident. Unless
 * `in` is n, make the resident operator `in` temporary instead. If the step is
 * not an improvement, undoes the step and returns false.
 */
static bool try_step(struct search *s, uint32_t out, uint32_t in,
	uint64_t least, uint64_t *copied, uint64_t *stall)
{
	uint64_t after = *copied - s->op[out].bytes, now;

	if (in < s->n)
		after += s->op[in].bytes;
	if (after < least || (in < s->n && s->now[in]))
		return false;
	s->now[out] = false;
	if (in < s->n)
		s->now[in] = true;
	now = swap_stall(s->op, s->n, s->now);
	if (now < *stall || (in == s->n && now == *stall)) {
		*stall = now;
		*copied = after;
		return true;
	}
	s->now[out] = true;
	if (in < s->n)
		s->now[in] = false;
	return false;
}

/*
 * Improve a choice of temporary operators step by step (try_step). At least
 * `least` bytes stay temporary, so that the choices of the pool remain
 * different; `least` does not depend on the size of the window. Pass the
 * improved choice to consider(). Then make the temporary operator with the
 * longest copy resident, pass the result to consider(), and repeat until all
 * operators are resident.
 */
static void improve_chain(struct search *s, uint64_t least)
{
	uint64_t copied = copied_by(s, s->now);
	uint64_t stall = swap_stall(s->op, s->n, s->now);
	unsigned left = EXCHANGES;
	bool better = true;

	while (better && left && stall) {
		better = false;
		for (uint32_t i = 0; i < s->n && left; i++) {
			for (uint32_t k = s->n; k && s->now[i] && left; k--) {
				uint32_t in = k == s->n ? k : (i + k) % s->n;

				left--;
				better |= try_step(
					s, i, in, least, &copied, &stall);
			}
		}
	}
	for (;;) {
		uint32_t pick = s->n;

		consider(s, s->now);
		for (uint32_t i = 0; i < s->n; i++)
			if (s->now[i] &&
				(pick == s->n ||
					s->op[i].copy > s->op[pick].copy))
				pick = i;
		if (pick == s->n)
			return;
		s->now[pick] = false;
	}
}

static void try_pool(struct search *s)
{
	for (uint32_t part = 1; part <= PARTS * s->n; part++) {
		uint64_t away =
			(s->total * part + PARTS * s->n - 1) / (PARTS * s->n);

		if (part % PARTS == 0) {
			uint64_t want = part / PARTS;

			/* Make `want` of the n operators temporary, evenly
			 * spread. */
			for (uint32_t i = 0; i < s->n; i++)
				s->now[i] =
					(i + 1) * want / s->n > i * want / s->n;
			improve_chain(s, copied_by(s, s->now));
		}
		walk(s, away);
		improve_chain(s, away);
		cheapest(s, away);
		improve_chain(s, away);
	}
}

/* ---- making a plan ------------------------------------------------------- */

/* Pack the resident operators in order, into mappings as large as possible.
 * Returns the bytes of the device's window that the mappings take. */
static uint64_t pack(struct swap_plan *p, const struct swap_op *op, uint32_t n,
	const struct swap_room *room)
{
	uint64_t at = 0, taken = 0;

	p->mappings = p->temporary = 0;
	p->resident_bytes = p->copied_bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct swap_place *place = &p->place[i];

		if (place->temporary) {
			p->temporary++;
			p->copied_bytes += op[i].bytes;
			continue;
		}
		if (!p->mappings || op[i].bytes > room->mapping - at) {
			taken += p->mappings ? mapped(room, at) : 0;
			p->mappings++;
			at = 0;
		}
		place->mapping = p->mappings - 1;
		place->at = at;
		at += op[i].bytes;
		p->resident_bytes += op[i].bytes;
	}
	return taken + (p->mappings ? mapped(room, at) : 0);
}

int swap_plan(struct swap_plan *p, const struct swap_op *op, uint32_t n,
	const struct swap_room *room, struct err *e)
{
	struct search s = { .op = op, .n = n, .room = room };
	uint64_t taken;

	for (uint32_t i = 0; i < n; i++) {
		s.total += op[i].bytes;
		s.largest = op[i].bytes > s.largest ? op[i].bytes : s.largest;
		p->place[i] = (struct swap_place){ 0 };
	}
	p->slot = p->stall = 0;
	taken = pack(p, op, n, room);
	if (taken <= room->bytes && p->mappings <= room->slots)
		return 0;
	if (!fits(&s, 0))
		return err_set(e, ENOSPC,
			"two staging slots of %.1f MiB do not fit into the "
			"%.1f MiB and %u mappings that the cache and the "
			"activations leave of the device's window; try a "
			"larger --va-window or --va-slots, a smaller --ctx or "
			"--prefill-chunk, or --placement belady, which needs "
			"room for one block",
			(double)s.largest / (1 << 20),
			(double)room->bytes / (1 << 20), room->slots);
	s.now = calloc(n, 2 * sizeof(*s.now));
	if (!s.now)
		return err_set(e, ENOMEM,
			"no memory for the placement of %u blocks of weights",
			n);
	s.best = s.now + n;
	if (n > SWAP_EXACT)
		try_pool(&s);
	for (uint32_t choice = 0; n <= SWAP_EXACT && choice < 1u << n;
		choice++) {
		for (uint32_t i = 0; i < n; i++)
			s.now[i] = choice >> i & 1;
		consider(&s, s.now);
	}
	for (uint32_t i = 0; i < n; i++)
		p->place[i].temporary = s.best[i];
	free(s.now);
	p->stall = s.stall;
	p->slot = s.largest;
	pack(p, op, n, room);
	return 0;
}
