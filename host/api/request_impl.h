/*
 * A request inside the library, from its options to its result. The request of
 * tandem_generate lives until the next call of tandem_generate, a submitted
 * request until it is closed.
 *
 *   request_options.c  copies and checks the caller's struct
 *   request.c          opens a request, computes its result
 *   request_lane.c     connects a request to the scheduler, as a lane
 *   requests.c         runs requests, one at a time or in shared passes
 *   request_reader.c   calls the request's callbacks
 *   request_trace.c    writes the request's events to the trace
 *
 * All calls must be made on one thread.
 */
#ifndef HOST_API_REQUEST_IMPL_H
#define HOST_API_REQUEST_IMPL_H

#include "base/err.h"
#include "base/strbuf.h"
#include "host/api/tandem.h"
#include "host/scheduler/scheduler.h"
#include "host/scheduler/method.h"
#include "host/session/session.h"
#include "host/text/chat_tools.h"
#include "host/text/generation.h"
#include "host/text/likely.h"
#include "host/text/tokenizer.h"
#include "host/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct embedding;
struct json_form;
struct sampler;
struct samples;
struct tandem;

/* value of `state` until the request has ended; not in enum tandem_status */
#define REQUEST_UNFINISHED 1

struct tandem_submitted {
	struct tandem *tandem;
	/* the next request in the order of submission */
	struct tandem_submitted *next;
	/* A copy of the caller's struct. The copied pointers to the prompt, the
	 * turns and the tools must not be used, because the caller may have
	 * freed the data. */
	struct tandem_request request;
	/* copies of the stop strings; NULL if the caller's strings are used */
	char **stop;
	struct token_list prompt;
	/* the grammar of a JSON Schema or of tool calls that the text must
	 * follow; NULL if there is none */
	struct json_form *form;
	/*
	 * The tools that may be called; NULL if there are none. If there are
	 * tools, `reader` separates tool calls from other text, and `prose`
	 * holds the part of a token's text that lies outside of tool calls.
	 */
	struct chat_tools *tools;
	struct call_reader reader;
	struct strbuf prose;
	struct sampler *sampler;
	struct generation *generation;
	/* the samples of the request; NULL if the request has no samples, or
	 * until the samples are opened */
	struct samples *samples;
	struct embedding *embedding; /* NULL without TANDEM_EMBED */
	int state;     /* REQUEST_UNFINISHED or enum tandem_status */
	bool canceled; /* tandem_request_cancel was called */
	struct err err;

	/* Whether a callback stopped the request. The members from `room` to
	 * `top` are buffers for the data that callbacks receive. */
	bool stopped;
	/* number of positions for which `tokens` and `at` have memory */
	uint32_t room;
	/* [room] tokens of the positions that the step callback receives */
	int32_t *tokens;
	/* [room + 1] offsets into `scratch`: where the text of each position
	 * (or draft node) begins */
	size_t *at;
	struct strbuf scratch; /* text of the tokens that a callback receives */
	/* [request.logprobs] the likeliest candidates at a token's position,
	 * for the token callback */
	struct tandem_likely *top;

	/* before, drafts_before: counters at the start of the request. work,
	 * drafts: the work of this request alone. Times are clock_ns values. */
	struct session_stats before, work;
	struct method_stats drafts_before, drafts;
	uint64_t submitted_ns, began_ns, read_ns, ended_ns;
	/* number of the prompt's tokens that were in the cache */
	uint64_t cached;

	/* the request's lane (its entry in the scheduler's list);
	 * lane.scheduler is NULL while the lane is not in the list */
	struct lane lane;
	/* whether tandem_measure runs the request. If so, an oracle drafter
	 * (which simulates drafts) has got the request's text already, and the
	 * text is not added to the history. */
	bool measured;
	/* shared: whether other requests may run at the same time. If so,
	 * pass_rows, energy_pj and passes count only this request's part of
	 * each shared pass, including the rows of its samples. began_ps:
	 * simulated phone time when the request began. */
	bool shared;
	uint32_t pass_rows; /* rows of the request in the latest pass */
	uint64_t began_ps, energy_pj, passes;

	/* State of the request's track in the trace. traced: which event is
	 * open; trace_lane: number of the track; number: number of the
	 * request. */
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

/* Check the caller's struct and copy it to *q. The data that the struct's
 * pointers refer to is not copied. */
int request_take(struct tandem_request *q, const struct tandem_request *theirs,
	struct err *);
/* Open the request's tools; *out is NULL if the request has none. */
int request_tools(const struct tandem *, const struct tandem_request *,
	struct chat_tools **out, struct err *);
/* Append the tokens of the request's prompt to *out. */
int request_prompt(const struct tandem *, const struct tandem_request *,
	const struct chat_tools *, struct token_list *out, struct err *);

/* ---- request_reader.c ---- */

/* Callbacks of a generation (struct generation_opts); `request` is the struct
 * tandem_submitted. */
int request_deliver(void *request, int32_t id, const char *bytes, size_t len);
/* At the end of a request, deliver the text that was held back because it might
 * have been the beginning of a tool call. */
void request_deliver_rest(struct tandem_submitted *);
int request_report_step(void *request, const struct gen_step *);
int request_report_draft(void *request, const struct gen_draft *);
int request_report_token(void *request, const struct gen_token *);
/* Call the request's embedding callback. Returns 0 or -EDOM. */
int request_report_embedding(struct tandem_submitted *, struct err *);

/* ---- request_trace.c ---- */

void request_trace_submitted(struct tandem_submitted *);
void request_trace_begun(struct tandem_submitted *);
void request_trace_read(struct tandem_submitted *);
void request_trace_ended(struct tandem_submitted *);
/* Trace the start or the end of a request that does not share passes. */
void request_trace_alone(const struct tandem_submitted *, enum trace_type);
/* Trace a shared pass that had rows of this request. `last` is true for the
 * last of the requests with rows in this pass. */
void request_trace_shared(const struct tandem_submitted *, uint64_t began_ns,
	uint64_t ended_ns, bool last);

/* ---- tandem_samples.c ---- */

/* Report how far the request's samples are to the function that
 * tandem_watch_samples has set. */
void request_report_progress(const struct tandem_submitted *);
/* Call the request's sample callback for each sample. */
void request_report_samples(const struct tandem_submitted *);

/* ---- request.c ---- */

/*
 * Open a request: check it, read its prompt, prepare the state of its output
 * (struct generation), and start the device process if necessary. With `copy`,
 * the caller's data need not stay valid after the call, and a prompt that does
 * not fit into the context is refused as TANDEM_MISUSE. Returns enum
 * tandem_status; on failure *out is NULL.
 */
int request_open(struct tandem_submitted **out, struct tandem *,
	const struct tandem_request *, bool copy);
void request_close(struct tandem_submitted *);

/* Record time and counters at the start and at the end of a request. `ret` is 0
 * or -errno and determines the request's final state. */
void request_begin(struct tandem_submitted *);
void request_end(struct tandem_submitted *, int ret);

/* Get the request's statistics up to this moment; all are 0 if the request is
 * NULL. The caller must have set out->size. */
void request_result(const struct tandem_submitted *, struct tandem_result *out);

enum tandem_stop tandem_stop_of(enum gen_stop);

/* ---- request_lane.c ---- */

/*
 * Whether requests run one after another: with texts=1, or if requests of the
 * method cannot share passes. Then each request begins when the request before
 * it has ended, is decoded in the session's first sequence (SESSION_TEXT), and
 * reads its prompt in passes of its own.
 */
bool requests_run_in_turn(const struct tandem *);
extern const struct lane_ops request_lane_ops;
/* End an unfinished request, whether or not its lane is in the scheduler's
 * list. `ret` is 0 or -errno. */
void request_lane_end(struct tandem_submitted *, int ret);

/* ---- requests.c ---- */

/*
 * Run a request to its end, like tandem_submit and tandem_wait. Afterwards the
 * request is not in the list of submitted requests, and request_close frees it.
 * Returns enum tandem_status; the message of an error is in the handle.
 */
int request_run(struct tandem_submitted *);
/* Free the scheduler with its lanes. All requests must have been closed. */
void requests_close(struct tandem *);

#endif
