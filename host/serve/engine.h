/*
 * The thread that owns the model's handle, and the answers that it writes. A
 * request comes as a struct api_request whose prompts are tokens, waits in a
 * bounded queue and becomes an answer of one text or several. Refuses to know
 * who reads: a reader is two functions. What lies in an answer is guarded by
 * the lock; the reader takes pieces of it and gives them back never. Everybody
 * but the thread itself may call, from any thread.
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

/* One text of an answer. */
struct choice {
	struct answer *answer;
	/* What the reader has not taken yet; a slow one finds more at a time,
	 * and never more than the text is long. */
	struct strbuf text;
	json_t *logprobs; /* as a chat's; NULL: not wanted, or taken */
	uint64_t tokens;  /* so far */
	bool ended;
	int status; /* of tandem.h, when it has ended */
	struct tandem_result result;
	struct tandem_submitted *handle; /* the thread's own; NULL: none */
};

enum answer_state {
	ANSWER_WAITING,   /* the library has not seen it */
	ANSWER_UNDER_WAY, /* it was found good, and is computed */
	ANSWER_ENDED,     /* all texts have, or as `fault` says */
};

struct answer_reader {
	/* There is something new. Called with the lock held. */
	void (*wake)(void *arg);
	/* Nobody reads any more. Called with the lock held. */
	bool (*gone)(void *arg);
	void *arg;
};

struct answer {
	struct api_request api;
	struct answer_reader reader; /* wake NULL: it left */
	enum answer_state state;
	struct fault fault; /* status 0: none */
	struct choice *choice;
	size_t n_choices;
	struct engine *owner;
	unsigned holders;
	struct answer *next;
};

/* Sums over all answers, and how things stand. */
struct engine_state {
	uint64_t answers, canceled, failed;
	uint64_t prompt_tokens, cached_tokens, tokens;
	double prompt_seconds, decode_seconds, waiting_seconds;
	unsigned texts; /* that have not ended */
	bool lost;      /* the device; nothing is computed more */
	struct tandem_stats stats;
};

/*
 * Begin: the handle is the thread's from here to engine_stop. There are at
 * most so many texts at a time, those that wait among them, but for those of a
 * request that comes when there is none.
 */
int engine_open(
	struct engine **out, struct tandem *, unsigned most, struct err *);

/* End the thread, and with it all that is not done, whose readers hear so;
 * nothing is accepted any more. NULL is nothing. */
void engine_stop(struct engine *);

/* It is stopped, and every answer was left. NULL is nothing. */
void engine_close(struct engine *);

/*
 * Hand a request in; *api is the answer's from here on, and zero. 0 with an
 * answer that is the caller's to leave; -EAGAIN where the queue is full,
 * -ENOMEM, -ESHUTDOWN where nothing is computed any more; *api is the caller's
 * then.
 */
int engine_ask(struct engine *, struct api_request *,
	const struct answer_reader *, struct answer **out);

/* The reader needs it no longer; what is not done is canceled. */
void engine_leave(struct engine *, struct answer *);

void engine_lock(struct engine *);
void engine_unlock(struct engine *);

/* With the lock held. */
const struct engine_state *engine_look(struct engine *);

#endif
