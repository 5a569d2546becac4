/*
 * Stress test of the device's cache and of the coherence checker. A program is
 * a list of accesses of the CPU and of the device. The maintenance that the
 * coherence rules require is inserted, so that the program is correct with any
 * steps removed. The model of the program is memory without a cache: every read
 * returns the newest bytes. The checker must report nothing, no matter which
 * lines are evicted.
 *
 * A step may leave out the next maintenance call. The model then predicts
 * whether the lines were in the device's cache, whether later reads of the
 * device return old values, and which cleans are missing at the end of the
 * request. The checker must report exactly these lines and this kind of call,
 * and nothing if the missing call has no effect.
 *
 * Texts are decoded at coherence level "check" as well, with all methods and
 * with random evictions of several seeds. The tokens must be equal to those
 * without a cache, and nothing may be reported.
 */
#include "tests/stress/areas.h"
#include "tests/stress/coherence_model.h"
#include "tests/stress/decodes.h"
#include "tests/stress/rehearse.h"

#include "base/checked.h"
#include "device/fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGIN, CPU, READ, WRITE, DMA, DONE, FORGET, DECODE };

static const char *const levels[] = { "check", "strict", "off" };
static const char *const whens[] = { "now", "end" };
static const char *const grains[] = { "line", "run" };

static const struct stress_verb verbs[] = {
	[BEGIN] = { "begin",
		{ { "level", 0, 2, levels },
			{ "lines", 1, COHERENCE_MODEL_LINES },
			{ "grain", 0, 1, grains },
			{ "evict", 0, UINT32_MAX } } },
	[CPU] = { "cpu",
		{ { "at", 0, COHERENCE_MODEL_WORDS - 1 },
			{ "words", 1, 40 } } },
	[READ] = { "read",
		{ { "at", 0, COHERENCE_MODEL_WORDS - 1 },
			{ "words", 1, 40 } } },
	[WRITE] = { "write",
		{ { "at", 0, COHERENCE_MODEL_WORDS - 1 }, { "words", 1, 40 },
			{ "clean", 0, 1, whens } } },
	[DMA] = { "dma",
		{ { "at", 0, COHERENCE_MODEL_WORDS - 1 },
			{ "words", 1, 40 } } },
	[DONE] = { "done", { { NULL } } },
	[FORGET] = { "forget", { { NULL } } },
	[DECODE] = { "decode",
		{ { "way", 0, DECODE_WAYS - 1, decode_ways },
			{ "evict", 0, INT32_MAX } } },
};

enum { PROGRAMS, READS, CALLS, FORGOTTEN, NAMED, HARMLESS, TEXTS };
static const char *const tallies[] = { "programs", "reads",
	"calls of maintenance", "forgotten", "named", "harmless", "texts",
	NULL };

/* ---- drawing ------------------------------------------------------------- */

static void draw_access(
	struct stress_draw *d, struct stress_schedule *s, uint32_t words)
{
	uint32_t at = stress_below(d, words);
	uint32_t n = 1 + stress_below(d, stress_once_in(d, 3) ? 40 : 6);

	/* In one of five cases access exactly one whole line. Whole lines and
	 * parts of lines are different cases for the cache. */
	if (stress_once_in(d, 5)) {
		at = at / 16 * 16;
		n = 16;
	}
	switch (stress_below(d, 10)) {
	case 0 ... 2:
		STRESS_ADD(s, CPU, at, n);
		break;
	case 3 ... 5:
		STRESS_ADD(s, READ, at, n);
		break;
	case 6 ... 8:
		STRESS_ADD(s, WRITE, at, n, stress_below(d, 2));
		break;
	default:
		STRESS_ADD(s, DMA, at, n);
	}
}

static void draw(struct stress_draw *d, struct stress_schedule *s)
{
	uint32_t lines = 1 + stress_below(d, stress_once_in(d, 2) ? 4 : 32);
	uint32_t n = 5 + stress_below(d, 90);
	bool forgets = stress_once_in(d, 2);

	if (stress_once_in(d, 30)) {
		STRESS_ADD(s, DECODE, stress_below(d, DECODE_WAYS),
			1 + stress_below(d, INT32_MAX));
		return;
	}
	STRESS_ADD(s, BEGIN, stress_once_in(d, 6) ? 1 + stress_below(d, 2) : 0,
		lines, stress_below(d, 2),
		stress_once_in(d, 4) ? 0 : stress_below(d, UINT32_MAX));
	while (s->n < n)
		if (stress_once_in(d, 8))
			STRESS_ADD(s, DONE, 0);
		else if (forgets && stress_once_in(d, 12))
			STRESS_ADD(s, FORGET, 0);
		else
			draw_access(d, s, lines * 16);
}

/* ---- a program ----------------------------------------------------------- */

static int play(struct stress_run *r, struct coherence_model *m)
{
	struct strbuf answer = STRBUF_INIT;
	struct err why = { 0 };
	struct fault fault;
	/* The inserted bug: the second invalidation is not done. */
	int ret = fault_parse(
		&fault, r->plant ? "drop-invalidate:rehearsed#2" : NULL, r->e);

	if (!ret && (m->text.failed || m->expected.failed))
		ret = err_set(r->e, ENOMEM, "no memory for a program");
	if (!ret)
		ret = rehearse(m->text.data, &fault, &answer, r->e);
	if (!ret && coherence_model_check(m, answer.data, &why))
		ret = stress_broken(r, "%s", why.text);
	strbuf_release(&answer);
	if (ret < 0)
		return ret;
	r->tally[PROGRAMS]++;
	r->tally[READS] += m->reads;
	r->tally[CALLS] += m->calls;
	r->tally[FORGOTTEN] += m->n_forgotten;
	r->tally[NAMED] += m->named;
	r->tally[HARMLESS] += m->harmless;
	return ret;
}

static int end_program(struct stress_run *r, struct coherence_model *m)
{
	int ret = 0;

	if (m->steps) {
		coherence_model_end(m);
		ret = play(r, m);
	}
	coherence_model_release(m);
	return ret;
}

static void begin(struct coherence_model *m, const uint32_t *v)
{
	coherence_model_init(m, levels[v[0]], v[1], v[2], v[3]);
}

/* ---- texts --------------------------------------------------------------- */

static int decode_checked(struct stress_run *r, const uint32_t *v)
{
	char evict[32], how[80];
	const char *set[] = { "coherence=check", evict, NULL };
	const struct decoded *want;
	struct decoded got;
	int ret = decode_wanted(r->world, v[0], &want, r->e);

	if (ret)
		return ret;
	snprintf(evict, sizeof(evict), "evict-seed=%u", v[1]);
	decode(r->world, v[0], set, NULL, &got);
	r->tally[TEXTS]++;
	if (got.status)
		return stress_broken(r, "%s: %s", decode_ways[v[0]], got.error);
	if (!decode_same(&got, want, how, sizeof(how)))
		return stress_broken(
			r, "the text of %s: %s", decode_ways[v[0]], how);
	return 0;
}

/* ---- a schedule ---------------------------------------------------------- */

static int do_step(struct stress_run *r, struct coherence_model *m,
	const struct stress_step *step)
{
	const uint32_t *v = step->value;
	int ret;

	switch (step->verb) {
	case BEGIN:
		ret = end_program(r, m);
		begin(m, v);
		return ret;
	case CPU:
		coherence_model_cpu(m, v[0], v[1]);
		break;
	case READ:
		coherence_model_read(m, v[0], v[1]);
		break;
	case WRITE:
		coherence_model_write(m, v[0], v[1], !v[2]);
		break;
	case DMA:
		coherence_model_dma(m, v[0], v[1]);
		break;
	case DONE:
		coherence_model_done(m);
		break;
	case FORGET:
		m->forget_next = true;
		break;
	default:
		return decode_checked(r, v);
	}
	return 0;
}

static int run(struct stress_run *r, const struct stress_schedule *s)
{
	static const uint32_t first[4] = { 0, 1, 0, 0 };
	struct coherence_model *m = calloc(1, sizeof(*m));
	int ret = 0;

	if (!m)
		return err_set(r->e, ENOMEM, "no memory for a model");
	begin(m, first);
	for (uint32_t i = 0; i < s->n && !ret; i++)
		ret = do_step(r, m, &s->step[i]);
	if (!ret)
		ret = end_program(r, m);
	else
		coherence_model_release(m);
	free(m);
	return ret;
}

static int prepare(void **world, const char *folder, struct err *e)
{
	return decodes_open((struct decodes **)world, folder, e);
}

static void discard(void *world)
{
	decodes_close(world);
}

const struct stress_area stress_coherence = {
	.verbs = { "coherence", verbs, ARRAY_LEN(verbs) },
	.tally = tallies,
	.seconds = 60,
	.prepare = prepare,
	.discard = discard,
	.draw = draw,
	.run = run,
};
