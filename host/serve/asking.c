/* What a request still lacks when its body was read: prompts as tokens, how
 * many may follow, a seed. */
#include "host/serve/asking.h"

#include "host/serve/server_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A request being read. */
struct asking {
	struct server *server;
	struct fault *fault;
};

static int no_memory(struct asking *x)
{
	fault_set(x->fault, 503, "out_of_memory", NULL,
		"no memory for the request");
	return -ENOMEM;
}

/* ---- prompts ------------------------------------------------------------- */

static int misuse(struct asking *x, const char *param)
{
	return fault_set(x->fault, 400, "invalid_value", param, "%s",
		tandem_error(x->server->reader));
}

/* The ids that a prompt is read as; `room` is a guess of their number. */
static int read_prompt(struct asking *x, const struct tandem_request *q,
	struct ask_prompt *p, size_t room)
{
	int64_t n = (int64_t)room;

	do {
		room = (size_t)n;
		free(p->tokens);
		p->tokens = malloc((room ? room : 1) * sizeof(*p->tokens));
		if (!p->tokens) {
			return no_memory(x);
		}
		n = tandem_prompt(x->server->reader, q, p->tokens, room);
	} while (n > (int64_t)room);
	p->n_tokens = n > 0 ? (size_t)n : 0;
	return n < 0 ? misuse(x, NULL) : 0;
}

static int tokenize_text(struct asking *x, struct ask_prompt *p)
{
	struct tandem_request q;

	tandem_request_init(&q, sizeof(q));
	q.prompt = p->text;
	q.prompt_bytes = p->bytes;
	return read_prompt(x, &q, p, p->bytes + 8);
}

/* The turns as the model's chat template has them. */
static int tokenize_chat(struct asking *x, struct ask *ask)
{
	struct tandem_turn *turns = calloc(ask->n_turns, sizeof(*turns));
	struct tandem_request q;
	size_t room = 64;
	int ret;

	ask->prompt = calloc(1, sizeof(*ask->prompt));
	if (!turns || !ask->prompt) {
		free(turns);
		return no_memory(x);
	}
	for (size_t i = 0; i < ask->n_turns; i++) {
		turns[i].role = ask->turn[i].role;
		turns[i].text = ask->turn[i].text;
		room += strlen(turns[i].text) + 16;
	}
	tandem_request_init(&q, sizeof(q));
	q.flags = TANDEM_CHAT;
	q.turns = turns;
	q.n_turns = ask->n_turns;
	ret = read_prompt(x, &q, ask->prompt, room);
	free(turns);
	return ret;
}

/* Ids that a client sent are the vocabulary's. */
static int check_ids(struct asking *x, const struct ask_prompt *p)
{
	int64_t n = tandem_detokenize(x->server->reader, p->tokens, p->n_tokens,
		TANDEM_SPECIAL, NULL, 0);

	return n < 0 ? misuse(x, "prompt") : 0;
}

static int read_prompts(struct asking *x, struct ask *ask)
{
	int ret = 0;

	if (ask->kind == ASK_CHAT)
		return tokenize_chat(x, ask);
	for (size_t i = 0; i < ask->n_prompts && !ret; i++)
		ret = ask->prompt[i].tokens ? check_ids(x, &ask->prompt[i])
					    : tokenize_text(x, &ask->prompt[i]);
	return ret;
}

/* ---- how much is asked for ----------------------------------------------- */

#define TOKENS_DEFAULT 256

static int check_room(struct asking *x, struct ask *ask)
{
	uint64_t context = x->server->context, most = 0, n;

	for (size_t i = 0; i < ask->n_prompts; i++)
		if (ask->prompt[i].n_tokens > most)
			most = ask->prompt[i].n_tokens;
	if (ask->max_tokens < 0 && most < context)
		ask->max_tokens = (int64_t)(context - most < TOKENS_DEFAULT
				? context - most
				: TOKENS_DEFAULT);
	n = most + (ask->max_tokens < 0 ? 1 : (uint64_t)ask->max_tokens);
	if (n <= context)
		return 0;
	return fault_set(x->fault, 400, "context_length_exceeded",
		ask->kind == ASK_CHAT ? "messages" : "prompt",
		"the context has room for %" PRIu64 " tokens; the prompt has "
		"%" PRIu64 " and up to %" PRIu64 " are to follow, together "
		"%" PRIu64,
		context, most, n - most, n);
}

/* A text that is drawn, and whose seed nobody said, is another each time. */
static void choose_seed(struct ask *ask)
{
	uint64_t drawn = 0;

	if (ask->seed >= 0)
		return;
	ask->seed = 1;
	if (ask->temperature > 0 &&
		getrandom(&drawn, sizeof(drawn), 0) == sizeof(drawn))
		ask->seed = (int64_t)(drawn >> 11);
}

/* ---- all of it ----------------------------------------------------------- */

int asking_complete(struct server *s, struct ask *ask, struct fault *f)
{
	struct asking x = { s, f };
	int ret;

	pthread_mutex_lock(&s->reading);
	ret = read_prompts(&x, ask);
	pthread_mutex_unlock(&s->reading);
	if (!ret)
		ret = check_room(&x, ask);
	if (!ret)
		choose_seed(ask);
	return ret;
}

int asking_refused(const struct server *s, int ret, struct fault *f)
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
		fault_set(f, 503, "out_of_memory", NULL,
			"no memory for the request");
	return ret;
}
