/*
 * A runner generates texts for an experiment (struct runner of
 * host/bench/experiment.h). This one starts no host or device process. The
 * setting, a list of options, determines the results. An output is `predict`
 * tokens of a text that depends only on the item. A token takes `us`
 * microseconds, and a pass emits `length` tokens. Further options of a setting:
 *
 *   wrong=ITEM  another token at the end of that item
 *   bytes=N     bytes read in a pass, instead of 7
 *   rows=N      rows of logits in addition to one per emitted token
 *   least=US    time in microseconds that flash needs for all bytes
 *   counted=N   bytes that the kernel counted in an item; the number may
 *               differ by up to 5 from the bytes that were read
 *   fail=open|item|close  the call that fails
 */
#ifndef TESTS_HOST_BENCH_FAKE_RUNNER_H
#define TESTS_HOST_BENCH_FAKE_RUNNER_H

#include "base/err.h"
#include "host/bench/experiment.h"
#include "tests/harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_PROMPT 2
#define FAKE_TEXT   64

struct fake_one {
	const struct setting *set;
	int32_t text[FAKE_TEXT];
};

struct fake_runner {
	struct fake_one one;
	unsigned opened, closed, good;
	char log[400]; /* "a0 a1 b0 ...": name of the setting, item */
	/* number of fake_item calls that got an earlier output of the item */
	unsigned known;
	/* Each token takes this many picoseconds more, times the number of
	 * fake_open calls so far. */
	uint64_t slower_ps;
};

static inline uint32_t fake_number(
	const struct setting *s, const char *name, uint32_t otherwise)
{
	const char *value = setting_value(s, name);

	return value ? (uint32_t)strtoul(value, NULL, 10) : otherwise;
}

static inline int fake_fails(
	const struct setting *s, const char *where, struct err *e)
{
	const char *value = setting_value(s, "fail");

	return value && !strcmp(value, where)
		? err_set(e, EIO, "failed as set: %s", where)
		: 0;
}

static inline int fake_open(
	void *arg, const struct setting *s, void **one, struct err *e)
{
	struct fake_runner *f = arg;
	int ret = fake_fails(s, "open", e);

	if (ret)
		return ret;
	f->opened++;
	f->one.set = s;
	*one = &f->one;
	return 0;
}

static inline int fake_item(void *arg, void *one, size_t item,
	const struct known_text *known, struct item_report *t, struct err *e)
{
	struct fake_runner *f = arg;
	const struct setting *s = ((struct fake_one *)one)->set;
	uint32_t n = fake_number(s, "predict", 8), us;
	uint32_t length = fake_number(s, "length", 1);
	const char *name = setting_value(s, "name");
	size_t used = strlen(f->log);

	f->known += known != NULL;
	snprintf(f->log + used, sizeof(f->log) - used, "%s%s%zu",
		used ? " " : "", name ? name : "?", item);
	us = fake_number(s, "us", 1000) * (s->in_a_row ? 2 : 1);
	for (uint32_t i = 0; i < FAKE_PROMPT + n; i++)
		f->one.text[i] = (int32_t)(100 * item + i);
	if (fake_number(s, "wrong", 99) == item)
		f->one.text[FAKE_PROMPT + n - 1]++;
	*t = (struct item_report){ .text = f->one.text,
		.n = FAKE_PROMPT + n,
		.n_prompt = FAKE_PROMPT,
		.n_predict = n,
		.streamed = 7,
		.kernel_bytes = fake_number(s, "counted", UINT32_MAX),
		.kernel_wanted = 7 * (n / length),
		.kernel_slack = 5,
		.rows_emitted = true,
		.base_w = 2 };
	if (t->kernel_bytes == UINT32_MAX)
		t->kernel_bytes = -1;
	t->figures = (struct figures){ .tokens = n,
		.least_ps = UINT64_C(1000000) * fake_number(s, "least", 0),
		.ns = (uint64_t)n * us * 1000,
		.ps = (uint64_t)n * us * 1000000 + n * f->opened * f->slower_ps,
		.passes = n / length,
		.rows = 3 * (n / length),
		/* Row counts of the decode passes, which run in graphs
		 * (precompiled passes) of 8 rows. */
		.decode_rows = { n / length, 3 * (n / length), n,
			8 * (n / length), 32 * (n / length) },
		.logits_rows = n + fake_number(s, "rows", 0),
		.bytes = n / length * fake_number(s, "bytes", 7),
		.priced_bytes = n / length * 70,
		.energy_pj = (uint64_t)n * 1000000000 };
	return fake_fails(s, "item", e);
}

static inline int fake_close(void *arg, void *one, bool good, struct err *e)
{
	struct fake_runner *f = arg;

	f->closed++;
	f->good += good;
	return good ? fake_fails(((struct fake_one *)one)->set, "close", e) : 0;
}

static const unsigned fake_task[] = { 0, 0, 1 };
static const char *const fake_tasks[] = { "first", "second" };

/* An experiment with three items of two tasks, with simulated phone time. */
static inline struct runner fake_begin(
	struct fake_runner *f, struct experiment *x)
{
	*f = (struct fake_runner){ 0 };
	*x = (struct experiment){ .item_task = fake_task,
		.n_items = 3,
		.task = fake_tasks,
		.n_tasks = 2,
		.rounds = 1,
		.phone = true };
	return (struct runner){ fake_open, fake_item, fake_close, f };
}

/* Add a setting to the experiment. Options are separated by spaces and must fit
 * in the buffer. */
static inline struct run *fake_add(
	struct experiment *x, const char *options, unsigned same_text)
{
	struct setting s = { 0 };
	struct err e = { 0 };
	char copy[200], *rest;
	struct run *r;

	snprintf(copy, sizeof(copy), "%s", options);
	for (char *word = strtok_r(copy, " ", &rest); word;
		word = strtok_r(NULL, " ", &rest))
		assert_ok(setting_change(&s, word, &e), &e);
	assert_ok(experiment_add(x, &s, same_text, &r, &e), &e);
	return r;
}

#endif
