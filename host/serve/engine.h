/*
 * The thread that owns the model's handle, and the answers that it generates. A
 * request comes as a struct api_request whose prompts are tokens, waits in a
 * bounded queue, and becomes an answer of one or several texts. Readers of
 * answers are abstract: two callbacks. The lock guards the contents of all
 * answers; a reader takes text out of an answer and owns it then. All functions
 * are for other threads than the engine's own.
 */
#ifndef HOST_SERVE_ENGINE_H
#define HOST_SERVE_ENGINE_H

#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/serve/api_request.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct err;

/* One generated text of an answer. */
struct choice {
	struct answer *answer;
	/* Output that the reader has not taken yet. It grows while the reader
	 * is slow, up to the length of the whole text. */
	struct strbuf text;
	/* as in a chat's answer; NULL: not requested, or taken */
	json_t *logprobs;
	uint64_t tokens; /* so far */
	bool ended;
	int status; /* of tandem.h, once it has ended */
	struct tandem_result result;
	/* for the engine's thread only; NULL: none */
	struct tandem_submitted *handle;
};

enum answer_state {
	ANSWER_WAITING, /* not submitted to the library yet */
	ANSWER_RUNNING, /* submitted, and running */
	ANSWER_ENDED,   /* all texts have ended, or `fault` is set */
};

struct answer_reader {
	/* New output or a new state. Called with the lock held. */
	void (*wake)(void *arg);
	/* Whether the client has gone. Called with the lock held. */
	bool (*gone)(void *arg);
	void *arg;
};

struct answer {
	struct api_request request;
	struct answer_reader reader; /* wake NULL: the reader has left */
	enum answer_state state;
	struct fault fault; /* status 0: none */
	struct choice *choice;
	size_t n_choices;
	struct engine *owner;
	unsigned holders;
	struct answer *next;
};

/* Totals over all answers, and the current state. */
struct engine_state {
	uint64_t answers, canceled, failed;
	uint64_t prompt_tokens, cached_tokens, tokens;
	double prompt_seconds, decode_seconds, waiting_seconds;
	unsigned texts; /* not ended */
	bool lost;      /* the device; no further requests are computed */
	struct tandem_stats stats;
};

/*
 * Start the thread, which owns the handle until engine_stop. At most `most`
 * texts run or wait at a time; but a request that finds the engine idle is
 * always accepted.
 */
int engine_open(
	struct engine **out, struct tandem *, unsigned most, struct err *);

/* Stop the thread: all running and waiting answers end, their readers are
 * woken, and no further request is accepted. NULL: nothing to do. */
void engine_stop(struct engine *);

/* The engine must be stopped, and every answer left. NULL: nothing to do. */
void engine_close(struct engine *);

/*
 * Submit a request. 0: the answer owns *request, which is zeroed, and the
 * caller must leave the answer. -EAGAIN: the queue is full; -ESHUTDOWN: the
 * engine is stopping or the device is lost; -ENOMEM. On failure the caller
 * keeps *request.
 */
int engine_submit(struct engine *, struct api_request *,
	const struct answer_reader *, struct answer **out);

/* The reader no longer needs the answer; what is not done is canceled. */
void engine_leave(struct engine *, struct answer *);

void engine_lock(struct engine *);
void engine_unlock(struct engine *);

/* Call with the lock held. */
const struct engine_state *engine_get_state(struct engine *);

#endif
