/*
 * A text: a request, taken and checked, and what becomes of it. That of
 * tandem_generate lives until the next; one that was submitted until it is
 * closed. text_request.c takes requests, text_reader.c tells callbacks,
 * tandem_text.c has the text's life; who runs it is tandem_generate.c, alone,
 * or tandem_texts.c, among others. One thread.
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

#define TEXT_UNDER_WAY 1 /* of struct tandem_submitted's state */

struct tandem_submitted {
	struct tandem *tandem;
	struct tandem_submitted *next; /* that was submitted behind it */
	/* In ours: prompt and system are read, and of what it points to only
	 * `stop` is needed, which a text that is submitted has a copy of. */
	struct tandem_request request;
	char **stop; /* that; NULL: the caller's */
	struct token_list prompt;
	struct json_form *form; /* NULL: none was asked for */
	struct sampler *sampler;
	struct generation *generation; /* NULL: it did not come so far */
	struct samples *samples;       /* NULL: it has none, or not yet */
	int state;     /* TEXT_UNDER_WAY, or enum tandem_status */
	bool canceled; /* by tandem_request_cancel */
	struct err err;

	/* Whether a callback wanted no more, and what they are told by. */
	bool stopped;
	uint32_t room;   /* of a step */
	int32_t *tokens; /* [room] */
	size_t *at;      /* [room + 1] */
	struct strbuf said;
	struct tandem_likely *top; /* [request.logprobs] */

	/* What it took: counters as they were when it began, which is behind
	 * what prepares it; and clock_ns. */
	struct session_stats before, work;
	struct method_stats drafts_before, drafts;
	uint64_t submitted_ns, began_ns, read_ns, ended_ns;
	uint64_t cached;

	/* Among others: its lane, and what of their passes is its own, its
	 * samples' rows too. */
	struct lane lane; /* lanes NULL: it is none, or not yet */
	bool shared;
	uint32_t pass_rows; /* of the last */
	uint64_t began_ps, energy_pj, passes;

	/* How far a trace was told, on which lane, by which number. */
	enum {
		TRACED_NOTHING,
		TRACED_QUEUED,
		TRACED_PROMPT,
		TRACED_DECODE,
	} told;
	uint32_t told_lane;
	uint64_t number;
};

/* ---- text_request.c ---- */

/* *q in the present shape: checked, and borrowed as theirs is. */
int request_take(struct tandem_request *q, const struct tandem_request *theirs,
	struct err *);
/* Its prompt's tokens, appended. */
int request_prompt(struct tandem *, const struct tandem_request *,
	struct token_list *out, struct err *);

/* ---- text_reader.c ---- */

/* Callbacks of a generation (struct generation_opts) whose arg is the text. */
int request_deliver(void *text, int32_t id, const char *bytes, size_t len);
int text_report_step(void *text, const struct gen_step *);
int text_report_token(void *text, const struct gen_token *);

/* ---- text_trace.c: what --trace is told, by the times in the text ---- */

void request_trace_submitted(struct tandem_submitted *);
void request_trace_begun(struct tandem_submitted *);
void request_trace_read(struct tandem_submitted *);
void request_trace_ended(struct tandem_submitted *);
/* It begins or ends in passes of its own. */
void request_trace_alone(const struct tandem_submitted *, enum trace_type);
/* It had rows of the last pass; `last`: no other text is told of that. */
void request_trace_shared(const struct tandem_submitted *, uint64_t began_ns,
	uint64_t ended_ns, bool last);

/* ---- tandem_samples.c ---- */

/* x->samples, of a method that has many. */
int text_open_samples(struct tandem_submitted *, struct err *);
/* The request's callback is called for each, if there are any. */
void text_report_samples(const struct tandem_submitted *);

/* ---- tandem_text.c ---- */

/*
 * A text of the request, with its generation; the pair is started where it was
 * not. With `copy` the request's pointers need not stay, and a prompt without
 * room is misuse. Returns enum tandem_status; on failure there is none.
 */
int text_open(struct tandem_submitted **out, struct tandem *,
	const struct tandem_request *, bool copy);
void text_close(struct tandem_submitted *);

/* From the session's counters as they are. */
void text_begin(struct tandem_submitted *);
void text_end(struct tandem_submitted *, int ret);

/* Alone, from here to its end; counted. */
void text_decode(struct tandem_submitted *);
/* That and what belongs before and after it; its state. */
int text_run(struct tandem_submitted *);

/* What came of it until now (of NULL nothing); of *out the size is the
 * caller's. */
void text_result(const struct tandem_submitted *, struct tandem_result *out);

enum tandem_stop tandem_stop_of(enum gen_stop);

/* ---- tandem_texts.c ---- */

/* Those that were submitted and have not ended. */
unsigned texts_under_way(const struct tandem *);
/* What they share, once they are closed. */
void texts_close(struct tandem *);

#endif
