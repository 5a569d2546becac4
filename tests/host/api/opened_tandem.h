/*
 * Opens the library with small models, builds requests, and collects the
 * generated text. Common part of the tests of tandem.h. Uses real device
 * processes ($TANDEM_NPU).
 */
#ifndef TESTS_HOST_API_OPENED_TANDEM_H
#define TESTS_HOST_API_OPENED_TANDEM_H

#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "tests/harness.h"
#include "tests/host/api/tiny_model.h"

#include <stdio.h>
#include <string.h>

/* Paths of the small models, which setup writes. */
static char model[5000], diffusion_model[5000];

static inline int setup(void **state)
{
	model_of_shape(model, sizeof(model), "tiny");
	model_of_shape(diffusion_model, sizeof(diffusion_model), "tiny-llada");
	return 0;
}

/* Fail unless the handle's error message contains `part`. */
#define assert_says(handle, part)                            \
	do {                                                 \
		if (!strstr(tandem_error(handle), part))     \
			fail_msg("'%s' does not hold '%s'",  \
				tandem_error(handle), part); \
	} while (0)

static inline int open_with(struct tandem **t, const char *a, const char *b)
{
	const char *const set[] = { a, b, NULL };
	struct tandem_options o;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = a ? set : NULL;
	return tandem_open(t, &o);
}

static inline struct tandem *opened(const char *a, const char *b)
{
	struct tandem *t;
	int ret = open_with(&t, a, b);

	if (ret)
		fail_msg("returned %d: %s", ret, tandem_error(NULL));
	return t;
}

static inline int keep(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

static inline struct tandem_request asking(const char *prompt, int64_t tokens)
{
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt;
	r.max_tokens = tokens;
	r.flags = TANDEM_IGNORE_EOS;
	return r;
}

/* The text that the handle generates after the prompt; the caller frees it. */
static inline char *text_of(
	struct tandem *t, const char *prompt, int64_t tokens)
{
	struct tandem_request r = asking(prompt, tokens);
	struct tandem_result got = { .size = sizeof(got) };
	struct strbuf text = STRBUF_INIT;

	r.sink = keep;
	r.sink_arg = &text;
	if (tandem_generate(t, &r, &got))
		fail_msg("%s", tandem_error(t));
	assert_int_equal(got.stop, TANDEM_STOP_LENGTH);
	assert_int_equal(got.tokens, tokens);
	assert_true(text.len);
	return text.data;
}

#endif
