/*
 * A request inside the library, from its options to its result. The request of
 * tandem_generate lives until the next call, a submitted one until it is
 * closed.
 *
 *   request_options.c  copies and checks the caller's struct
 *   request.c          opens, runs one request alone, has the result
 *   requests.c         runs submitted requests in shared passes
 *   request_reader.c   calls the request's callbacks
 *   request_trace.c    writes the request's events to the trace
 *
 * One thread.
 */
#ifndef HOST_API_REQUEST_IMPL_H
#define HOST_API_REQUEST_IMPL_H

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/method/lanes.h"
#include "host/method/method.h"
#include "host/session/session.h"
#include "host/text/generation.h"
#include "host/text/likely.h"
#include "host/text/tokenizer.h"
#include "host/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_form;
struct sampler;
struct samples;
struct tandem;

#define REQUEST_UNFINISHED 1 /* a state beside enum tandem_status */

struct tandem_submitted {
	struct tandem *tandem;
	struct tandem_submitted *next; /* the next one submitted */
	/* A copy of the caller's struct. Prompt and system were tokenized; of
	 * its pointers only `stop` and the callbacks are used. */
	struct tandem_request request;
	char **stop; /* copies of the stop strings; NULL: the caller's stay */
	struct token_list prompt;
	struct json_form *form; /* the JSON schema's; NULL: none */
	struct sampler *sampler;
	struct generation *generation;
	struct samples *samples; /* NULL: none, or not opened yet */
	int state;               /* REQUEST_UNFINISHED or enum tandem_status */
	bool canceled;           /* by tandem_request_cancel */
	struct err err;

	/* Of callbacks: whether one stopped the request, and buffers for what
	 * they receive. */
	bool stopped;
	uint32_t room;             /* positions of a step */
	int32_t *tokens;           /* [room] */
	size_t *at;                /* [room + 1] */
	struct strbuf scratch;     /* texts */
	struct tandem_likely *top; /* [request.logprobs] */

	/* Counters when the request began, and its own work; clock_ns. */
	struct session_stats before, work;
	struct method_stats drafts_before, drafts;
	uint64_t submitted_ns, began_ns, read_ns, ended_ns;
	uint64_t cached; /* tokens of the prompt */

	/* In shared passes: its lane (lanes NULL: not yet, or none), and its
	 * share of them, samples included. */
	struct lane lane;
	bool shared;
	uint32_t pass_rows; /* in the last pass */
	uint64_t began_ps, energy_pj, passes;

	/* The request's track in the trace, the event that is open on it, and
	 * the request's number. */
	enum {
		TRACED_NOTHING,
		TRACED_QUEUED,
		TRACED_PROMPT,
		TRACED_DECODE,
	} traced;
	uint32_t trace_lane;
	uint64_t number;
};

/* ---- request_options.c ---- */

/* Check the caller's struct and copy it to *q, without what it points to. */
int request_take(struct tandem_request *q, const struct tandem_request *theirs,
	struct err *);
/* Append the tokens of the request's prompt. */
int request_prompt(struct tandem *, const struct tandem_request *,
	struct token_list *out, struct err *);

/* ---- request_reader.c ---- */

/* Callbacks of a generation (struct generation_opts); arg is the request. */
int request_deliver(void *request, int32_t id, const char *bytes, size_t len);
int request_report_step(void *request, const struct gen_step *);
int request_report_token(void *request, const struct gen_token *);

/* ---- request_trace.c ---- */

void request_trace_submitted(struct tandem_submitted *);
void request_trace_begun(struct tandem_submitted *);
void request_trace_read(struct tandem_submitted *);
void request_trace_ended(struct tandem_submitted *);
/* The begin or end of a request whose passes are not shared. */
void request_trace_alone(const struct tandem_submitted *, enum trace_type);
/* A shared pass with rows of this request; `last`: the last request with rows
 * in that pass. */
void request_trace_shared(const struct tandem_submitted *, uint64_t began_ns,
	uint64_t ended_ns, bool last);

/* ---- tandem_samples.c ---- */

/* Open x->samples, for a method that generates many. */
int request_open_samples(struct tandem_submitted *, struct err *);
/* Call the request's sample callback for each sample. */
void request_report_samples(const struct tandem_submitted *);

/* ---- request.c ---- */

/*
 * Check a request, read its prompt, open its generation, and start the pair if
 * needed. With `copy` the caller's pointers need not stay valid, and a prompt
 * that does not fit into the context is misuse. Returns enum tandem_status; on
 * failure *out is NULL.
 */
int request_open(struct tandem_submitted **out, struct tandem *,
	const struct tandem_request *, bool copy);
void request_close(struct tandem_submitted *);

/* Note the time and counters at its begin and end; `ret` (-errno) decides its
 * final state. */
void request_begin(struct tandem_submitted *);
void request_end(struct tandem_submitted *, int ret);

/* Generate a request's whole text in passes of its own: from request_begin to
 * request_end. */
void request_decode(struct tandem_submitted *);
/* request_decode with what precedes and follows it outside the measured time:
 * an oracle's run of plain decoding, and the history. Returns the state. */
int request_run(struct tandem_submitted *);

/* Statistics so far; all 0 for NULL. out->size is the caller's. */
void request_result(const struct tandem_submitted *, struct tandem_result *out);

enum tandem_stop tandem_stop_of(enum gen_stop);

/* ---- requests.c ---- */

/* How many submitted requests have not ended. */
unsigned requests_unfinished(const struct tandem *);
/* Free the lanes, after all requests are closed. */
void requests_close(struct tandem *);

#endif
