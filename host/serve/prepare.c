/* Completes a parsed request: prompts as tokens, the token limit, a seed. */
#include "host/serve/prepare.h"

#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TOKENS_DEFAULT 256

int prepare_misuse(const struct server *s, const char *param, struct fault *f)
{
	return fault_set(
		f, 400, "invalid_value", param, "%s", tandem_error(s->reader));
}

/* Tokenize a prompt; `room` is an estimate of the number of tokens. */
static int read_prompt(const struct server *s, const struct tandem_request *q,
	struct api_prompt *p, size_t room, struct fault *f)
{
	int64_t n = (int64_t)room;

	do {
		room = (size_t)n;
		free(p->tokens);
		p->tokens = malloc((room ? room : 1) * sizeof(*p->tokens));
		if (!p->tokens)
			return fault_no_memory(f);
		n = tandem_prompt(s->reader, q, p->tokens, room);
	} while (n > (int64_t)room);
	p->n_tokens = n > 0 ? (size_t)n : 0;
	return n < 0 ? prepare_misuse(s, NULL, f) : 0;
}

/* Tokenize the turns with the model's chat template. */
static int tokenize_chat(
	const struct server *s, struct api_request *request, struct fault *f)
{
	struct tandem_turn *turns = calloc(request->n_turns, sizeof(*turns));
	struct tandem_request q;
	size_t room = 64;
	int ret;

	request->prompt = calloc(1, sizeof(*request->prompt));
	if (!turns || !request->prompt) {
		free(turns);
		return fault_no_memory(f);
	}
	for (size_t i = 0; i < request->n_turns; i++) {
		turns[i].role = request->turn[i].role;
		turns[i].text = request->turn[i].text;
		room += strlen(turns[i].text) + 16;
	}
	tandem_request_init(&q, sizeof(q));
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = request->n_turns;
	ret = read_prompt(s, &q, request->prompt, room, f);
	free(turns);
	return ret;
}

static int read_prompts(
	const struct server *s, struct api_request *request, struct fault *f)
{
	struct tandem_request q;
	int ret = 0;

	if (request->kind == API_CHAT)
		return tokenize_chat(s, request, f);
	for (size_t i = 0; i < request->n_prompts && !ret; i++) {
		struct api_prompt *p = &request->prompt[i];

		if (!p->tokens) {
			tandem_request_init(&q, sizeof(q));
			q.prompt = p->text;
			q.prompt_bytes = p->bytes;
			ret = read_prompt(s, &q, p, p->bytes + 8, f);
		} else if (tandem_detokenize(s->reader, p->tokens, p->n_tokens,
				   TANDEM_SPECIAL, NULL, 0) < 0) {
			/* Token ids from a client must be in the vocabulary. */
			ret = prepare_misuse(s, "prompt", f);
		}
	}
	return ret;
}

static int check_room(
	const struct server *s, struct api_request *request, struct fault *f)
{
	uint64_t context = s->context, most = 0, n;

	for (size_t i = 0; i < request->n_prompts; i++)
		if (request->prompt[i].n_tokens > most)
			most = request->prompt[i].n_tokens;
	if (request->max_tokens < 0 && most < context)
		request->max_tokens = (int64_t)(context - most < TOKENS_DEFAULT
				? context - most
				: TOKENS_DEFAULT);
	n = most +
		(request->max_tokens < 0 ? 1 : (uint64_t)request->max_tokens);
	if (n <= context)
		return 0;
	return fault_set(f, 400, "context_length_exceeded",
		request->kind == API_CHAT ? "messages" : "prompt",
		"the context has room for %" PRIu64 " tokens; the prompt has "
		"%" PRIu64 " and up to %" PRIu64 " are to follow, together "
		"%" PRIu64,
		context, most, n - most, n);
}

int prepare_request(
	struct server *s, struct api_request *request, struct fault *f)
{
	uint64_t drawn = 0;
	int ret;

	pthread_mutex_lock(&s->reading);
	ret = read_prompts(s, request, f);
	pthread_mutex_unlock(&s->reading);
	if (!ret)
		ret = check_room(s, request, f);
	if (ret || request->seed >= 0)
		return ret;
	/* Without a seed a sampled text is different each time. */
	request->seed = 1;
	if (request->temperature > 0 &&
		getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn))
		request->seed = (int64_t)(drawn >> 11);
	return 0;
}

int prepare_refused(const struct server *s, int ret, struct fault *f)
{
	if (ret == -EAGAIN)
		fault_set(f, 503, "queue_full", NULL,
			"the queue is full with %u texts (--queue); try again",
			s->options.queue);
	else if (ret == -ESHUTDOWN)
		fault_set(f, 503, "stopping", NULL,
			"the server is shutting down");
	else
		fault_no_memory(f);
	return ret;
}
