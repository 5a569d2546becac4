/*
 * The requests of test_requests_schedule.c on a tiny model, and the tokens that
 * each request generates when it runs alone.
 */
#ifndef TESTS_HOST_API_EXPECTED_REQUESTS_H
#define TESTS_HOST_API_EXPECTED_REQUESTS_H

#include "base/err.h"
#include "base/rng.h"
#include "host/api/tandem_impl.h"
#include "tensor/gguf_write.h"
#include "tests/harness.h"
#include "tests/host/model/model_file.h"
#include "tests/host/npu/fake_device.h"

#include <stdlib.h>
#include <string.h>

#define N_VOCAB  32
#define N_LETTER 26 /* number of vocabulary entries that occur in prompts */
#define CONTEXT  128
#define ALL      64 /* number of different requests */

/* ---- models -------------------------------------------------------------- */

static char target[4200], masked[4200], draft[4300];

static void put_vocabulary(struct gguf_writer *w)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABC";
	const struct gguf_str merge = { "a b", 3 };
	struct gguf_str token[N_VOCAB];
	int32_t type[N_VOCAB];

	for (unsigned i = 0; i < N_VOCAB; i++) {
		token[i] = (struct gguf_str){ letters + i, 1 };
		type[i] = 1;
	}
	token[N_VOCAB - 3] = (struct gguf_str){ "ab", 2 };
	token[N_VOCAB - 2] = (struct gguf_str){ "<|im_end|>", 10 };
	token[N_VOCAB - 1] = (struct gguf_str){ "AB", 2 };
	type[N_VOCAB - 2] = 3;
	gguf_put_str(w, "tokenizer.ggml.model", "gpt2");
	gguf_put_str(w, "tokenizer.ggml.pre", "gpt-2");
	gguf_put_strs(w, "tokenizer.ggml.tokens", token, N_VOCAB);
	gguf_put_i32s(w, "tokenizer.ggml.token_type", type, N_VOCAB);
	gguf_put_strs(w, "tokenizer.ggml.merges", &merge, 1);
}

static void put_mask(struct gguf_writer *w)
{
	put_vocabulary(w);
	gguf_put_u32(w, "tokenizer.ggml.mask_token_id", N_VOCAB - 3);
}

static int setup(void **state)
{
	struct model_file file = model_file_tiny;
	const char *dir = harness_tmp();

	file.n_vocab = N_VOCAB;
	file.keys = put_vocabulary;
	snprintf(target, sizeof(target), "%s/target.gguf", dir);
	model_file_write(&file, target);
	/* Coarser weights (Q4_0), so that the draft model predicts the target
	 * model's token only sometimes. */
	file.type = DTYPE_Q4_0;
	snprintf(draft, sizeof(draft), "draft=%s/draft.gguf", dir);
	model_file_write(&file, strchr(draft, '=') + 1);
	file = model_file_tiny;
	file.n_vocab = N_VOCAB;
	file.keys = put_mask;
	file.arch = "llada";
	snprintf(masked, sizeof(masked), "%s/masked.gguf", dir);
	model_file_write(&file, masked);
	return 0;
}

/* ---- requests ------------------------------------------------------------ */

struct expected {
	int32_t prompt[CONTEXT];
	struct tandem_request request;
	/* The tokens that this request generates when it runs alone, and why
	 * its text ends. Valid if `known`. */
	bool known;
	int32_t token[CONTEXT];
	unsigned n;
	enum tandem_stop stop;
};

/* The ways to generate the text of a request: by plain decoding (way 0), by a
 * method that decodes many samples, or by a method that fills masks (ways
 * FIRST_MASKED and up). */
#define FIRST_MASKED 6
#define WAYS         10

static const char *const way_set[WAYS][6] = {
	{ NULL },
	{ "method=sample", "samples=3" },
	{ "method=vote", "samples=4", "answer=regex:[a-f]" },
	{ "method=best-of-n", "samples=4", "reward=exact", "step-end=a" },
	{ "method=beam", "samples=4", "beam-width=2", "reward=exact",
		"step-end=a" },
	{ "method=dvts", "samples=4", "beam-width=2", "reward=exact",
		"step-end=a" },
	{ "method=llada", "block=8" },
	{ "method=fast-dllm", "cache=dual", "block=8" },
	{ "method=multi-block", "block=8" },
	{ "method=llada-npu", "block=8", "refresh=none" },
};

static struct expected expected[WAYS][ALL];

/* Number of different requests for a way of generation. The ways that fill
 * masks have fewer requests: each of their passes (runs of the model) computes
 * a whole block, which is slow on the fake device. */
static unsigned requests_of(unsigned way)
{
	return way < FIRST_MASKED ? ALL : ALL / 4;
}

/* Reward model of the test: the score of a step is a hash of the text's tokens
 * up to the end of the step. */
static int score_steps(
	void *arg, struct reward_text *text, unsigned n, struct err *e)
{
	for (unsigned i = 0; i < n; i++)
		for (uint32_t k = 0; k < text[i].n_steps; k++) {
			uint32_t sum = 0;

			for (uint32_t at = 0; at <= text[i].step_end[k]; at++)
				sum = 31 * sum + (uint32_t)text[i].token[at];
			text[i].score[k] = (float)(sum % 1000) / 1000;
		}
	return 0;
}

/* The nth random number of request i, below `below`. It does not depend on the
 * seed of a schedule, so all schedules have the same requests. */
static unsigned drawn(unsigned i, unsigned nth, unsigned below)
{
	return (unsigned)(rng_uniform(77, i, nth) * below);
}

/* Fill in a request. Its prompt is a prefix of one of three periodic token
 * sequences (stems), followed by up to five random tokens. */
static void draw_request(struct expected *a, unsigned i)
{
	struct tandem_request *r = &a->request;
	unsigned stem = drawn(i, 0, 3), period = 5 + 6 * stem;
	unsigned common = drawn(i, 1, drawn(i, 2, 3) ? 30 : 100);
	unsigned own = drawn(i, 3, 6), n = 0;

	for (; n < common; n++)
		a->prompt[n] =
			(int32_t)drawn(1000 + stem, n % period, N_LETTER);
	for (unsigned k = 0; k < own || !n; k++)
		a->prompt[n++] = (int32_t)drawn(i, 10 + k, N_LETTER);
	tandem_request_init(r, sizeof(*r));
	r->tokens = a->prompt;
	r->n_tokens = n;
	r->max_tokens = drawn(i, 4, 12) ? (int64_t)drawn(i, 5, 40) : -1;
	r->flags = TANDEM_NO_BOS | (drawn(i, 6, 2) ? TANDEM_IGNORE_EOS : 0);
	r->temperature = drawn(i, 7, 2) ? .5 : 0;
	r->seed = 1 + i;
}

static int keep_token(void *arg, int32_t id, const char *text, size_t len)
{
	struct expected *a = arg;

	if (id >= 0)
		a->token[a->n++] = id;
	return 0;
}

static struct tandem *open_model(unsigned way, const char *const *set)
{
	struct tandem_options o;
	struct tandem *t;

	tandem_options_init(&o, sizeof(o));
	o.model = way < FIRST_MASKED ? target : masked;
	o.set = set;
	if (tandem_open(&t, &o))
		fail_msg("%s", tandem_error(NULL));
	t->decoder.session_opts.layout = LAYOUT_ROWS;
	tandem_report_reward(t, score_steps, NULL);
	return t;
}

static void generate_alone(unsigned way)
{
	static struct fake fake;
	const char *set[ARRAY_LEN(way_set[0]) + 2] = { "ctx=128" };
	struct tandem_result got = { .size = sizeof(got) };
	struct tandem *t;

	memcpy(set + 1, way_set[way], sizeof(way_set[way]));
	t = open_model(way, set);
	fake_init(&fake);
	t->decoder.session_opts.npu = &fake.ops;
	for (unsigned i = 0; i < requests_of(way); i++) {
		struct expected *a = &expected[way][i];
		struct tandem_request r;

		draw_request(a, i);
		r = a->request;
		r.sink = keep_token;
		r.sink_arg = a;
		if (tandem_generate(t, &r, &got))
			fail_msg("%s", tandem_error(t));
		a->stop = got.stop;
		assert_int_equal(got.tokens, a->n);
	}
	assert_int_equal(tandem_close(t), 0);
}

#endif
