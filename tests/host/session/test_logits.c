/* Rows of logits that are counted as meaningless: states and logits that are
 * not finite, or that have a magnitude which no model computes. */
#include "host/session/logits.h"

#include "base/err.h"
#include "base/workers.h"
#include "host/model/model.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"

#include <math.h>
#include <stdlib.h>

static struct model *model;
static struct workers *workers;
static struct logits *logits;
static float *hidden, *row;

static void open_logits(enum wire_precision precision)
{
	struct err e = { 0 };

	model = model_file_open(&model_file_tiny);
	assert_ok(workers_open(&workers, 1, &e), &e);
	assert_ok(logits_open(&logits, model, LAYOUT_TILES, precision, false,
			  workers, &e),
		&e);
	hidden = calloc(model->n_embd, sizeof(*hidden));
	row = calloc(model->n_vocab, sizeof(*row));
	assert_non_null(hidden);
	assert_non_null(row);
}

static void close_logits(void)
{
	logits_close(logits);
	workers_close(workers);
	model_close(model);
	free(hidden);
	free(row);
}

/* Compute the logits of a state whose values are all x; returns how many rows
 * are counted. */
static uint64_t counted(float x)
{
	const float *from = hidden;
	float *to = row;
	uint64_t before = logits_rows_not_finite(logits);
	struct err e = { 0 };

	for (uint32_t i = 0; i < model->n_embd; i++)
		hidden[i] = x;
	assert_ok(logits_compute(logits, &from, &to, 1, &e), &e);
	return logits_rows_not_finite(logits) - before;
}

/* The norm's sum of squares overflows, so that all logits are 0. */
static void rows_from_huge_states_are_counted(void **state)
{
	static const enum wire_precision both[] = { WIRE_INT8, WIRE_F32 };

	for (int i = 0; i < 2; i++) {
		open_logits(both[i]);
		assert_int_equal(counted(1), 0);
		assert_int_equal(counted(-1e9f), 0);
		assert_int_equal(counted(7e16f), 0);
		assert_int_equal(counted(8e16f), 1);
		assert_int_equal(counted(-3e38f), 1);
		assert_int_equal(counted(INFINITY), 1);
		close_logits();
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(rows_from_huge_states_are_counted),
};
TEST_FILE(tests)
