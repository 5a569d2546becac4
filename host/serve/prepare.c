/* Completes a parsed request: it tokenizes the prompts, checks that they fit
 * into the context, and sets the token limit and the seed. */
#include "host/serve/prepare.h"

#include "host/api/report.h"
#include "host/serve/api_tools.h"
#include "host/serve/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* Token limit of a request that does not set one. */
#define TOKENS_DEFAULT 256
#define WHITE_SPACE    " \t\n\v\f\r"

int prepare_misuse(
	int ret, const char *param, const struct err *e, struct fault *f)
{
	if (ret == -ENOMEM)
		return fault_no_memory(f);
	fault_set(f, 400, "invalid_value", param, "%s", e->text);
	api_tools_blame(f);
	return -EINVAL;
}

static int read_prompt(const struct engine *engine,
	const struct tandem_request *q, struct api_prompt *p, struct fault *f)
{
	struct err e = { 0 };
	int ret = tandem_prompt_tokens(
		engine->tandem, q, &p->tokens, &p->n_tokens, &e);

	return ret ? prepare_misuse(ret, NULL, &e, f) : 0;
}

/* Format the turns with the model's chat template and tokenize the result. */
static int tokenize_chat(const struct engine *engine,
	struct api_request *request, struct fault *f)
{
	struct tandem_turn *turns = calloc(request->n_turns, sizeof(*turns));
	struct tandem_request q;
	int ret;

	request->prompt = calloc(1, sizeof(*request->prompt));
	if (!turns || !request->prompt) {
		free(turns);
		return fault_no_memory(f);
	}
	for (size_t i = 0; i < request->n_turns; i++) {
		turns[i].role = request->turn[i].role;
		turns[i].text = request->turn[i].text;
	}
	tandem_request_init(&q, sizeof(q));
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = request->n_turns;
	q.tools = request->tools;
	q.tool = request->tool;
	q.flags |= request->must_call ? TANDEM_MUST_CALL : 0;
	ret = read_prompt(engine, &q, request->prompt, f);
	free(turns);
	return ret;
}

/* Check that all token ids are in the vocabulary, by converting them to text.
 */
static int check_tokens(const struct engine *engine, const int32_t *tokens,
	size_t n, const char *param, struct fault *f)
{
	struct strbuf text = STRBUF_INIT;
	struct err e = { 0 };
	int ret = tandem_tokens_text(
		engine->tandem, tokens, n, TANDEM_SPECIAL, &text, &e);

	strbuf_release(&text);
	return ret ? prepare_misuse(ret, param, &e, f) : 0;
}

/* Lower bound of the number of tokens of a text of n bytes. */
static uint64_t tokens_of_bytes(const struct engine *engine, size_t n)
{
	return n / engine->token_bytes + (n % engine->token_bytes != 0);
}

/* Returns the number of tokens of the longest prompt or, before the prompts are
 * tokenized, a lower bound of this number. */
static uint64_t longest_prompt(
	const struct engine *engine, const struct api_request *request)
{
	uint64_t most = 0, n;
	size_t bytes = 0;

	/* Count the bytes of the turns, without white space at both ends of
	 * each turn, because a chat template may drop this white space. */
	for (size_t i = 0; !request->prompt && i < request->n_turns; i++) {
		const char *t = request->turn[i].text;
		size_t len;

		t += strspn(t, WHITE_SPACE);
		len = strlen(t);
		while (len && strchr(WHITE_SPACE, t[len - 1]))
			len--;
		bytes += len;
	}
	most = tokens_of_bytes(engine, bytes);
	for (size_t i = 0; request->prompt && i < request->n_prompts; i++) {
		const struct api_prompt *p = &request->prompt[i];

		n = p->tokens ? p->n_tokens : tokens_of_bytes(engine, p->bytes);
		if (n > most)
			most = n;
	}
	return most;
}

/* Check that a prompt of `tokens` tokens and the requested number of generated
 * tokens fit into the context. `least` is "at least " if `tokens` is a lower
 * bound, otherwise "". */
static int check_room(const struct engine *engine,
	const struct api_request *request, uint64_t tokens, const char *least,
	struct fault *f)
{
	const char *param = api_prompt_name(request->kind);
	uint64_t follow = request->kind == API_EMBEDDING ? 0
		: request->max_tokens < 0                ? 1
					  : (uint64_t)request->max_tokens;

	if (tokens + follow <= engine->context)
		return 0;
	if (!follow)
		return fault_set(f, 400, "context_length_exceeded", param,
			"the context has room for %" PRIu64 " tokens; the "
			"longest input has %s%" PRIu64,
			engine->context, least, tokens);
	return fault_set(f, 400, "context_length_exceeded", param,
		"the context has room for %" PRIu64 " tokens; the prompt has "
		"%s%" PRIu64 " and up to %" PRIu64 " more may be generated, "
		"together %s%" PRIu64,
		engine->context, least, tokens, follow, least, tokens + follow);
}

int prepare_request(const struct engine *engine, struct api_request *request,
	struct fault *f)
{
	uint64_t drawn = 0, tokens;
	struct tandem_request q;
	int ret;

	/* Do not spend time on tokenizing a prompt that cannot fit. */
	ret = check_room(engine, request, longest_prompt(engine, request),
		"at least ", f);
	if (!ret && request->kind == API_CHAT)
		ret = tokenize_chat(engine, request, f);
	else
		for (size_t i = 0; i < request->n_prompts && !ret; i++) {
			struct api_prompt *p = &request->prompt[i];

			tandem_request_init(&q, sizeof(q));
			q.prompt = p->text;
			q.prompt_bytes = p->bytes;
			q.flags = request->kind == API_EMBEDDING ? TANDEM_EMBED
								 : 0;
			ret = p->tokens
				? check_tokens(engine, p->tokens, p->n_tokens,
					  api_prompt_name(request->kind), f)
				: read_prompt(engine, &q, p, f);
		}
	for (size_t i = 0; i < request->n_bias && !ret; i++)
		ret = check_tokens(
			engine, &request->bias[i].id, 1, "logit_bias", f);
	tokens = longest_prompt(engine, request);
	if (!ret)
		ret = check_room(engine, request, tokens, "", f);
	if (ret)
		return ret;
	api_request_trim(request);
	if (request->max_tokens < 0)
		request->max_tokens =
			(int64_t)(engine->context - tokens < TOKENS_DEFAULT
					? engine->context - tokens
					: TOKENS_DEFAULT);
	if (request->seed >= 0)
		return 0;
	/* If the request has no seed, draw one, so that a sampled text is
	 * different each time. */
	request->seed = 1;
	if (request->temperature > 0 &&
		getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn))
		request->seed = (int64_t)(drawn >> 11);
	return 0;
}
