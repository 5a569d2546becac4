/*
 * A report of a handle: what it was opened as, and what it and its last text
 * came to. For commands and experiments, which see nothing else of what is
 * behind tandem.h. One thread, as there.
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

/* Models, as bits, by what a position sees: itself and those before it; all
 * others; its block and what is before that. */
enum report_models { REPORT_CAUSAL = 1, REPORT_WINDOW = 2, REPORT_BLOCK = 4 };

/* What it points to is the handle's. */
struct tandem_report {
	/* ---- once it is created ---- */
	const struct session_opts *pair; /* as asked, then as started */
	const char *method;
	bool diffusion;     /* it fills masks */
	bool emits_at_once; /* many tokens: the first ends no prefill */
	bool many;          /* it generates samples of which one is chosen */
	bool votes;         /* they have answers */
	bool keeps_all;     /* none of them is chosen */
	uint32_t wanted;    /* samples that were asked for */
	bool shares;        /* its texts can share passes */
	bool needs_draft, needs_reward;
	unsigned runs; /* models it decodes with: enum report_models */
	/* All logits that it computes are rows of emitted tokens. */
	bool logits_emitted;
	/* It chooses among finished samples, by these alone, so that
	 * tandem_choose tells what it makes of fewer. */
	bool chooses_last;
	uint32_t group; /* more than one sample: a multiple of it */
	/* What drafts and the file of its model, "" without one; NULL: nothing
	 * drafts. */
	const char *drafter, *drafter_path;
	bool knows_text;    /* what drafts was told the text */
	double temperature; /* that is drawn by where none is given */

	/* ---- once the model is read ---- */
	const char *model_path;
	const struct model *model; /* NULL: it was not read yet */
	const struct tokenizer *tokenizer;
	const struct history *history; /* NULL: none is kept */
	const char *reward;            /* its name; NULL: none */
	/*
	 * What is priced in place of what runs: "qwen2.5-1.5b on sd8gen2; what
	 * runs is target.gguf". Every report of a phone's time begins with it.
	 * "" where what runs is what is priced.
	 */
	char priced_as[TANDEM_PRICED_AS];

	/* ---- once the pair is started ---- */
	bool dead; /* the handle is of no more use but to be closed */
	uint32_t context;
	const char *flash; /* how layers come from it; NULL: none does */
	/* The method weighs passes: what it knew of them before the first text,
	 * and the passes that took. */
	bool weighs;
	enum profile_from profile;
	uint64_t probe_passes;
	struct session_stats total; /* since it was started */
	uint64_t pass_bytes;        /* from flash for each pass, as priced */
	/* Of the last prompt, with graph switching. */
	const struct graph_event *graphs; /* [n_graphs] */
	size_t n_graphs;
	struct method_stats drafts; /* of all texts */
	struct reward_stats scored; /* by the reward */

	/* ---- of the last tandem_generate; NULL, 0: there was none ---- */
	const struct generation *generation;
	uint64_t began_ns, ended_ns; /* clock_ns */
	struct session_stats work;
	bool kept; /* in the history */
	uint32_t n_samples;
	struct samples_stats samples;
};

void tandem_report(const struct tandem *, struct tandem_report *out);

/* Append a line about what the method has and did, where it has one. */
void tandem_method_line(const struct tandem *, struct strbuf *);

/* Bytes of shared memory that the device maps by huge page-table entries; asks
 * the system, which looks at every page. */
uint64_t tandem_huge_bytes(const struct tandem *);

/* A sample of the last text: as struct tandem_request has them told, and more.
 */
struct sample_report {
	struct tandem_sample is;
	const char *state, *stop; /* "ended"; "eos" */
	size_t prompt_tokens;
	const char *answer;    /* NULL: none */
	double vote;           /* its weight */
	const struct err *err; /* of is.error; NULL likewise */
};

/* The i-th of n_samples. */
void tandem_sample_report(
	const struct tandem *, uint32_t i, struct sample_report *out);

/* The answers of the samples of the last text, those that weigh most first,
 * into row[n_samples]; how many. */
uint32_t tandem_answers(const struct tandem *, struct tally *row);

/* How samples stand while they are generated, in a few words, and how many of
 * them are over. NULL: nobody is told. */
void tandem_watch_samples(struct tandem *,
	void (*tell)(const char *line, uint32_t over, uint32_t of));

/* What tandem_error has the sentence of: *e and its code. */
int tandem_failure(const struct tandem *, struct err *e);

#endif
