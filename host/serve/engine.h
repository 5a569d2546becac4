/*
 * The engine: a thread that owns the handle of a model (struct tandem) and
 * generates text. A request is a struct api_request whose prompts are tokens;
 * its result is an answer with one or several texts. Texts wait in the engine's
 * queue, which is bounded and fair (fair_queue.h). When a lane gets free (a
 * lane runs one text at a time), the next text is submitted to the library. The
 * reader of an answer is the code that sends the answer to a client (HTTP or
 * D-Bus); the engine calls the two callbacks of the reader. One lock, which
 * several engines may share, guards all answers. Readers take text out of an
 * answer and then own the text. Any thread but the engine's own may call the
 * functions.
 */
#ifndef HOST_SERVE_ENGINE_H
#define HOST_SERVE_ENGINE_H

#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/serve/api_request.h"
#include "host/serve/fair_queue.h"
#include "host/serve/histogram.h"

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;

/* Names of the model that an engine runs, and of the engine's settings. */
struct engine_offer {
	const char *model; /* name of the model */
	const char *method, *draft, *clock, *precision;
};

/* A call of a tool in a text. */
struct choice_call {
	char name[65];
	/* The part of the arguments that the reader has not taken yet. */
	struct strbuf arguments;
	bool begun; /* the reader has taken the name */
	bool ended; /* the arguments are complete */
};

/* One generated text of an answer. */
struct choice {
	struct answer *answer;
	/* Output that the reader has not taken yet. If the reader is slow, this
	 * buffer may grow to the whole text. For an embedding: the values of
	 * the vector, float32. */
	struct strbuf text;
	/* Log-probabilities of the tokens that the reader has not taken yet, in
	 * the format of a chat's answer; NULL if there are none. */
	json_t *logprobs;
	/* [n_calls] the tool calls in the text; reallocated when a call
	 * begins */
	struct choice_call *calls;
	size_t n_calls;
	uint64_t tokens; /* number of tokens generated */
	/* Sum of the tokens' log-probabilities; computed only if best_of is
	 * greater than n, to choose the best texts. */
	double logprob;
	/*
	 * For a stream with "include_provisional": the text of the positions
	 * that may still change, as the latest pass left it. This provisional
	 * text follows the first `provisional_after` bytes of the output.
	 * `has_provisional` is set until the reader takes the provisional text.
	 * `bytes` is the number of bytes of the output so far.
	 */
	struct strbuf provisional;
	uint64_t provisional_after, bytes;
	bool has_provisional;
	/* For a stream with "include_draft": the drafted trees, as JSON, of the
	 * passes since the reader last took output; NULL if there are none. */
	json_t *drafts;
	bool ended;
	int status; /* after the end: enum tandem_status */
	struct tandem_result result;
	double queued_s; /* seconds in the engine's queue */
	/* The request in the library, or NULL. For the engine's thread only. */
	struct tandem_submitted *handle;
};

enum answer_state {
	ANSWER_WAITING, /* no text runs yet */
	ANSWER_RUNNING, /* at least one text has started; others may wait */
	ANSWER_ENDED,   /* all texts have ended, or `fault` is set */
};

struct answer_reader {
	/* Called with the lock held after each change of the answer: new output
	 * or a new state. */
	void (*wake)(void *arg);
	/* Returns whether the client has disconnected. Called with the lock
	 * held. */
	bool (*gone)(void *arg);
	void *arg;
	/* number that identifies the client in the queue (client_id.h) */
	uint64_t client;
};

struct answer {
	struct api_request request;
	struct answer_reader reader; /* `wake` is NULL after engine_leave */
	enum answer_state state;
	struct fault fault; /* fault.status is 0 if there is no fault */
	struct choice *choice;
	size_t n_choices;
	struct fair_ticket ticket; /* the answer's texts in the queue */
	/* number of choices submitted to the library */
	size_t n_submitted;
	uint64_t arrived_ns;  /* when the request was queued */
	uint64_t deadline_ns; /* UINT64_MAX if there is none */
	bool late;            /* the deadline has passed */
	/* the engine; valid until the answer has ended */
	struct engine *owner;
	pthread_mutex_t *lock; /* the engine's lock */
	unsigned holders;      /* references: the engine and the reader */
	struct answer *next;
};

/* Totals over all answers since the start, and the current state. */
struct engine_state {
	uint64_t answers, canceled, failed;
	uint64_t prompt_tokens, cached_tokens, tokens;
	double prompt_seconds, decode_seconds, waiting_seconds;
	/* refused_full: requests refused because the queue was full.
	 * refused_share: requests refused because their client had used its
	 * share of the queue. late: requests whose deadline has passed.
	 * refused_late: the late requests that were still waiting. */
	uint64_t refused_full, refused_share, late, refused_late;
	/* queue_seconds: time that each text spent in the queue.
	 * first_token_seconds: for each text, time from the arrival of its
	 * request to its first token. */
	struct histogram queue_seconds, first_token_seconds;
	bool lost; /* the device is lost; further requests are refused */
	struct tandem_stats stats;
};

struct engine {
	/* The following members are constant while the engine is open. Any
	 * number of threads may pass `tandem` to functions that only read it
	 * (report.h). */
	struct tandem *tandem;
	const struct engine_offer *offer;
	uint64_t context;   /* maximum length of a request, in tokens */
	size_t token_bytes; /* maximum length of a token's text, in bytes */
	/* lanes: maximum number of texts that run at the same time. bound:
	 * maximum number of texts that wait. */
	unsigned lanes, bound;
	pthread_mutex_t *lock;
	pthread_t thread;
	pthread_cond_t work; /* signaled when `stopping` or `first` changes */
	/* Guarded by the lock. */
	/* signaled when the list `first` becomes empty; NULL: nothing is
	 * signaled */
	pthread_cond_t *idle;
	uint64_t idle_ns; /* time when `first` last became empty */
	bool stopping;
	struct answer *first; /* answers that have not ended, oldest first */
	struct fair_queue queue;
	struct engine_state state;
};

/*
 * Start the thread, which owns the started handle until engine_stop. The offer
 * is borrowed until engine_close. Up to `lanes` texts run and up to `queue`
 * texts wait at a time; fair_queue_room has the details. Returns 0, or a
 * negative errno with a message.
 */
int engine_open(struct engine **out, struct tandem *,
	const struct engine_offer *, unsigned lanes, unsigned queue,
	pthread_mutex_t *lock, struct err *);

/* Stop the thread: end all running and waiting answers, wake their readers, and
 * refuse further requests. Does nothing for NULL. */
void engine_stop(struct engine *);

/* Free a stopped engine. The answers of the engine stay until engine_leave.
 * Does nothing for NULL. */
void engine_close(struct engine *);

/*
 * Submit a request. Returns 0 on success: *out is the answer, which owns the
 * contents of *request; *request is zeroed, and the caller must call
 * engine_leave at the end. Returns -EAGAIN if the queue, or the client's share
 * of the queue, is full, -ESHUTDOWN if the engine is stopping or the device is
 * lost, or -ENOMEM, each with *fault set; the caller then keeps *request.
 */
int engine_submit(struct engine *, struct api_request *,
	const struct answer_reader *, struct answer **out, struct fault *);

/* Release the reader's reference to the answer. Texts that have not ended are
 * canceled, and the callbacks are not called again. */
void engine_leave(struct answer *);

/* Refuse the waiting requests whose deadline has passed, even while the
 * engine's thread is in a long pass. To be called a few times a second with the
 * lock held. */
void engine_refuse_late(struct engine *, uint64_t now_ns);

#endif
