/*
 * Common part of the tests of histories. This header makes a file in a separate
 * directory, and makes records. Every token of a record is a function of the
 * writer and the record's number, so that a test detects a partial record and a
 * mixture of two records.
 */
#ifndef TESTS_HOST_TEXT_HISTORY_FILE_H
#define TESTS_HOST_TEXT_HISTORY_FILE_H

#include "tests/harness.h"

#include "base/err.h"
#include "host/text/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HISTORY_VOCAB  1000003u
#define HISTORY_LENGTH 300 /* maximum tokens of a record */

static char history_dir[4096], history_path[4200];

/* Make a new directory without a history file. */
static inline void history_fresh(void)
{
	snprintf(history_dir, sizeof(history_dir), "%s", harness_tmp());
	snprintf(history_path, sizeof(history_path), "%s/history", history_dir);
}

static inline struct history_opts history_of(uint64_t max)
{
	return (struct history_opts){ .vocabulary = 0x1234,
		.n_vocab = HISTORY_VOCAB,
		.max_bytes = max,
		.write = true };
}

static inline struct history *history_opened(uint64_t max)
{
	struct history_opts o = history_of(max);
	struct history *h = NULL;
	struct err e = { 0 };

	assert_ok(history_open(&h, history_path, &o, &e), &e);
	return h;
}

static inline struct history *history_reader(void)
{
	struct history_opts o = history_of(0);
	struct history *h = NULL;
	struct err e = { 0 };

	o.write = false;
	assert_ok(history_open(&h, history_path, &o, &e), &e);
	return h;
}

/* Returns the k-th record of a writer, which has 3 to 300 tokens. The record
 * points to the array `id`. */
static inline struct history_record history_made(
	uint32_t writer, uint32_t k, int32_t id[HISTORY_LENGTH])
{
	uint32_t x = writer * 7919u + k * 104729u + 1;
	uint32_t n = 3 + x % (HISTORY_LENGTH - 2);

	id[0] = (int32_t)writer;
	id[1] = (int32_t)k;
	for (uint32_t i = 2; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		id[i] = (int32_t)(x % HISTORY_VOCAB);
	}
	return (struct history_record){
		.time = 1000 + k, .id = id, .n_prompt = n / 3, .n = n
	};
}

/* Check that the record is one of history_made, and store its writer and its
 * number k. */
static inline void history_check_made(
	const struct history_record *r, uint32_t *writer, uint32_t *k)
{
	int32_t id[HISTORY_LENGTH];
	struct history_record want;

	assert_true(r->n >= 3);
	*writer = (uint32_t)r->id[0];
	*k = (uint32_t)r->id[1];
	want = history_made(*writer, *k, id);
	assert_int_equal(r->n, want.n);
	assert_int_equal(r->n_prompt, want.n_prompt);
	assert_int_equal(r->time, want.time);
	assert_memory_equal(r->id, want.id, want.n * sizeof(*id));
}

static inline void history_add(struct history *h, uint32_t writer, uint32_t k)
{
	int32_t id[HISTORY_LENGTH];
	struct history_record r = history_made(writer, k, id);
	struct err e = { 0 };

	assert_ok(history_append(h, &r, 1, &e), &e);
}

/* The history must contain exactly the records from .. to - 1 of writer 0. */
static inline void history_holds(
	const struct history *h, uint32_t from, uint32_t to)
{
	assert_int_equal(history_count(h), to - from);
	for (uint32_t i = from; i < to; i++) {
		struct history_record r = history_at(h, i - from);
		uint32_t writer, k;

		history_check_made(&r, &writer, &k);
		assert_int_equal(writer, 0);
		assert_int_equal(k, i);
	}
}

static inline off_t history_bytes(void)
{
	struct stat st;

	assert_int_equal(stat(history_path, &st), 0);
	return st.st_size;
}

#endif
