/*
 * Kinds of drafters. A drafter proposes tokens, which the target model
 * verifies. A struct draft_kind has the name and the open function of a kind;
 * the source file of the kind defines this struct. To add a kind, add its file,
 * a test and one row of DRAFT_KINDS. drafting.c combines several drafters into
 * one.
 */
#ifndef HOST_DRAFT_DRAFT_KIND_H
#define HOST_DRAFT_DRAFT_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drafter;
struct drafting_options;
struct err;
struct history;
struct model;
struct opt_table;
struct opt_values;
struct session;
struct session_opts;

/* Arguments of a drafter's open function. Everything that this struct points to
 * outlives the drafter. */
struct draft_site {
	const struct drafting_options *options;
	const struct opt_values *values; /* the values of all option tables */
	/* the part of the --draft argument after the kind's name, such as P of
	 * oracle:P */
	const char *word;
	/* the opened file of the draft model, for kinds that read a file */
	const struct model *file;
	const char *path; /* path of `file` */
	const struct model *target;
	struct session *session;                 /* the target's session */
	const struct session_opts *session_opts; /* options of `session` */
	/* maximum number of nodes of a draft tree */
	uint32_t rows;
	/* Earlier prompts and answers, or NULL if no history is kept. The
	 * history changes only between two requests. A change may move the
	 * history's token ids in memory, so a drafter must not keep pointers to
	 * them: when it begins a request, it calls history_after to read new
	 * records. */
	const struct history *history;
	/* [n] the prompt's tokens and the tokens that follow them; set only for
	 * kinds with needs_text */
	const int32_t *text;
	size_t n;
	/* An open drafter of the same kind that serves another request and
	 * outlives the new drafter, or NULL. The new drafter shares with `like`
	 * all data that does not depend on the request. */
	const struct drafter *like;
};

struct draft_kind {
	/* The name in --draft: either a whole word like "echo" or, with a colon
	 * at its end, a prefix like "oracle:" that an argument follows. NULL
	 * for the two kinds that run a draft model: the path of the model's
	 * file, or an empty --draft, selects them. */
	const char *name;
	/* shown in help, such as "oracle:P"; NULL means `name` */
	const char *shown;
	const char *summary; /* one line for the help */
	/* for kinds that read a model file: whether the model runs on the
	 * device (--draft-on) */
	bool on_device;
	/* The drafter simulates drafts of a chosen quality, so it must be given
	 * the prompt and the prompt's true continuation before it opens. */
	bool needs_text;
	/* The drafter reads the predictions that the device computes for the
	 * prompt's tokens. The device computes these predictions only if no
	 * other request runs in the same passes. */
	bool reads_prompt;
	/* Returns the number of predictions (likeliest next tokens) that the
	 * drafter reads: with `reads_prompt` after each token of the prompt,
	 * otherwise after each verified row (token of a draft tree). The device
	 * computes these predictions. 0 means that the drafter reads none. NULL
	 * for a kind that never reads predictions. */
	uint32_t (*predictions)(const struct opt_values *);
	/* name in reports; NULL means the path of the draft model's file */
	const char *title;
	/* options of this kind alone, or NULL */
	const struct opt_table *options;
	/* Returns the length of the longest chain that the kind drafts. NULL if
	 * the kind has no limit. */
	uint32_t (*length)(const struct opt_values *);
	/* Check the argument `word`. `said` is the name and the argument
	 * together, for error messages. Returns 0 or -EINVAL. NULL if every
	 * argument is valid. */
	int (*check)(const char *said, const char *word, struct err *);
	int (*open)(
		struct drafter *out, const struct draft_site *, struct err *);
};

/* All kinds, in the order of DRAFT_KINDS; NULL-terminated. */
extern const struct draft_kind *const draft_kinds[];

/* One row per kind, in the order in which the help lists them. */
#define DRAFT_KINDS(row)                                                   \
	row(host) row(device) row(oracle) row(pld) row(sam) row(ngram_map) \
		row(ngram_mod) row(calibrated) row(reuse) row(suffix)      \
			row(rest) row(rest_file) row(recycle)

#define DRAFT_KIND_DECLARED(kind) \
	extern const struct draft_kind draft_kind_##kind;
DRAFT_KINDS(DRAFT_KIND_DECLARED)

/*
 * `said` is a --draft argument, or the rest of one after a "+". Returns the
 * kind whose name begins `said`, or NULL if `said` begins with no kind's name.
 * *len receives the length of the name and its argument, up to a "+" or the end
 * of the string.
 */
const struct draft_kind *draft_kind_named(const char *said, size_t *len);

/* Returns the kind that runs a draft model from a file, on the device or on the
 * host. */
const struct draft_kind *draft_kind_of_file(bool on_device);

#endif
