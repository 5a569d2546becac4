/* A started handle of a small model, with 512 tokens of context. The pair is
 * real (TANDEM_NPU). */
#ifndef TESTS_HOST_SERVE_STARTED_MODEL_H
#define TESTS_HOST_SERVE_STARTED_MODEL_H

#include "host/api/tandem.h"
#include "tests/host/api/tiny_model.h"

#define STARTED_CONTEXT 512

/* `texts` is a setting such as "texts=2". */
static inline struct tandem *started(const char *texts)
{
	static char model[5000];
	const char *const set[] = { texts, NULL };
	struct tandem_options options;
	struct tandem *t;

	model_of_shape(model, sizeof(model), "tiny");
	tandem_options_init(&options, sizeof(options));
	options.model = model;
	options.set = set;
	assert_int_equal(tandem_open(&t, &options), 0);
	assert_int_equal(tandem_start(t, STARTED_CONTEXT), 0);
	return t;
}

#endif
