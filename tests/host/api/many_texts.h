/*
 * A library handle (struct tandem) with a small model, a set of varied
 * requests, and the text that each request generates alone. Tests that run
 * several requests at the same time compare their texts with these texts. Uses
 * real device processes ($TANDEM_NPU).
 */
#ifndef TESTS_HOST_API_MANY_TEXTS_H
#define TESTS_HOST_API_MANY_TEXTS_H

#include "base/checked.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "tests/harness.h"
#include "tests/host/api/tiny_model.h"

#include <stdio.h>
#include <string.h>

#define MANY 24 /* maximum number of requests */

static unsigned many = MANY;

static char model[5000];

static inline int setup(void **state)
{
	model_of_shape(model, sizeof(model), "tiny");
	return 0;
}

static inline struct tandem *opened(const char *const *set)
{
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = model;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	return t;
}

static inline int keep(void *arg, int32_t id, const char *text, size_t len)
{
	strbuf_add(arg, text, len);
	return 0;
}

/* Sample callback: append the sample's number, state, score and text to the
 * string buffer `arg`. */
static inline void keep_sample(void *arg, const struct tandem_sample *s)
{
	strbuf_addf(arg,
		"\n%u from %d: state %d, stop %d, %s, score %.9g: ", s->index,
		(int)s->parent, s->state, s->stop,
		s->chosen ? "chosen" : "not chosen", s->score);
	strbuf_add(arg, s->text, s->text_bytes);
}

/* Request number i, with a prompt, length, flags, temperature and seed that
 * depend on i. Some prompts have a common prefix. */
static inline struct tandem_request asking(unsigned i, struct strbuf *text)
{
	static const char *const prompt[] = {
		"Once",
		"Once upon a time there was a king who had a very long name",
		"x",
		"Once upon a time there was a king who had",
		"Hello there, who are you, and what is it that you want of me? "
		"I have come a long way to ask you this, and I shall not go "
		"before you have told me all that you know about the matter.",
		"Once upon a time there was a queen",
		"Hello there, who are you, and what is it that you want?",
	};
	struct tandem_request r;

	tandem_request_init(&r, sizeof(r));
	r.prompt = prompt[i % ARRAY_LEN(prompt)];
	r.max_tokens = i % 11 ? 3 + 7 * (i % 4) : 0;
	r.flags = i % 2 ? TANDEM_IGNORE_EOS : 0;
	r.temperature = i % 3 ? .9 : 0;
	r.seed = 1 + i;
	r.sink = keep;
	r.sink_arg = text;
	r.sample = keep_sample;
	r.sample_arg = text;
	return r;
}

/* The text that tandem_generate writes for each request alone. */
static struct strbuf wanted[MANY];

static inline void write_alone(const char *const *set)
{
	struct tandem *t = opened(set);

	for (unsigned i = 0; i < many; i++) {
		struct tandem_request r = asking(i, &wanted[i]);

		strbuf_reset(&wanted[i]);
		if (tandem_generate(t, &r, NULL))
			fail_msg("%s", tandem_error(t));
	}
	assert_int_equal(tandem_close(t), 0);
}

static inline void assert_same(const struct strbuf *text, unsigned i)
{
	if (text->len != wanted[i].len ||
		(text->len && memcmp(text->data, wanted[i].data, text->len)))
		fail_msg("text %u is '%.*s', alone '%.*s'", i, (int)text->len,
			text->data ? text->data : "", (int)wanted[i].len,
			wanted[i].data ? wanted[i].data : "");
}

#endif
