/*
 * A read-only report of a handle: how it was opened, its counters, and the
 * counters of its last request. Commands and experiments use it in addition to
 * tandem.h. All calls must be made on one thread, except where a function's
 * comment permits any thread.
 */
#ifndef HOST_API_REPORT_H
#define HOST_API_REPORT_H

#include "host/api/profile.h"
#include "host/api/tandem.h"
#include "host/head/reward_text.h"
#include "host/scheduler/method_stats.h"
#include "host/session/session_opts.h"
#include "host/session/session_stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct generation;
struct history;
struct model;
struct strbuf;
struct tokenizer;

#define TANDEM_PRICED_AS 1536

/* Attention masks of models, as bits: a position attends to itself and earlier
 * positions (CAUSAL), to all positions (WINDOW), or to its own block and
 * earlier blocks (BLOCK). */
enum report_models { REPORT_CAUSAL = 1, REPORT_WINDOW = 2, REPORT_BLOCK = 4 };

/* All pointers refer to memory of the handle. */
struct tandem_report {
	/* ---- valid after tandem_create ---- */
	/* options as requested; after the session is started, the options that
	 * the session uses */
	const struct session_opts *pair;
	const char *method;
	bool diffusion; /* a diffusion method, which replaces mask tokens */
	/* Whether the method delivers many tokens at a time
	 * (decoder_emits_at_once). For such a method, the time of the first
	 * token is not the time at which prefill ends. */
	bool emits_at_once;
	/* the method generates several samples per request */
	bool many;
	/* the method chooses by votes: each sample votes for its own answer */
	bool votes;
	bool keeps_all;  /* the method does not choose one of the samples */
	uint32_t wanted; /* number of samples that was requested */
	bool shares;     /* requests of the method can share passes */
	bool needs_draft, needs_reward;
	/* models that the method can run: bits of enum report_models */
	unsigned runs;
	/* Whether the method computes logits only of rows from which a token of
	 * the text is drawn. */
	bool logits_emitted;
	/* The method chooses after all samples have finished, so tandem_choose
	 * can repeat the choice for the first n samples. */
	bool chooses_last;
	/* the number of samples must be a multiple of `group` */
	uint32_t group;
	/* Name of the drafter, NULL if there is none; path of the drafter's
	 * model, "" if it has no model. */
	const char *drafter, *drafter_path;
	/* the drafter is an oracle: it simulates drafts, so before the request
	 * runs it needs the text that the request will generate */
	bool knows_text;
	double temperature; /* the method's default temperature */

	/* ---- valid after the model is opened ---- */
	const char *model_path;
	const struct model *model; /* NULL if the model is not opened yet */
	/* the model's attention mask: a bit of enum report_models */
	unsigned kind;
	const struct tokenizer *tokenizer;
	bool chats; /* the model has a chat template that is recognized */
	/* length in bytes of the longest token (tokenizer_token_bytes) */
	size_t token_bytes;
	const struct history *history; /* NULL if there is none */
	/* name of the reward model; NULL if there is none */
	const char *reward;
	/*
	 * With --as or --draft-as, phone times are computed for a model shape
	 * (the sizes of a model) that differs from the model that runs. This
	 * text then names the shape and the model, such as "qwen2.5-1.5b on
	 * sd8gen2; the model that runs is target.gguf", and every report of
	 * simulated phone times must begin with it. "" if the costs are
	 * computed for the model that runs.
	 */
	char priced_as[TANDEM_PRICED_AS];

	/* ---- valid after the session is started ---- */
	bool dead; /* the handle can only be closed */
	uint32_t context;
	/*
	 * how layers are read from flash, as text; NULL if no layer is streamed
	 */
	const char *flash;
	/* weighs: whether the method chooses the number of rows of a pass by
	 * the costs of passes. profile: where the initial costs came from.
	 * probe_passes: number of passes that were run to measure the costs. */
	bool weighs;
	enum profile_from profile;
	uint64_t probe_passes;
	struct session_stats total; /* counters since the start */
	/* number of bytes that each pass is expected to read from flash */
	uint64_t pass_bytes;
	/* Switches between compute graphs while the most recent prompt was
	 * read. */
	const struct graph_event *graphs; /* [n_graphs] */
	size_t n_graphs;
	struct method_stats drafts; /* statistics of all requests */
	struct reward_stats scored;

	/* ---- about the latest tandem_generate; NULL and 0 before the first */
	const struct generation *generation;
	uint64_t began_ns, ended_ns; /* times of start and end (clock_ns) */
	struct session_stats work;
	bool kept; /* the text was added to the history */
	uint32_t n_samples;
	struct samples_stats samples;
};

void tandem_report(const struct tandem *, struct tandem_report *out);

/*
 * tandem_prompt_tokens returns the tokens of a request's prompt, as
 * tandem_prompt does; the caller frees *ids. tandem_tokens_text appends the
 * text of tokens to *out, as tandem_detokenize returns it. Any number of
 * threads may call these two functions at the same time, even while another
 * thread generates with the handle. The functions only read data that does not
 * change after the model is opened. Both functions return 0, or a negative
 * errno with a message.
 */
int tandem_prompt_tokens(const struct tandem *, const struct tandem_request *,
	int32_t **ids, size_t *n, struct err *);
int tandem_tokens_text(const struct tandem *, const int32_t *ids, size_t n,
	unsigned flags, struct strbuf *out, struct err *);

/* Append the method's own statistics as a line of text. Appends nothing if the
 * method has no statistics. */
void tandem_method_line(const struct tandem *, struct strbuf *);

/* Bytes of shared memory that the device maps with huge page-table entries. The
 * call is slow, because the kernel walks all page tables. */
uint64_t tandem_huge_bytes(const struct tandem *);

/* A sample of the last request, with additional members that struct
 * tandem_sample of tandem.h does not have. */
struct sample_report {
	struct tandem_sample is;
	/* the members `state` and `stop` of `is` as words, such as "ended" and
	 * "eos" */
	const char *state, *stop;
	size_t prompt_tokens;
	const char *answer;    /* the answer in the sample's text, or NULL */
	double vote;           /* weight of the sample's vote for its answer */
	const struct err *err; /* why the sample failed; NULL if it did not */
};

/* Report sample number i of the last request; i must be less than n_samples. */
void tandem_sample_report(
	const struct tandem *, uint32_t i, struct sample_report *out);

/* Write the different answers of the last request's samples to row[n_samples],
 * in descending order of the sum of their votes. Returns the number of
 * answers. */
uint32_t tandem_answers(const struct tandem *, struct tally *row);

/*
 * Set a function that is called while samples are generated. line: a
 * description of the state of the samples. over: number of samples that have
 * ended. of: number of all samples. If `report` is NULL, no function is called.
 */
void tandem_watch_samples(struct tandem *,
	void (*report)(const char *line, uint32_t over, uint32_t of));

/* Copy the error of the last failed call to *e and return its code. */
int tandem_failure(const struct tandem *, struct err *e);

#endif
