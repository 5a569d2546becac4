/* What a request still lacks when its body was read: prompts as tokens, how
 * many may follow, a seed. */
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

/* The ids that a prompt is read as; `room` is a guess of their number. */
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

/* The turns as the model's chat template has them. */
static int tokenize_chat(
	const struct server *s, struct api_request *api, struct fault *f)
{
	struct tandem_turn *turns = calloc(api->n_turns, sizeof(*turns));
	struct tandem_request q;
	size_t room = 64;
	int ret;

	api->prompt = calloc(1, sizeof(*api->prompt));
	if (!turns || !api->prompt) {
		free(turns);
		return fault_no_memory(f);
	}
	for (size_t i = 0; i < api->n_turns; i++) {
		turns[i].role = api->turn[i].role;
		turns[i].text = api->turn[i].text;
		room += strlen(turns[i].text) + 16;
	}
	tandem_request_init(&q, sizeof(q));
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = api->n_turns;
	ret = read_prompt(s, &q, api->prompt, room, f);
	free(turns);
	return ret;
}

static int read_prompts(
	const struct server *s, struct api_request *api, struct fault *f)
{
	struct tandem_request q;
	int ret = 0;

	if (api->kind == API_CHAT)
		return tokenize_chat(s, api, f);
	for (size_t i = 0; i < api->n_prompts && !ret; i++) {
		struct api_prompt *p = &api->prompt[i];

		if (!p->tokens) {
			tandem_request_init(&q, sizeof(q));
			q.prompt = p->text;
			q.prompt_bytes = p->bytes;
			ret = read_prompt(s, &q, p, p->bytes + 8, f);
		} else if (tandem_detokenize(s->reader, p->tokens, p->n_tokens,
				   TANDEM_SPECIAL, NULL, 0) < 0) {
			/* Ids that a client sent are the vocabulary's. */
			ret = prepare_misuse(s, "prompt", f);
		}
	}
	return ret;
}

static int check_room(
	const struct server *s, struct api_request *api, struct fault *f)
{
	uint64_t context = s->context, most = 0, n;

	for (size_t i = 0; i < api->n_prompts; i++)
		if (api->prompt[i].n_tokens > most)
			most = api->prompt[i].n_tokens;
	if (api->max_tokens < 0 && most < context)
		api->max_tokens = (int64_t)(context - most < TOKENS_DEFAULT
				? context - most
				: TOKENS_DEFAULT);
	n = most + (api->max_tokens < 0 ? 1 : (uint64_t)api->max_tokens);
	if (n <= context)
		return 0;
	return fault_set(f, 400, "context_length_exceeded",
		api->kind == API_CHAT ? "messages" : "prompt",
		"the context has room for %" PRIu64 " tokens; the prompt has "
		"%" PRIu64 " and up to %" PRIu64 " are to follow, together "
		"%" PRIu64,
		context, most, n - most, n);
}

int prepare_request(struct server *s, struct api_request *api, struct fault *f)
{
	uint64_t drawn = 0;
	int ret;

	pthread_mutex_lock(&s->reading);
	ret = read_prompts(s, api, f);
	pthread_mutex_unlock(&s->reading);
	if (!ret)
		ret = check_room(s, api, f);
	if (ret || api->seed >= 0)
		return ret;
	/* A text that is drawn, and whose seed nobody said, is another each
	 * time. */
	api->seed = 1;
	if (api->temperature > 0 &&
		getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn))
		api->seed = (int64_t)(drawn >> 11);
	return 0;
}

int prepare_refused(const struct server *s, int ret, struct fault *f)
{
	if (ret == -EAGAIN)
		fault_set(f, 503, "queue_full", NULL,
			"%u texts wait already, which is as many as may "
			"(--queue); try again",
			s->options.queue);
	else if (ret == -ESHUTDOWN)
		fault_set(
			f, 503, "stopping", NULL, "the server is about to end");
	else
		fault_no_memory(f);
	return ret;
}
