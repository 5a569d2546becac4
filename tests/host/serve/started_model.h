/* A started library handle (struct tandem) of a small model, with a context of
 * 512 tokens. A real device process computes ($TANDEM_NPU). */
#ifndef TESTS_HOST_SERVE_STARTED_MODEL_H
#define TESTS_HOST_SERVE_STARTED_MODEL_H

#include "host/api/tandem.h"
#include "tests/host/api/tiny_model.h"

#define STARTED_CONTEXT 512

/* Returns the handle, which the caller closes. `texts` is a setting such as
 * "texts=2". */
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
