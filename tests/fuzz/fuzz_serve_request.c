/*
 * Parses arbitrary bytes as the body of a request; the first byte selects the
 * kind of request. The request must be accepted with values within their
 * limits, or refused with a status, a message and a code.
 */
#include "tests/fuzz/fuzz.h"

#include "base/checked.h"
#include "host/serve/api_request.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_fault(const struct fault *f)
{
	check(f->status == 400 || f->status == 404);
	check(f->code && strlen(f->text) > 10);
	check(memchr(f->param, 0, sizeof(f->param)) != NULL);
}

static void check_numbers(const struct api_request *a)
{
	check(a->n >= 1);
	check(a->best_of >= a->n && (a->best_of == a->n || !a->stream));
	check(a->best_of * (int64_t)a->n_prompts <=
		(a->kind == API_EMBEDDING ? API_INPUTS : API_TEXTS));
	check(a->dimensions >= 0 && a->dimensions <= INT32_MAX);
	check(fabs(a->presence_penalty) <= 2);
	check(fabs(a->frequency_penalty) <= 2);
	check(a->n_bias <= TANDEM_BIASES);
	for (size_t i = 0; i < a->n_bias; i++)
		check(a->bias[i].id >= 0 && fabsf(a->bias[i].bias) <= 100);
	check(a->max_tokens >= -1 && a->max_tokens <= INT32_MAX);
	check(a->seed >= -1 && a->seed <= 1ll << 53);
	check(isnan(a->temperature) ||
		(a->temperature >= 0 && a->temperature <= 1000));
	check(a->top_p > 0 && a->top_p <= 1 && a->min_p >= 0 && a->min_p <= 1);
	check(a->repeat_penalty >= 0.01 && a->repeat_penalty <= 100);
	check(a->top_k >= 0 && a->repeat_last >= 0);
	check(a->top_logprobs >= 0 && a->top_logprobs <= API_LIKELIEST);
	check(a->format != NULL);
}

static void check_prompts(const struct api_request *a)
{
	check(a->n_prompts >= 1);
	for (size_t i = 0; a->prompt && i < a->n_prompts; i++) {
		const struct api_prompt *p = &a->prompt[i];

		check(!p->text != !p->tokens);
		check(!p->text || strlen(p->text) == p->bytes);
		for (size_t k = 0; k < p->n_tokens; k++)
			check(p->tokens[k] >= 0);
	}
	check(!a->prompt == (a->kind == API_CHAT));
	for (size_t i = 0; i < a->n_turns; i++)
		check(a->turn[i].role && a->turn[i].text);
	check(!a->n_turns || strcmp(a->turn[a->n_turns - 1].role, "assistant"));
	for (size_t i = 0; a->stop[i]; i++)
		check(i < API_STOPS && a->stop[i][0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fault f = { 0 };
	struct api_request a;
	int ret;

	if (!len)
		return 0;
	ret = api_request_read(&a, (uint8_t)(data[0] - '0') % 5,
		(const char *)data + 1, len - 1, &f);
	check(ret == 0 || ret == -EINVAL);
	check(!ret == !f.status);
	if (ret) {
		check_fault(&f);
	} else {
		check_numbers(&a);
		check_prompts(&a);
	}
	api_request_release(&a);
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t cap)
{
	/* The first digit is the kind of request. */
	static const char *const seeds[] = {
		"0{\"prompt\":\"Once\",\"max_tokens\":8,\"n\":2,\"seed\":7,"
		"\"temperature\":0.7,\"top_p\":0.9,\"stop\":[\"\\n\",\"x\"]}",
		"0{\"prompt\":[[1,2],[3]],\"stream\":true,\"logprobs\":3,"
		"\"stream_options\":{\"include_usage\":true},"
		"\"timings_per_token\":true}",
		"0{\"prompt\":[\"a\",\"b\"],\"method\":\"chain\",\"draft\":"
		"\"pld\",\"model\":\"m\",\"echo\":false,\"best_of\":1}",
		"1{\"messages\":[{\"role\":\"system\",\"content\":\"Be.\"},"
		"{\"role\":\"user\",\"content\":[{\"type\":\"text\","
		"\"text\":\"Hi\"}]}],\"logprobs\":true,\"top_logprobs\":2}",
		"1{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
		"\"response_format\":{\"type\":\"json_schema\","
		"\"json_schema\":{\"name\":\"n\",\"schema\":{\"type\":"
		"\"object\"}}},\"tools\":[],\"tool_choice\":\"none\"}",
		"2{\"prompt\":\"\\u00e9 \\ud83d\\ude00\",\"bos\":true}",
		"3{\"tokens\":[1,2,2147483647],\"special\":false}",
		"4{\"input\":[\"a\",\"b\"],\"dimensions\":8,"
		"\"encoding_format\":\"base64\",\"user\":\"u\"}",
		"0{\"prompt\":\"a\",\"logit_bias\":{\"7\":-100,\"8\":0.5},"
		"\"presence_penalty\":-1,\"frequency_penalty\":2}",
	};
	size_t n = i < ARRAY_LEN(seeds) ? strlen(seeds[i]) : 0;

	if (!n || n > cap)
		return 0;
	memcpy(buf, seeds[i], n);
	return n;
}
