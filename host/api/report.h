/*
 * A read-only report of a handle: how it was opened, its counters, and those of
 * its last request. Commands and experiments use it beside tandem.h. One
 * thread, as there.
 */
#ifndef HOST_API_REPORT_H
#define HOST_API_REPORT_H

#include "host/api/profile.h"
#include "host/api/tandem.h"
#include "host/head/reward_text.h"
#include "host/method/method_stats.h"
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

#define TANDEM_PRICED_AS 700

/* Attention masks of models, as bits: a position sees itself and those before
 * it; all positions; its block and those before the block. */
enum report_models { REPORT_CAUSAL = 1, REPORT_WINDOW = 2, REPORT_BLOCK = 4 };

/* Pointers are to the handle's memory. */
struct tandem_report {
	/* ---- after tandem_create ---- */
	const struct session_opts *pair; /* requested, then as started */
	const char *method;
	bool diffusion;     /* fills masks */
	bool emits_at_once; /* delivers many tokens at a time, so that the
			     * first token does not mark the end of prefill */
	bool many;          /* generates many samples */
	bool votes;         /* compares the samples' answers */
	bool keeps_all;     /* chooses none of the samples */
	uint32_t wanted;    /* requested number of samples */
	bool shares;        /* requests can share passes */
	bool needs_draft, needs_reward;
	unsigned runs; /* models that the method runs: enum report_models */
	/* Logits are computed only for rows of emitted tokens. */
	bool logits_emitted;
	/* The choice depends only on the finished samples, so tandem_choose can
	 * repeat it for fewer samples. */
	bool chooses_last;
	uint32_t group; /* the number of samples must be a multiple */
	/* The drafter's name (NULL: none) and the path of its model ("": it has
	 * none). */
	const char *drafter, *drafter_path;
	bool knows_text;    /* an oracle, which gets the text beforehand */
	double temperature; /* the default */

	/* ---- after the model is opened ---- */
	const char *model_path;
	const struct model *model; /* NULL: not opened yet */
	const struct tokenizer *tokenizer;
	const struct history *history; /* NULL: none */
	const char *reward;            /* name; NULL: none */
	/*
	 * What the phone's clock prices instead of the model that runs:
	 * "qwen2.5-1.5b on sd8gen2; what runs is target.gguf". Every report of
	 * phone times begins with it. "": the model that runs.
	 */
	char priced_as[TANDEM_PRICED_AS];

	/* ---- after the pair is started ---- */
	bool dead; /* the handle can only be closed */
	uint32_t context;
	const char *flash; /* how layers are read from flash; NULL: none are */
	/* Whether the method uses costs of passes, where their first values
	 * came from, and how many passes that took. */
	bool weighs;
	enum profile_from profile;
	uint64_t probe_passes;
	struct session_stats total; /* since the start */
	uint64_t pass_bytes; /* that the clock prices for flash in a pass */
	/* Graph switches of the last prompt. */
	const struct graph_event *graphs; /* [n_graphs] */
	size_t n_graphs;
	struct method_stats drafts; /* of all requests */
	struct reward_stats scored;

	/* ---- of the last tandem_generate; NULL and 0 before ---- */
	const struct generation *generation;
	uint64_t began_ns, ended_ns; /* clock_ns */
	struct session_stats work;
	bool kept; /* added to the history */
	uint32_t n_samples;
	struct samples_stats samples;
};

void tandem_report(const struct tandem *, struct tandem_report *out);

/* Append the method's own statistics as a line, if it has any. */
void tandem_method_line(const struct tandem *, struct strbuf *);

/* Bytes of shared memory that the device maps by huge page-table entries. Slow:
 * the kernel walks all page tables. */
uint64_t tandem_huge_bytes(const struct tandem *);

/* A sample of the last request, with more than the library's callers see. */
struct sample_report {
	struct tandem_sample is;
	const char *state, *stop; /* names: "ended", "eos" */
	size_t prompt_tokens;
	const char *answer;    /* NULL: none */
	double vote;           /* its weight */
	const struct err *err; /* NULL: none */
};

/* The i-th of n_samples. */
void tandem_sample_report(
	const struct tandem *, uint32_t i, struct sample_report *out);

/* Write the answers of the last request's samples to row[n_samples], the ones
 * with the largest weight first. Returns their number. */
uint32_t tandem_answers(const struct tandem *, struct tally *row);

/* Call `report` while samples are generated, with their state in a few words
 * and how many have ended. NULL: no reports. */
void tandem_watch_samples(struct tandem *,
	void (*report)(const char *line, uint32_t over, uint32_t of));

/* Copy the error of the last failed call to *e and return its code. */
int tandem_failure(const struct tandem *, struct err *e);

#endif
